#include <config.h>

#include "tools/shuffle/incoming_list.h"
#include "tools/shuffle/error.h"
#include "tools/shuffle/store.h"

#include <stdlib.h>
#include <string.h>

int incoming_list_init(incoming_list_t *list, const batch_shape_t *shape,
                       char *memory, unsigned num)
{
    size_t      size = batch_memory_size(shape);
    incoming_t *incoming;

    memset(list, 0, sizeof(*list));
    list->all = calloc(num, sizeof(*list->all));
    if (list->all == NULL) {
        return say_error("out of memory for %u batches", num);
    }
    for (unsigned i = 0; i < num; i++) {
        incoming = incoming_create(memory + i * store_round(size), size,
                                   shape->max_chunks);
        if (incoming == NULL) {
            return -1;
        }
        list->all[list->num++] = incoming;
        incoming_list_put(list, incoming);
    }
    return 0;
}

void incoming_list_cleanup(incoming_list_t *list)
{
    for (unsigned i = 0; i < list->num; i++) {
        incoming_destroy(list->all[i]);
    }
    free(list->all);
    memset(list, 0, sizeof(*list));
}

incoming_t *incoming_list_peek(const incoming_list_t *list)
{
    return list->idle;
}

incoming_t *incoming_list_get(incoming_list_t *list)
{
    incoming_t *incoming = list->idle;

    if (incoming != NULL) {
        list->idle = incoming->next;
        list->num_idle--;
    }
    return incoming;
}

void incoming_list_put(incoming_list_t *list, incoming_t *incoming)
{
    incoming_reset(incoming);
    incoming->next = list->idle;
    list->idle     = incoming;
    list->num_idle++;
}
