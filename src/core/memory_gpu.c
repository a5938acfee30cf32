/* The memory of a pool on a GPU: of the GPU, or pinned, within its budget. */
#include "core/memory_inside.h"

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "base/text.h"
#include "block/backing.h"
#include "block/budget.h"
#include "copy/engine.h"
#include "core/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MIB ((size_t)1024 * 1024)

/* Pinned blocks for a UCX that does not know the GPU's memory: as much as the
 * pool has of the GPU's, within these bounds. */
#define PINNED_SIZE_LEAST (16 * MIB)
#define PINNED_SIZE_MOST  (64 * MIB)
#define PINNED_BLOCK_SIZE (4 * MIB)

/* Pinned blocks beside those of the GPU. */
static ucxpool_status_t create_pinned(ucxpool_t *pool, int device)
{
    const core_degrade_t wish = {
        .sizes         = {.kind    = &mem_kind_cuda_host,
                          .for_gpu = true,
                          .limit   = BLOCK_BUDGET_NONE},
        .device        = device,
        .is_registered = true,
    };
    base_config_t       config = pool->config;
    block_pool_params_t params = {
        .regions    = &pool->pinned_regions,
        .block_size = PINNED_BLOCK_SIZE,
        .send_share = 50,
        .recv_share = 50,
    };
    core_degrade_outcome_t taken;
    ucxpool_status_t       status;

    config.comm_size   = base_max(config.comm_size, PINNED_SIZE_LEAST);
    config.comm_size   = base_min(config.comm_size, PINNED_SIZE_MOST);
    config.block_size  = PINNED_BLOCK_SIZE;
    config.region_size = BASE_SIZE_AUTO;
    config.frag_size   = BASE_SIZE_AUTO;
    config.send_share  = params.send_share;
    config.recv_share  = params.recv_share;
    /* Which is of the GPU's memory. */
    config.memory_limit = BASE_SIZE_AUTO;
    status = core_degrade(pool, &wish, &config, &pool->pinned_regions, &taken);
    if (status != UCXPOOL_OK) {
        return taken.is_short ? base_error(status, "%s", taken.why) : status;
    }
    if (taken.num_failed > 0) {
        base_warn("%s: goes on with %zu pinned blocks for UCX in place of "
                  "%" PRIu64 ": %s",
                  pool->name, config.comm_size / config.block_size,
                  taken.blocks_asked, taken.why);
    }
    status = block_pool_create(&params, &pool->ucx_blocks);
    if (status != UCXPOOL_OK) {
        core_memory_destroy_regions(pool, &pool->pinned_regions);
    }
    return status;
}

/* Pinned host blocks in place of the GPU's: the last step down. */
static ucxpool_status_t take_host_instead(ucxpool_t *pool, core_degrade_t *wish,
                                          const core_degrade_outcome_t *before,
                                          block_backing_t              *backing)
{
    ucxpool_stats_t       *stats = &pool->stats;
    core_degrade_outcome_t taken;
    ucxpool_status_t       status;

    wish->sizes.kind    = &mem_kind_cuda_host;
    wish->sizes.limit   = BLOCK_BUDGET_NONE;
    wish->is_registered = true;
    status = core_degrade(pool, wish, &pool->config, &pool->regions, &taken);
    if (status != UCXPOOL_OK) {
        return taken.is_short ? base_error(status, "%s; and then: %s",
                                           before->why, taken.why)
                              : status;
    }
    backing->kind         = &mem_kind_cuda_host;
    backing->ucx_takes_it = true;
    snprintf(backing->reason, sizeof(backing->reason),
             "pinned host memory, since the GPU's cannot be had");
    stats->degraded_to  = UCXPOOL_DEGRADED_PINNED;
    stats->bytes_asked  = before->bytes_asked;
    stats->blocks_asked = before->blocks_asked;
    stats->degradations = before->num_failed;
    snprintf(stats->degraded_why, sizeof(stats->degraded_why), "%.191s",
             before->why);
    base_warn("%s: goes on with %zu bytes of pinned host memory in place of "
              "%zu of the GPU (%u attempts failed): %s",
              pool->name, taken.bytes_asked, before->bytes_asked,
              before->num_failed, before->why);
    core_memory_report(pool, &pool->regions, &taken);
    return UCXPOOL_OK;
}

