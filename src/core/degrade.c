#include "core/degrade.h"

#include "base/clock.h"
#include "ucx/reg.h"

#include <stdio.h>
#include <string.h>

/* Sizes of host memory that are tried are multiples of this. */
#define HOST_STEP ((size_t)256 << 10)

/* One attempt, and what can be learned from it. */
typedef struct attempt {
    unsigned num_regions;     /* asked for */
    size_t   registered_size; /* before the one that was refused */
    size_t   refused_size;    /* could not be had in one piece */
    bool     is_short;        /* less may work */
} attempt_t;

/* The host's memory is as much as the system says; a GPU's is what others have
 * left of it. */
static bool may_be_short(const mem_kind_t *kind, ucxpool_status_t status)
{
    return (status == UCXPOOL_ERR_NO_MEMORY) &&
           ((kind == &mem_kind_cuda_alloc) || (kind == &mem_kind_cuda_vmm));
}

static ucxpool_status_t regions_register(ucxpool_t     *pool,
                                         mem_regions_t *regions)
{
    uint64_t         start  = base_clock_now();
    ucxpool_status_t status = ucx_reg_regions(regions, pool->ucx.context);

    pool->stats.registration_ns += base_clock_now() - start;
    pool->stats.registrations += regions->num_maps;
    return status;
}

static ucxpool_status_t attempt(ucxpool_t *pool, const core_degrade_t *wish,
                                const base_config_t *config,
                                mem_regions_t *regions, attempt_t *attempt)
{
    ucxpool_status_t status;

    attempt->registered_size = 0;
    attempt->refused_size    = attempt->num_regions * config->region_size;
    status = mem_regions_init(regions, wish->sizes.kind, wish->device,
                              attempt->num_regions, config->region_size,
                              (int)config->huge_pages);
    attempt->is_short = may_be_short(wish->sizes.kind, status);
    if ((status != UCXPOOL_OK) || !wish->is_registered) {
        return status;
    }
    status = regions_register(pool, regions);
    if (status != UCXPOOL_OK) {
        attempt->registered_size =
            regions->num_registered * regions->region_size;
        attempt->refused_size = regions->region_size;
        attempt->is_short     = status != UCXPOOL_ERR_INVALID_PARAM;
        mem_regions_cleanup(regions);
    }
    return status;
}

/* A size that is worth another attempt: what did register, or a little less
 * than what did not. Whole pages, where that is not too little. */
static size_t next_size(const attempt_t *attempt, bool for_gpu, size_t floor)
{
    size_t page = for_gpu ? BLOCK_SIZES_GPU_PAGE : HOST_STEP;
    size_t next = attempt->registered_size;

    if (next == 0) {
        next = attempt->refused_size / 8 * 7;
    }
    return (next & ~(page - 1)) >= floor ? next & ~(page - 1) : next;
}

/* Settle the settings for that size. What the caller chose stays, but a region
 * that is larger than all of it. */
static ucxpool_status_t settle(const core_degrade_t *wish,
                               const base_config_t *asked, size_t size,
                               base_config_t *config_p, attempt_t *attempt)
{
    block_sizes_params_t sizes = wish->sizes;

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

static uint64_t count_blocks(const base_config_t *config,
                             const attempt_t     *attempt)
{
    return (uint64_t)attempt->num_regions *
           (config->region_size / config->block_size);
}

static ucxpool_status_t descend(ucxpool_t *pool, const core_degrade_t *wish,
                                const base_config_t *asked,
                                base_config_t *config, attempt_t *now,
                                mem_regions_t          *regions,
                                core_degrade_outcome_t *taken)
{
    size_t floor = block_sizes_floor(asked, config, wish->sizes.for_gpu);
    size_t next;
    ucxpool_status_t status;

    for (;;) {
        status = attempt(pool, wish, config, regions, now);
        if ((status == UCXPOOL_OK) || !now->is_short) {
            break;
        }
        if (taken->num_failed++ == 0) {
            snprintf(taken->why, sizeof(taken->why), "%s",
                     ucxpool_error_detail());
        }
        next = next_size(now, wish->sizes.for_gpu, floor);
        if (asked->comm_strict || (next < floor) ||
            (settle(wish, asked, next, config, now) != UCXPOOL_OK)) {
            break;
        }
    }
    taken->is_short = (status != UCXPOOL_OK) && now->is_short;
    return status;
}

ucxpool_status_t core_degrade(ucxpool_t *pool, const core_degrade_t *wish,
                              base_config_t *config, mem_regions_t *regions,
                              core_degrade_outcome_t *taken_p)
{
    base_config_t    asked = *config;
    base_log_level_t level;
    attempt_t        now;
    ucxpool_status_t status;

    memset(taken_p, 0, sizeof(*taken_p));
    status = settle(wish, &asked, asked.comm_size, config, &now);
    if (status != UCXPOOL_OK) {
        return status;
    }
    taken_p->blocks_asked = count_blocks(config, &now);
    taken_p->bytes_asked  = now.num_regions * config->region_size;
    level                 = base_error_log_at(BASE_LOG_DEBUG);
    status = descend(pool, wish, &asked, config, &now, regions, taken_p);
    base_error_log_at(level);
    if (status != UCXPOOL_OK) {
        *config = asked;
    }
    if ((status != UCXPOOL_OK) && !taken_p->is_short) {
        return base_error(status, "%s", ucxpool_error_detail());
    }
    return status;
}
