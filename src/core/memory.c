#include "core/memory.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "base/text.h"
#include "block/backing.h"
#include "block/budget.h"
#include "copy/engine.h"
#include "ipc/cuda.h"
#include "ucx/reg.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1024 * 1024)

/* The limits of the total size of a GPU pool's pinned blocks. Between these
 * limits, the total size equals the size of the pool's GPU memory. */
#define PINNED_SIZE_LEAST (16 * MIB)
#define PINNED_SIZE_MOST  (64 * MIB)
#define PINNED_BLOCK_SIZE (4 * MIB)

/* When an allocation of host memory is retried, the new size is a multiple of
 * HOST_STEP. */
#define HOST_STEP ((size_t)256 << 10)

/* The requested memory. */
typedef struct target {
    block_sizes_params_t sizes;
    int                  device;        /* GPU ordinal in this process; or -1 */
    bool                 is_registered; /* register it with UCX */
} target_t;

/* The result of all attempts; valid even after an error. */
typedef struct outcome {
    size_t   bytes_asked;
    uint64_t blocks_asked;
    unsigned num_failed;           /* failed attempts */
    bool     is_short;             /* failed for lack of memory */
    char     why[BASE_ERROR_SIZE]; /* first failed attempt's error; or "" */
} outcome_t;

/* The result of one attempt. */
typedef struct attempt {
    unsigned num_regions;     /* requested regions */
    size_t   registered_size; /* total of the regions that were registered */
    size_t   refused_size; /* size that could not be allocated or registered */
    bool     is_short;     /* a smaller size may succeed */
} attempt_t;

ucxpool_status_t core_memory_register(ucxpool_t *pool, mem_regions_t *regions)
{
    uint64_t         start    = base_clock_now();
    unsigned         num_maps = regions->num_maps;
    ucxpool_status_t status   = ucx_reg_regions(regions, pool->ucx.context);

    num_maps = regions->num_maps - num_maps;
    pool->stats.registration_ns += base_clock_now() - start;
    pool->stats.registrations += num_maps;
    if (pool->channels.table_size != 0) { /* a channel existed */
        pool->stats.registrations_after_start += num_maps;
    }
    return status;
}

static ucxpool_status_t attempt(ucxpool_t *pool, const target_t *target,
                                const base_config_t *config,
                                mem_regions_t *regions, attempt_t *attempt)
{
    ucxpool_status_t status;

    attempt->registered_size = 0;
    attempt->refused_size    = attempt->num_regions * config->region_size;
    status = mem_regions_init(regions, target->sizes.kind, target->device,
                              attempt->num_regions, config->region_size,
                              (int)config->huge_pages);
    /* Other processes may use a part of the GPU's memory. */
    attempt->is_short =
        (status == UCXPOOL_ERR_NO_MEMORY) && target->sizes.kind->is_gpu;
    if ((status != UCXPOOL_OK) || !target->is_registered) {
        return status;
    }
    status = core_memory_register(pool, regions);
    if (status != UCXPOOL_OK) {
        attempt->registered_size =
            regions->num_registered * regions->region_size;
        attempt->refused_size = regions->region_size;
        attempt->is_short     = status != UCXPOOL_ERR_INVALID_PARAM;
        mem_regions_cleanup(regions);
    }
    return status;
}

/* Returns the size of the next attempt: the size that could be registered, or a
 * little less than the size that could not be registered. The size is rounded
 * down to whole pages, unless the result would be less than `floor`. */
static size_t next_size(const attempt_t *attempt, bool for_gpu, size_t floor)
{
    size_t page = for_gpu ? BLOCK_SIZES_GPU_PAGE : HOST_STEP;
    size_t next = attempt->registered_size;

    if (next == 0) {
        next = attempt->refused_size / 8 * 7;
    }
    return (next & ~(page - 1)) >= floor ? next & ~(page - 1) : next;
}

/* Compute the size settings for a pool of `size` bytes. Sizes that the caller
 * has set are kept, except a region size that exceeds `size`. */
