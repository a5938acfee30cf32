/*
 * GPU memory from the driver's virtual memory functions. For blocks: one
 * physical allocation per region, all mapped once and contiguously in one
 * reserved range. For a heap: chunks, which the heap maps itself.
 *
 * A physical allocation is always mapped as a whole, because the driver
 * supports no offset into it. Only whole regions can be stitched.
 */
#include <config.h>

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "mem/cuda_device.h"
#include "mem/cuda_driver.h"
#include "mem/region.h"
#include "mem/vmm.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* --- common to regions and heap ------------------------------------------- */

/* Returns the properties of physical memory of the device. The memory can be
 * exported as a file and accessed by a NIC, if the device supports that. */
static CUmemAllocationProp prop_of(const mem_cuda_device_t *device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};

    if (device->has_posix_handles) {
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    }
    prop.location.type                   = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id                     = device->device;
    prop.allocFlags.gpuDirectRDMACapable = device->has_gpudirect_vmm;
    return prop;
}

/* Give the device read and write access to the mappings in a range. Each call
 * has a fixed cost, and a smaller cost per allocation in the range. */
static CUresult access_set(const mem_cuda_device_t *device, CUdeviceptr address,
                           size_t size)
{
    CUmemAccessDesc desc = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id   = device->device;
    return device->driver->cuMemSetAccess(address, size, &desc, 1);
}

/* --- stitching: regions mapped a second time, in another order ------------ */

/* Map the pieces, which are whole regions. *num_p is the number of mapped
 * pieces, even after an error. */
static CUresult pieces_map(const mem_regions_t *regions,
                           const mem_piece_t *pieces, size_t num_pieces,
                           CUdeviceptr address, size_t *num_p)
{
    size_t   size = regions->region_size;
    CUresult result;

    for (*num_p = 0; *num_p < num_pieces; ++*num_p) {
        const mem_piece_t *piece = &pieces[*num_p];

        assert(piece->region < regions->num_regions);
        assert((piece->offset == 0) && (piece->length == size));
        result = regions->cuda->driver->cuMemMap(
            address + *num_p * size, size, 0,
            regions->regions[piece->region].handle, 0);
        if (result != CUDA_SUCCESS) {
            return result;
        }
    }
    return access_set(regions->cuda, address, num_pieces * size);
}

static ucxpool_status_t stitch_error(const mem_cuda_device_t *device,
                                     CUresult result, size_t num_pieces)
{
    return mem_cuda_error(device->driver, result,
                          "mapping %zu regions of GPU %d (%s) contiguously",
                          num_pieces, device->ordinal, device->name);
}

static ucxpool_status_t range_stitch(const mem_regions_t *regions,
                                     const mem_piece_t   *pieces,
                                     size_t num_pieces, CUdeviceptr *address_p)
{
    const mem_cuda_driver_t *driver = regions->cuda->driver;
    size_t                   size   = num_pieces * regions->region_size;
    CUdeviceptr              address;
    size_t                   num_mapped;
    CUresult                 result;

    result = driver->cuMemAddressReserve(&address, size, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        return stitch_error(regions->cuda, result, num_pieces);
    }
    result = pieces_map(regions, pieces, num_pieces, address, &num_mapped);
    if (result != CUDA_SUCCESS) {
        goto err_unmap;
    }
    *address_p = address;
    return UCXPOOL_OK;

err_unmap:
    if (num_mapped != 0) {
        mem_cuda_ignore(
            driver,
            driver->cuMemUnmap(address, num_mapped * regions->region_size),
            "cuMemUnmap");
    }
    mem_cuda_range_free(driver, address, size);
    return stitch_error(regions->cuda, result, num_pieces);
}

static ucxpool_status_t vmm_stitch(const mem_regions_t *regions,
                                   const mem_piece_t *pieces, size_t num_pieces,
                                   void **address_p)
{
    CUdeviceptr      address = 0;
    ucxpool_status_t status  = mem_cuda_device_enter(regions->cuda);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = range_stitch(regions, pieces, num_pieces, &address);
    mem_cuda_device_leave(regions->cuda);
    if (status == UCXPOOL_OK) {
        *address_p = (void *)(uintptr_t)address;
    }
    return status;
}

