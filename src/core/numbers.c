#include "core/numbers.h"

#include <stdlib.h>

#define SIZE_MIN 64u

static struct core_number_slot *slot_of(const core_numbers_t *numbers,
                                        uint64_t              number)
{
    return &numbers->slots[number & (numbers->size - 1)];
}

/* Numbers with different slots also have different slots in a table of twice
 * the size. */
bool core_numbers_reserve(core_numbers_t *numbers)
{
    core_numbers_t old = *numbers;

    if (2 * old.num < old.size) {
        return true;
    }
    numbers->size  = (old.size == 0) ? SIZE_MIN : 2 * old.size;
    numbers->slots = calloc(numbers->size, sizeof(numbers->slots[0]));
    if (numbers->slots == NULL) {
        *numbers = old;
        return false;
    }
    for (uint32_t i = 0; i < old.size; i++) {
        if (old.slots[i].request != NULL) {
            *slot_of(numbers, old.slots[i].number) = old.slots[i];
        }
    }
    free(old.slots);
    return true;
}

uint64_t core_numbers_take(core_numbers_t *numbers, ucxpool_request_t *request)
{
    struct core_number_slot *slot;

    do {
        slot = slot_of(numbers, ++numbers->last);
    } while (slot->request != NULL);
    slot->number  = numbers->last;
    slot->request = request;
    numbers->num++;
    return numbers->last;
}

void core_numbers_put(core_numbers_t *numbers, uint64_t number)
{
    slot_of(numbers, number)->request = NULL;
    numbers->num--;
}

ucxpool_request_t *core_numbers_find(const core_numbers_t *numbers,
                                     uint64_t              number)
{
    const struct core_number_slot *slot;

    if (numbers->size == 0) {
        return NULL;
    }
    slot = slot_of(numbers, number);
    return (slot->number == number) ? slot->request : NULL;
}

void core_numbers_cleanup(core_numbers_t *numbers)
{
    free(numbers->slots);
    *numbers = (core_numbers_t){.slots = NULL};
}
