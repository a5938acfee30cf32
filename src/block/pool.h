/*
 * The block pool: which blocks are free, and who holds the others.
 *
 *     bitmap      1 1 0 1 0 0 0 1 ...     1: free
 *     available   send 3, recv 2, user 1  what each share may still take
 *     at hand     send 6, recv -, user -  one free block of each, not in the
 *                                         bitmap
 *
 *     states      - - u - s r - - ...     free, held or quarantined, for whom
 *
 * A get first takes from its share's count, so that all-or-nothing is one
 * atomic step, and in the same step the block at hand; without one it clears
 * bits. A put makes its block the one at hand in the step that gives the count
 * back; where there is one already it sets the bit, then gives the count back.
 * So there are never fewer bits set than the counts promise, those at hand
 * taken off. No lock, no system call, no allocation.
 *
 * For each share: free + held + quarantined == total.
 */
#ifndef BLOCK_POOL_H
#define BLOCK_POOL_H

#include "mem/region.h"

#include <ucxpool/pool.h>

typedef struct block_pool block_pool_t;

/* Who blocks are for: the three shares of the pool. */
typedef enum block_share {
    BLOCK_SHARE_SEND = 0,
    BLOCK_SHARE_RECV = 1,
    BLOCK_SHARE_USER = 2,
    BLOCK_SHARE_LAST
} block_share_t;

/* total == free + held + quarantined, at any moment. */
typedef struct block_stats {
    uint64_t total;
    uint64_t free;
    uint64_t held;
    uint64_t quarantined;
    uint64_t high_water; /* most blocks not free at one time */
} block_stats_t;

typedef struct block_pool_params {
    const mem_regions_t *regions; /* lives longer than the pool */
    size_t               block_size;
    unsigned             send_share; /* percent; each share gets at least one */
    unsigned             recv_share; /* percent; the user's share is the rest */
} block_pool_params_t;

/*
 * Send and receive get one block at the least; the user's share may get none
 * where there are only two.
 *
 * UCXPOOL_ERR_INVALID_PARAM  fewer than two blocks, the shares make more than
 *                            100 percent, or the block size does not divide
 *                            the region size
 * UCXPOOL_ERR_NO_MEMORY      nothing is left behind
 */
ucxpool_status_t block_pool_create(const block_pool_params_t *params,
                                   block_pool_t             **pool_p);
/* Whatever is held: nobody may touch the pool any more. NULL is allowed. */
void block_pool_destroy(block_pool_t *pool);

/*
 * Take blocks. Indices are 0 .. number of blocks - 1, ascending with the
 * address. One block is that at hand, else the lowest free one: the likeliest
 * to be in the processor's cache. Several are the lowest run of blocks side by
 * side where there is one. Such a run may cross from one region to the next.
 *
 * num_blocks  1 or more.
 *
 * UCXPOOL_ERR_NO_BLOCKS  the share has fewer free now. Not logged: callers try
 *                        again all the time
 */
ucxpool_status_t block_pool_get(block_pool_t *pool, block_share_t share,
                                uint32_t *index_p);
ucxpool_status_t block_pool_get_n(block_pool_t *pool, block_share_t share,
                                  size_t num_blocks, uint32_t *indices);

/*
 * The two steps of block_pool_get_n(), to take the blocks in parts: all that
 * were reserved must be taken, and count as held until they are.
 *
 * num_blocks  Of take: 1 or more, and in all no more than were reserved.
 *
 * UCXPOOL_ERR_NO_BLOCKS  the share has fewer free now
 */
ucxpool_status_t block_pool_reserve(block_pool_t *pool, block_share_t share,
                                    size_t num_blocks);
void block_pool_take(block_pool_t *pool, block_share_t share, size_t num_blocks,
                     uint32_t *indices);

/* Give back a block that the share holds. */
void block_pool_put(block_pool_t *pool, block_share_t share, uint32_t index);

/*
 * The same for an index that a caller of the library gave us. Does nothing and
 * returns false when there is no such block or the share does not hold it; of
 * two threads that give back one block, one gets false.
 */
bool block_pool_try_put(block_pool_t *pool, block_share_t share,
                        uint32_t index);

/* Is there such a block, and does the share hold it (not quarantined)? */
bool block_pool_is_held(const block_pool_t *pool, block_share_t share,
                        uint32_t index);

/* held -> quarantined: somebody may still touch the block. */
void block_pool_quarantine(block_pool_t *pool, block_share_t share,
                           uint32_t index);
/* quarantined -> free. */
void block_pool_release(block_pool_t *pool, block_share_t share,
                        uint32_t index);

/* Put the blocks at hand among the others, so that the next one to be taken is
 * the lowest free one, whatever share takes it. */
void block_pool_clear_hands(block_pool_t *pool);

/*
 * Tell memory checkers that nothing in this process touches a block any more.
 * Free blocks are in that state by themselves. For quarantined blocks the
 * caller knows: a peer that has the block mapped is not affected, but UCX in
 * this process may still have to write to it.
 */
void block_pool_poison(const block_pool_t *pool, uint32_t index);

const mem_regions_t *block_pool_regions(const block_pool_t *pool);

size_t   block_pool_block_size(const block_pool_t *pool);
uint32_t block_pool_num_blocks(const block_pool_t *pool);
void    *block_pool_address(const block_pool_t *pool, uint32_t index);
/* Region, offset and length of a block. */
void block_pool_locate(const block_pool_t *pool, uint32_t index,
                       mem_piece_t *piece_p);

/*
 * A snapshot that is consistent at any moment: total == free + held +
 * quarantined, and high_water >= held + quarantined. Blocks that a get has been
 * promised count as held.
 */
void block_pool_stats(const block_pool_t *pool, block_share_t share,
                      block_stats_t *stats_p);

/*
 * free + held + quarantined == total for each share, and the bitmap and the
 * state of each block agree. Exact only while nobody gets or puts.
 *
 * UCXPOOL_ERR_PROTOCOL  they do not; the detail tells where
 */
ucxpool_status_t block_pool_check(const block_pool_t *pool);

#endif
