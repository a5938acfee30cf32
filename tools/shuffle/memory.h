/*
 * Memory for batches: registered with the pool where it has enough to spare,
 * so that batches are sent from where they lie; the process's own otherwise.
 */
#ifndef SHUFFLE_MEMORY_H
#define SHUFFLE_MEMORY_H

#include <ucxpool/ucxpool.h>

#include <stdbool.h>
#include <stddef.h>

typedef struct memory {
    ucxpool_t *pool;
    char      *address; /* aligned to 64 */
    size_t     size;
    size_t     used;
    bool       is_registered;
} memory_t;

/* Returns -1 with a complaint. */
int  memory_init(memory_t *memory, ucxpool_t *pool, size_t size);
void memory_cleanup(memory_t *memory);

/* The next `size` bytes, aligned to 64; the caller knows that they are there
 * (see memory_round()). */
char *memory_take(memory_t *memory, size_t size);

/* Bytes that a piece really takes. */
size_t memory_round(size_t size);

#endif
