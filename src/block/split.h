/*
 * How many blocks there are, and which share gets how many.
 */
#ifndef BLOCK_SPLIT_H
#define BLOCK_SPLIT_H

#include "block/pool.h"

/* 256 GiB in blocks of a page: what fits the fields of the pool's words. */
#define BLOCK_MAX_BLOCKS (((uint32_t)1 << 26) - 1)

/*
 * totals [out]  Array of UCXPOOL_SHARE_LAST, by ucxpool_share_t.
 *
 * Errors as for block_pool_create().
 */
ucxpool_status_t block_split(const block_pool_params_t *params,
                             uint32_t                  *totals);

#endif
