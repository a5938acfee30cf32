/*
 * Regions of GPU memory from the driver's virtual memory functions: one
 * physical allocation per region, all mapped once and contiguously in one
 * reserved range.
 *
 * A physical allocation is always mapped as a whole, because the driver
 * supports no offset into it. Only whole regions can be stitched. Unmapping and
 * releasing need no context.
 */
#include "base/error.h"
#include "base/log.h"
#include "mem/cuda_device.h"
#include "mem/cuda_driver.h"
#include "mem/region.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

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
    return mem_cuda_access_set(regions->cuda, address, num_pieces * size, true);
}

static ucxpool_status_t stitch_error(const mem_regions_t *regions,
                                     CUresult result, size_t num_pieces)
{
    return mem_cuda_device_status(regions->cuda, result,
                                  "mapping %zu regions contiguously on",
                                  num_pieces);
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
        return stitch_error(regions, result, num_pieces);
    }
    result = pieces_map(regions, pieces, num_pieces, address, &num_mapped);
    if (result != CUDA_SUCCESS) {
        goto err_unmap;
    }
    *address_p = address;
    return UCXPOOL_OK;

err_unmap:
    if (num_mapped != 0) {
        mem_cuda_try(driver, cuMemUnmap, address,
                     num_mapped * regions->region_size);
    }
    mem_cuda_try(driver, cuMemAddressFree, address, size);
    return stitch_error(regions, result, num_pieces);
}

static ucxpool_status_t vmm_stitch(const mem_regions_t *regions,
                                   const mem_piece_t *pieces, size_t num_pieces,
                                   void **address_p)
{
    CUdeviceptr      address = 0;
    ucxpool_status_t status;

    mem_cuda_device_do(regions->cuda, status,
                       range_stitch(regions, pieces, num_pieces, &address));
    if (status == UCXPOOL_OK) {
        *address_p = (void *)(uintptr_t)address;
    }
    return status;
}

static void vmm_unstitch(const mem_regions_t *regions, void *address,
                         size_t size)
{
    const mem_cuda_driver_t *driver = regions->cuda->driver;

    mem_cuda_try(driver, cuMemUnmap, (CUdeviceptr)(uintptr_t)address, size);
    mem_cuda_try(driver, cuMemAddressFree, (CUdeviceptr)(uintptr_t)address,
                 size);
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

/* Like mem_cuda_allocation_prop(), but the memory can also be exported to other
 * hosts, if supported. */
static CUmemAllocationProp region_prop_of(const mem_cuda_device_t *device)
{
    CUmemAllocationProp prop  = mem_cuda_allocation_prop(device);
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

/* Create the memory of a region. Even where fabric handles are supported, they
 * may not be permitted. If the driver rejects them, this and the remaining
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
        mem_cuda_try(driver, cuMemRelease, region->handle);
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
        mem_cuda_try(driver, cuMemUnmap,
                     (CUdeviceptr)(uintptr_t)region->address, region->size);
        mem_cuda_try(driver, cuMemRelease, region->handle);
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
    result = mem_cuda_access_set(vmm->device, vmm->address, vmm->size, true);
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
        mem_cuda_try(driver, cuMemAddressFree, vmm->address, vmm->size);
    }
    return status;
}

static ucxpool_status_t vmm_create(mem_regions_t *regions, int huge_pages)
{
    const mem_cuda_device_t *device = regions->cuda;
    ucxpool_status_t         status;

    vmm_t vmm = {
        .regions = regions,
        .device  = device,
        .prop    = region_prop_of(device),
        .size    = mem_regions_size(regions),
    };

    if (!device->has_vmm) {
        return mem_cuda_no_vmm(
            device, "UCXPOOL_CUDA_BACKING=vmm needs: set it to alloc");
    }
    status = memory_take(&vmm);
    if (status == UCXPOOL_OK) {
        regions->address   = (void *)(uintptr_t)vmm.address;
        regions->page_size = regions->region_size;
    }
    return status;
}

static void vmm_destroy(mem_regions_t *regions)
{
    const mem_cuda_driver_t *driver = regions->cuda->driver;

    regions_release(regions, driver, regions->num_regions);
    mem_cuda_try(driver, cuMemAddressFree,
                 (CUdeviceptr)(uintptr_t)regions->address,
                 mem_regions_size(regions));
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
};
