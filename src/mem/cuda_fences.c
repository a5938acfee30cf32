#include <config.h>

#include "base/error.h"
#include "mem/cuda_driver.h"
#include "mem/cuda_fences.h"

#include <assert.h>
#include <stdlib.h>

struct mem_fence {
    CUevent      event;
    mem_fence_t *next; /* among those that are free */
};

static ucxpool_status_t fence_error(const mem_cuda_fences_t *fences,
                                    CUresult result, const char *what)
{
    return mem_cuda_error(fences->device->driver, result,
                          "%s for the heap of GPU %d (%s)", what,
                          fences->device->ordinal, fences->device->name);
}

ucxpool_status_t mem_cuda_fences_init(mem_cuda_fences_t       *fences,
                                      const mem_cuda_device_t *device)
{
    int error = pthread_mutex_init(&fences->lock, NULL);

    if (error != 0) {
        base_error_errno(error, "making a lock for the fences of GPU %d (%s)",
                         device->ordinal, device->name);
        return UCXPOOL_ERR_IO;
    }
    fences->device      = device;
    fences->free_fences = NULL;
    fences->num_set     = 0;
    return UCXPOOL_OK;
}

/* Where the context is gone its events are. */
void mem_cuda_fences_cleanup(mem_cuda_fences_t *fences)
{
    const mem_cuda_device_t *device = fences->device;
    bool         is_entered = mem_cuda_device_enter(device) == UCXPOOL_OK;
    mem_fence_t *fence;

    assert(fences->num_set == 0);
    while (fences->free_fences != NULL) {
        fence               = fences->free_fences;
        fences->free_fences = fence->next;
        if (is_entered) {
            mem_cuda_ignore(device->driver,
                            device->driver->cuEventDestroy(fence->event),
                            "cuEventDestroy");
        }
        free(fence);
    }
    if (is_entered) {
        mem_cuda_device_leave(device);
    }
    pthread_mutex_destroy(&fences->lock);
}

/* NULL: none is free. */
static mem_fence_t *fence_take(mem_cuda_fences_t *fences)
{
    mem_fence_t *fence;

    pthread_mutex_lock(&fences->lock);
    fence = fences->free_fences;
    if (fence != NULL) {
        fences->free_fences = fence->next;
        fences->num_set++;
    }
    pthread_mutex_unlock(&fences->lock);
    return fence;
}

void mem_cuda_fence_put(mem_cuda_fences_t *fences, mem_fence_t *fence)
{
    pthread_mutex_lock(&fences->lock);
    fence->next         = fences->free_fences;
    fences->free_fences = fence;
    assert(fences->num_set > 0);
    fences->num_set--;
    pthread_mutex_unlock(&fences->lock);
}

/* Between enter and leave, as the next. */
static ucxpool_status_t fence_create(mem_cuda_fences_t *fences,
                                     mem_fence_t      **fence_p)
{
    mem_fence_t *fence = malloc(sizeof(*fence));
    CUresult     result;

    if (fence == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a fence");
    }
    result = fences->device->driver->cuEventCreate(&fence->event,
                                                   CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS) {
        free(fence);
        return fence_error(fences, result, "cuEventCreate");
    }
    pthread_mutex_lock(&fences->lock);
    fences->num_set++;
    pthread_mutex_unlock(&fences->lock);
    *fence_p = fence;
    return UCXPOOL_OK;
}

static ucxpool_status_t fence_record(mem_cuda_fences_t *fences, void *stream,
                                     mem_fence_t **fence_p)
{
    mem_fence_t     *fence = fence_take(fences);
    ucxpool_status_t status;
    CUresult         result;

    if (fence == NULL) {
        status = fence_create(fences, &fence);
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    result = fences->device->driver->cuEventRecord(fence->event, stream);
    if (result != CUDA_SUCCESS) {
        mem_cuda_fence_put(fences, fence);
        return fence_error(fences, result, "cuEventRecord in a stream");
    }
    *fence_p = fence;
    return UCXPOOL_OK;
}

ucxpool_status_t mem_cuda_fence_set(mem_cuda_fences_t *fences, void *stream,
                                    mem_fence_t **fence_p)
{
    ucxpool_status_t status = mem_cuda_device_enter(fences->device);

    if (status == UCXPOOL_OK) {
        status = fence_record(fences, stream, fence_p);
        mem_cuda_device_leave(fences->device);
    }
    return status;
}

bool mem_cuda_fence_is_reached(mem_cuda_fences_t *fences, mem_fence_t *fence)
{
    bool is_reached;

    if (mem_cuda_device_enter(fences->device) != UCXPOOL_OK) {
        return false;
    }
    is_reached =
        fences->device->driver->cuEventQuery(fence->event) == CUDA_SUCCESS;
    mem_cuda_device_leave(fences->device);
    return is_reached;
}

ucxpool_status_t mem_cuda_fence_wait(mem_cuda_fences_t *fences,
                                     mem_fence_t *fence, void *stream)
{
    ucxpool_status_t status = mem_cuda_device_enter(fences->device);
    CUresult         result;

    if (status != UCXPOOL_OK) {
        return status;
    }
    result = fences->device->driver->cuStreamWaitEvent(stream, fence->event, 0);
    mem_cuda_device_leave(fences->device);
    return result == CUDA_SUCCESS
               ? UCXPOOL_OK
               : fence_error(fences, result, "cuStreamWaitEvent of a stream");
}

ucxpool_status_t mem_cuda_fence_sync(mem_cuda_fences_t *fences,
                                     mem_fence_t       *fence)
{
    ucxpool_status_t status = mem_cuda_device_enter(fences->device);
    CUresult         result;

    if (status != UCXPOOL_OK) {
        return status;
    }
    result = fences->device->driver->cuEventSynchronize(fence->event);
    mem_cuda_device_leave(fences->device);
    return result == CUDA_SUCCESS
               ? UCXPOOL_OK
               : fence_error(fences, result, "cuEventSynchronize");
}
