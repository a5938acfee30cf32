#include "block/pool.h"
#include "base/error.h"
#include "base/math.h"
#include "base/memcheck.h"
#include "block/bitmap.h"
#include "block/pool_inside.h"
#include "block/split.h"

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

#define CACHE_LINE 64

/*
 * A share's free and quarantined blocks are one atomic word, so that readers
 * never see one without the other; what is neither is held. With them goes the
 * block at hand, or 0 for none, so that one step takes or gives both the block
 * and its count.
 *
 *     bit    0         26           52            64
 *            | free    | quarantined | at hand + 1 |
 */
#define COUNT_BITS      26
#define HAND_BITS       (64 - 2 * COUNT_BITS)
#define COUNT_MASK      (((uint64_t)1 << COUNT_BITS) - 1)
#define ONE_FREE        ((uint64_t)1)
#define ONE_QUARANTINED ((uint64_t)1 << COUNT_BITS)
#define HAND_SHIFT      (2 * COUNT_BITS)
#define HAND_REST       (((uint64_t)1 << HAND_SHIFT) - 1)

/* Blocks that may be at hand: the others go by the bitmap alone. */
#define MAX_AT_HAND (((uint32_t)1 << HAND_BITS) - 1)

static_assert(BLOCK_MAX_BLOCKS <= COUNT_MASK, "a count fits its bits");

typedef struct block_share {
    alignas(CACHE_LINE) _Atomic uint64_t word;
    _Atomic uint32_t high_water;
    uint32_t         total;
} block_share_t;

#define NO_BLOCK UINT32_MAX

struct block_pool {
    const mem_regions_t *regions;
    block_bitmap_t      *free_blocks;
    size_t               block_size;
    uint32_t             num_blocks;
    uint32_t             blocks_per_region;
    bool                 is_watched; /* by a memory checker */
    block_share_t        shares[UCXPOOL_SHARE_LAST];
    _Atomic uint8_t      states[];
};

static uint32_t num_free(uint64_t word)
{
    return (uint32_t)(word & COUNT_MASK);
}

static uint32_t num_quarantined(uint64_t word)
{
    return (uint32_t)((word >> COUNT_BITS) & COUNT_MASK);
}

/* Of the block at hand, or NO_BLOCK. */
static uint32_t index_at_hand(uint64_t word)
{
    return (uint32_t)(word >> HAND_SHIFT) - 1;
}

ucxpool_status_t block_pool_create(const block_pool_params_t *params,
                                   block_pool_t             **pool_p)
{
    uint32_t         totals[UCXPOOL_SHARE_LAST];
    uint32_t         num_blocks;
    block_pool_t    *pool;
    ucxpool_status_t status;

    status = block_split(params, totals);
    if (status != UCXPOOL_OK) {
        return status;
    }
    num_blocks = totals[UCXPOOL_SHARE_SEND] + totals[UCXPOOL_SHARE_RECV] +
                 totals[UCXPOOL_SHARE_USER];

    pool = aligned_alloc(CACHE_LINE, base_align_up(sizeof(*pool) + num_blocks,
                                                   (size_t)CACHE_LINE));
    if (pool == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for the states of %u blocks", num_blocks);
    }
    status = block_bitmap_create(num_blocks, &pool->free_blocks);
    if (status != UCXPOOL_OK) {
        goto err_free_pool;
    }

    pool->regions    = params->regions;
    pool->block_size = params->block_size;
    pool->num_blocks = num_blocks;
    pool->is_watched = base_memcheck_is_on();
    pool->blocks_per_region =
        num_blocks / base_max(params->regions->num_regions, 1u);
    for (int i = 0; i < UCXPOOL_SHARE_LAST; i++) {
        pool->shares[i].total = totals[i];
        atomic_init(&pool->shares[i].word, totals[i] * ONE_FREE);
        atomic_init(&pool->shares[i].high_water, 0);
    }
    for (uint32_t i = 0; i < num_blocks; i++) {
        atomic_init(&pool->states[i], BLOCK_FREE);
    }
    base_memcheck_poison(params->regions->address,
                         num_blocks * params->block_size);
    *pool_p = pool;
    return UCXPOOL_OK;

err_free_pool:
    free(pool);
    return status;
}

void block_pool_destroy(block_pool_t *pool)
{
    if (pool == NULL) {
        return;
    }
    base_memcheck_unpoison(pool->regions->address,
                           pool->num_blocks * pool->block_size);
    block_bitmap_destroy(pool->free_blocks);
    free(pool);
}

