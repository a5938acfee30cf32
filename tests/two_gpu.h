/*
 * Two processes with one pool on a GPU each.
 */
#ifndef TESTS_TWO_GPU_H
#define TESTS_TWO_GPU_H

#include "gpu.h"
#include "two.h"

/* Like two_init_on(), and opens `gpu`: the first one in the parent, the last
 * one in the child. */
void two_gpu_start(two_t *two, const char *settings);
/* With separate settings for each side. is_far: false: both on the first GPU;
 * true: on two, which the stand-in must have. Returns false and starts nothing
 * if there is only one real GPU. */
bool two_gpu_start_apart(two_t *two, const char *parents, const char *childs,
                         bool is_far);

#endif