static ucxpool_status_t settle(const target_t      *target,
                               const base_config_t *asked, size_t size,
                               base_config_t *config_p, attempt_t *attempt)
{
    block_sizes_params_t sizes = target->sizes;

    *config_p           = *asked;
    config_p->comm_size = size;
    if (size != asked->comm_size) {
        sizes.limit = size;
        if ((asked->region_size != BASE_SIZE_AUTO) &&
            (asked->region_size > size)) {
            config_p->region_size = BASE_SIZE_AUTO;
        }
    }
    return block_sizes_settle(&sizes, config_p, &attempt->num_regions);
}

static ucxpool_status_t descend(ucxpool_t *pool, const target_t *target,
                                const base_config_t *asked,
                                base_config_t *config, attempt_t *now,
                                mem_regions_t *regions, outcome_t *outcome)
{
    size_t floor = block_sizes_floor(asked, config, target->sizes.for_gpu);
    size_t next;
    ucxpool_status_t status;

    for (;;) {
        status = attempt(pool, target, config, regions, now);
        if ((status == UCXPOOL_OK) || !now->is_short) {
            break;
        }
        if (outcome->num_failed++ == 0) {
            snprintf(outcome->why, sizeof(outcome->why), "%s",
                     ucxpool_error_detail());
        }
        next = next_size(now, target->sizes.for_gpu, floor);
        if (asked->comm_strict || (next < floor) ||
            (settle(target, asked, next, config, now) != UCXPOOL_OK)) {
            break;
        }
    }
    outcome->is_short = (status != UCXPOOL_OK) && now->is_short;
    return status;
}

/*
 * Allocate memory for blocks and register it; if this fails, retry with less.
 *
 * The next size is the total size of the regions that could be registered. If
 * there is none, it is 7/8 of the size that could not be allocated or
 * registered. The retries end when an attempt succeeds, or when the size is
 * below the minimum. With COMM_STRICT there is no retry. A failed attempt
 * releases all its memory, so no registered memory is left unused.
 *
 * config  [in,out] Sizes that are `auto` are replaced by the sizes of the
 *         allocated memory. Unchanged after an error.
 *
 * Same errors as mem_regions_init() and ucx_reg_regions(). A lack of memory is
 * not logged, because the caller logs the consequence.
 */
static ucxpool_status_t allocate(ucxpool_t *pool, const target_t *target,
                                 base_config_t *config, mem_regions_t *regions,
                                 outcome_t *outcome_p)
{
    base_config_t    asked = *config;
    attempt_t        now;
    ucxpool_status_t status;

    memset(outcome_p, 0, sizeof(*outcome_p));
    status = settle(target, &asked, asked.comm_size, config, &now);
    if (status != UCXPOOL_OK) {
        return status;
    }
    outcome_p->bytes_asked  = now.num_regions * config->region_size;
    outcome_p->blocks_asked = outcome_p->bytes_asked / config->block_size;
    base_error_do_at(BASE_LOG_DEBUG,
                     status = descend(pool, target, &asked, config, &now,
                                      regions, outcome_p));
    if (status != UCXPOOL_OK) {
        *config = asked;
    }
    if ((status != UCXPOOL_OK) && !outcome_p->is_short) {
        return base_error(status, "%s", ucxpool_error_detail());
    }
    return status;
}

/* --- host memory ---------------------------------------------------------- */

