#include "block/budget.h"

#include "base/error.h"
#include "base/math.h"

#include <assert.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

/* --- the budget ----------------------------------------------------------- */

/*
 * A BAR1 of up to this size counts as small. The driver uses a part of BAR1,
 * and no function returns the size of this part. Of a BAR1 of 256 MiB, a T4 can
 * register about 200 MiB with ibv_reg_mr and driver 460
 * (Mellanox/nv_peer_memory, issue 101). An RTX A4000 can register 220 MB with
 * gdr_pin and driver 530 (NVIDIA/gdrcopy, issue 301).
 */
#define SMALL_BAR1 (1024 * MIB)

/* Upper limit of the driver's own use on an idle GPU. Published outputs of
 * nvidia-smi show at most 2 MiB. */
#define IDLE_USE (8 * MIB)

/* UCX's own staging pool grows in steps of 128 buffers of 4 MiB. */
#define UCX_STEP (512 * MIB)

uint64_t block_budget_compute(const mem_nvml_facts_t *gpu)
{
    uint64_t usable  = gpu->bar1_size;
    uint64_t others  = gpu->bar1_used - base_min(gpu->bar1_used, IDLE_USE);
    uint64_t reserve = 0;
    uint64_t left;

    if (gpu->bar1_size == 0) {
        return BLOCK_BUDGET_NONE;
    }
    if (gpu->bar1_size > SMALL_BAR1) {
        reserve = base_min(gpu->bar1_size / 8, UCX_STEP);
    } else {
        usable = gpu->bar1_size / 4 * 3;
    }
    left = base_min(usable - base_min(usable, others), gpu->bar1_free);
    return left - base_min(left, reserve);
}

/* --- sizes ---------------------------------------------------------------- */

#define KIB ((size_t)1024)

/* Sizes for UCXPOOL_COMM_SIZE=auto. A GPU needs many long fragments in flight.
 * Between processes on one host, a larger pool was not faster
 * (docs/benchmarks/memory.md). */
#define HOST_SIZE (64 * MIB)
#define GPU_SIZE  (500 * MIB)

/* Minimum number of blocks if BLOCK_SIZE is auto. No fragment of host memory is
 * longer than LONG_BLOCK. Longer blocks are used only if there are at least
 * MIN_LONG_BLOCKS, because a fragment received over the `ucx` wire may occupy a
 * whole block. */
#define MIN_BLOCKS      8u
#define MIN_LONG_BLOCKS 64u
#define LONG_BLOCK      (1 * MIB)

/* If a pool gets less memory than requested, its blocks are made smaller, but
 * not smaller than this size. With shorter fragments, the fixed cost of each
 * wire operation would be too high. */
#define SMALL_BLOCK (256 * KIB)

/* Resolve UCXPOOL_COMM_SIZE=auto. The size is smaller if the memory or the BAR1
 * is small, or if the blocks share a memory limit with the heap. */
static size_t auto_comm_size(const block_sizes_params_t *params,
                             const base_config_t        *config)
{
    uint64_t size = base_min(params->for_gpu ? GPU_SIZE : HOST_SIZE,
                             params->memory_size / 32);

    if (config->memory_limit != BASE_SIZE_AUTO) {
        size = base_min(size, (uint64_t)config->memory_limit / 4);
    }
    return (size_t)base_min(size, params->limit);
}

static bool is_good_block(const base_config_t *config, size_t size,
                          bool for_gpu, bool is_tight)
{
    bool is_long = !for_gpu && (size > LONG_BLOCK);

    return (size * (is_long ? MIN_LONG_BLOCKS : MIN_BLOCKS) <=
            config->comm_size) &&
           (!is_tight || (config->comm_size % size <= config->comm_size / 32));
}

/*
 * Resolve UCXPOOL_BLOCK_SIZE=auto. A GPU gets long blocks, because its link
 * needs long fragments. The size is doubled as long as COMM_SIZE holds at least
 * MIN_BLOCKS blocks (or MIN_LONG_BLOCKS). In a tight budget, rounding to whole
 * blocks must also waste at most 1/32 of COMM_SIZE. A block is never shorter
 * than FRAG_SIZE, unless REGION_SIZE prevents this.
 */
static size_t auto_block_size(const base_config_t *config, bool for_gpu,
                              bool is_tight)
{
    size_t most = for_gpu ? 32 * MIB : 4 * MIB;
    size_t size = for_gpu ? BLOCK_SIZES_GPU_PAGE : 4096;
    size_t frag = config->frag_size == BASE_SIZE_AUTO ? 0 : config->frag_size;

    while (((size < frag) ||
            ((size < most) &&
             is_good_block(config, size * 2, for_gpu, is_tight))) &&
           ((config->region_size == BASE_SIZE_AUTO) ||
            (config->region_size % (size * 2) == 0))) {
        size *= 2;
    }
    return size;
}

/* Resolve UCXPOOL_REGION_SIZE=auto. Fewer regions need fewer registrations, but
 * a single large allocation may fail. A GPU's virtual memory can only be
 * stitched in whole regions. With cuMemAlloc(), the pool always has one
 * region. */
static size_t auto_region_size(const base_config_t *config,
                               const mem_kind_t    *kind)
{
    size_t most = base_max(64 * MIB, config->block_size);
    size_t all  = base_max(config->comm_size & ~(config->block_size - 1),
                           config->block_size);

    if (kind->stitches_whole_regions) {
        return config->block_size;
    }
    return kind->is_one_region ? all : base_min(most, all);
}

