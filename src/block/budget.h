/*
 * The budget of a pool on a GPU: how much of BAR1 its blocks may take.
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
#include "mem/nvml.h"

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

#endif
