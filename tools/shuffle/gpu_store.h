/*
 * The GPU store holds the partitions of a worker in the memory of its GPU.
 *
 *     own batches  ----------- copy in ---.
 *                                         v
 *     exchange -> received into it --> held, oldest first -> stage -> files
 *                                                   copy out
 *
 * The store has places for messages in one list. The exchange receives into
 * these places, and messages stay in their places. When few places are free,
 * the oldest message is written to the files. Other messages are written when
 * the worker has nothing else to do. There are two stages in pinned memory:
 * while one is written to the files, the next message is copied to the other.
 *
 * A message that is too large for a place is received into host memory and
 * written at once.
 *
 * The store must be used only in the process that created it, because CUDA
 * cannot be used after a fork. Functions that return an int return -1 with an
 * error.
 */
#ifndef SHUFFLE_GPU_STORE_H
#define SHUFFLE_GPU_STORE_H

#include "tools/shuffle/batch.h"

typedef struct gpu_store gpu_store_t;

typedef struct gpu_store_params {
    int      gpu;  /* the driver's number; -1: selected by turn */
    unsigned turn; /* number among the workers of this host */
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

/* Returns the smallest valid value of `most`. */
size_t gpu_store_least_size(size_t batch_size);

int  gpu_store_create(const gpu_store_params_t *params,
                      gpu_store_t             **gpu_store_p);
void gpu_store_destroy(gpu_store_t *gpu_store);

batch_list_t            *gpu_store_list(gpu_store_t *gpu_store);
const gpu_store_stats_t *gpu_store_stats(const gpu_store_t *gpu_store);

/* Allocate host memory for batches, aligned to 64 bytes. The memory is pinned,
 * or from the C library if gpu_store is NULL. Returns NULL with an error. */
char *gpu_store_host_alloc(gpu_store_t *gpu_store, size_t size);
void  gpu_store_host_free(gpu_store_t *gpu_store, char *address);

/* Allocate GPU memory. Returns NULL with an error. */
char *gpu_store_alloc(gpu_store_t *gpu_store, size_t size);
void  gpu_store_free(gpu_store_t *gpu_store, char *address);

/* Start to copy a batch to the GPU as one message, in a stream. */
int   gpu_store_copy_in(gpu_store_t *gpu_store, char *target, batch_t *batch);
void *gpu_store_stream(const gpu_store_t *gpu_store);
int   gpu_store_wait(gpu_store_t *gpu_store);

/* Copy a batch to the store and hold the copy. The caller may then fill the
 * batch again. The list must have an idle batch. */
int gpu_store_hold_batch(gpu_store_t *gpu_store, batch_t *batch);

/* Hold a batch of the list, which has received its message. */
void gpu_store_hold(gpu_store_t *gpu_store, batch_t *batch);

/* Returns true if a message is held and few places are free. */
bool gpu_store_is_full(const gpu_store_t *gpu_store);

/* Returns the bytes of the oldest message. A message must be held. */
size_t gpu_store_oldest_size(const gpu_store_t *gpu_store);

/* Take the oldest batch out of the store. The batch is valid until the next
 * call, and then returns to the list. Returns 1, 0 if no batch is held, or -1.
 */
int gpu_store_bring(gpu_store_t *gpu_store, batch_t **batch_p);

#endif
