/*
 * The numbers that identify sends and receives in the messages of a channel: a
 * table of requests, indexed by the low bits of their numbers.
 *
 *     slots[number % size]     size is a power of two, at most half is used
 *
 * No number is used twice, and 0 is not used.
 */
#ifndef CORE_NUMBERS_H
#define CORE_NUMBERS_H

#include <ucxpool/transfer.h>

#include <stdbool.h>

typedef struct core_numbers {
    struct core_number_slot {
        uint64_t           number;
        ucxpool_request_t *request; /* NULL: the slot is free */
    } * slots;
    uint32_t size; /* 0 until the first number is needed */
    uint32_t num;  /* slots in use */
    uint64_t last; /* the last number taken */
} core_numbers_t;

/* Make room for one more number. Returns false if out of memory. */
bool core_numbers_reserve(core_numbers_t *numbers);

/* Take a number for a request. core_numbers_reserve() must be called first. */
uint64_t core_numbers_take(core_numbers_t *numbers, ucxpool_request_t *request);
void     core_numbers_put(core_numbers_t *numbers, uint64_t number);

/* Returns the request with this number, or NULL. */
ucxpool_request_t *core_numbers_find(const core_numbers_t *numbers,
                                     uint64_t              number);

void core_numbers_cleanup(core_numbers_t *numbers);

#endif
