/*
 * The speed of memory mapped from scattered chunks, compared with contiguous
 * memory: a part of bench_heap_cuda.
 */
#ifndef TESTS_BENCH_MAPPED_H
#define TESTS_BENCH_MAPPED_H

#include "gpu/gpu.h"

#include <stdbool.h>

/* Prints a table. Returns 0, or -1 after printing an error. */
int bench_mapped(gpu_t *gpu, bool is_quick);

#endif