/* Returns the size of the machine's physical memory. */
static uint64_t host_memory_size(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void destroy_regions(ucxpool_t *pool, mem_regions_t *regions)
{
    ucx_dereg_regions(regions, pool->ucx.context);
    mem_regions_cleanup(regions);
}

static ucxpool_status_t create_blocks(ucxpool_t *pool)
{
    block_pool_params_t params = {
        .regions    = &pool->memory.regions,
        .block_size = pool->config.block_size,
        .send_share = pool->config.send_share,
        .recv_share = pool->config.recv_share,
    };
    ucxpool_status_t status = block_pool_create(&params, &pool->memory.blocks);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = block_comm_create(pool->memory.blocks, &pool->memory.comm);
    if (status != UCXPOOL_OK) {
        block_pool_destroy(pool->memory.blocks);
        return status;
    }
    pool->memory.ucx_blocks = pool->memory.blocks;
    return UCXPOOL_OK;
}

static void destroy_blocks(ucxpool_t *pool)
{
    block_comm_destroy(pool->memory.comm);
    block_pool_destroy(pool->memory.blocks);
}

static void warn_of_reduction(const ucxpool_t *pool, size_t size,
                              const outcome_t *outcome)
{
    char asked[BASE_FORMAT_SIZE], asked_block[BASE_FORMAT_SIZE];
    char got[BASE_FORMAT_SIZE], block[BASE_FORMAT_SIZE];

    base_format_size(outcome->bytes_asked, asked);
    base_format_size(outcome->bytes_asked / outcome->blocks_asked, asked_block);
    base_format_size(size, got);
    base_format_size(pool->config.block_size, block);
    base_warn("%s: continues with %s (%zu blocks of %s) instead of %s (%" PRIu64
              " of %s) after %u failed attempts: %s",
              pool->name, got, size / pool->config.block_size, block, asked,
              outcome->blocks_asked, asked_block, outcome->num_failed,
              outcome->why);
}

/* Write the result to the statistics. If the pool is smaller than requested,
 * log this once. */
static void report(ucxpool_t *pool, const mem_regions_t *regions,
                   const outcome_t *outcome)
{
    size_t        size  = mem_regions_size(regions);
    core_stats_t *stats = &pool->stats;

    stats->degradations += outcome->num_failed;
    if (stats->degraded_to == UCXPOOL_DEGRADED_NONE) {
        stats->bytes_asked  = outcome->bytes_asked;
        stats->blocks_asked = outcome->blocks_asked;
    }
    if (outcome->num_failed == 0) {
        return;
    }
    if (stats->degraded_to == UCXPOOL_DEGRADED_NONE) {
        stats->degraded_to = UCXPOOL_DEGRADED_FEWER;
        snprintf(stats->degraded_why, sizeof(stats->degraded_why), "%.191s",
                 outcome->why);
    }
    warn_of_reduction(pool, size, outcome);
}

/* Create the memory of a pool that has only a heap. device: -1 for host
 * memory. */
static ucxpool_status_t create_none(ucxpool_t *pool, int device)
{
    ucxpool_status_t status =
        mem_regions_init_none(&pool->memory.regions, device);

    if (status != UCXPOOL_OK) {
        return status;
    }
    pool->config.block_size  = (size_t)sysconf(_SC_PAGESIZE);
    pool->config.region_size = pool->config.block_size;
    status                   = create_blocks(pool);
    if (status != UCXPOOL_OK) {
        mem_regions_cleanup(&pool->memory.regions);
    }
    return status;
}

static ucxpool_status_t create_host(ucxpool_t *pool)
{
    const target_t target = {
        .sizes         = {.kind        = &mem_kind_host,
                          .memory_size = host_memory_size(),
                          .limit       = BLOCK_BUDGET_NONE},
        .device        = -1,
        .is_registered = true,
    };
    outcome_t        outcome;
    ucxpool_status_t status;

    status =
        allocate(pool, &target, &pool->config, &pool->memory.regions, &outcome);
    if (status != UCXPOOL_OK) {
        return outcome.is_short ? base_error(status, "%s", outcome.why)
                                : status;
    }
    report(pool, &pool->memory.regions, &outcome);
    status = create_blocks(pool);
    if (status != UCXPOOL_OK) {
        destroy_regions(pool, &pool->memory.regions);
    }
    return status;
}

/* --- GPU memory ----------------------------------------------------------- */

/* Create blocks in pinned host memory, in addition to the blocks in GPU memory.
 * is_registered: register them with UCX. */
static ucxpool_status_t create_pinned(ucxpool_t *pool, bool is_registered)
{
    const target_t target = {
        .sizes         = {.kind    = &mem_kind_cuda_host,
                          .for_gpu = true,
                          .limit   = BLOCK_BUDGET_NONE},
        .device        = pool->memory.regions.device,
        .is_registered = is_registered,
    };
    base_config_t       config = pool->config;
    block_pool_params_t params = {
        .regions    = &pool->memory.pinned_regions,
        .block_size = PINNED_BLOCK_SIZE,
        .send_share = 50,
        .recv_share = 50,
    };
    outcome_t        outcome;
    ucxpool_status_t status;

    config.comm_size   = base_max(config.comm_size, PINNED_SIZE_LEAST);
    config.comm_size   = base_min(config.comm_size, PINNED_SIZE_MOST);
    config.block_size  = PINNED_BLOCK_SIZE;
    config.region_size = BASE_SIZE_AUTO;
    config.frag_size   = BASE_SIZE_AUTO;
    config.send_share  = params.send_share;
    config.recv_share  = params.recv_share;
    /* MEMORY_LIMIT applies only to GPU memory. */
    config.memory_limit = BASE_SIZE_AUTO;
    status = allocate(pool, &target, &config, &pool->memory.pinned_regions,
                      &outcome);
    if (status != UCXPOOL_OK) {
        return outcome.is_short ? base_error(status, "%s", outcome.why)
                                : status;
    }
    if (outcome.num_failed > 0) {
        base_warn("%s: continues with %zu pinned blocks instead of %" PRIu64
                  ": %s",
                  pool->name, config.comm_size / config.block_size,
                  outcome.blocks_asked, outcome.why);
    }
    status = block_pool_create(&params, &pool->memory.pinned_blocks);
    if (status != UCXPOOL_OK) {
        destroy_regions(pool, &pool->memory.pinned_regions);
    }
    return status;
}

/* As a last resort, allocate the pool's blocks in pinned host memory instead of
 * GPU memory. */
static ucxpool_status_t allocate_host_instead(ucxpool_t *pool, target_t *target,
                                              const outcome_t *before,
                                              block_backing_t *backing)
{
    core_stats_t    *stats = &pool->stats;
    outcome_t        outcome;
    ucxpool_status_t status;

    target->sizes.kind    = &mem_kind_cuda_host;
    target->sizes.limit   = BLOCK_BUDGET_NONE;
    target->is_registered = true;
    status =
        allocate(pool, target, &pool->config, &pool->memory.regions, &outcome);
    if (status != UCXPOOL_OK) {
        return outcome.is_short ? base_error(status, "%s; then: %s",
                                             before->why, outcome.why)
                                : status;
    }
    backing->kind         = &mem_kind_cuda_host;
    backing->ucx_takes_it = true;
    snprintf(backing->reason, sizeof(backing->reason),
             "pinned host memory, because GPU memory cannot be allocated");
    stats->degraded_to  = UCXPOOL_DEGRADED_PINNED;
    stats->bytes_asked  = before->bytes_asked;
    stats->blocks_asked = before->blocks_asked;
    stats->degradations = before->num_failed;
    snprintf(stats->degraded_why, sizeof(stats->degraded_why), "%.191s",
             before->why);
    base_warn("%s: continues with %zu bytes of pinned host memory instead of "
              "%zu of the GPU (%u attempts failed): %s",
              pool->name, outcome.bytes_asked, before->bytes_asked,
              before->num_failed, before->why);
    report(pool, &pool->memory.regions, &outcome);
    return UCXPOOL_OK;
}

/* Returns true if the BAR1 window has less room than the minimum size of a
 * pool. */
static bool is_window_full(const base_config_t *config, const target_t *target,
                           outcome_t *outcome)
{
    size_t floor = block_sizes_floor(config, config, true);

    if (!target->is_registered || (config->comm_size != BASE_SIZE_AUTO) ||
        (target->sizes.limit >= floor)) {
        return false;
    }
    memset(outcome, 0, sizeof(*outcome));
    outcome->is_short     = true;
    outcome->bytes_asked  = floor;
    outcome->blocks_asked = floor / BLOCK_SIZES_GPU_PAGE;
    snprintf(outcome->why, sizeof(outcome->why),
             "the GPU's BAR1 has room for %" PRIu64 " bytes, but a pool needs "
             "%zu: close other programs, or set UCXPOOL_COMM_SIZE to a fixed "
             "size",
             target->sizes.limit, floor);
    return true;
}

/* Query the BAR1 limit only if it is needed, because NVML is slow. */
static uint64_t find_limit(ucxpool_t *pool, const mem_cuda_device_t *device,
                           const mem_kind_t *kind)
{
    mem_nvml_facts_t facts;
    uint64_t         limit;

    if ((pool->config.comm_size != BASE_SIZE_AUTO) || !kind->is_gpu) {
        return BLOCK_BUDGET_NONE;
    }
    mem_nvml_query(device->bus_id, &facts);
    limit = block_budget_compute(&facts);
    if (limit != BLOCK_BUDGET_NONE) {
        pool->stats.budget_bytes = limit;
        base_info("%s: blocks may use %" PRIu64 " bytes of %" PRIu64
                  " in the BAR1 of GPU %d (%s)",
                  pool->name, limit, facts.bar1_size, device->ordinal,
                  device->name);
    }
    return limit;
}

static ucxpool_status_t allocate_on_gpu(ucxpool_t               *pool,
                                        const mem_cuda_device_t *device,
                                        block_backing_t         *backing)
{
    target_t target = {
        .sizes         = {.kind        = backing->kind,
                          .for_gpu     = true,
                          .memory_size = device->total_size},
        .device        = device->ordinal,
        .is_registered = backing->ucx_takes_it,
    };
    outcome_t        outcome;
    ucxpool_status_t status;

    target.sizes.limit = find_limit(pool, device, backing->kind);
    if (is_window_full(&pool->config, &target, &outcome)) {
        status = UCXPOOL_ERR_NO_MEMORY;
    } else {
        status = allocate(pool, &target, &pool->config, &pool->memory.regions,
                          &outcome);
    }
    if (status == UCXPOOL_OK) {
        report(pool, &pool->memory.regions, &outcome);
        return UCXPOOL_OK;
    }
    if (!outcome.is_short) {
        return status;
    }
    if (pool->config.comm_strict ||
        (pool->config.cuda_backing != BASE_BACKING_AUTO)) {
        return base_error(status, "%s", outcome.why);
    }
    return allocate_host_instead(pool, &target, &outcome, backing);
}

static ucxpool_status_t create_on_gpu(ucxpool_t               *pool,
                                      const mem_cuda_device_t *device,
                                      block_backing_t         *backing)
{
    ucxpool_status_t status = allocate_on_gpu(pool, device, backing);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = create_blocks(pool);
    if (status != UCXPOOL_OK) {
        goto err_destroy_regions;
    }
    if (!backing->ucx_takes_it) {
        status = create_pinned(pool, true);
        if (status != UCXPOOL_OK) {
            goto err_destroy_blocks;
        }
        pool->memory.ucx_blocks = pool->memory.pinned_blocks;
    }
    return UCXPOOL_OK;

err_destroy_blocks:
    destroy_blocks(pool);
err_destroy_regions:
    destroy_regions(pool, &pool->memory.regions);
    return status;
}

/* Find the GPU of the calling thread's current CUDA context. Without a context,
 * use the first GPU. */
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
    block_backing_t    backing;
    ucxpool_status_t   status;

    if (pool->config.checksum != BASE_CHECKSUM_NONE) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "UCXPOOL_CHECKSUM=crc32c is not supported for pools "
                          "in GPU memory; set it to none");
    }
    status = open_device(params, &device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (pool->config.comm_size == 0) {
        status = copy_engine_create_host(&pool->engine);
        if (status == UCXPOOL_OK) {
            status = create_none(pool, device->ordinal);
        }
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
    pool->memory.pinnable    = host_memory_size() / 2;
    base_info("%s: GPU %d (%s): %s", pool->name, device->ordinal, device->name,
              backing.reason);
    return UCXPOOL_OK;

err_close_device:
    mem_cuda_device_close(device);
    return status;
}

/* --- any memory ----------------------------------------------------------- */

ucxpool_memory_kind_t core_memory_kind(const ucxpool_params_t *params)
{
    return (params->field_mask & UCXPOOL_PARAM_FIELD_MEMORY_KIND)
               ? params->memory_kind
               : UCXPOOL_MEMORY_HOST;
}

static ucxpool_status_t create(ucxpool_t *pool, const ucxpool_params_t *params)
{
    ucxpool_status_t status;

    switch (core_memory_kind(params)) {
    case UCXPOOL_MEMORY_HOST:
        status = copy_engine_create_host(&pool->engine);
        if (status != UCXPOOL_OK) {
            return status;
        }
        return (pool->config.comm_size == 0) ? create_none(pool, -1)
                                             : create_host(pool);
    case UCXPOOL_MEMORY_CUDA:
        return create_gpu(pool, params);
    default:
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "unknown memory kind %d: pass UCXPOOL_MEMORY_HOST or "
                          "UCXPOOL_MEMORY_CUDA",
                          (int)params->memory_kind);
    }
}

