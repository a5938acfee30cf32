/*
 * The GPU store: the partitions of a worker in the memory of its GPU.
 *
 *     own batches  ----------- copy in ---.
 *                                         v
 *     exchange -> received into it --> held, oldest first -> stage -> files
 *                                                   copy out
 *
 * Its memory has places for messages, on one list: the exchange receives into
 * them, and messages stay in their place. When few places are left, the
 * oldest message is written to the files; the others are when the worker has
 * nothing else to do. While one of two stages (pinned memory) is written, the
 * next message is copied to the other.
 *
 * A message that is too large for a place is in host memory, and written at
 * once.
 *
 * To be used in the worker's own process only: CUDA does not survive a fork.
 * Functions that return an int return -1 with an error.
 */
#ifndef SHUFFLE_GPU_STORE_H
#define SHUFFLE_GPU_STORE_H

#include "tools/shuffle/batch.h"

typedef struct gpu_store gpu_store_t;

typedef struct gpu_store_params {
    int      gpu;  /* as the driver counts, or -1: by turn */
    unsigned turn; /* among the workers of this host */
    unsigned num_workers;
    size_t   batch_size;
    size_t   most;      /* bytes to hold; 0: half of the free memory, shared
                           among the workers of the GPU */
    uint64_t num_bytes; /* of the inputs */
} gpu_store_params_t;

typedef struct gpu_store_stats {
    uint64_t size;     /* bytes of all places */
    uint64_t held;     /* bytes of messages that were held */
    uint64_t held_max; /* at one time */
    int32_t  gpu;
} gpu_store_stats_t;

/* The least that `most` can be. */
size_t gpu_store_least_size(size_t batch_size);

int  gpu_store_create(const gpu_store_params_t *params,
                      gpu_store_t             **gpu_store_p);
void gpu_store_destroy(gpu_store_t *gpu_store);

batch_list_t            *gpu_store_list(gpu_store_t *gpu_store);
const gpu_store_stats_t *gpu_store_stats(const gpu_store_t *gpu_store);

/* Host memory for batches, aligned to 64: pinned; or without a store (NULL) the
 * C library's. NULL with an error. */
char *gpu_store_host_alloc(gpu_store_t *gpu_store, size_t size);
void  gpu_store_host_free(gpu_store_t *gpu_store, char *address);

/* Memory of the GPU. NULL with an error. */
char *gpu_store_alloc(gpu_store_t *gpu_store, size_t size);
void  gpu_store_free(gpu_store_t *gpu_store, char *address);

/* Start to copy a batch to the GPU as one message, in a stream. */
int   gpu_store_copy_in(gpu_store_t *gpu_store, char *target, batch_t *batch);
void *gpu_store_stream(const gpu_store_t *gpu_store);
int   gpu_store_wait(gpu_store_t *gpu_store);

/* Hold a batch, which may be filled again then. The list has an idle one. */
int gpu_store_hold_batch(gpu_store_t *gpu_store, batch_t *batch);

/* Hold a batch of the list, which has its message. */
void gpu_store_hold(gpu_store_t *gpu_store, batch_t *batch);

/* Whether something is held and few places are left. */
bool gpu_store_is_full(const gpu_store_t *gpu_store);

/* Bytes of the oldest message; something is held. */
size_t gpu_store_oldest_size(const gpu_store_t *gpu_store);

/* Take out the oldest batch; it is valid until the next call, and then returns
 * to the list. Returns 1, 0 if no batch is held, or -1. */
int gpu_store_bring(gpu_store_t *gpu_store, batch_t **batch_p);

#endif
