/*
 * Memory for batches: registered with the pool where it has enough to spare,
 * so that batches are sent from where they lie; the process's own otherwise.
 */
#ifndef SHUFFLE_STORE_H
#define SHUFFLE_STORE_H

#include <ucxpool/ucxpool.h>

#include <stdbool.h>
#include <stddef.h>

typedef struct store {
    ucxpool_t *pool;
    char      *address; /* aligned to 64 */
    size_t     size;
    size_t     used;
    bool       is_registered;
} store_t;

/* Returns -1 with a complaint. */
int  store_init(store_t *store, ucxpool_t *pool, size_t size);
void store_cleanup(store_t *store);

/* The next `size` bytes, aligned to 64; the caller knows that they are there
 * (see store_round()). */
char *store_take(store_t *store, size_t size);

/* Bytes that a piece really takes. */
size_t store_round(size_t size);

#endif