static void vmm_unstitch(const mem_regions_t *regions, void *address,
                         size_t size)
{
    const mem_cuda_driver_t *driver = regions->cuda->driver;
    bool is_entered = mem_cuda_device_enter(regions->cuda) == UCXPOOL_OK;

    mem_cuda_ignore(driver,
                    driver->cuMemUnmap((CUdeviceptr)(uintptr_t)address, size),
                    "cuMemUnmap");
    mem_cuda_range_free(driver, (CUdeviceptr)(uintptr_t)address, size);
    if (is_entered) {
        mem_cuda_device_leave(regions->cuda);
    }
}

/* --- regions -------------------------------------------------------------- */

/* Regions under construction. */
typedef struct vmm {
    mem_regions_t           *regions;
    const mem_cuda_device_t *device;
    CUmemAllocationProp      prop;
    CUdeviceptr              address;
    size_t                   size; /* of all regions */
    size_t free_size;              /* on the device, before the allocation */
} vmm_t;

/* Like prop_of(), but the memory can also be exported to other hosts, if
 * supported. */
static CUmemAllocationProp region_prop_of(const mem_cuda_device_t *device)
{
    CUmemAllocationProp prop  = prop_of(device);
    unsigned            types = (unsigned)prop.requestedHandleTypes;

    if (device->has_fabric_handles) {
        types |= CU_MEM_HANDLE_TYPE_FABRIC;
    }
    prop.requestedHandleTypes = (CUmemAllocationHandleType)types;
    return prop;
}

static ucxpool_status_t vmm_error(const vmm_t *vmm, CUresult result,
                                  const char *what)
{
    return mem_cuda_device_error(vmm->device, result, what, vmm->size,
                                 vmm->free_size);
}

static ucxpool_status_t granularity_check(const vmm_t *vmm)
{
    size_t   granularity = 0;
    CUresult result;

    result = vmm->device->driver->cuMemGetAllocationGranularity(
        &granularity, &vmm->prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result != CUDA_SUCCESS) {
        return vmm_error(vmm, result, "cuMemGetAllocationGranularity");
    }
    if (vmm->regions->region_size % granularity != 0) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "invalid region size of %zu bytes: "
                          "UCXPOOL_REGION_SIZE must be a multiple of %zu, the "
                          "granularity of GPU %d (%s)",
                          vmm->regions->region_size, granularity,
                          vmm->device->ordinal, vmm->device->name);
    }
    return UCXPOOL_OK;
}

/* Create the memory of a region. Fabric handles are not permitted everywhere
 * they are supported. If the driver rejects them, this and the remaining
 * allocations have no fabric handle. */
static CUresult allocation_create(vmm_t *vmm, mem_region_t *region)
{
    const mem_cuda_driver_t *driver = vmm->device->driver;
    unsigned                 types  = (unsigned)vmm->prop.requestedHandleTypes;
    CUmemGenericAllocationHandle handle = 0;
    CUresult                     result;

    result = driver->cuMemCreate(&handle, region->size, &vmm->prop, 0);
    if (((result == CUDA_ERROR_NOT_PERMITTED) ||
         (result == CUDA_ERROR_NOT_SUPPORTED)) &&
        (types & CU_MEM_HANDLE_TYPE_FABRIC)) {
        base_debug("GPU %d: fabric handles are not permitted",
                   vmm->device->ordinal);
        types &= ~(unsigned)CU_MEM_HANDLE_TYPE_FABRIC;
        vmm->prop.requestedHandleTypes = (CUmemAllocationHandleType)types;
        result = driver->cuMemCreate(&handle, region->size, &vmm->prop, 0);
    }
    region->handle = handle;
    return result;
}

