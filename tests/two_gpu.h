/*
 * Two processes, each with one pool on a GPU.
 */
#ifndef TESTS_TWO_GPU_H
#define TESTS_TWO_GPU_H

#include "gpu.h"
#include "two.h"

/* The same as two_init_on(), but also opens `gpu`: the first GPU in the parent,
 * the last GPU in the child. */
void two_gpu_start(two_t *two, const char *settings);
/* The same with separate settings for each side. If is_far is false, both sides
 * use the first GPU; otherwise they use two GPUs, which the stand-in must have.
 * Returns false and starts nothing if there is only one real GPU. */
bool two_gpu_start_apart(two_t *two, const char *parents, const char *childs,
                         bool is_far);

/* The same with any pools; also opens `gpu` for a pool in host memory. */
void two_gpu_start_on(two_t *two, two_side_t parents, two_side_t childs);

/* Check and destroy the pools, and close `gpu`. */
void two_gpu_stop(two_t *two);

/* Transfer one message of segments of `length` bytes, separated by `gap` bytes,
 * and require that it arrives. `memory` is GPU or host memory. */
void two_gpu_transfer(two_t *two, bool is_sender, size_t size, size_t length,
                      size_t gap, unsigned seed, uint8_t *memory);

#endif
