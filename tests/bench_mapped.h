/*
 * How fast memory is that is mapped from scattered chunks, next to memory of
 * one piece: a part of bench_heap_cuda.
 */
#ifndef TESTS_BENCH_MAPPED_H
#define TESTS_BENCH_MAPPED_H

#include "gpu/gpu.h"

#include <stdbool.h>

/* Prints a table. Returns 0, or -1 after having said what broke. */
int bench_mapped(gpu_t *gpu, bool is_quick);

#endif
