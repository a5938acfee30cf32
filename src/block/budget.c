#include <config.h>

#include "base/math.h"
#include "base/text.h"
#include "block/budget.h"

#include <stdio.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

/* Windows up to this size are small: a pool of the usual size is a large part
 * of one, and so is what the driver keeps. */
#define SMALL_WINDOW (1024 * MIB)

/* What a driver may hold on a GPU that nobody uses: published outputs of
 * nvidia-smi show up to 2 MiB there. A preset has taken that off already. */
#define IDLE_USE (8 * MIB)

static void set_usable(const block_preset_t *preset, const mem_bar_t *bar,
                       block_budget_t *budget)
{
    const char *from = preset->from;

    if (preset->is_found && (preset->limit != BLOCK_PRESET_NONE)) {
        budget->usable = preset->limit;
        if (bar->size != 0) {
            budget->usable = base_min(budget->usable, bar->size);
        }
    } else if (bar->size == 0) {
        budget->usable = BLOCK_BUDGET_NONE;
        from           = bar->source == MEM_BAR_NONE
                             ? "this GPU has no window"
                             : "the window's size is not known, and no preset "
                               "is for the device";
    } else if (preset->is_found || (bar->size > SMALL_WINDOW)) {
        budget->usable = bar->size;
        from = preset->is_found ? preset->from : "all of a large window";
    } else {
        budget->usable = bar->size / 4 * 3;
        from           = "three quarters of a small window without a preset";
    }
    snprintf(budget->usable_from, sizeof(budget->usable_from), "%s", from);
}

/* What is not usable is left for others already. */
static uint64_t auto_reserve(const mem_bar_t *bar, uint64_t usable)
{
    if (usable < bar->size) {
        return 0;
    }
    return base_min(bar->size / 8, BLOCK_BUDGET_UCX_STEP);
}

ucxpool_status_t block_budget_compute(const base_config_t *config,
                                      const char *name, const mem_bar_t *bar,
                                      block_budget_t *budget_p)
{
    block_preset_t   preset;
    ucxpool_status_t status;
    uint64_t         left;

    status = block_preset_find(config->budget_file, name, bar->size, &preset);
    if (status != UCXPOOL_OK) {
        return status;
    }
    memset(budget_p, 0, sizeof(*budget_p));
    set_usable(&preset, bar, budget_p);
    budget_p->others          = bar->used - base_min(bar->used, IDLE_USE);
    budget_p->is_reserve_auto = config->comm_reserve == BASE_SIZE_AUTO;
    budget_p->reserve         = budget_p->is_reserve_auto
                                    ? auto_reserve(bar, budget_p->usable)
                                    : config->comm_reserve;
    budget_p->limit           = BLOCK_BUDGET_NONE;
    if (budget_p->usable == BLOCK_BUDGET_NONE) {
        return UCXPOOL_OK;
    }
    left = budget_p->usable - base_min(budget_p->usable, budget_p->others);
    if (bar->size != 0) {
        left = base_min(left, bar->free);
    }
    budget_p->limit = left - base_min(left, budget_p->reserve);
    return UCXPOOL_OK;
}

ucxpool_status_t block_budget_query(const base_config_t *config,
                                    const char *name, const char *bus_id,
                                    mem_bar_t *bar_p, block_budget_t *budget_p)
{
    mem_bar_query(bus_id, bar_p);
    return block_budget_compute(config, name, bar_p, budget_p);
}