ucxpool_status_t block_sizes_settle(const block_sizes_params_t *params,
                                    base_config_t              *config,
                                    unsigned                   *num_regions_p)
{
    bool   is_auto = config->comm_size == BASE_SIZE_AUTO;
    bool   is_tight;
    size_t num_regions;

    if (is_auto) {
        config->comm_size = auto_comm_size(params, config);
    }
    if (config->comm_size > SIZE_MAX / 4) {
        return base_error(
            UCXPOOL_ERR_INVALID_PARAM,
            "UCXPOOL_COMM_SIZE is unlimited: set a size, for example 500m");
    }
    is_tight = config->comm_size >= params->limit;
    if (config->block_size == BASE_SIZE_AUTO) {
        config->block_size = auto_block_size(config, params->for_gpu, is_tight);
    }
    if (is_auto) {
        config->comm_size =
            base_max(config->comm_size & ~(config->block_size - 1),
                     (is_tight ? 3 : 4) * config->block_size);
    }
    if (config->region_size == BASE_SIZE_AUTO) {
        config->region_size = auto_region_size(config, params->kind);
    }
    num_regions = base_max(config->comm_size / config->region_size, (size_t)1);
    if (num_regions > UINT16_MAX) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "UCXPOOL_COMM_SIZE=%zu needs %zu regions of "
                          "UCXPOOL_REGION_SIZE=%zu, more than 65535: raise "
                          "UCXPOOL_REGION_SIZE",
                          config->comm_size, num_regions, config->region_size);
    }
    *num_regions_p = (unsigned)num_regions;
    return base_config_check(config);
}

size_t block_sizes_floor(const base_config_t *asked,
                         const base_config_t *settled, bool for_gpu)
{
    bool   has_user   = asked->send_share + asked->recv_share < 100;
    size_t block_size = asked->block_size;

    if (block_size == BASE_SIZE_AUTO) {
        block_size = base_min(settled->block_size,
                              for_gpu ? BLOCK_SIZES_GPU_PAGE : SMALL_BLOCK);
        if (asked->frag_size != BASE_SIZE_AUTO) {
            block_size = base_max(block_size, asked->frag_size);
        }
    }
    return block_size * (has_user ? 3 : 2);
}

/* --- shares --------------------------------------------------------------- */

/* base_config_check() has checked each size and the shares. */
static ucxpool_status_t count_blocks(const block_pool_params_t *params,
                                     uint32_t                  *num_blocks_p)
{
    const mem_regions_t *regions = params->regions;
    size_t               num;

    assert((params->block_size != 0) &&
           (regions->region_size % params->block_size == 0));
    if (!base_mul(regions->region_size / params->block_size,
                  (size_t)regions->num_regions, &num) ||
        (num > BLOCK_MAX_BLOCKS)) {
        return base_error(
            UCXPOOL_ERR_INVALID_PARAM,
            "the pool would have more than %u blocks: lower "
            "UCXPOOL_COMM_SIZE or raise UCXPOOL_BLOCK_SIZE (%zu bytes)",
            BLOCK_MAX_BLOCKS, params->block_size);
    }
    if (num < 2) {
        return base_error(
            UCXPOOL_ERR_INVALID_PARAM,
            "the pool would have %zu block(s) of UCXPOOL_BLOCK_SIZE (%zu "
            "bytes), but sending and receiving need one each: raise "
            "UCXPOOL_COMM_SIZE or lower UCXPOOL_BLOCK_SIZE",
            num, params->block_size);
    }
    assert(params->send_share + params->recv_share <= 100);
    *num_blocks_p = (uint32_t)num;
    return UCXPOOL_OK;
}

/* Split the blocks by percentages, rounded down, but not below the minimum of a
 * share. The blocks that remain after rounding belong to the user's share, or
 * to the send share if the user's share is 0. */
static void split(const block_pool_params_t *params, uint32_t num_blocks,
                  uint32_t *totals)
{
    uint64_t blocks   = num_blocks;
    bool     has_user = params->send_share + params->recv_share < 100;
    uint32_t min_user = (has_user && (num_blocks > 2)) ? 1 : 0;
    uint32_t send     = (uint32_t)(blocks * params->send_share / 100);
    uint32_t recv     = (uint32_t)(blocks * params->recv_share / 100);

    send = base_max(send, 1);
    recv = base_max(recv, 1);
    while (send + recv > num_blocks - min_user) {
        uint32_t *larger = (send > recv) ? &send : &recv;

        *larger -= 1;
    }
    if (!has_user) {
        send = num_blocks - recv;
    }
    totals[BLOCK_SHARE_SEND] = send;
    totals[BLOCK_SHARE_RECV] = recv;
    totals[BLOCK_SHARE_USER] = num_blocks - send - recv;
}

ucxpool_status_t block_split(const block_pool_params_t *params,
                             uint32_t                  *totals)
{
    uint32_t         num_blocks = 0;
    ucxpool_status_t status     = UCXPOOL_OK;

    if (params->regions->num_regions == 0) {
        memset(totals, 0, BLOCK_SHARE_LAST * sizeof(totals[0]));
        return UCXPOOL_OK;
    }
    status = count_blocks(params, &num_blocks);
    if (status == UCXPOOL_OK) {
        split(params, num_blocks, totals);
    }
    return status;
}
