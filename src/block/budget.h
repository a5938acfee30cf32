/*
 * Computes how much memory the blocks get, from the settings and, on a GPU,
 * from the budget: the part of BAR1 that the blocks may take.
 *
 *     window     size of BAR1
 *     usable     the part that a preset allows to be registered; without a
 *                preset the whole window, or three quarters of a small one
 *     others     the part in use now, in addition to the driver's own use
 *     reserve    the part that must stay free for other users: COMM_RESERVE
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

/* --- presets -----------------------------------------------------------------
 * The part of a GPU's BAR1 that registrations can use. The driver uses the rest
 * itself, and no function returns how much. The library therefore has a table
 * of devices. A file can add to the table and override it:
 *
 *     # NAME [WINDOW] = SIZE
 *     Tesla T4 [256m] = 200m
 *     NVIDIA RTX A4000 = 210m
 *     * [64m] = 32m
 *     NVIDIA H100* = none
 *
 * NAME is the driver's name of the device, in upper or lower case; * matches
 * any characters, or none. WINDOW is the size of BAR1; a line without it
 * matches every size. SIZE is the limit of registrations; none: the whole
 * window. The last line that matches is used, and the lines of the file come
 * after the table's. Empty lines and lines that begin with # are ignored.
 */

/* Value of `limit` for a preset that sets no limit. */
#define BLOCK_PRESET_NONE UINT64_MAX

typedef struct block_preset {
    bool     is_found;
    uint64_t limit;     /* bytes, or BLOCK_PRESET_NONE */
    char     from[176]; /* for messages: "the preset 'Tesla T4' [256m]" */
} block_preset_t;

/*
 * Find a device's preset; public for the tests. Parses every line of the file,
 * so that an invalid line is an error even if it is for another device.
 *
 * path       File; "" for none.
 * name       The driver's name of the device.
 * bar1_size  0: unknown. Then only lines without a window match, and lines of
 *            the table that name the device.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the file cannot be read, or a line is invalid; the
 *                            detail names the file and the line
 */
ucxpool_status_t block_preset_find(const char *path, const char *name,
                                   uint64_t        bar1_size,
                                   block_preset_t *preset_p);

/* --- the budget ----------------------------------------------------------- */

/* There is no limit, or it is unknown. */
#define BLOCK_BUDGET_NONE UINT64_MAX

/* Growth of UCX's own staging pool: 128 buffers of 4 MiB. */
#define BLOCK_BUDGET_UCX_STEP (UINT64_C(512) << 20)

typedef struct block_budget {
    uint64_t usable;           /* BLOCK_BUDGET_NONE: no limit */
    char     usable_from[192]; /* for messages */
    uint64_t others;
    uint64_t reserve;
    bool     is_reserve_auto;
    uint64_t limit; /* BLOCK_BUDGET_NONE: no limit */
} block_budget_t;

/*
 * Compute the budget of a device.
 *
 * config  COMM_RESERVE and BUDGET_FILE are used.
 * name    The driver's name of the device.
 *
 * UCXPOOL_ERR_INVALID_PARAM  as for block_preset_find()
 */
ucxpool_status_t block_budget_compute(const base_config_t *config,
                                      const char *name, const mem_bar_t *bar,
                                      block_budget_t *budget_p);

/* Like block_budget_compute(), but queries the window of the device with this
 * bus id and stores it in *bar_p. */
ucxpool_status_t block_budget_query(const base_config_t *config,
                                    const char *name, const char *bus_id,
                                    mem_bar_t *bar_p, block_budget_t *budget_p);

/* --- sizes -------------------------------------------------------------------
 * The sizes of a pool: what `auto` means for the memory of all blocks, for one
 * block and for one region; and the number of blocks in each share.
 */

/* The page size of a GPU's memory. */
#define BLOCK_SIZES_GPU_PAGE ((size_t)2 << 20)

typedef struct block_sizes_params {
    const mem_kind_t *kind;
    bool              for_gpu;     /* even if the blocks lie in host memory */
    uint64_t          memory_size; /* of the machine, or of the GPU */
    uint64_t          limit;       /* for COMM_SIZE=auto, from block_budget_t */
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
 * share that is not 0. Used if the requested size is not available.
 *
 * asked    The settings before block_sizes_settle().
 * settled  The settings after it.
 */
size_t block_sizes_floor(const base_config_t *asked,
                         const base_config_t *settled, bool for_gpu);

/* The most blocks that fit in the pool's packed words: 256 GiB in 4-KiB
 * blocks. */
#define BLOCK_MAX_BLOCKS (((uint32_t)1 << 26) - 1)

/*
 * Compute the number of blocks in each share.
 *
 * totals [out]  Array of BLOCK_SHARE_LAST, by block_share_t.
 *
 * Errors as for block_pool_create().
 */
ucxpool_status_t block_split(const block_pool_params_t *params,
                             uint32_t                  *totals);

#endif
