/*
 * The kernels, compiled by the driver for one GPU. That takes a moment, so it
 * is done once for all copiers.
 */
#ifndef COPY_CUDA_KERNELS_H
#define COPY_CUDA_KERNELS_H

#include "mem/cuda_device.h"

typedef struct copy_cuda_kernels {
    const mem_cuda_device_t *device;
    CUmodule                 module;
    CUfunction               copy; /* COPY_KERNEL_NAME */
} copy_cuda_kernels_t;

/*
 * UCXPOOL_ERR_UNSUPPORTED  the GPU is too old for them
 * UCXPOOL_ERR_NO_MEMORY    on the GPU
 * UCXPOOL_ERR_IO           the driver failed otherwise
 */
ucxpool_status_t copy_cuda_kernels_init(const mem_cuda_device_t *device,
                                        copy_cuda_kernels_t     *kernels);
/* Nothing may be running. May be called twice. */
void copy_cuda_kernels_cleanup(copy_cuda_kernels_t *kernels);

#endif
