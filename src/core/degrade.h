/*
 * Takes memory for blocks and registers it; where not all can be had, less.
 *
 * The size goes down to what the regions that did register make, or by an
 * eighth where not one did, until it works or is below the floor; with
 * COMM_STRICT not at all. Nothing is kept of an attempt that failed: what is
 * registered is what is used.
 */
#ifndef CORE_DEGRADE_H
#define CORE_DEGRADE_H

#include "base/error.h"
#include "block/sizes.h"
#include "core/pool.h"

typedef struct core_degrade {
    block_sizes_params_t sizes;
    int                  device;        /* GPU, as the process counts; -1 */
    bool                 is_registered; /* with UCX */
} core_degrade_t;

/* How it went, also after an error. */
typedef struct core_degrade_outcome {
    size_t   bytes_asked;
    uint64_t blocks_asked;
    unsigned num_failed;           /* attempts */
    bool     is_short;             /* the error: there is not so much */
    char     why[BASE_ERROR_SIZE]; /* the first failure; "": there was none */
} core_degrade_outcome_t;

/*
 * config [in,out]  Sizes that are `auto` become numbers: those of the memory
 *                  that was taken. As it was after an error.
 *
 * Errors as for mem_regions_init() and ucx_reg_regions(). That there is not
 * so much is not logged: the caller knows what follows.
 */
ucxpool_status_t core_degrade(ucxpool_t *pool, const core_degrade_t *wish,
                              base_config_t *config, mem_regions_t *regions,
                              core_degrade_outcome_t *taken_p);

#endif
