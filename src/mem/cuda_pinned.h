/*
 * Pinned host memory that all GPUs can access. Each allocation retains the
 * primary context of the GPU that it was made on.
 */
#ifndef MEM_CUDA_PINNED_H
#define MEM_CUDA_PINNED_H

#include "mem/cuda_device.h"

#include <stddef.h>

/*
 * Allocate memory, aligned to 64 bytes.
 *
 * UCXPOOL_ERR_NO_MEMORY  not enough memory
 * others                 see mem_cuda_device_open()
 */
ucxpool_status_t mem_cuda_pinned_alloc(int ordinal, size_t size,
                                       void **address_p);

/* Free the memory. NULL is allowed. */
void mem_cuda_pinned_free(void *address);

/*
 * Like mem_cuda_pinned_alloc(), for an open GPU. The caller frees the memory
 * with cuMemFreeHost() before it closes the GPU. `what` is the purpose in error
 * messages, such as "markers".
 *
 * UCXPOOL_ERR_NO_MEMORY  not enough memory
 * UCXPOOL_ERR_IO         driver error
 */
ucxpool_status_t mem_cuda_pinned_take(const mem_cuda_device_t *device,
                                      size_t size, const char *what,
                                      void **address_p);

/*
 * Register host memory with the driver, so that kernels and copy engines can
 * access it.
 *
 * is_read_only  The memory is mapped for reading only, so the GPU can only read
 *               it.
 *
 * UCXPOOL_ERR_NO_MEMORY    the system does not allow so much locked memory
 * UCXPOOL_ERR_UNSUPPORTED  the device address of the memory differs from the
 *                          host address, or the device cannot pin memory
 *                          that is mapped for reading only
 * UCXPOOL_ERR_IO           driver error
 */
ucxpool_status_t mem_cuda_pin(const mem_cuda_device_t *device, void *address,
                              size_t size, bool is_read_only);
void             mem_cuda_unpin(const mem_cuda_device_t *device, void *address);

#endif
