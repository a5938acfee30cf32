/*
 * GPU virtual memory, for a heap (mem/vmm.h).
 *
 * Each function enters the device's context, calls the driver and leaves the
 * context, except that addresses and chunks are released without a context. A
 * mem_chunk_t is the driver's handle of a physical allocation.
 */
#include "base/error.h"
#include "base/math.h"
#include "mem/cuda_device.h"
#include "mem/cuda_driver.h"
#include "mem/vmm.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct heap_vmm {
    mem_vmm_t                vmm;
    const mem_cuda_device_t *device;
    CUmemAllocationProp      prop;
    pthread_mutex_t          lock; /* guards free_fences */
    mem_fence_t             *free_fences;
} heap_vmm_t;

static heap_vmm_t *cuda_of(mem_vmm_t *vmm)
{
    return base_container_of(vmm, heap_vmm_t, vmm);
}

/* Call a function of the driver with the device's context. The format names the
 * purpose of the call and ends before the device. */
#define heap_call(_vmm, _status, _function, _arguments, ...) \
    mem_cuda_device_do( \
        cuda_of(_vmm)->device, _status, \
        mem_cuda_device_status( \
            cuda_of(_vmm)->device, \
            cuda_of(_vmm)->device->driver->_function _arguments, \
            #_function __VA_ARGS__))

/* --- fences --------------------------------------------------------------- */

/* A driver event, which is reused. */
struct mem_fence {
    CUevent      event;
    mem_fence_t *next; /* among free fences */
};

/* Destroy all fences. If the context has been destroyed, its events have been
 * destroyed too. */
static void fences_destroy(heap_vmm_t *cuda)
{
    const mem_cuda_device_t *device = cuda->device;
    bool         is_entered = mem_cuda_device_enter(device) == UCXPOOL_OK;
    mem_fence_t *fence;

    while (cuda->free_fences != NULL) {
        fence             = cuda->free_fences;
        cuda->free_fences = fence->next;
        if (is_entered) {
            mem_cuda_try(device->driver, cuEventDestroy, fence->event);
        }
        free(fence);
    }
    if (is_entered) {
        mem_cuda_device_leave(device);
    }
}

/* Take a free fence. Returns NULL if no fence is free. */
static mem_fence_t *fence_take(heap_vmm_t *cuda)
{
    mem_fence_t *fence;

    pthread_mutex_lock(&cuda->lock);
    fence = cuda->free_fences;
    if (fence != NULL) {
        cuda->free_fences = fence->next;
    }
    pthread_mutex_unlock(&cuda->lock);
    return fence;
}

static void heap_fence_put(mem_vmm_t *vmm, mem_fence_t *fence)
{
    heap_vmm_t *cuda = cuda_of(vmm);

    pthread_mutex_lock(&cuda->lock);
    fence->next       = cuda->free_fences;
    cuda->free_fences = fence;
    pthread_mutex_unlock(&cuda->lock);
}

/* Call fence_create() and fence_record() between mem_cuda_device_enter() and
 * mem_cuda_device_leave(). */
static ucxpool_status_t fence_create(heap_vmm_t *cuda, mem_fence_t **fence_p)
{
    mem_fence_t *fence = malloc(sizeof(*fence));
    CUresult     result;

    if (fence == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a fence");
    }
    result = cuda->device->driver->cuEventCreate(&fence->event,
                                                 CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS) {
        free(fence);
        return mem_cuda_device_status(cuda->device, result,
                                      "cuEventCreate for the heap of");
    }
    *fence_p = fence;
    return UCXPOOL_OK;
}

static ucxpool_status_t fence_record(heap_vmm_t *cuda, void *stream,
                                     mem_fence_t **fence_p)
{
    mem_fence_t     *fence = fence_take(cuda);
    ucxpool_status_t status;
    CUresult         result;

    if (fence == NULL) {
        status = fence_create(cuda, &fence);
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    result = cuda->device->driver->cuEventRecord(fence->event, stream);
    if (result != CUDA_SUCCESS) {
        heap_fence_put(&cuda->vmm, fence);
        return mem_cuda_device_status(
            cuda->device, result, "cuEventRecord in a stream for the heap of");
    }
    *fence_p = fence;
    return UCXPOOL_OK;
}

static ucxpool_status_t heap_fence_set(mem_vmm_t *vmm, void *stream,
                                       mem_fence_t **fence_p)
{
    heap_vmm_t      *cuda = cuda_of(vmm);
    ucxpool_status_t status;

    mem_cuda_device_do(cuda->device, status,
                       fence_record(cuda, stream, fence_p));
    return status;
}

static bool heap_fence_is_reached(mem_vmm_t *vmm, mem_fence_t *fence)
{
    const heap_vmm_t *cuda = cuda_of(vmm);
    bool              is_reached;

    if (mem_cuda_device_enter(cuda->device) != UCXPOOL_OK) {
        return false;
    }
    is_reached =
        cuda->device->driver->cuEventQuery(fence->event) == CUDA_SUCCESS;
    mem_cuda_device_leave(cuda->device);
    return is_reached;
}

static ucxpool_status_t heap_fence_wait(mem_vmm_t *vmm, mem_fence_t *fence,
                                        void *stream)
{
    ucxpool_status_t status;

    heap_call(vmm, status, cuStreamWaitEvent, (stream, fence->event, 0),
              " of a stream for the heap of");
    return status;
}

static ucxpool_status_t heap_fence_sync(mem_vmm_t *vmm, mem_fence_t *fence)
{
    ucxpool_status_t status;

    heap_call(vmm, status, cuEventSynchronize, (fence->event),
              " for the heap of");
    return status;
}

/* --- chunks and mappings -------------------------------------------------- */

#define OF_BYTES " of %zu bytes for the heap of"

static CUdeviceptr number_of(const void *address)
{
    return (CUdeviceptr)(uintptr_t)address;
}

static void heap_destroy(mem_vmm_t *vmm)
{
    heap_vmm_t *cuda = cuda_of(vmm);

    fences_destroy(cuda);
    pthread_mutex_destroy(&cuda->lock);
    free(cuda);
}

static ucxpool_status_t heap_reserve(mem_vmm_t *vmm, size_t size,
                                     size_t alignment, void **address_p)
{
    CUdeviceptr      address = 0;
    ucxpool_status_t status;

    heap_call(vmm, status, cuMemAddressReserve,
              (&address, size, base_max(alignment, MEM_VMM_PAGE_SIZE), 0, 0),
              OF_BYTES, size);
    if (status == UCXPOOL_OK) {
        *address_p = (void *)(uintptr_t)address;
    }
    return status;
}

static void heap_release(mem_vmm_t *vmm, void *address, size_t size)
{
    mem_cuda_try(cuda_of(vmm)->device->driver, cuMemAddressFree,
                 number_of(address), size);
}

static ucxpool_status_t heap_chunk_create(mem_vmm_t *vmm, size_t size,
                                          mem_chunk_t *chunk_p)
{
    CUmemGenericAllocationHandle handle = 0;
    ucxpool_status_t             status;

    heap_call(vmm, status, cuMemCreate, (&handle, size, &cuda_of(vmm)->prop, 0),
              OF_BYTES, size);
    if (status == UCXPOOL_OK) {
        assert(handle != 0);
        *chunk_p = handle;
    }
    return status;
}

static void heap_chunk_destroy(mem_vmm_t *vmm, mem_chunk_t chunk, size_t size)
{
    const mem_cuda_driver_t *driver = cuda_of(vmm)->device->driver;

    mem_cuda_try(driver, cuMemRelease, chunk);
}

static ucxpool_status_t heap_map(mem_vmm_t *vmm, void *address,
                                 mem_chunk_t chunk, size_t size)
{
    ucxpool_status_t status;

    heap_call(vmm, status, cuMemMap, (number_of(address), size, 0, chunk, 0),
              OF_BYTES, size);
    return status;
}

static ucxpool_status_t heap_allow(mem_vmm_t *vmm, void *address, size_t size)
{
    const mem_cuda_device_t *device = cuda_of(vmm)->device;
    ucxpool_status_t         status;

    mem_cuda_device_do(
        device, status,
        mem_cuda_device_status(
            device, mem_cuda_access_set(device, number_of(address), size, true),
            "cuMemSetAccess" OF_BYTES, size));
    return status;
}

static ucxpool_status_t heap_unmap(mem_vmm_t *vmm, void *address, size_t size)
{
    ucxpool_status_t status;

    heap_call(vmm, status, cuMemUnmap, (number_of(address), size), OF_BYTES,
              size);
    return status;
}

static ucxpool_status_t heap_sizes(mem_vmm_t *vmm, uint64_t *total_p,
                                   uint64_t *free_p)
{
    const mem_cuda_device_t *device = cuda_of(vmm)->device;
    size_t                   free_size, total;
    ucxpool_status_t         status;

    mem_cuda_device_do(device, status,
                       mem_cuda_device_sizes(device, &free_size, &total));
    if (status == UCXPOOL_OK) {
        *total_p = total;
        *free_p  = free_size;
    }
    return status;
}

static const mem_vmm_calls_t heap_calls = {
    .destroy          = heap_destroy,
    .reserve          = heap_reserve,
    .release          = heap_release,
    .chunk_create     = heap_chunk_create,
    .chunk_destroy    = heap_chunk_destroy,
    .map              = heap_map,
    .allow            = heap_allow,
    .unmap            = heap_unmap,
    .fence_set        = heap_fence_set,
    .fence_is_reached = heap_fence_is_reached,
    .fence_wait       = heap_fence_wait,
    .fence_sync       = heap_fence_sync,
    .fence_put        = heap_fence_put,
    .sizes            = heap_sizes,
};

static ucxpool_status_t support_check(const heap_vmm_t *cuda)
{
    const mem_cuda_device_t *device      = cuda->device;
    size_t                   granularity = 0;
    CUresult                 result;

    if (!device->has_vmm) {
        return mem_cuda_no_vmm(device, "a heap needs");
    }
    result = device->driver->cuMemGetAllocationGranularity(
        &granularity, &cuda->prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result != CUDA_SUCCESS) {
        return mem_cuda_device_status(device, result,
                                      "cuMemGetAllocationGranularity of");
    }
    if ((granularity == 0) || (MEM_VMM_PAGE_SIZE % granularity != 0)) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "GPU %d (%s) cannot have a heap: its granularity of "
                          "%zu bytes does not divide %zu bytes",
                          device->ordinal, device->name, granularity,
                          MEM_VMM_PAGE_SIZE);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t mem_vmm_create_cuda(const mem_cuda_device_t *device,
                                     mem_vmm_t              **vmm_p)
{
    heap_vmm_t      *cuda = calloc(1, sizeof(*cuda));
    ucxpool_status_t status;
    int              error;

    if (cuda == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a heap");
    }
    cuda->device = device;
    cuda->prop   = mem_cuda_allocation_prop(device);
    status       = support_check(cuda);
    if (status != UCXPOOL_OK) {
        goto err_free;
    }
    error = pthread_mutex_init(&cuda->lock, NULL);
    if (error != 0) {
        base_error_errno(error,
                         "cannot create a lock for the fences of GPU %d "
                         "(%s)",
                         device->ordinal, device->name);
        status = UCXPOOL_ERR_IO;
        goto err_free;
    }
    cuda->vmm.calls   = &heap_calls;
    cuda->vmm.is_host = false;
    *vmm_p            = &cuda->vmm;
    return UCXPOOL_OK;

err_free:
    free(cuda);
    return status;
}
