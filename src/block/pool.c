#include "block/pool.h"
#include "base/error.h"
#include "base/math.h"
#include "base/memcheck.h"
#include "block/bitmap.h"
#include "block/split.h"

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

#define CACHE_LINE 64

/*
 * Free and quarantined blocks of a share are one atomic word, so that readers
 * never see one without the other; what is neither is held.
 */
#define ONE_FREE        ((uint64_t)1)
#define ONE_QUARANTINED ((uint64_t)1 << 32)

typedef struct block_share {
    alignas(CACHE_LINE) _Atomic uint64_t counts;
    _Atomic uint32_t high_water;
    uint32_t         total;
} block_share_t;

/* State of a block: free, or one of these plus its share. */
#define STATE_FREE        0u
#define STATE_HELD        1u
#define STATE_QUARANTINED (STATE_HELD + UCXPOOL_SHARE_LAST)
#define STATE_LAST        (STATE_QUARANTINED + UCXPOOL_SHARE_LAST)

struct block_pool {
    const mem_regions_t *regions;
    block_bitmap_t      *free_blocks;
    size_t               block_size;
    uint32_t             num_blocks;
    uint32_t             blocks_per_region;
    block_share_t        shares[UCXPOOL_SHARE_LAST];
    _Atomic uint8_t      states[];
};

static const char *const share_names[] = {"send", "receive", "user"};

static uint32_t num_free(uint64_t counts)
{
    return (uint32_t)counts;
}

