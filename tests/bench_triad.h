/*
 * A kernel that reads two ranges and writes a third: a part of bench_heap_cuda.
 */
#ifndef TESTS_BENCH_TRIAD_H
#define TESTS_BENCH_TRIAD_H

#include "gpu/gpu.h"

#include <stddef.h>

#define TRIAD_FACTOR 3.0f

typedef struct CUmod_st  *CUmodule;
typedef struct CUfunc_st *CUfunction;

/* Driver functions that launch a kernel, which the tools do not use. */
typedef struct triad {
    CUresult (*load)(CUmodule *module, const void *image);
    CUresult (*find)(CUfunction *function, CUmodule module, const char *name);
    CUresult (*unload)(CUmodule module);
    CUresult (*launch)(CUfunction function, unsigned blocks_x,
                       unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                       unsigned threads_y, unsigned threads_z, unsigned shared,
                       CUstream stream, void **arguments, void **extra);
    CUmodule   module;
    CUfunction function; /* NULL: the driver cannot run such a kernel */
} triad_t;

/* Return 0, or -1 after printing an error. */
int  triad_init(triad_t *triad, gpu_t *gpu);
void triad_cleanup(triad_t *triad);

/* Computes a[i] = b[i] + TRIAD_FACTOR * c[i] in gpu->stream, for floats in
 * `size` bytes, a multiple of 16. */
int triad_start(triad_t *triad, gpu_t *gpu, void *a, void *b, void *c,
                size_t size);

#endif
