/*
 * Host memory that all GPUs reach, and that lives as long as it is wanted: it
 * holds the context of the GPU that it was made on.
 */
#ifndef MEM_CUDA_PINNED_H
#define MEM_CUDA_PINNED_H

#include "mem/cuda_device.h"

#include <stddef.h>

/*
 * At a multiple of 64.
 *
 * UCXPOOL_ERR_NO_MEMORY  there is not so much
 * others                 as mem_cuda_device_open()
 */
ucxpool_status_t mem_cuda_pinned_alloc(int ordinal, size_t size,
                                       void **address_p);

/* NULL is allowed. */
void mem_cuda_pinned_free(void *address);

/*
 * The same on a GPU that is open already; to be freed by cuMemFreeHost() before
 * that is closed. `what` it is for is said in errors: "markers".
 *
 * UCXPOOL_ERR_NO_MEMORY  there is not so much
 * UCXPOOL_ERR_IO         the driver failed
 */
ucxpool_status_t mem_cuda_pinned_take(const mem_cuda_device_t *device,
                                      size_t size, const char *what,
                                      void **address_p);

#endif