static ucxpool_status_t region_create(vmm_t *vmm, unsigned index)
{
    const mem_cuda_driver_t *driver = vmm->device->driver;
    mem_region_t            *region = &vmm->regions->regions[index];
    CUdeviceptr address = vmm->address + index * vmm->regions->region_size;
    CUresult    result;

    region->fd      = -1;
    region->size    = vmm->regions->region_size;
    region->address = (void *)(uintptr_t)address;
    result          = allocation_create(vmm, region);
    if (result != CUDA_SUCCESS) {
        return vmm_error(vmm, result, "cuMemCreate");
    }
    result = driver->cuMemMap(address, region->size, 0, region->handle, 0);
    if (result != CUDA_SUCCESS) {
        mem_cuda_ignore(driver, driver->cuMemRelease(region->handle),
                        "cuMemRelease");
        return vmm_error(vmm, result, "cuMemMap");
    }
    return UCXPOOL_OK;
}

/* Release the first `num` regions, which are mapped. */
static void regions_release(const mem_regions_t     *regions,
                            const mem_cuda_driver_t *driver, unsigned num)
{
    for (unsigned i = 0; i < num; i++) {
        const mem_region_t *region = &regions->regions[i];

        if (region->fd >= 0) {
            close(region->fd);
        }
        mem_cuda_ignore(
            driver,
            driver->cuMemUnmap((CUdeviceptr)(uintptr_t)region->address,
                               region->size),
            "cuMemUnmap");
        mem_cuda_ignore(driver, driver->cuMemRelease(region->handle),
                        "cuMemRelease");
    }
}

static ucxpool_status_t range_fill(vmm_t *vmm)
{
    ucxpool_status_t status;
    CUresult         result;
    unsigned         index;

    for (index = 0; index < vmm->regions->num_regions; index++) {
        status = region_create(vmm, index);
        if (status != UCXPOOL_OK) {
            goto err_release;
        }
    }
    result = access_set(vmm->device, vmm->address, vmm->size);
    if (result != CUDA_SUCCESS) {
        status = vmm_error(vmm, result, "cuMemSetAccess");
        goto err_release;
    }
    return UCXPOOL_OK;

err_release:
    regions_release(vmm->regions, vmm->device->driver, index);
    return status;
}

static ucxpool_status_t memory_take(vmm_t *vmm)
{
    const mem_cuda_driver_t *driver = vmm->device->driver;
    size_t                   total;
    ucxpool_status_t         status;
    CUresult                 result;

    status = mem_cuda_device_sizes(vmm->device, &vmm->free_size, &total);
    if (status == UCXPOOL_OK) {
        status = granularity_check(vmm);
    }
    if (status != UCXPOOL_OK) {
        return status;
    }
    result = driver->cuMemAddressReserve(&vmm->address, vmm->size, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        return vmm_error(vmm, result, "cuMemAddressReserve");
    }
    status = range_fill(vmm);
    if (status != UCXPOOL_OK) {
        mem_cuda_range_free(driver, vmm->address, vmm->size);
    }
    return status;
}

static ucxpool_status_t no_vmm(const mem_cuda_device_t *device)
{
    return base_error(UCXPOOL_ERR_UNSUPPORTED,
                      "GPU %d (%s) or its driver has no virtual memory "
                      "functions: use cuMemAlloc memory "
                      "(UCXPOOL_CUDA_BACKING=alloc)",
                      device->ordinal, device->name);
}