ucxpool_status_t core_memory_init(ucxpool_t              *pool,
                                  const ucxpool_params_t *params)
{
    ucxpool_status_t status = create(pool, params);

    if (status != UCXPOOL_OK) {
        copy_engine_destroy(pool->engine);
    }
    return status;
}

ucxpool_status_t core_memory_check(const ucxpool_t *pool)
{
    if (pool->memory.regions.num_regions == 0) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "%s: the pool has no blocks to send and receive "
                          "with; set UCXPOOL_COMM_SIZE to auto, or to a size",
                          pool->name);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t core_memory_pin(ucxpool_t *pool)
{
    ucxpool_status_t status = core_memory_check(pool);

    if ((status != UCXPOOL_OK) || (core_memory_host_blocks(pool) != NULL)) {
        return status;
    }
    if (pool->memory.pin_status != UCXPOOL_OK) {
        return base_error(pool->memory.pin_status, "%s",
                          pool->memory.pin_reason);
    }
    status = create_pinned(pool, false);
    if (status != UCXPOOL_OK) {
        pool->memory.pin_status = status;
        snprintf(pool->memory.pin_reason, sizeof(pool->memory.pin_reason), "%s",
                 ucxpool_error_detail());
    } else {
        base_info("%s: allocated %zu bytes of pinned host memory for peers on "
                  "this host that cannot map the GPU's memory",
                  pool->name, mem_regions_size(&pool->memory.pinned_regions));
    }
    return status;
}

