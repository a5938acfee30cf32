#include "core/memory.h"

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "block/budget.h"
#include "copy/engine.h"
#include "core/memory_inside.h"
#include "ucx/reg.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

ucxpool_memory_kind_t core_memory_kind(const ucxpool_params_t *params)
{
    return (params->field_mask & UCXPOOL_PARAM_FIELD_MEMORY_KIND)
               ? params->memory_kind
               : UCXPOOL_MEMORY_HOST;
}

/* The machine's own. */
static uint64_t host_memory_size(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void core_memory_destroy_regions(ucxpool_t *pool, mem_regions_t *regions)
{
    ucx_dereg_regions(regions, pool->ucx.context);
    mem_regions_cleanup(regions);
}

ucxpool_status_t core_memory_create_blocks(ucxpool_t *pool)
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

void core_memory_destroy_blocks(ucxpool_t *pool)
{
    block_comm_destroy(pool->comm);
    block_pool_destroy(pool->blocks);
}

static void warn_of_less(const ucxpool_t *pool, size_t size,
                         const core_degrade_outcome_t *taken)
{
    char asked[BASE_FORMAT_SIZE], asked_block[BASE_FORMAT_SIZE];
    char got[BASE_FORMAT_SIZE], block[BASE_FORMAT_SIZE];

    base_format_size(taken->bytes_asked, asked);
    base_format_size(taken->bytes_asked / taken->blocks_asked, asked_block);
    base_format_size(size, got);
    base_format_size(pool->config.block_size, block);
    base_warn("%s: goes on with %s, %zu blocks of %s, in place of %s, %" PRIu64
              " of %s, after %u attempts that failed: %s",
              pool->name, got, size / pool->config.block_size, block, asked,
              taken->blocks_asked, asked_block, taken->num_failed, taken->why);
}

void core_memory_report(ucxpool_t *pool, const mem_regions_t *regions,
                        const core_degrade_outcome_t *taken)
{
    size_t           size  = regions->num_regions * regions->region_size;
    ucxpool_stats_t *stats = &pool->stats;

    stats->degradations += taken->num_failed;
    if (stats->degraded_to == UCXPOOL_DEGRADED_NONE) {
        stats->bytes_asked  = taken->bytes_asked;
        stats->blocks_asked = taken->blocks_asked;
    }
    if (taken->num_failed == 0) {
        return;
    }
    if (stats->degraded_to == UCXPOOL_DEGRADED_NONE) {
        stats->degraded_to = UCXPOOL_DEGRADED_FEWER;
        snprintf(stats->degraded_why, sizeof(stats->degraded_why), "%.191s",
                 taken->why);
    }
    warn_of_less(pool, size, taken);
}

ucxpool_status_t core_memory_create_none(ucxpool_t *pool, int device)
{
    ucxpool_status_t status = mem_regions_init_none(&pool->regions, device);

    if (status != UCXPOOL_OK) {
        return status;
    }
    pool->config.block_size  = (size_t)sysconf(_SC_PAGESIZE);
    pool->config.region_size = pool->config.block_size;
    status                   = core_memory_create_blocks(pool);
    if (status != UCXPOOL_OK) {
        mem_regions_cleanup(&pool->regions);
    }
    return status;
}

ucxpool_status_t core_memory_check(const ucxpool_t *pool)
{
    if (pool->regions.num_regions == 0) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "%s: the pool has no blocks to send and receive "
                          "with: set COMM_SIZE to auto, or to a size",
                          pool->name);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t create_host(ucxpool_t *pool)
{
    const core_degrade_t wish = {
        .sizes         = {.kind        = &mem_kind_host,
                          .memory_size = host_memory_size(),
                          .limit       = BLOCK_BUDGET_NONE},
        .device        = -1,
        .is_registered = true,
    };
    core_degrade_outcome_t taken;
    ucxpool_status_t       status;

    status = core_degrade(pool, &wish, &pool->config, &pool->regions, &taken);
    if (status != UCXPOOL_OK) {
        return taken.is_short ? base_error(status, "%s", taken.why) : status;
    }
    core_memory_report(pool, &pool->regions, &taken);
    status = core_memory_create_blocks(pool);
    if (status != UCXPOOL_OK) {
        core_memory_destroy_regions(pool, &pool->regions);
    }
    return status;
}

static ucxpool_status_t create(ucxpool_t *pool, const ucxpool_params_t *params)
{
    switch (core_memory_kind(params)) {
    case UCXPOOL_MEMORY_HOST:
        return (pool->config.comm_size == 0) ? core_memory_create_none(pool, -1)
                                             : create_host(pool);
    case UCXPOOL_MEMORY_CUDA:
        return core_memory_create_gpu(pool, params);
    default:
        return base_error(UCXPOOL_ERR_UNSUPPORTED, "there is no memory kind %d",
                          (int)params->memory_kind);
    }
}

ucxpool_status_t core_memory_init(ucxpool_t              *pool,
                                  const ucxpool_params_t *params)
{
    ucxpool_status_t status = create(pool, params);

    pool->num_maps_at_start =
        (uint64_t)pool->regions.num_maps + pool->pinned_regions.num_maps;
    return status;
}

const mem_regions_t *core_memory_registered(const ucxpool_t *pool)
{
    return (pool->regions.domains != NULL) ? &pool->regions
                                           : &pool->pinned_regions;
}

void core_memory_deregister(ucxpool_t *pool)
{
    if (pool->ucx_blocks != pool->blocks) {
        block_pool_destroy(pool->ucx_blocks);
        ucx_dereg_regions(&pool->pinned_regions, pool->ucx.context);
    }
    core_memory_destroy_blocks(pool);
    ucx_dereg_regions(&pool->regions, pool->ucx.context);
}

void core_memory_cleanup(ucxpool_t *pool)
{
    mem_regions_cleanup(&pool->pinned_regions);
    mem_regions_cleanup(&pool->regions);
    copy_engine_destroy(pool->engine);
}
