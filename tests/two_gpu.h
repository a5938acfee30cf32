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
/* With settings of each side's own. is_far: false: both on the first GPU; true:
 * on two, which the stand-in must have. Returns false, and starts nothing,
 * where there is one real one only. */
bool two_gpu_start_apart(two_t *two, const char *parents, const char *childs,
                         bool is_far);

#endif