static ucxpool_status_t vmm_create(mem_regions_t *regions, int huge_pages)
{
    vmm_t              vmm = {.regions = regions};
    mem_cuda_device_t *device;
    ucxpool_status_t   status;

    status = mem_cuda_device_open(regions->device, &device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (!device->has_vmm) {
        status = no_vmm(device);
        goto err_close;
    }
    vmm.device = device;
    vmm.prop   = region_prop_of(device);
    vmm.size   = mem_regions_size(regions);
    status     = mem_cuda_device_enter(device);
    if (status != UCXPOOL_OK) {
        goto err_close;
    }
    status = memory_take(&vmm);
    mem_cuda_device_leave(device);
    if (status != UCXPOOL_OK) {
        goto err_close;
    }
    regions->cuda      = device;
    regions->address   = (void *)(uintptr_t)vmm.address;
    regions->page_size = regions->region_size;
    return UCXPOOL_OK;

err_close:
    mem_cuda_device_close(device);
    return status;
}

static void vmm_destroy(mem_regions_t *regions)
{
    mem_cuda_device_t *device     = regions->cuda;
    bool               is_entered = mem_cuda_device_enter(device) == UCXPOOL_OK;

    regions_release(regions, device->driver, regions->num_regions);
    mem_cuda_range_free(device->driver,
                        (CUdeviceptr)(uintptr_t)regions->address,
                        mem_regions_size(regions));
    if (is_entered) {
        mem_cuda_device_leave(device);
    }
    mem_cuda_device_close(device);
}

const mem_kind_t mem_kind_cuda_vmm = {
    .name                   = "cuda-vmm",
    .is_gpu                 = true,
    .stitches_whole_regions = true,
    .shares_by_fd           = true,
    .create                 = vmm_create,
    .destroy                = vmm_destroy,
    .stitch                 = vmm_stitch,
    .unstitch               = vmm_unstitch,
    .create_vmm             = mem_vmm_create_cuda,
};

/* --- the virtual memory of a heap -------------------------------------------
 * Each function enters the device's context, calls the driver and leaves the
 * context. A mem_chunk_t is the driver's handle of a physical allocation.
 */

typedef struct heap_vmm {
    mem_vmm_t                vmm;
    const mem_cuda_device_t *device;
    CUmemAllocationProp      prop;
    pthread_mutex_t          lock; /* of the members below */
    mem_fence_t             *free_fences;
    size_t                   num_fences; /* fences in use */
} heap_vmm_t;

static heap_vmm_t *cuda_of(mem_vmm_t *vmm)
{
    return base_container_of(vmm, heap_vmm_t, vmm);
}

/* --- fences --------------------------------------------------------------- */

/* A driver event, which is reused. */
struct mem_fence {
    CUevent      event;
    mem_fence_t *next; /* among free fences */
};

static ucxpool_status_t fence_error(const heap_vmm_t *cuda, CUresult result,
                                    const char *what)
{
    return mem_cuda_error(cuda->device->driver, result,
                          "%s for the heap of GPU %d (%s)", what,
                          cuda->device->ordinal, cuda->device->name);
}

/* Destroy all fences. If the context has been destroyed, its events have been
 * destroyed too. */
static void fences_destroy(heap_vmm_t *cuda)
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

/* Take a free fence. Returns NULL if no fence is free. */
static mem_fence_t *fence_take(heap_vmm_t *cuda)
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

static void heap_fence_put(mem_vmm_t *vmm, mem_fence_t *fence)
{
    heap_vmm_t *cuda = cuda_of(vmm);

    pthread_mutex_lock(&cuda->lock);
    fence->next       = cuda->free_fences;
    cuda->free_fences = fence;
    assert(cuda->num_fences > 0);
    cuda->num_fences--;
    pthread_mutex_unlock(&cuda->lock);
}

/* Call this function and the next one between enter and leave. */
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
        return fence_error(cuda, result, "cuEventCreate");
    }
    pthread_mutex_lock(&cuda->lock);
    cuda->num_fences++;
    pthread_mutex_unlock(&cuda->lock);
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
        return fence_error(cuda, result, "cuEventRecord in a stream");
    }
    *fence_p = fence;
    return UCXPOOL_OK;
}

