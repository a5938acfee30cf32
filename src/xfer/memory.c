#include "xfer/memory.h"

#include "base/error.h"
#include "base/log.h"
#include "mem/cuda_backing.h"
#include "mem/reg_ucx.h"
#include "xfer/engine.h"

#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1024 * 1024)

/* Blocks of a pool whose BLOCK_SIZE is auto, at the least. */
#define MIN_BLOCKS 8u

/* Pinned blocks for a UCX that does not know the GPU's memory. */
#define PINNED_SIZE       (64 * MIB)
#define PINNED_BLOCK_SIZE (4 * MIB)

ucxpool_memory_kind_t xfer_memory_kind(const ucxpool_params_t *params)
{
    return (params->field_mask & UCXPOOL_PARAM_FIELD_MEMORY_KIND)
               ? params->memory_kind
               : UCXPOOL_MEMORY_HOST;
}

/* What UCXPOOL_COMM_SIZE=auto means: 500 MiB, less where memory is small. */
static size_t auto_comm_size(const mem_cuda_device_t *device)
{
    size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) *
                    (size_t)sysconf(_SC_PAGESIZE);

    if (device != NULL) {
        memory = device->total_size;
    }
    return base_min(500 * MIB, memory / 32);
}

/* UCXPOOL_BLOCK_SIZE=auto: long ones where a GPU's link wants long fragments;
 * several in any case. */
static size_t auto_block_size(const base_config_t *config, bool is_gpu)
{
    size_t most = is_gpu ? 32 * MIB : 4 * MIB;
    /* A GPU's memory comes in pages of this size. */
    size_t size = is_gpu ? 2 * MIB : 4096;

    while ((size < most) && (size * 2 * MIN_BLOCKS <= config->comm_size) &&
           ((config->region_size == BASE_SIZE_AUTO) ||
            (config->region_size % (size * 2) == 0))) {
        size *= 2;
    }
    return size;
}

/* Few regions make few registrations; one that is too large may not be had.
 * Virtual memory of a GPU is mapped side by side only by whole regions. */
static size_t auto_region_size(const base_config_t *config,
                               const mem_kind_t    *kind)
{
    size_t size = base_max(64 * MIB, config->block_size);

    if (kind == &mem_kind_cuda_vmm) {
        return config->block_size;
    }
    return base_min(size, base_align_up(config->comm_size, config->block_size));
}

static ucxpool_status_t settle_sizes(base_config_t           *config,
                                     const mem_cuda_device_t *device,
                                     const mem_kind_t        *kind,
                                     unsigned                *num_regions_p)
{
    bool   is_auto = config->comm_size == BASE_SIZE_AUTO;
    size_t num_regions;

    if (is_auto) {
        config->comm_size = auto_comm_size(device);
    }
    if (config->comm_size > SIZE_MAX / 4) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "UCXPOOL_COMM_SIZE is without limit: give a size, "
                          "for example 500m");
    }
    if (config->block_size == BASE_SIZE_AUTO) {
        config->block_size = auto_block_size(config, device != NULL);
    }
    if (is_auto) {
        config->comm_size = base_max(
            config->comm_size & ~(config->block_size - 1),
            4 * config->block_size);
    }
    if (config->region_size == BASE_SIZE_AUTO) {
        config->region_size = auto_region_size(config, kind);
    }
    num_regions = base_max(config->comm_size / config->region_size, (size_t)1);
    if (num_regions > UINT16_MAX) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "UCXPOOL_COMM_SIZE=%zu is %zu regions of "
                          "UCXPOOL_REGION_SIZE=%zu: make regions larger",
                          config->comm_size, num_regions, config->region_size);
    }
    *num_regions_p = (unsigned)num_regions;
    return base_config_check(config);
}

/* Memory that UCX is given. */
static ucxpool_status_t create_regions(ucxpool_t *pool, mem_regions_t *regions,
                                       const mem_kind_t *kind, int device,
                                       unsigned num_regions, size_t region_size,
                                       bool is_registered)
{
    ucxpool_status_t status;

    status = mem_regions_init(regions, kind, device, num_regions,
                                   region_size, (int)pool->config.huge_pages);
    if ((status != UCXPOOL_OK) || !is_registered) {
        return status;
    }
    status = mem_reg_ucx_regions(regions, pool->context);
    if (status != UCXPOOL_OK) {
        mem_regions_cleanup(regions);
        return status;
    }
    pool->stats.registrations += regions->num_regions;
    return UCXPOOL_OK;
}

static void destroy_regions(ucxpool_t *pool, mem_regions_t *regions)
{
    mem_dereg_ucx_regions(regions, pool->context);
    mem_regions_cleanup(regions);
}

static ucxpool_status_t create_blocks(ucxpool_t *pool)
{
    block_pool_params_t params = {
        .regions    = &pool->regions,
        .block_size = pool->config.block_size,
        .send_share = pool->config.send_share,
        .recv_share = pool->config.recv_share,
    };
    ucxpool_status_t status = block_pool_create(&params, &pool->blocks);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = block_comm_create(pool->blocks, &pool->comm);
    if (status != UCXPOOL_OK) {
        block_pool_destroy(pool->blocks);
        return status;
    }
    pool->ucx_blocks = pool->blocks;
    return UCXPOOL_OK;
}

static void destroy_blocks(ucxpool_t *pool)
{
    block_comm_destroy(pool->comm);
    block_pool_destroy(pool->blocks);
}

