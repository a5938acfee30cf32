/*
 * The GPU store: the partitions of a worker in the memory of its GPU.
 *
 *     own batches  ----------- copy in ---.
 *                                         v
 *     exchange -> incoming (received  -> held, oldest first -> stage -> files
 *                 into the store)                   copy out
 *
 * Its memory has a fixed number of places for messages. All are on one list:
 * the exchange receives into them, what has arrived stays where it is, and so
 * does what comes from the worker itself. Only when few places are left is the
 * oldest one brought out, to be written; the others are when the worker has
 * nothing else to do.
 *
 * Two stages in pinned memory: while one is written, the next message is on
 * its way.
 *
 * A message with a record that is too large for a place is none of the store's:
 * it is in host memory, and to be written at once.
 *
 * Functions that return an int return -1 with an error.
 */
#ifndef SHUFFLE_GPU_STORE_H
#define SHUFFLE_GPU_STORE_H

#include "tools/shuffle/device.h"
#include "tools/shuffle/incoming_list.h"

#include <stdint.h>

typedef struct gpu_store gpu_store_t;

typedef struct gpu_store_params {
    int                  gpu;  /* or -1; see device_open() */
    unsigned             turn; /* among the workers of this host */
    unsigned             num_workers;
    const batch_shape_t *shape; /* outlives the store */
    size_t               most;  /* bytes to hold; 0: half of what is free,
                                   shared among the workers of the GPU */
    uint64_t num_bytes;         /* of the inputs: no more is needed */
} gpu_store_params_t;

typedef struct gpu_store_stats {
    uint64_t size;     /* bytes of all places */
    uint64_t held;     /* bytes of messages that were held */
    uint64_t held_max; /* at one time */
    int32_t  gpu;
} gpu_store_stats_t;

/* The least that `most` can be. */
size_t gpu_store_least_size(const batch_shape_t *shape);

int  gpu_store_create(const gpu_store_params_t *params,
                      gpu_store_t             **gpu_store_p);
void gpu_store_destroy(gpu_store_t *gpu_store);

device_t        *gpu_store_device(gpu_store_t *gpu_store);
incoming_list_t *gpu_store_list(gpu_store_t *gpu_store);

/* Hold a batch. It may be filled again then; its memory is pinned. The list
 * has an idle one. */
int gpu_store_hold_batch(gpu_store_t *gpu_store, batch_t *batch);

/* Hold an incoming batch from the list, which has its message. */
void gpu_store_hold(gpu_store_t *gpu_store, incoming_t *incoming);

/* Whether something is held and few places are left. */
bool gpu_store_is_full(const gpu_store_t *gpu_store);

/* Bytes of the oldest message; something is held. */
size_t gpu_store_oldest_size(const gpu_store_t *gpu_store);

/*
 * Bring out the oldest message, and find its chunks. They are valid until the
 * next call, and the incoming batch is to be given back to the list. Returns 1,
 * 0 when nothing is held, -1.
 */
int gpu_store_bring(gpu_store_t *gpu_store, incoming_t **incoming_p);

void gpu_store_stats_get(const gpu_store_t *gpu_store,
                         gpu_store_stats_t *stats_p);

#endif