static uint64_t total_of(const uint64_t *sizes, unsigned num)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < num; i++) {
        total += sizes[i];
    }
    return total;
}

ucxpool_status_t core_memory_pin_peers(ucxpool_t            *pool,
                                       const uint8_t *const *addresses,
                                       const uint64_t *sizes, unsigned num)
{
    uint64_t         total = total_of(sizes, num);
    ucxpool_status_t status;

    if (total > pool->memory.pinnable) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "cannot pin %" PRIu64 " bytes of the peer's memory: "
                          "a pool may pin half of the machine's memory, of "
                          "which %" PRIu64 " bytes are left; lower the peers' "
                          "UCXPOOL_COMM_SIZE or import fewer windows",
                          total, pool->memory.pinnable);
    }
    status = ipc_cuda_pin(pool->engine->device, addresses, sizes, num);
    if (status == UCXPOOL_OK) {
        pool->memory.pinnable -= total;
    }
    return status;
}

void core_memory_unpin_peers(ucxpool_t *pool, const uint8_t *const *addresses,
                             const uint64_t *sizes, unsigned num)
{
    ipc_cuda_unpin(pool->engine->device, addresses, num);
    pool->memory.pinnable += total_of(sizes, num);
}

block_pool_t *core_memory_host_blocks(const ucxpool_t *pool)
{
    return mem_regions_are_on_gpu(&pool->memory.regions)
               ? pool->memory.pinned_blocks
               : pool->memory.blocks;
}

mem_regions_t *core_memory_registered(ucxpool_t *pool)
{
    return (pool->memory.ucx_blocks == pool->memory.blocks)
               ? &pool->memory.regions
               : &pool->memory.pinned_regions;
}

void core_memory_deregister(ucxpool_t *pool)
{
    if (pool->memory.pinned_blocks != NULL) {
        block_pool_destroy(pool->memory.pinned_blocks);
        ucx_dereg_regions(&pool->memory.pinned_regions, pool->ucx.context);
    }
    destroy_blocks(pool);
    ucx_dereg_regions(&pool->memory.regions, pool->ucx.context);
}

void core_memory_cleanup(ucxpool_t *pool)
{
    mem_regions_cleanup(&pool->memory.pinned_regions);
    mem_regions_cleanup(&pool->memory.regions);
    copy_engine_destroy(pool->engine);
}
