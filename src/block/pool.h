/*
 * The block pool: which blocks are free, and who holds the others.
 *
 *     bitmap      1 1 0 1 0 0 1 1 ...     1: free
 *     available   send 3, recv 2, user 4  what each share may still take
 *
 * A get first takes from its share's count, so that all-or-nothing is one
 * atomic subtraction; then it clears bits. A put sets the bit, then gives the
 * count back. No lock, no system call, no allocation.
 *
 * For each share: free + held + quarantined == total.
 */
#ifndef BLOCK_POOL_H
#define BLOCK_POOL_H

#include "mem/region.h"

#include <ucxpool/stats.h>

typedef struct block_pool block_pool_t;

typedef struct block_pool_params {
    const mem_regions_t *regions;    /* lives longer than the pool            */
    size_t               block_size;
    unsigned             send_share; /* percent; each share gets at least one */
    unsigned             recv_share; /* percent                               */
} block_pool_params_t;

ucxpool_status_t block_pool_create(const block_pool_params_t *params,
                                   block_pool_t **pool_p);
void             block_pool_destroy(block_pool_t *pool);

/* Indices are 0 .. number of blocks - 1, ascending with the address. */
ucxpool_status_t block_pool_get(block_pool_t *pool, ucxpool_share_t share,
                                uint32_t *index_p);
ucxpool_status_t block_pool_get_n(block_pool_t *pool, ucxpool_share_t share,
                                  size_t num_blocks, uint32_t *indices);
void             block_pool_put(block_pool_t *pool, ucxpool_share_t share,
                                uint32_t index);

/* held -> quarantined: somebody may still touch the block. */
void block_pool_quarantine(block_pool_t *pool, ucxpool_share_t share,
                           uint32_t index);
/* quarantined -> free. */
void block_pool_release(block_pool_t *pool, ucxpool_share_t share,
                        uint32_t index);

size_t   block_pool_block_size(const block_pool_t *pool);
uint32_t block_pool_num_blocks(const block_pool_t *pool);
void    *block_pool_address(const block_pool_t *pool, uint32_t index);
/* Region and offset of a block. */
void     block_pool_locate(const block_pool_t *pool, uint32_t index,
                           mem_piece_t *piece_p);

void block_pool_stats(const block_pool_t *pool, ucxpool_share_t share,
                      ucxpool_share_stats_t *stats_p);

/* free + held + quarantined == total for each share, and the bitmap agrees.
 * Exact only while nobody gets or puts. */
ucxpool_status_t block_pool_check(const block_pool_t *pool);

#endif
