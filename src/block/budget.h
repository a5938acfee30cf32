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
 *
 * Pure arithmetic: who asks has the figures.
 */
#ifndef BLOCK_BUDGET_H
#define BLOCK_BUDGET_H

#include "base/config.h"
#include "block/preset.h"
#include "mem/nvml.h"

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