/* The window has less room than any pool needs. */
static bool is_window_full(const base_config_t    *config,
                           const core_degrade_t   *wish,
                           core_degrade_outcome_t *taken)
{
    size_t floor;

    floor = block_sizes_floor(config, config, true);
    if (!wish->is_registered || (config->comm_size != BASE_SIZE_AUTO) ||
        (wish->sizes.limit >= floor)) {
        return false;
    }
    memset(taken, 0, sizeof(*taken));
    taken->is_short     = true;
    taken->bytes_asked  = floor;
    taken->blocks_asked = floor / BLOCK_SIZES_GPU_PAGE;
    snprintf(taken->why, sizeof(taken->why),
             "the GPU's BAR1 has room for %" PRIu64 " bytes, and a pool needs "
             "%zu: close other programs, lower UCXPOOL_COMM_RESERVE, or give "
             "UCXPOOL_COMM_SIZE in bytes",
             wish->sizes.limit, floor);
    return true;
}

/* As far as somebody asks: NVIDIA's library takes its time. */
static ucxpool_status_t find_limit(ucxpool_t               *pool,
                                   const mem_cuda_device_t *device,
                                   const mem_kind_t *kind, uint64_t *limit_p)
{
    block_budget_t   budget;
    mem_bar_t        bar;
    ucxpool_status_t status;

    *limit_p = BLOCK_BUDGET_NONE;
    if ((pool->config.comm_size != BASE_SIZE_AUTO) ||
        (kind == &mem_kind_cuda_host)) {
        return UCXPOOL_OK;
    }
    status = block_budget_query(&pool->config, device->name, device->bus_id,
                                &bar, &budget);
    if (status != UCXPOOL_OK) {
        return status;
    }
    *limit_p = budget.limit;
    if (budget.limit != BLOCK_BUDGET_NONE) {
        pool->stats.budget_bytes = budget.limit;
        base_info("%s: blocks may take %" PRIu64 " bytes of %" PRIu64
                  " in the BAR1 of GPU %d (%s): %s",
                  pool->name, budget.limit, bar.size, device->ordinal,
                  device->name, budget.usable_from);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t take_on_gpu(ucxpool_t               *pool,
                                    const mem_cuda_device_t *device,
                                    block_backing_t         *backing)
{
    core_degrade_t wish = {
        .sizes         = {.kind        = backing->kind,
                          .for_gpu     = true,
                          .memory_size = device->total_size},
        .device        = device->ordinal,
        .is_registered = backing->ucx_takes_it,
    };
    core_degrade_outcome_t taken;
    ucxpool_status_t       status;

    status = find_limit(pool, device, backing->kind, &wish.sizes.limit);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (is_window_full(&pool->config, &wish, &taken)) {
        status = UCXPOOL_ERR_NO_MEMORY;
    } else {
        status =
            core_degrade(pool, &wish, &pool->config, &pool->regions, &taken);
    }
    if (status == UCXPOOL_OK) {
        core_memory_report(pool, &pool->regions, &taken);
        return UCXPOOL_OK;
    }
    if (!taken.is_short) {
        return status;
    }
    if (pool->config.comm_strict ||
        (pool->config.cuda_backing != BASE_BACKING_AUTO)) {
        return base_error(status, "%s", taken.why);
    }
    return take_host_instead(pool, &wish, &taken, backing);
}

static ucxpool_status_t create_on_gpu(ucxpool_t               *pool,
                                      const mem_cuda_device_t *device,
                                      block_backing_t         *backing)
{
    ucxpool_status_t status;

    status = take_on_gpu(pool, device, backing);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = core_memory_create_blocks(pool);
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
    core_memory_destroy_blocks(pool);
err_destroy_regions:
    core_memory_destroy_regions(pool, &pool->regions);
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

ucxpool_status_t core_memory_create_gpu(ucxpool_t              *pool,
                                        const ucxpool_params_t *params)
{
    mem_cuda_device_t *device;
    block_backing_t    backing;
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
    if (pool->config.comm_size == 0) {
        status = core_memory_create_none(pool, device->ordinal);
        mem_cuda_device_close(device);
        return status;
    }
    status = block_backing_choose(device, pool->ucx.context,
                                  (int)pool->config.cuda_backing, &backing);
    if (status != UCXPOOL_OK) {
        goto err_close_device;
    }
    status = create_on_gpu(pool, device, &backing);
    if (status != UCXPOOL_OK) {
        goto err_close_device;
    }
    status = copy_engine_create(device, &pool->engine);
    if (status != UCXPOOL_OK) {
        core_memory_deregister(pool);
        core_memory_cleanup(pool);
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