/* high_water >= total - free, for every value that free has had. */
static void raise_high_water(block_share_t *share, uint32_t used)
{
    uint32_t seen =
        atomic_load_explicit(&share->high_water, memory_order_relaxed);

    while ((used > seen) && !atomic_compare_exchange_weak_explicit(
                                &share->high_water, &seen, used,
                                memory_order_relaxed, memory_order_relaxed)) {
    }
}

/*
 * Take num from the share's free blocks, all or none, and with them the block
 * at hand, NO_BLOCK where there is none.
 */
static bool reserve(block_share_t *share, size_t num, uint32_t *at_hand_p)
{
    uint64_t word = atomic_load_explicit(&share->word, memory_order_relaxed);
    uint64_t rest;

    do {
        if (num_free(word) < num) {
            return false;
        }
        rest = (word & HAND_REST) - num * ONE_FREE;
    } while (!atomic_compare_exchange_weak_explicit(
        &share->word, &word, rest, memory_order_acquire, memory_order_relaxed));

    raise_high_water(share, share->total - num_free(rest));
    *at_hand_p = index_at_hand(word);
    return true;
}

/* The block is free, and the caller's alone. */
static void hold(block_pool_t *pool, ucxpool_share_t share, uint32_t index)
{
    assert(block_pool_state(pool, index) == BLOCK_FREE);
    atomic_store_explicit(&pool->states[index], (uint8_t)(BLOCK_HELD + share),
                          memory_order_relaxed);
    if (pool->is_watched) {
        base_memcheck_unpoison(block_pool_address(pool, index),
                               pool->block_size);
    }
}

ucxpool_status_t block_pool_get(block_pool_t *pool, ucxpool_share_t share,
                                uint32_t *index_p)
{
    uint32_t index;

    if (!reserve(&pool->shares[share], 1, &index)) {
        return UCXPOOL_ERR_NO_BLOCKS;
    }
    if (index == NO_BLOCK) {
        block_bitmap_take(pool->free_blocks, 1, &index);
    }
    hold(pool, share, index);
    *index_p = index;
    return UCXPOOL_OK;
}

ucxpool_status_t block_pool_reserve(block_pool_t *pool, ucxpool_share_t share,
                                    size_t num_blocks)
{
    uint32_t at_hand;

    if (!reserve(&pool->shares[share], num_blocks, &at_hand)) {
        return UCXPOOL_ERR_NO_BLOCKS;
    }
    /* It may be part of the lowest run. */
    if (at_hand != NO_BLOCK) {
        block_bitmap_give(pool->free_blocks, at_hand);
    }
    return UCXPOOL_OK;
}

void block_pool_take(block_pool_t *pool, ucxpool_share_t share,
                     size_t num_blocks, uint32_t *indices)
{
    assert(num_blocks > 0);
    block_bitmap_take(pool->free_blocks, num_blocks, indices);
    for (size_t i = 0; i < num_blocks; i++) {
        hold(pool, share, indices[i]);
    }
}

ucxpool_status_t block_pool_get_n(block_pool_t *pool, ucxpool_share_t share,
                                  size_t num_blocks, uint32_t *indices)
{
    ucxpool_status_t status = block_pool_reserve(pool, share, num_blocks);

    if (status == UCXPOOL_OK) {
        block_pool_take(pool, share, num_blocks, indices);
    }
    return status;
}

/* Put a block at hand and change the counts, if none is there. */
static bool give_at_hand(block_share_t *share, uint32_t index, uint64_t counts)
{
    uint64_t word = atomic_load_explicit(&share->word, memory_order_relaxed);
    uint64_t hand = (uint64_t)(index + 1) << HAND_SHIFT;

    if (index >= MAX_AT_HAND) {
        return false;
    }
    do {
        if (index_at_hand(word) != NO_BLOCK) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &share->word, &word, word + counts + hand, memory_order_release,
        memory_order_relaxed));
    return true;
}

/* The state is free already: whoever takes the block must find it so. The
 * count comes last: it promises a bit. */
static void give_back(block_pool_t *pool, ucxpool_share_t share, uint32_t index,
                      uint64_t counts)
{
    block_pool_poison(pool, index);
    if (!give_at_hand(&pool->shares[share], index, counts)) {
        block_bitmap_give(pool->free_blocks, index);
        atomic_fetch_add_explicit(&pool->shares[share].word, counts,
                                  memory_order_release);
    }
}

