/*
 * How large the memory of blocks is: what settings say, and on a GPU its
 * budget, how much of BAR1 the blocks may take.
 *
 *     window     its size
 *     usable     what a preset says can be registered; without one all of it,
 *                of a small window three quarters
 *     others     what is held now, above what a driver holds for itself
 *     reserve    what is to be left for others: COMM_RESERVE
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

/* --- presets ----------------------------------------------------------------
 * How much of its BAR1 a GPU can really give to registrations: less than all,
 * because the driver keeps some for itself, and no function tells how much. So
 * there is a table of devices, and a file that adds to it and overrides it:
 *
 *     # NAME [WINDOW] = SIZE
 *     Tesla T4 [256m] = 200m
 *     NVIDIA RTX A4000 = 210m
 *     * [64m] = 32m
 *     NVIDIA H100* = none
 *
 * NAME is what the driver calls the device, in any case; * stands for any
 * letters, also none. WINDOW is the size of BAR1; without it the line is for
 * every size. SIZE is what may be registered; none: all of the window. The last
 * line that fits counts, and the file's come after the table's. Empty lines,
 * and those that begin with #, mean nothing.
 */

/* Of a preset that sets no limit. */
#define BLOCK_PRESET_NONE UINT64_MAX

typedef struct block_preset {
    bool     is_found;
    uint64_t limit;     /* bytes, or BLOCK_PRESET_NONE */
    char     from[176]; /* in words: "the preset 'Tesla T4' [256m]" */
} block_preset_t;

/*
 * Find a device's preset; declared for the tests. Every line of the file is
 * read, so that a bad one is told whether it is for this device or not.
 *
 * path       File; "" for none.
 * name       As the driver says it.
 * bar1_size  0: not known. Then only lines without a window fit, and those of
 *            the table that name the device.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the file cannot be read, or a line of it is wrong;
 *                            the detail names both
 */
ucxpool_status_t block_preset_find(const char *path, const char *name,
                                   uint64_t        bar1_size,
                                   block_preset_t *preset_p);

/* --- the budget ----------------------------------------------------------- */

/* There is no limit, or none is known. */
#define BLOCK_BUDGET_NONE UINT64_MAX

/* UCX's own staging pool grows by so much: 128 buffers of 4 MiB. */
#define BLOCK_BUDGET_UCX_STEP (UINT64_C(512) << 20)

typedef struct block_budget {
    uint64_t usable;           /* BLOCK_BUDGET_NONE: not bounded */
    char     usable_from[192]; /* in words */
    uint64_t others;
    uint64_t reserve;
    bool     is_reserve_auto;
    uint64_t limit; /* BLOCK_BUDGET_NONE: not bounded */
} block_budget_t;

/*
 * config  COMM_RESERVE and BUDGET_FILE.
 * name    The device, as the driver says it.
 *
 * UCXPOOL_ERR_INVALID_PARAM  of the file: block_preset_find()
 */
ucxpool_status_t block_budget_compute(const base_config_t *config,
                                      const char *name, const mem_bar_t *bar,
                                      block_budget_t *budget_p);

/* The same for a device of that bus id, which is asked; *bar_p is its
 * window. */
ucxpool_status_t block_budget_query(const base_config_t *config,
                                    const char *name, const char *bus_id,
                                    mem_bar_t *bar_p, block_budget_t *budget_p);

/* --- sizes -------------------------------------------------------------------
 * The sizes of a pool: what `auto` means for the memory of all blocks, one
 * block and one region; and how many blocks there are, and which share gets how
 * many.
 */

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