static uint32_t num_quarantined(uint64_t counts)
{
    return (uint32_t)(counts >> 32);
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

    pool->regions           = params->regions;
    pool->block_size        = params->block_size;
    pool->num_blocks        = num_blocks;
    pool->blocks_per_region = num_blocks / params->regions->num_regions;
    for (int i = 0; i < UCXPOOL_SHARE_LAST; i++) {
        pool->shares[i].total = totals[i];
        atomic_init(&pool->shares[i].counts, totals[i] * ONE_FREE);
        atomic_init(&pool->shares[i].high_water, 0);
    }
    for (uint32_t i = 0; i < num_blocks; i++) {
        atomic_init(&pool->states[i], STATE_FREE);
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

/* Take num from the share's free blocks, all or none. */
static bool reserve(block_share_t *share, size_t num)
{
    uint64_t counts =
        atomic_load_explicit(&share->counts, memory_order_relaxed);

    do {
        if (num_free(counts) < num) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &share->counts, &counts, counts - num * ONE_FREE, memory_order_acquire,
        memory_order_relaxed));

    raise_high_water(share, share->total - num_free(counts) + (uint32_t)num);
    return true;
}

ucxpool_status_t block_pool_get_n(block_pool_t *pool, ucxpool_share_t share,
                                  size_t num_blocks, uint32_t *indices)
{
    assert(num_blocks > 0);
    if (!reserve(&pool->shares[share], num_blocks)) {
        return UCXPOOL_ERR_NO_BLOCKS;
    }
    block_bitmap_take(pool->free_blocks, num_blocks, indices);
    for (size_t i = 0; i < num_blocks; i++) {
        assert(atomic_load_explicit(&pool->states[indices[i]],
                                    memory_order_relaxed) == STATE_FREE);
        atomic_store_explicit(&pool->states[indices[i]],
                              (uint8_t)(STATE_HELD + share),
                              memory_order_relaxed);
        base_memcheck_unpoison(block_pool_address(pool, indices[i]),
                               pool->block_size);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t block_pool_get(block_pool_t *pool, ucxpool_share_t share,
                                uint32_t *index_p)
{
    uint32_t         index;
    ucxpool_status_t status = block_pool_get_n(pool, share, 1, &index);

    if (status == UCXPOOL_OK) {
        *index_p = index;
    }
    return status;
}

/* The state is STATE_FREE already: whoever takes the bit must find it so. The
 * count comes last: it promises a bit. */
static void give_back(block_pool_t *pool, ucxpool_share_t share, uint32_t index,
                      uint64_t counts)
{
    base_memcheck_poison(block_pool_address(pool, index), pool->block_size);
    block_bitmap_give(pool->free_blocks, index);
    atomic_fetch_add_explicit(&pool->shares[share].counts, counts,
                              memory_order_release);
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
    change_state(pool, index, STATE_HELD + share, STATE_FREE);
    give_back(pool, share, index, ONE_FREE);
}

bool block_pool_try_put(block_pool_t *pool, ucxpool_share_t share,
                        uint32_t index)
{
    uint8_t held = (uint8_t)(STATE_HELD + share);

    if ((index >= pool->num_blocks) ||
        !atomic_compare_exchange_strong_explicit(
            &pool->states[index], &held, STATE_FREE, memory_order_relaxed,
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
            STATE_HELD + share);
}

void block_pool_quarantine(block_pool_t *pool, ucxpool_share_t share,
                           uint32_t index)
{
    change_state(pool, index, STATE_HELD + share, STATE_QUARANTINED + share);
    atomic_fetch_add_explicit(&pool->shares[share].counts, ONE_QUARANTINED,
                              memory_order_relaxed);
}

void block_pool_release(block_pool_t *pool, ucxpool_share_t share,
                        uint32_t index)
{
    change_state(pool, index, STATE_QUARANTINED + share, STATE_FREE);
    give_back(pool, share, index, ONE_FREE - ONE_QUARANTINED);
}

void block_pool_poison(const block_pool_t *pool, uint32_t index)
{
    base_memcheck_poison(block_pool_address(pool, index), pool->block_size);
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
    const block_share_t *from   = &pool->shares[share];
    uint64_t             counts = atomic_load(&from->counts);
    uint32_t             used   = from->total - num_free(counts);

    stats_p->total       = from->total;
    stats_p->free        = num_free(counts);
    stats_p->quarantined = num_quarantined(counts);
    stats_p->held        = used - stats_p->quarantined;
    /* A get that has the count may not have come to the high water yet. */
    stats_p->high_water = base_max(atomic_load(&from->high_water), used);
}

static ucxpool_status_t check_share(const block_pool_t *pool,
                                    ucxpool_share_t     share,
                                    const uint32_t     *num_in_state)
{
    ucxpool_share_stats_t stats;
    uint32_t              held        = num_in_state[STATE_HELD + share];
    uint32_t              quarantined = num_in_state[STATE_QUARANTINED + share];

    block_pool_stats(pool, share, &stats);
    if ((stats.held != held) || (stats.quarantined != quarantined) ||
        (stats.free + held + quarantined != stats.total)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "the %s share counts %llu free, %llu held and %llu "
                          "quarantined of %llu blocks, but %u are held and %u "
                          "quarantined",
                          share_names[share], (unsigned long long)stats.free,
                          (unsigned long long)stats.held,
                          (unsigned long long)stats.quarantined,
                          (unsigned long long)stats.total, held, quarantined);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t block_pool_check(const block_pool_t *pool)
{
    uint32_t num_in_state[STATE_LAST] = {0};

    for (uint32_t i = 0; i < pool->num_blocks; i++) {
        unsigned state = atomic_load(&pool->states[i]);

        if (state >= STATE_LAST) {
            return base_error(UCXPOOL_ERR_PROTOCOL,
                              "block %u is in state %u, which there is not", i,
                              state);
        }
        num_in_state[state]++;
        if (block_bitmap_test(pool->free_blocks, i) != (state == STATE_FREE)) {
            return base_error(UCXPOOL_ERR_PROTOCOL,
                              "block %u is in state %u, but its bit is %s", i,
                              state, (state == STATE_FREE) ? "taken" : "free");
        }
    }
    if (block_bitmap_count(pool->free_blocks) != num_in_state[STATE_FREE]) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "there are free bits past the last of %u blocks",
                          pool->num_blocks);
    }
    for (int i = 0; i < UCXPOOL_SHARE_LAST; i++) {
        ucxpool_status_t status =
            check_share(pool, (ucxpool_share_t)i, num_in_state);

        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    return UCXPOOL_OK;
}
