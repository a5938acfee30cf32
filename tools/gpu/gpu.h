/*
 * One GPU, as a tool uses it: its primary context, which the pool uses too,
 * memory, and copies that are waited for.
 *
 * Functions that can fail return 0, or -1 with a sentence in gpu->error. They
 * are for the thread that opened the GPU, of which the context is the current
 * one until close.
 */
#ifndef GPU_GPU_H
#define GPU_GPU_H

#include "gpu/driver.h"

#include <stddef.h>

typedef struct gpu {
    gpu_driver_t driver;
    int          ordinal; /* as the driver counts GPUs in this process */
    char         name[64];
    CUdevice     device;
    CUcontext    context; /* NULL: not open */
    CUstream     stream;  /* of the copies below */
    char         error[512];
} gpu_t;

/* After an error nothing is left to be closed. */
int gpu_open(gpu_t *gpu, int ordinal);
/* Also for a zeroed one. */
void gpu_close(gpu_t *gpu);

/* Memory of the GPU, of whole pages of 2 MiB: none is shared with what another
 * call gives, so that its handle leads to this memory alone. */
int gpu_alloc(gpu_t *gpu, size_t size, void **address_p);
/* NULL is allowed. */
void gpu_free(gpu_t *gpu, void *address);

/* Pinned memory of the host. */
int  gpu_host_alloc(gpu_t *gpu, size_t size, void **address_p);
void gpu_host_free(gpu_t *gpu, void *address);

/* From anywhere to anywhere: host memory, this GPU's, a mapped one. Waits for
 * the end. */
int gpu_copy(gpu_t *gpu, void *target, const void *source, size_t size);

/* The same byte everywhere. Waits for the end. */
int gpu_fill(gpu_t *gpu, void *target, unsigned char byte, size_t size);

/* Wait for the copies that were started in a stream. */
int gpu_wait(gpu_t *gpu, CUstream stream);

/* Let another process map what gpu_alloc() gave; map what another process has.
 * What is mapped is unmapped before that process frees it. */
int  gpu_share(gpu_t *gpu, void *address, CUipcMemHandle *handle_p);
int  gpu_map(gpu_t *gpu, const CUipcMemHandle *handle, void **address_p);
void gpu_unmap(gpu_t *gpu, void *address);

/* Say that a call of the driver failed. Returns -1. */
int gpu_fail(gpu_t *gpu, CUresult result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* An address as the driver wants it. */
static inline CUdeviceptr gpu_address(const void *address)
{
    return (CUdeviceptr)(size_t)address;
}

#endif
