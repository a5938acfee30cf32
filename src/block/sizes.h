/*
 * The sizes of a pool: what `auto` means for the memory of all blocks, one
 * block and one region; and how many blocks there are, and which share gets how
 * many.
 */
#ifndef BLOCK_SIZES_H
#define BLOCK_SIZES_H

#include "base/config.h"
#include "block/pool.h"
#include "mem/region.h"

/* A GPU's memory comes in pages of this size. */
#define BLOCK_SIZES_GPU_PAGE ((size_t)2 << 20)

typedef struct block_sizes_params {
    const mem_kind_t *kind;
    bool              for_gpu; /* what the pool is for, not where its
                                  blocks lie */
    uint64_t memory_size;      /* of the machine, or of the GPU */
    uint64_t limit;            /* for COMM_SIZE=auto: block_budget_t's */
} block_sizes_params_t;

/*
 * Turn what is `auto` into numbers, in place.
 *
 * UCXPOOL_ERR_INVALID_PARAM  they do not fit each other, or COMM_SIZE is
 *                            without limit
 */
ucxpool_status_t block_sizes_settle(const block_sizes_params_t *params,
                                    base_config_t              *config,
                                    unsigned                   *num_regions_p);

/*
 * The least memory that a pool of such settings can do with, when it cannot
 * have what is asked for: one block for each share that is not 0.
 *
 * asked   The settings, not settled.
 * settled The same, settled.
 */
size_t block_sizes_floor(const base_config_t *asked,
                         const base_config_t *settled, bool for_gpu);

/* 256 GiB in blocks of a page: what fits the fields of the pool's words. */
#define BLOCK_MAX_BLOCKS (((uint32_t)1 << 26) - 1)

/*
 * totals [out]  Array of BLOCK_SHARE_LAST, by block_share_t.
 *
 * Errors as for block_pool_create().
 */
ucxpool_status_t block_split(const block_pool_params_t *params,
                             uint32_t                  *totals);

#endif
