/*
 * The block pool. It tracks which blocks are free, and which share uses each of
 * the others.
 *
 *     bitmap      1 1 0 1 0 0 0 1 ...     1: free
 *     available   send 3, recv 2, user 1  what each share may still take
 *     cache       send 6, recv -, user -  at most one free block of each share,
 *                                         not in the bitmap ("at hand")
 *
 *     states      - - u - s r - - ...     free, held or quarantined, and the
 *                                         share
 *
 * A get first subtracts from its share's count, so that a get of several blocks
 * succeeds or fails in one atomic step. The same step takes the cached block.
 * If the cache is empty, the get clears bits of the bitmap. A put adds to the
 * count and stores its block in the cache, in one step. If the cache is full,
 * the put first sets the bit of its block and then adds to the count. The
 * number of set bits in the bitmap is therefore always at least the sum of the
 * counts minus the number of cached blocks. The pool uses no locks, no system
 * calls and no allocations.
 *
 * For each share: free + held + quarantined == total.
 */
#ifndef BLOCK_POOL_H
#define BLOCK_POOL_H

#include "mem/region.h"

#include <ucxpool/pool.h>

typedef struct block_pool block_pool_t;

/* The three shares of the pool: what a block is used for. */
typedef enum block_share {
    BLOCK_SHARE_SEND = 0,
    BLOCK_SHARE_RECV = 1,
    BLOCK_SHARE_USER = 2,
    BLOCK_SHARE_LAST
} block_share_t;

/* total == free + held + quarantined, always. */
typedef struct block_stats {
    uint64_t total;
    uint64_t free;
    uint64_t held;
    uint64_t quarantined;
    uint64_t high_water; /* maximum of held + quarantined */
} block_stats_t;

typedef struct block_pool_params {
    const mem_regions_t *regions;    /* must outlive the pool */
    size_t               block_size; /* divides the region size */
    unsigned             send_share; /* percent; at least one block */
    unsigned             recv_share; /* percent; the rest, up to 100 percent, is
                                        the user's share */
} block_pool_params_t;

/*
 * The send and receive shares get at least one block each. The user's share
 * gets none if there are only two blocks.
 *
 * UCXPOOL_ERR_INVALID_PARAM  fewer than two blocks, or too many
 * UCXPOOL_ERR_NO_MEMORY      *pool_p is unchanged
 */
ucxpool_status_t block_pool_create(const block_pool_params_t *params,
                                   block_pool_t             **pool_p);
/* Destroy the pool. Blocks may still be held, but no thread may use the pool.
 * NULL is allowed. */
void block_pool_destroy(block_pool_t *pool);

/*
 * Take blocks. Indices are 0 .. number of blocks - 1, ascending with the
 * address. A single block is the share's cached block, or else the lowest free
 * block, because these blocks are most likely in the CPU's cache. Several
 * blocks are the lowest run of adjacent blocks, if there is one. Such a run may
 * cross from one region to the next.
 *
 * num_blocks  1 or more.
 *
 * UCXPOOL_ERR_NO_BLOCKS  the share now has fewer than num_blocks free blocks.
 *                        Not logged, because callers retry often
 */
ucxpool_status_t block_pool_get(block_pool_t *pool, block_share_t share,
                                uint32_t *index_p);
ucxpool_status_t block_pool_get_n(block_pool_t *pool, block_share_t share,
                                  size_t num_blocks, uint32_t *indices);

/*
 * The two steps of block_pool_get_n(), for callers that take blocks in parts.
 * Every reserved block must be taken. It counts as held as soon as it is
 * reserved.
 *
 * num_blocks  For take: 1 or more; all calls together, as many as reserved.
 *
 * UCXPOOL_ERR_NO_BLOCKS  the share has fewer free blocks now
 */
ucxpool_status_t block_pool_reserve(block_pool_t *pool, block_share_t share,
                                    size_t num_blocks);
void block_pool_take(block_pool_t *pool, block_share_t share, size_t num_blocks,
                     uint32_t *indices);

/* Put back a block that the share holds. */
void block_pool_put(block_pool_t *pool, block_share_t share, uint32_t index);

/*
 * Like block_pool_put(), for an index from the application. Returns false, and
 * changes nothing, if the block does not exist or the share does not hold it.
 * If two threads put the same block, one of them gets false.
 */
bool block_pool_try_put(block_pool_t *pool, block_share_t share,
                        uint32_t index);

/* Change a block from held to quarantined, because a peer or the hardware may
 * still access it. */
void block_pool_quarantine(block_pool_t *pool, block_share_t share,
                           uint32_t index);
/* Change a block from quarantined to free. */
void block_pool_release(block_pool_t *pool, block_share_t share,
                        uint32_t index);

/*
 * Mark a block as inaccessible for memory checkers. Free blocks are marked
 * automatically. For a quarantined block, the caller must ensure that no code
 * in this process accesses it. Peers may still access the block, but UCX in
 * this process must not write to it.
 */
void block_pool_poison(const block_pool_t *pool, uint32_t index);

const mem_regions_t *block_pool_regions(const block_pool_t *pool);

size_t   block_pool_block_size(const block_pool_t *pool);
uint32_t block_pool_num_blocks(const block_pool_t *pool);
void    *block_pool_address(const block_pool_t *pool, uint32_t index);
/* Get the region, offset and length of a block. */
void block_pool_locate(const block_pool_t *pool, uint32_t index,
                       mem_piece_t *piece_p);

/*
 * Get a snapshot that is always consistent: total == free + held + quarantined,
 * and high_water >= held + quarantined. Reserved blocks count as held.
 */
void block_pool_stats(const block_pool_t *pool, block_share_t share,
                      block_stats_t *stats_p);

/*
 * Check that free + held + quarantined == total for each share, and that the
 * bitmap matches the state of each block. Exact only while no thread gets or
 * puts blocks.
 *
 * UCXPOOL_ERR_PROTOCOL  a check failed; the detail says which
 */
ucxpool_status_t block_pool_check(const block_pool_t *pool);

#endif
