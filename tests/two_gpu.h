/*
 * Two processes with a pool on a GPU each.
 */
#ifndef TESTS_TWO_GPU_H
#define TESTS_TWO_GPU_H

#include "gpu.h"
#include "two.h"

/* As two_init_on(), and `gpu` is open: the first in the parent, and in the
 * child the last that there is. */
void two_gpu_start(two_t *two, const char *settings);

#endif
