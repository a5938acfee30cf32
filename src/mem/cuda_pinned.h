/*
 * Host memory that all GPUs reach, and that lives as long as it is wanted: it
 * holds the context of the GPU that it was made on.
 */
#ifndef MEM_CUDA_PINNED_H
#define MEM_CUDA_PINNED_H

#include <ucxpool/status.h>

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

#endif
