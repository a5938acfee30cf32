/*
 * Memory for batches: registered with the pool where it has enough to spare,
 * so that batches are sent from where they lie. Otherwise it is the process's
 * own, or for a pool of GPU memory the GPU's.
 */
#ifndef SHUFFLE_STORE_H
#define SHUFFLE_STORE_H

#include "tools/shuffle/device.h"

#include <ucxpool/ucxpool.h>

#include <stddef.h>

typedef enum store_origin {
    STORE_OF_NOBODY, /* there is none */
    STORE_OF_POOL,   /* registered */
    STORE_OF_PROCESS,
    STORE_OF_DEVICE,
    STORE_PINNED
} store_origin_t;

typedef struct store {
    store_origin_t origin;
    ucxpool_t     *pool;
    device_t      *device;
    char          *address; /* aligned to 64 */
    size_t         size;
    size_t         used;
} store_t;

/* device: of the pool's memory, or NULL. Returns -1 with an error. */
int store_init(store_t *store, ucxpool_t *pool, device_t *device, size_t size);
/* Of the process. Returns -1 with an error. */
int store_init_plain(store_t *store, size_t size);
/* For copies to and from the device. Returns -1 with an error. */
int store_init_pinned(store_t *store, device_t *device, size_t size);
/* Also for a zeroed one. */
void store_cleanup(store_t *store);

/* The next `size` bytes, aligned to 64; the caller knows that they are there
 * (see store_round()). */
char *store_take(store_t *store, size_t size);

/* Bytes that a piece really takes. */
size_t store_round(size_t size);

#endif
