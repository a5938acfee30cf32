/*
 * Virtual memory by hand on a GPU: the driver's functions for it, with its
 * context entered for each call and left after it. A chunk's name is the
 * driver's handle of a physical allocation.
 */
#include <config.h>

#include "base/error.h"
#include "base/math.h"
#include "mem/cuda_device.h"
#include "mem/cuda_driver.h"
#include "mem/cuda_vmm.h"
#include "mem/vmm.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

typedef struct cuda_vmm {
    mem_vmm_t                vmm;
    const mem_cuda_device_t *device;
    CUmemAllocationProp      prop;
    pthread_mutex_t          lock; /* of the rest */
    mem_fence_t             *free_fences;
    size_t                   num_fences; /* that are set */
} cuda_vmm_t;

static cuda_vmm_t *cuda_of(mem_vmm_t *vmm)
{
    return base_container_of(vmm, cuda_vmm_t, vmm);
}

/* --- fences --------------------------------------------------------------- */

/* An event of the driver, which is kept and used again. */
struct mem_fence {
    CUevent      event;
    mem_fence_t *next; /* among those that are free */
};

static ucxpool_status_t fence_error(const cuda_vmm_t *cuda, CUresult result,
                                    const char *what)
{
    return mem_cuda_error(cuda->device->driver, result,
                          "%s for the heap of GPU %d (%s)", what,
                          cuda->device->ordinal, cuda->device->name);
}

/* Where the context is gone its events are. */
static void fences_destroy(cuda_vmm_t *cuda)
{
    const mem_cuda_device_t *device = cuda->device;
    bool         is_entered = mem_cuda_device_enter(device) == UCXPOOL_OK;
    mem_fence_t *fence;

    assert(cuda->num_fences == 0);
    while (cuda->free_fences != NULL) {
        fence             = cuda->free_fences;
        cuda->free_fences = fence->next;
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
}

/* NULL: none is free. */
static mem_fence_t *fence_take(cuda_vmm_t *cuda)
{
    mem_fence_t *fence;

    pthread_mutex_lock(&cuda->lock);
    fence = cuda->free_fences;
    if (fence != NULL) {
        cuda->free_fences = fence->next;
        cuda->num_fences++;
    }
    pthread_mutex_unlock(&cuda->lock);
    return fence;
}

static void cuda_fence_put(mem_vmm_t *vmm, mem_fence_t *fence)
{
    cuda_vmm_t *cuda = cuda_of(vmm);

    pthread_mutex_lock(&cuda->lock);
    fence->next       = cuda->free_fences;
    cuda->free_fences = fence;
    assert(cuda->num_fences > 0);
    cuda->num_fences--;
    pthread_mutex_unlock(&cuda->lock);
}

/* Between enter and leave, as the next. */
static ucxpool_status_t fence_create(cuda_vmm_t *cuda, mem_fence_t **fence_p)
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
        return fence_error(cuda, result, "cuEventCreate");
    }
    pthread_mutex_lock(&cuda->lock);
    cuda->num_fences++;
    pthread_mutex_unlock(&cuda->lock);
    *fence_p = fence;
    return UCXPOOL_OK;
}

static ucxpool_status_t fence_record(cuda_vmm_t *cuda, void *stream,
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
        cuda_fence_put(&cuda->vmm, fence);
        return fence_error(cuda, result, "cuEventRecord in a stream");
    }
    *fence_p = fence;
    return UCXPOOL_OK;
}

static ucxpool_status_t cuda_fence_set(mem_vmm_t *vmm, void *stream,
                                       mem_fence_t **fence_p)
{
    cuda_vmm_t      *cuda   = cuda_of(vmm);
    ucxpool_status_t status = mem_cuda_device_enter(cuda->device);

    if (status == UCXPOOL_OK) {
        status = fence_record(cuda, stream, fence_p);
        mem_cuda_device_leave(cuda->device);
    }
    return status;
}

static bool cuda_fence_is_reached(mem_vmm_t *vmm, mem_fence_t *fence)
{
    const cuda_vmm_t *cuda = cuda_of(vmm);
    bool              is_reached;

    if (mem_cuda_device_enter(cuda->device) != UCXPOOL_OK) {
        return false;
    }
    is_reached =
        cuda->device->driver->cuEventQuery(fence->event) == CUDA_SUCCESS;
    mem_cuda_device_leave(cuda->device);
    return is_reached;
}