/* The block is the caller's alone, so that its state needs no atomic swap. */
static void change_state(block_pool_t *pool, uint32_t index, unsigned from,
                         unsigned to)
{
    assert(index < pool->num_blocks);
    assert(atomic_load_explicit(&pool->states[index], memory_order_relaxed) ==
           from);
    (void)from;
    atomic_store_explicit(&pool->states[index], (uint8_t)to,
                          memory_order_relaxed);
}

void block_pool_put(block_pool_t *pool, ucxpool_share_t share, uint32_t index)
{
    change_state(pool, index, BLOCK_HELD + share, BLOCK_FREE);
    give_back(pool, share, index, ONE_FREE);
}

bool block_pool_try_put(block_pool_t *pool, ucxpool_share_t share,
                        uint32_t index)
{
    uint8_t held = (uint8_t)(BLOCK_HELD + share);

    if ((index >= pool->num_blocks) ||
        !atomic_compare_exchange_strong_explicit(
            &pool->states[index], &held, BLOCK_FREE, memory_order_relaxed,
            memory_order_relaxed)) {
        return false;
    }
    give_back(pool, share, index, ONE_FREE);
    return true;
}

bool block_pool_is_held(const block_pool_t *pool, ucxpool_share_t share,
                        uint32_t index)
{
    return (index < pool->num_blocks) &&
           (atomic_load_explicit(&pool->states[index], memory_order_relaxed) ==
            BLOCK_HELD + share);
}

void block_pool_quarantine(block_pool_t *pool, ucxpool_share_t share,
                           uint32_t index)
{
    change_state(pool, index, BLOCK_HELD + share, BLOCK_QUARANTINED + share);
    atomic_fetch_add_explicit(&pool->shares[share].word, ONE_QUARANTINED,
                              memory_order_relaxed);
}

void block_pool_release(block_pool_t *pool, ucxpool_share_t share,
                        uint32_t index)
{
    change_state(pool, index, BLOCK_QUARANTINED + share, BLOCK_FREE);
    give_back(pool, share, index, ONE_FREE - ONE_QUARANTINED);
}

/* Like a get, and a put that goes to the bitmap. */
void block_pool_clear_hands(block_pool_t *pool)
{
    for (int i = 0; i < UCXPOOL_SHARE_LAST; i++) {
        if (block_pool_reserve(pool, (ucxpool_share_t)i, 1) == UCXPOOL_OK) {
            atomic_fetch_add_explicit(&pool->shares[i].word, ONE_FREE,
                                      memory_order_release);
        }
    }
}

void block_pool_poison(const block_pool_t *pool, uint32_t index)
{
    if (pool->is_watched) {
        base_memcheck_poison(block_pool_address(pool, index), pool->block_size);
    }
}

const mem_regions_t *block_pool_regions(const block_pool_t *pool)
{
    return pool->regions;
}

size_t block_pool_block_size(const block_pool_t *pool)
{
    return pool->block_size;
}

uint32_t block_pool_num_blocks(const block_pool_t *pool)
{
    return pool->num_blocks;
}

void *block_pool_address(const block_pool_t *pool, uint32_t index)
{
    return (char *)pool->regions->address + index * pool->block_size;
}

void block_pool_locate(const block_pool_t *pool, uint32_t index,
                       mem_piece_t *piece_p)
{
    piece_p->region = index / pool->blocks_per_region;
    piece_p->offset = (index % pool->blocks_per_region) * pool->block_size;
    piece_p->length = pool->block_size;
}

void block_pool_stats(const block_pool_t *pool, ucxpool_share_t share,
                      ucxpool_share_stats_t *stats_p)
{
    const block_share_t *from = &pool->shares[share];
    uint64_t             word = atomic_load(&from->word);
    uint32_t             used = from->total - num_free(word);

    stats_p->total       = from->total;
    stats_p->free        = num_free(word);
    stats_p->quarantined = num_quarantined(word);
    stats_p->held        = used - stats_p->quarantined;
    /* A get that has the count may not have come to the high water yet. */
    stats_p->high_water = base_max(atomic_load(&from->high_water), used);
}

unsigned block_pool_state(const block_pool_t *pool, uint32_t index)
{
    return atomic_load(&pool->states[index]);
}

bool block_pool_has_bit(const block_pool_t *pool, uint32_t index)
{
    return block_bitmap_test(pool->free_blocks, index);
}

uint64_t block_pool_num_bits(const block_pool_t *pool)
{
    return block_bitmap_count(pool->free_blocks);
}

bool block_pool_has_at_hand(const block_pool_t *pool, ucxpool_share_t share,
                            uint32_t index)
{
    return index_at_hand(atomic_load(&pool->shares[share].word)) == index;
}
