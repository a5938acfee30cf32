/*
 * GPU memory by cuMemAlloc, which every UCX that knows CUDA can share. The
 * driver chooses addresses, so that only one allocation lies side by side with
 * itself: it is one region, however many were asked for.
 */
#include <config.h>

#include "base/error.h"
#include "mem/cuda_device.h"
#include "mem/cuda_driver.h"
#include "mem/region.h"

#include <stdint.h>

/* Take the memory. Between enter and leave. */
static ucxpool_status_t memory_take(const mem_cuda_device_t *device,
                                    size_t size, CUdeviceptr *address_p)
{
    size_t           free_size;
    ucxpool_status_t status;
    CUresult         result;

    status = mem_cuda_device_free_size(device, &free_size);
    if (status != UCXPOOL_OK) {
        return status;
    }
    result = device->driver->cuMemAlloc(address_p, size);
    if (result != CUDA_SUCCESS) {
        return mem_cuda_device_error(device, result, "cuMemAlloc", size,
                                     free_size);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t alloc_create(mem_regions_t *regions, int huge_pages)
{
    size_t             size = regions->num_regions * regions->region_size;
    mem_cuda_device_t *device;
    CUdeviceptr        address;
    ucxpool_status_t   status;

    status = mem_cuda_device_open(regions->device, &device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = mem_cuda_device_enter(device);
    if (status != UCXPOOL_OK) {
        goto err_close;
    }
    status = memory_take(device, size, &address);
    mem_cuda_device_leave(device);
    if (status != UCXPOOL_OK) {
        goto err_close;
    }
    regions->cuda        = device;
    regions->address     = (void *)(uintptr_t)address;
    regions->region_size = size;
    regions->page_size   = 1;
    regions->num_regions = 1;
    regions->regions[0] =
        (mem_region_t){.address = regions->address, .size = size, .fd = -1};
    return UCXPOOL_OK;

err_close:
    mem_cuda_device_close(device);
    return status;
}

static void alloc_destroy(mem_regions_t *regions)
{
    mem_cuda_device_t *device = regions->cuda;

    if (mem_cuda_device_enter(device) == UCXPOOL_OK) {
        mem_cuda_ignore(
            device->driver,
            device->driver->cuMemFree((CUdeviceptr)(uintptr_t)regions->address),
            "cuMemFree");
        mem_cuda_device_leave(device);
    }
    mem_cuda_device_close(device);
}

static ucxpool_status_t alloc_stitch(const mem_regions_t *regions,
                                     const mem_piece_t   *pieces,
                                     size_t num_pieces, void **address_p)
{
    return base_error(UCXPOOL_ERR_NO_BLOCKS,
                      "%zu pieces of memory from cuMemAlloc cannot be mapped "
                      "side by side: free other buffers, or set "
                      "UCXPOOL_CUDA_BACKING=vmm",
                      num_pieces);
}

static void alloc_unstitch(const mem_regions_t *regions, void *address,
                           size_t size)
{
}

const mem_kind_t mem_kind_cuda_alloc = {
    .name     = "cuda-alloc",
    .create   = alloc_create,
    .destroy  = alloc_destroy,
    .stitch   = alloc_stitch,
    .unstitch = alloc_unstitch,
};