static ucxpool_status_t cuda_fence_wait(mem_vmm_t *vmm, mem_fence_t *fence,
                                        void *stream)
{
    const cuda_vmm_t *cuda   = cuda_of(vmm);
    ucxpool_status_t  status = mem_cuda_device_enter(cuda->device);
    CUresult          result;

    if (status != UCXPOOL_OK) {
        return status;
    }
    result = cuda->device->driver->cuStreamWaitEvent(stream, fence->event, 0);
    mem_cuda_device_leave(cuda->device);
    return result == CUDA_SUCCESS
               ? UCXPOOL_OK
               : fence_error(cuda, result, "cuStreamWaitEvent of a stream");
}

static ucxpool_status_t cuda_fence_sync(mem_vmm_t *vmm, mem_fence_t *fence)
{
    const cuda_vmm_t *cuda   = cuda_of(vmm);
    ucxpool_status_t  status = mem_cuda_device_enter(cuda->device);
    CUresult          result;

    if (status != UCXPOOL_OK) {
        return status;
    }
    result = cuda->device->driver->cuEventSynchronize(fence->event);
    mem_cuda_device_leave(cuda->device);
    return result == CUDA_SUCCESS
               ? UCXPOOL_OK
               : fence_error(cuda, result, "cuEventSynchronize");
}

/* --- virtual memory ------------------------------------------------------- */

static CUdeviceptr number_of(const void *address)
{
    return (CUdeviceptr)(uintptr_t)address;
}

/* Leave the context, and tell how the call ended. */
static ucxpool_status_t call_end(const cuda_vmm_t *cuda, CUresult result,
                                 const char *what, size_t size)
{
    const mem_cuda_device_t *device = cuda->device;

    mem_cuda_device_leave(device);
    return result == CUDA_SUCCESS
               ? UCXPOOL_OK
               : mem_cuda_error(device->driver, result,
                                "%s of %zu bytes for the heap of GPU %d (%s)",
                                what, size, device->ordinal, device->name);
}

static void cuda_destroy(mem_vmm_t *vmm)
{
    cuda_vmm_t *cuda = cuda_of(vmm);

    fences_destroy(cuda);
    pthread_mutex_destroy(&cuda->lock);
    free(cuda);
}

static ucxpool_status_t cuda_reserve(mem_vmm_t *vmm, size_t size,
                                     size_t alignment, void **address_p)
{
    cuda_vmm_t      *cuda    = cuda_of(vmm);
    CUdeviceptr      address = 0;
    ucxpool_status_t status  = mem_cuda_device_enter(cuda->device);
    CUresult         result;

    if (status != UCXPOOL_OK) {
        return status;
    }
    result = cuda->device->driver->cuMemAddressReserve(
        &address, size, base_max(alignment, MEM_VMM_PAGE_SIZE), 0, 0);
    status = call_end(cuda, result, "cuMemAddressReserve", size);
    if (status == UCXPOOL_OK) {
        *address_p = (void *)(uintptr_t)address;
    }
    return status;
}

static void cuda_release(mem_vmm_t *vmm, void *address, size_t size)
{
    const mem_cuda_device_t *device = cuda_of(vmm)->device;
    bool is_entered = mem_cuda_device_enter(device) == UCXPOOL_OK;

    mem_cuda_range_free(device->driver, number_of(address), size);
    if (is_entered) {
        mem_cuda_device_leave(device);
    }
}

static ucxpool_status_t cuda_chunk_create(mem_vmm_t *vmm, size_t size,
                                          mem_chunk_t *chunk_p)
{
    cuda_vmm_t                  *cuda   = cuda_of(vmm);
    CUmemGenericAllocationHandle handle = 0;
    ucxpool_status_t             status = mem_cuda_device_enter(cuda->device);
    CUresult                     result;

    if (status != UCXPOOL_OK) {
        return status;
    }
    result = cuda->device->driver->cuMemCreate(&handle, size, &cuda->prop, 0);
    status = call_end(cuda, result, "cuMemCreate", size);
    if (status == UCXPOOL_OK) {
        assert(handle != 0);
        *chunk_p = handle;
    }
    return status;
}

static void cuda_chunk_destroy(mem_vmm_t *vmm, mem_chunk_t chunk, size_t size)
{
    const mem_cuda_device_t *device = cuda_of(vmm)->device;
    bool is_entered = mem_cuda_device_enter(device) == UCXPOOL_OK;

    (void)size;
    mem_cuda_ignore(device->driver, device->driver->cuMemRelease(chunk),
                    "cuMemRelease");
    if (is_entered) {
        mem_cuda_device_leave(device);
    }
}

static ucxpool_status_t cuda_map(mem_vmm_t *vmm, void *address,
                                 mem_chunk_t chunk, size_t size)
{
    cuda_vmm_t      *cuda   = cuda_of(vmm);
    ucxpool_status_t status = mem_cuda_device_enter(cuda->device);
    CUresult         result;

    if (status != UCXPOOL_OK) {
        return status;
    }
    result =
        cuda->device->driver->cuMemMap(number_of(address), size, 0, chunk, 0);
    return call_end(cuda, result, "cuMemMap", size);
}