static ucxpool_status_t create_host(ucxpool_t *pool)
{
    unsigned         num_regions;
    ucxpool_status_t status;

    status = settle_sizes(&pool->config, NULL, &mem_kind_host, &num_regions);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = create_regions(pool, &pool->regions, &mem_kind_host, -1,
                            num_regions, pool->config.region_size, true);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = create_blocks(pool);
    if (status != UCXPOOL_OK) {
        destroy_regions(pool, &pool->regions);
    }
    return status;
}

/* Pinned blocks beside those of the GPU. */
static ucxpool_status_t create_pinned(ucxpool_t *pool, int device)
{
    block_pool_params_t params = {
        .regions    = &pool->pinned_regions,
        .block_size = PINNED_BLOCK_SIZE,
        .send_share = 50,
        .recv_share = 50,
    };
    ucxpool_status_t status;

    status = create_regions(pool, &pool->pinned_regions, &mem_kind_cuda_host,
                            device, 1, PINNED_SIZE, true);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = block_pool_create(&params, &pool->ucx_blocks);
    if (status != UCXPOOL_OK) {
        destroy_regions(pool, &pool->pinned_regions);
    }
    return status;
}

static ucxpool_status_t create_on_gpu(ucxpool_t *pool,
                                      const mem_cuda_device_t  *device,
                                      const mem_cuda_backing_t *backing)
{
    unsigned         num_regions;
    ucxpool_status_t status;

    status = settle_sizes(&pool->config, device, backing->kind, &num_regions);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = create_regions(pool, &pool->regions, backing->kind,
                            device->ordinal, num_regions,
                            pool->config.region_size, backing->ucx_takes_it);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = create_blocks(pool);
    if (status != UCXPOOL_OK) {
        goto err_destroy_regions;
    }
    if (!backing->ucx_takes_it) {
        status = create_pinned(pool, device->ordinal);
        if (status != UCXPOOL_OK) {
            goto err_destroy_blocks;
        }
    }
    return UCXPOOL_OK;

err_destroy_blocks:
    destroy_blocks(pool);
err_destroy_regions:
    destroy_regions(pool, &pool->regions);
    return status;
}

/* The GPU of the thread's current context, or the first. */
static ucxpool_status_t default_device(int *ordinal_p)
{
    const mem_cuda_driver_t *driver;
    CUdevice                 device;
    CUdevice                 candidate;
    int                      num_devices = 0;
    ucxpool_status_t         status      = mem_cuda_driver_get(&driver);

    *ordinal_p = 0;
    if ((status != UCXPOOL_OK) ||
        (driver->cuCtxGetDevice(&device) != CUDA_SUCCESS) ||
        (driver->cuDeviceGetCount(&num_devices) != CUDA_SUCCESS)) {
        return status;
    }
    for (int i = 0; i < num_devices; i++) {
        if ((driver->cuDeviceGet(&candidate, i) == CUDA_SUCCESS) &&
            (candidate == device)) {
            *ordinal_p = i;
        }
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t open_device(const ucxpool_params_t *params,
                                    mem_cuda_device_t     **device_p)
{
    int              ordinal;
    ucxpool_status_t status;

    if (params->field_mask & UCXPOOL_PARAM_FIELD_DEVICE) {
        ordinal = params->device;
    } else {
        status = default_device(&ordinal);
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    return mem_cuda_device_open(ordinal, device_p);
}

static ucxpool_status_t create_gpu(ucxpool_t              *pool,
                                   const ucxpool_params_t *params)
{
    mem_cuda_device_t *device;
    mem_cuda_backing_t backing;
    ucxpool_status_t   status;

    if (pool->config.checksum != BASE_CHECKSUM_NONE) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "UCXPOOL_CHECKSUM=crc32c is for pools of host memory "
                          "only: set it to none");
    }
    status = open_device(params, &device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = mem_cuda_backing_choose(device, pool->context,
                                     (int)pool->config.cuda_backing, &backing);
    if (status != UCXPOOL_OK) {
        goto err_close_device;
    }
    status = create_on_gpu(pool, device, &backing);
    if (status != UCXPOOL_OK) {
        goto err_close_device;
    }
    status = xfer_engine_create(device, &pool->engine);
    if (status != UCXPOOL_OK) {
        xfer_memory_deregister(pool);
        xfer_memory_cleanup(pool);
        goto err_close_device;
    }
    pool->needs_registration = true;
    base_info("%s: GPU %d (%s): %s", pool->name, device->ordinal, device->name,
              backing.reason);
    return UCXPOOL_OK;

err_close_device:
    mem_cuda_device_close(device);
    return status;
}

ucxpool_status_t xfer_memory_init(ucxpool_t              *pool,
                                  const ucxpool_params_t *params)
{
    switch (xfer_memory_kind(params)) {
    case UCXPOOL_MEMORY_HOST:
        return create_host(pool);
    case UCXPOOL_MEMORY_CUDA:
        return create_gpu(pool, params);
    default:
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "there is no memory kind %d",
                          (int)params->memory_kind);
    }
}

void xfer_memory_deregister(ucxpool_t *pool)
{
    if (pool->ucx_blocks != pool->blocks) {
        block_pool_destroy(pool->ucx_blocks);
        mem_dereg_ucx_regions(&pool->pinned_regions, pool->context);
    }
    destroy_blocks(pool);
    mem_dereg_ucx_regions(&pool->regions, pool->context);
}

void xfer_memory_cleanup(ucxpool_t *pool)
{
    mem_regions_cleanup(&pool->pinned_regions);
    mem_regions_cleanup(&pool->regions);
    xfer_engine_destroy(pool->engine);
}
