/*
 * Computes how much memory the blocks get. This depends on the settings and, on
 * a GPU, on the budget: the part of BAR1 that the blocks may use.
 *
 *     usable     the part that can be registered: all of a large BAR1, or three
 *                quarters of a small BAR1
 *     others     the part in use now, minus the driver's own use
 *     reserve    the part of a large BAR1 that stays free for other users
 *
 *     limit = min(usable - others, free) - reserve
 */
#ifndef BLOCK_BUDGET_H
#define BLOCK_BUDGET_H

#include "base/config.h"
#include "block/pool.h"
#include "mem/nvml.h"
#include "mem/region.h"

#include <ucxpool/status.h>

#include <stdbool.h>
#include <stdint.h>

/* The blocks have no limit, or the limit is unknown. */
#define BLOCK_BUDGET_NONE UINT64_MAX

/* Returns the limit for the blocks in a GPU's memory. Returns BLOCK_BUDGET_NONE
 * if the GPU has no BAR1, or if its size is unknown. */
uint64_t block_budget_compute(const mem_nvml_facts_t *gpu);

/* --- sizes -------------------------------------------------------------------
 * The sizes of a pool: the values of `auto` for the memory of all blocks, for
 * one block and for one region, and the number of blocks in each share. */

/* The page size of a GPU's memory. */
#define BLOCK_SIZES_GPU_PAGE ((size_t)2 << 20)

typedef struct block_sizes_params {
    const mem_kind_t *kind;
    bool              for_gpu;     /* pool on a GPU, even with host blocks */
    uint64_t          memory_size; /* of the machine, or of the GPU */
    uint64_t          limit;       /* maximum for COMM_SIZE=auto, in bytes */
} block_sizes_params_t;

/*
 * Replace `auto` by numbers.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the sizes contradict each other, or COMM_SIZE is
 *                            unlimited
 */
ucxpool_status_t block_sizes_settle(const block_sizes_params_t *params,
                                    base_config_t              *config,
                                    unsigned                   *num_regions_p);

/*
 * Returns the minimum memory for a pool with these settings: one block for each
 * share that is not 0. If the requested size is not available, a pool may get
 * less, but not less than this.
 *
 * asked    The settings before block_sizes_settle().
 * settled  The settings after it.
 */
size_t block_sizes_floor(const base_config_t *asked,
                         const base_config_t *settled, bool for_gpu);

/* The maximum number of blocks whose count fits in the 26 bits that the pool
 * has for it: 256 GiB if a block has 4 KiB. */
#define BLOCK_MAX_BLOCKS (((uint32_t)1 << 26) - 1)

/*
 * Compute the number of blocks in each share.
 *
 * totals [out]  Array of BLOCK_SHARE_LAST elements, indexed by
 *               block_share_t.
 *
 * Errors as for block_pool_create().
 */
ucxpool_status_t block_split(const block_pool_params_t *params,
                             uint32_t                  *totals);

#endif
