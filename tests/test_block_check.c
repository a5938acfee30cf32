/*
 * The consistency check of the block pool. Other tests rely on it, so this one
 * corrupts a pool and requires that the check reports it. Includes the pool's
 * source to do so.
 */
#include "../src/block/pool.c"

#include "core/stats.h"
#include "test.h"

#include <string.h>

#define NUM_BLOCKS 70u

static char          memory[NUM_BLOCKS * 64] __attribute__((aligned(64)));
static mem_regions_t regions = {
    .address = memory, .region_size = sizeof(memory), .num_regions = 1};
static block_pool_t *pool;

static void setup(void)
{
    block_pool_params_t params = {.regions    = &regions,
                                  .block_size = 64,
                                  .send_share = 25,
                                  .recv_share = 25};

    assert_ok(block_pool_create(&params, &pool));
    assert_ok(block_pool_check(pool));
}

static void teardown(void)
{
    block_pool_destroy(pool);
}

static void require_found(const char *word)
{
    assert_error_detail(block_pool_check(pool), PROTOCOL, word);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown);

TEST(a_lost_block_is_found)
{
    uint32_t index;

    bitmap_take(pool->free_blocks, 1, &index);
    require_found("block 0");
}

TEST(a_block_that_is_free_and_held_is_found)
{
    uint32_t index;

    assert_ok(block_pool_get(pool, BLOCK_SHARE_USER, &index));
    bitmap_give(pool->free_blocks, index);
    require_found("block 0");
}

TEST(a_block_that_is_free_twice_is_found)
{
    uint32_t index;

    assert_ok(block_pool_get(pool, BLOCK_SHARE_USER, &index));
    block_pool_put(pool, BLOCK_SHARE_USER, index);
    assert_ok(block_pool_check(pool));
    bitmap_give(pool->free_blocks, index);
    require_found("2 places");
}

TEST(held_block_at_hand_is_found)
{
    uint32_t index;

    assert_ok(block_pool_get(pool, BLOCK_SHARE_USER, &index));
    ck_assert(put_at_hand(&pool->shares[BLOCK_SHARE_SEND], index, 0));
    require_found("block 0");
}

TEST(invalid_state_is_found)
{
    atomic_store(&pool->states[69], BLOCK_LAST);
    require_found("block 69");
}

TEST(a_free_bit_past_the_end_is_found)
{
    bitmap_give(pool->free_blocks, NUM_BLOCKS);
    require_found("after the last");
}

TEST(a_wrong_count_is_found)
{
    for (int i = 0; i < BLOCK_SHARE_LAST; i++) {
        share_counts_t *share = &pool->shares[i];

        atomic_fetch_sub(&share->word, ONE_FREE);
        require_found(share_names[i]);
        atomic_fetch_add(&share->word, 2 * ONE_FREE);
        require_found(share_names[i]);
        atomic_fetch_sub(&share->word, ONE_FREE);
        atomic_fetch_add(&share->word, ONE_QUARANTINED);
        require_found(share_names[i]);
        atomic_fetch_sub(&share->word, ONE_QUARANTINED);
        assert_ok(block_pool_check(pool));
    }
}

TEST(block_in_the_wrong_share_is_found)
{
    uint32_t index;

    assert_ok(block_pool_get(pool, BLOCK_SHARE_SEND, &index));
    atomic_store(&pool->states[index], BLOCK_HELD + BLOCK_SHARE_RECV);
    require_found("send");
    atomic_store(&pool->states[index], BLOCK_QUARANTINED + BLOCK_SHARE_SEND);
    require_found("send");
}

TEST(high_water_counts_a_get_in_progress)
{
    share_counts_t *share = &pool->shares[BLOCK_SHARE_USER];
    block_stats_t   stats;

    atomic_fetch_sub(&share->word, 2 * ONE_FREE);
    block_pool_stats(pool, BLOCK_SHARE_USER, &stats);
    ck_assert_uint_eq(stats.held, 2);
    ck_assert_uint_eq(stats.high_water, 2);
}
