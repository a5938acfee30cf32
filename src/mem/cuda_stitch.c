/*
 * Stitching of GPU memory: physical allocations mapped a second time, in
 * another order.
 */
#include <config.h>

#include "mem/cuda_driver.h"
#include "mem/cuda_vmm.h"

#include <assert.h>
#include <stdint.h>

CUresult mem_cuda_access_set(const mem_cuda_device_t *device,
                             CUdeviceptr address, size_t size)
{
    CUmemAccessDesc desc = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id   = device->device;
    return device->driver->cuMemSetAccess(address, size, &desc, 1);
}

void mem_cuda_range_free(const mem_cuda_driver_t *driver, CUdeviceptr address,
                         size_t size)
{
    mem_cuda_ignore(driver, driver->cuMemAddressFree(address, size),
                    "cuMemAddressFree");
}

/* Map the pieces, which are whole regions; *num_p are mapped after an error
 * too. */
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
    return mem_cuda_access_set(regions->cuda, address, num_pieces * size);
}

static ucxpool_status_t stitch_error(const mem_cuda_device_t *device,
                                     CUresult result, size_t num_pieces)
{
    return mem_cuda_error(device->driver, result,
                          "mapping %zu regions of GPU %d (%s) side by side",
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

ucxpool_status_t mem_cuda_stitch(const mem_regions_t *regions,
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

void mem_cuda_unstitch(const mem_regions_t *regions, void *address, size_t size)
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
