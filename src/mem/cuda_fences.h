/*
 * Fences in streams of a GPU, for mem/vmm.h: events of the driver, which are
 * kept and used again.
 *
 * Thread-safe.
 */
#ifndef MEM_CUDA_FENCES_H
#define MEM_CUDA_FENCES_H

#include "mem/cuda_device.h"
#include "mem/vmm.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct mem_cuda_fences {
    const mem_cuda_device_t *device;
    pthread_mutex_t          lock; /* of the rest */
    mem_fence_t             *free_fences;
    size_t                   num_set;
} mem_cuda_fences_t;

/*
 * The device stays open until cleanup.
 *
 * UCXPOOL_ERR_IO  the system gave no lock
 */
ucxpool_status_t mem_cuda_fences_init(mem_cuda_fences_t       *fences,
                                      const mem_cuda_device_t *device);
/* All fences have been put. */
void mem_cuda_fences_cleanup(mem_cuda_fences_t *fences);

/* As mem_vmm_calls_t's. */
ucxpool_status_t mem_cuda_fence_set(mem_cuda_fences_t *fences, void *stream,
                                    mem_fence_t **fence_p);
bool mem_cuda_fence_is_reached(mem_cuda_fences_t *fences, mem_fence_t *fence);
ucxpool_status_t mem_cuda_fence_wait(mem_cuda_fences_t *fences,
                                     mem_fence_t *fence, void *stream);
ucxpool_status_t mem_cuda_fence_sync(mem_cuda_fences_t *fences,
                                     mem_fence_t       *fence);
void mem_cuda_fence_put(mem_cuda_fences_t *fences, mem_fence_t *fence);

#endif
