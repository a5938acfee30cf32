/* Memory that the CUDA driver allocates or pins in one call. */
#include "base/error.h"
#include "mem/cuda_device.h"
#include "mem/cuda_driver.h"
#include "mem/cuda_pinned.h"
#include "mem/region.h"

#include <stdint.h>

/* --- memory by cuMemAlloc ------------------------------------------------- */

/*
 * Every CUDA-capable UCX can share this memory. The driver chooses the
 * addresses, so separate allocations are not contiguous. All requested regions
 * therefore become one region.
 */

static ucxpool_status_t alloc_create(mem_regions_t *regions, int huge_pages)
{
    const mem_cuda_device_t *device = regions->cuda;
    size_t                   size   = mem_regions_size(regions);
    size_t                   free_size, total;
    CUdeviceptr              address;
    ucxpool_status_t         status;
    CUresult                 result;

    status = mem_cuda_device_sizes(device, &free_size, &total);
    if (status != UCXPOOL_OK) {
        return status;
    }
    result = device->driver->cuMemAlloc(&address, size);
    if (result != CUDA_SUCCESS) {
        return mem_cuda_device_error(device, result, "cuMemAlloc", size,
                                     free_size);
    }
    regions->address     = (void *)(uintptr_t)address;
    regions->region_size = size;
    regions->page_size   = 1;
    regions->num_regions = 1;
    regions->regions[0] =
        (mem_region_t){.address = regions->address, .size = size, .fd = -1};
    return UCXPOOL_OK;
}

static void alloc_destroy(mem_regions_t *regions)
{
    mem_cuda_device_try(regions->cuda, cuMemFree,
                        (CUdeviceptr)(uintptr_t)regions->address);
}

static ucxpool_status_t alloc_stitch(const mem_regions_t *regions,
                                     const mem_piece_t   *pieces,
                                     size_t num_pieces, void **address_p)
{
    return base_error(UCXPOOL_ERR_NO_BLOCKS,
                      "%zu pieces of cuMemAlloc memory cannot be mapped "
                      "contiguously: free other buffers or set "
                      "UCXPOOL_CUDA_BACKING=vmm",
                      num_pieces);
}

static void alloc_unstitch(const mem_regions_t *regions, void *address,
                           size_t size)
{
}

const mem_kind_t mem_kind_cuda_alloc = {
    .name          = "cuda-alloc",
    .is_gpu        = true,
    .is_one_region = true,
    .create        = alloc_create,
    .destroy       = alloc_destroy,
    .stitch        = alloc_stitch,
    .unstitch      = alloc_unstitch,
};

/* --- pinned host memory --------------------------------------------------- */

/*
 * Memory of the host kind that is registered with the CUDA driver, so that
 * kernels and copy engines can access it. The memory consists of memory files,
 * which peers on this host can map.
 */

static ucxpool_status_t host_create(mem_regions_t *regions, int huge_pages)
{
    ucxpool_status_t status = mem_kind_host.create(regions, huge_pages);

    if (status != UCXPOOL_OK) {
        return status;
    }
    /* Pin all regions with one call, because the driver does not copy across
     * the boundary between two pinned ranges. */
    status = mem_cuda_pin(regions->cuda, regions->address,
                          mem_regions_size(regions), false);
    if (status != UCXPOOL_OK) {
        mem_kind_host.destroy(regions);
    }
    return status;
}

static void host_destroy(mem_regions_t *regions)
{
    mem_cuda_unpin(regions->cuda, regions->address);
    mem_kind_host.destroy(regions);
}

/* The driver pins addresses, not pages, so the second mapping must be pinned
 * too. */
static ucxpool_status_t host_stitch(const mem_regions_t *regions,
                                    const mem_piece_t   *pieces,
                                    size_t num_pieces, void **address_p)
{
    size_t           size = mem_pieces_size(regions, pieces, num_pieces);
    void            *address;
    ucxpool_status_t status;

    status = mem_kind_host.stitch(regions, pieces, num_pieces, &address);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = mem_cuda_pin(regions->cuda, address, size, false);
    if (status != UCXPOOL_OK) {
        mem_kind_host.unstitch(regions, address, size);
        return status;
    }
    *address_p = address;
    return UCXPOOL_OK;
}

static void host_unstitch(const mem_regions_t *regions, void *address,
                          size_t size)
{
    mem_cuda_unpin(regions->cuda, address);
    mem_kind_host.unstitch(regions, address, size);
}

const mem_kind_t mem_kind_cuda_host = {
    .name         = "cuda-host",
    .shares_by_fd = true,
    .create       = host_create,
    .destroy      = host_destroy,
    .stitch       = host_stitch,
    .unstitch     = host_unstitch,
};