static ucxpool_status_t cuda_allow(mem_vmm_t *vmm, void *address, size_t size)
{
    cuda_vmm_t      *cuda   = cuda_of(vmm);
    ucxpool_status_t status = mem_cuda_device_enter(cuda->device);
    CUresult         result;

    if (status != UCXPOOL_OK) {
        return status;
    }
    result = mem_cuda_access_set(cuda->device, number_of(address), size);
    return call_end(cuda, result, "cuMemSetAccess", size);
}

static ucxpool_status_t cuda_unmap(mem_vmm_t *vmm, void *address, size_t size)
{
    cuda_vmm_t      *cuda   = cuda_of(vmm);
    ucxpool_status_t status = mem_cuda_device_enter(cuda->device);
    CUresult         result;

    if (status != UCXPOOL_OK) {
        return status;
    }
    result = cuda->device->driver->cuMemUnmap(number_of(address), size);
    return call_end(cuda, result, "cuMemUnmap", size);
}

static ucxpool_status_t cuda_sizes(mem_vmm_t *vmm, uint64_t *total_p,
                                   uint64_t *free_p)
{
    const mem_cuda_device_t *device = cuda_of(vmm)->device;
    size_t                   total, free_size;
    ucxpool_status_t         status = mem_cuda_device_enter(device);
    CUresult                 result;

    if (status != UCXPOOL_OK) {
        return status;
    }
    result = device->driver->cuMemGetInfo(&free_size, &total);
    mem_cuda_device_leave(device);
    if (result != CUDA_SUCCESS) {
        return mem_cuda_error(device->driver, result,
                              "cuMemGetInfo of GPU %d (%s)", device->ordinal,
                              device->name);
    }
    *total_p = total;
    *free_p  = free_size;
    return UCXPOOL_OK;
}

static const mem_vmm_calls_t cuda_calls = {
    .destroy          = cuda_destroy,
    .reserve          = cuda_reserve,
    .release          = cuda_release,
    .chunk_create     = cuda_chunk_create,
    .chunk_destroy    = cuda_chunk_destroy,
    .map              = cuda_map,
    .allow            = cuda_allow,
    .unmap            = cuda_unmap,
    .fence_set        = cuda_fence_set,
    .fence_is_reached = cuda_fence_is_reached,
    .fence_wait       = cuda_fence_wait,
    .fence_sync       = cuda_fence_sync,
    .fence_put        = cuda_fence_put,
    .sizes            = cuda_sizes,
};

static ucxpool_status_t support_check(const cuda_vmm_t *cuda)
{
    const mem_cuda_device_t *device      = cuda->device;
    size_t                   granularity = 0;
    CUresult                 result;

    if (!device->has_vmm) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "GPU %d (%s) or its driver has no virtual memory "
                          "functions: it can have no heap",
                          device->ordinal, device->name);
    }
    result = device->driver->cuMemGetAllocationGranularity(
        &granularity, &cuda->prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result != CUDA_SUCCESS) {
        return mem_cuda_error(device->driver, result,
                              "cuMemGetAllocationGranularity of GPU %d (%s)",
                              device->ordinal, device->name);
    }
    if ((granularity == 0) || (MEM_VMM_PAGE_SIZE % granularity != 0)) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "GPU %d (%s) maps memory in pieces of %zu bytes, and "
                          "the heap in pieces of %zu: it can have no heap",
                          device->ordinal, device->name, granularity,
                          MEM_VMM_PAGE_SIZE);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t mem_vmm_create_cuda(const mem_cuda_device_t *device,
                                     mem_vmm_t              **vmm_p)
{
    cuda_vmm_t      *cuda = calloc(1, sizeof(*cuda));
    ucxpool_status_t status;
    int              error;

    if (cuda == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a heap");
    }
    cuda->device = device;
    cuda->prop   = mem_cuda_prop_of(device);
    status       = support_check(cuda);
    if (status != UCXPOOL_OK) {
        goto err_free;
    }
    error = pthread_mutex_init(&cuda->lock, NULL);
    if (error != 0) {
        base_error_errno(error, "making a lock for the fences of GPU %d (%s)",
                         device->ordinal, device->name);
        status = UCXPOOL_ERR_IO;
        goto err_free;
    }
    cuda->vmm.calls   = &cuda_calls;
    cuda->vmm.is_host = false;
    *vmm_p            = &cuda->vmm;
    return UCXPOOL_OK;

err_free:
    free(cuda);
    return status;
}
