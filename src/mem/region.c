#include "mem/region.h"

#include "base/error.h"
#include "base/math.h"
#include "mem/cuda_device.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Create the regions, in the context of their GPU if they have one. */
static ucxpool_status_t create(mem_regions_t *regions, int huge_pages)
{
    ucxpool_status_t status;

    if (regions->cuda == NULL) {
        return regions->kind->create(regions, huge_pages);
    }
    mem_cuda_device_do(regions->cuda, status,
                       regions->kind->create(regions, huge_pages));
    return status;
}

ucxpool_status_t mem_regions_init(mem_regions_t    *regions,
                                  const mem_kind_t *kind, int device,
                                  unsigned num_regions, size_t region_size,
                                  int huge_pages)
{
    ucxpool_status_t status;
    size_t           size;

    memset(regions, 0, sizeof(*regions));
    if ((num_regions == 0) || (region_size == 0) ||
        !base_mul(num_regions, region_size, &size)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%u regions of %zu bytes are not a valid size: set "
                          "UCXPOOL_COMM_SIZE and UCXPOOL_REGION_SIZE so that "
                          "there is at least one region and the total does not "
                          "overflow",
                          num_regions, region_size);
    }
    regions->kind        = kind;
    regions->device      = device;
    regions->num_regions = num_regions;
    regions->region_size = region_size;
    regions->regions     = calloc(num_regions, sizeof(*regions->regions));
    if (regions->regions == NULL) {
        status =
            base_error(UCXPOOL_ERR_NO_MEMORY,
                       "no memory for the list of %u regions", num_regions);
        goto err_clear;
    }
    if (device >= 0) {
        status = mem_cuda_device_open(device, &regions->cuda);
        if (status != UCXPOOL_OK) {
            goto err_free_list;
        }
    }
    status = create(regions, huge_pages);
    if (status != UCXPOOL_OK) {
        goto err_close_device;
    }
    return UCXPOOL_OK;

err_close_device:
    mem_cuda_device_close(regions->cuda);
err_free_list:
    free(regions->regions);
err_clear:
    memset(regions, 0, sizeof(*regions));
    return status;
}

static const mem_kind_t kind_none = {.name = "none"};

ucxpool_status_t mem_regions_init_none(mem_regions_t *regions, int device)
{
    ucxpool_status_t status = UCXPOOL_OK;

    memset(regions, 0, sizeof(*regions));
    if (device >= 0) {
        status = mem_cuda_device_open(device, &regions->cuda);
    }
    if (status == UCXPOOL_OK) {
        regions->kind   = &kind_none;
        regions->device = device;
    }
    return status;
}

size_t mem_pieces_size(const mem_regions_t *regions, const mem_piece_t *pieces,
                       size_t num_pieces)
{
    size_t size = 0;

    for (size_t i = 0; i < num_pieces; i++) {
        assert(pieces[i].region < regions->num_regions);
        assert(pieces[i].length != 0);
        assert(pieces[i].length <= regions->region_size);
        assert(pieces[i].offset <= regions->region_size - pieces[i].length);
        assert((pieces[i].offset | pieces[i].length) % regions->page_size == 0);
        size += pieces[i].length;
    }
    return size;
}

bool mem_regions_are_on_gpu(const mem_regions_t *regions)
{
    return (regions->kind != NULL) && regions->kind->is_gpu;
}

void mem_regions_cleanup(mem_regions_t *regions)
{
    if (regions->kind != NULL) {
        if (regions->num_regions != 0) {
            regions->kind->destroy(regions);
        }
        mem_cuda_device_close(regions->cuda);
        free(regions->regions);
        memset(regions, 0, sizeof(*regions));
    }
}
