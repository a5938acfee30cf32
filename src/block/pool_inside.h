/*
 * What the check of the block pool gets to see of it.
 */
#ifndef BLOCK_POOL_INSIDE_H
#define BLOCK_POOL_INSIDE_H

#include "block/pool.h"

/* State of a block: free, or one of these plus its share. */
#define BLOCK_FREE        0u
#define BLOCK_HELD        1u
#define BLOCK_QUARANTINED (BLOCK_HELD + UCXPOOL_SHARE_LAST)
#define BLOCK_LAST        (BLOCK_QUARANTINED + UCXPOOL_SHARE_LAST)

unsigned block_pool_state(const block_pool_t *pool, uint32_t index);

/* A free block is in exactly one of two places: the bitmap, or at hand for one
 * share. */
bool block_pool_has_bit(const block_pool_t *pool, uint32_t index);
bool block_pool_has_at_hand(const block_pool_t *pool, ucxpool_share_t share,
                            uint32_t index);

/* Bits that are set, past the last block (there must be none) included. */
uint64_t block_pool_num_bits(const block_pool_t *pool);

#endif