static ucxpool_status_t heap_fence_set(mem_vmm_t *vmm, void *stream,
                                       mem_fence_t **fence_p)
{
    heap_vmm_t      *cuda   = cuda_of(vmm);
    ucxpool_status_t status = mem_cuda_device_enter(cuda->device);

    if (status == UCXPOOL_OK) {
        status = fence_record(cuda, stream, fence_p);
        mem_cuda_device_leave(cuda->device);
    }
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
    const heap_vmm_t *cuda   = cuda_of(vmm);
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

static ucxpool_status_t heap_fence_sync(mem_vmm_t *vmm, mem_fence_t *fence)
{
    const heap_vmm_t *cuda   = cuda_of(vmm);
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

/* --- chunks and mappings -------------------------------------------------- */

static CUdeviceptr number_of(const void *address)
{
    return (CUdeviceptr)(uintptr_t)address;
}

/* Leave the context and convert the result of the call. */
static ucxpool_status_t call_end(const heap_vmm_t *cuda, CUresult result,
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
    heap_vmm_t      *cuda    = cuda_of(vmm);
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

static void heap_release(mem_vmm_t *vmm, void *address, size_t size)
{
    const mem_cuda_device_t *device = cuda_of(vmm)->device;
    bool is_entered = mem_cuda_device_enter(device) == UCXPOOL_OK;

    mem_cuda_range_free(device->driver, number_of(address), size);
    if (is_entered) {
        mem_cuda_device_leave(device);
    }
}

static ucxpool_status_t heap_chunk_create(mem_vmm_t *vmm, size_t size,
                                          mem_chunk_t *chunk_p)
{
    heap_vmm_t                  *cuda   = cuda_of(vmm);
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

static void heap_chunk_destroy(mem_vmm_t *vmm, mem_chunk_t chunk, size_t size)
{
    const mem_cuda_device_t *device = cuda_of(vmm)->device;
    bool is_entered = mem_cuda_device_enter(device) == UCXPOOL_OK;

    mem_cuda_ignore(device->driver, device->driver->cuMemRelease(chunk),
                    "cuMemRelease");
    if (is_entered) {
        mem_cuda_device_leave(device);
    }
}

static ucxpool_status_t heap_map(mem_vmm_t *vmm, void *address,
                                 mem_chunk_t chunk, size_t size)
{
    heap_vmm_t      *cuda   = cuda_of(vmm);
    ucxpool_status_t status = mem_cuda_device_enter(cuda->device);

    if (status == UCXPOOL_OK) {
        status = call_end(cuda,
                          cuda->device->driver->cuMemMap(number_of(address),
                                                         size, 0, chunk, 0),
                          "cuMemMap", size);
    }
    return status;
}

static ucxpool_status_t heap_allow(mem_vmm_t *vmm, void *address, size_t size)
{
    heap_vmm_t      *cuda   = cuda_of(vmm);
    ucxpool_status_t status = mem_cuda_device_enter(cuda->device);

    if (status == UCXPOOL_OK) {
        status =
            call_end(cuda, access_set(cuda->device, number_of(address), size),
                     "cuMemSetAccess", size);
    }
    return status;
}

static ucxpool_status_t heap_unmap(mem_vmm_t *vmm, void *address, size_t size)
{
    heap_vmm_t      *cuda   = cuda_of(vmm);
    ucxpool_status_t status = mem_cuda_device_enter(cuda->device);

    if (status == UCXPOOL_OK) {
        status = call_end(
            cuda, cuda->device->driver->cuMemUnmap(number_of(address), size),
            "cuMemUnmap", size);
    }
    return status;
}

static ucxpool_status_t heap_sizes(mem_vmm_t *vmm, uint64_t *total_p,
                                   uint64_t *free_p)
{
    const mem_cuda_device_t *device = cuda_of(vmm)->device;
    size_t                   free_size, total;
    ucxpool_status_t         status = mem_cuda_device_enter(device);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = mem_cuda_device_sizes(device, &free_size, &total);
    mem_cuda_device_leave(device);
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
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "GPU %d (%s) cannot have a heap: the GPU or its "
                          "driver has no virtual memory functions",
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
    cuda->prop   = prop_of(device);
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
