/* Blocks for callers that use UCX directly. */
#include "base/error.h"
#include "core/pool.h"
#include "pair.h"
#include "test.h"

#include "core/stats.h"

#include <stdlib.h>
#include <string.h>

/* 1024 blocks, half of them in the user share. */
#define NUM_BLOCKS 512
#define BLOCK_SIZE ((size_t)4096)

static ucxpool_t      *pool;
static ucxpool_block_t blocks[NUM_BLOCKS + 1];

static void setup(void)
{
    pool = pair_pool("BLOCK_SIZE=4k COMM_SIZE=4m");
}

static void teardown(void)
{
    assert_ok(ucxpool_check(pool));
    ucxpool_destroy(pool);
}

static void require_free(uint64_t num)
{
    core_stats_t stats = pair_stats(pool);

    ck_assert_uint_eq(stats.blocks[BLOCK_SHARE_USER].total, NUM_BLOCKS);
    ck_assert_uint_eq(stats.blocks[BLOCK_SHARE_USER].free, num);
}

static void put_n(size_t num)
{
    for (size_t i = 0; i < num; i++) {
        ucxpool_block_put(pool, &blocks[i]);
    }
}

TEST_SETTINGS(.setup = setup, .teardown = teardown);

TEST(block_is_at_its_reported_offset)
{
    ucxpool_block_t block;
    const char     *start;

    assert_ok(ucxpool_block_get(pool, &block));
    memset(block.address, 1, block.size);
    ck_assert_uint_eq(block.size, BLOCK_SIZE);
    ck_assert_uint_lt(block.region, pool->memory.regions.num_regions);
    ck_assert_ptr_nonnull(block.memh);
    start = (char *)pool->memory.regions.address +
            block.region * pool->memory.regions.region_size;
    ck_assert_ptr_eq(block.address, start + block.region_offset);
    ucxpool_block_put(pool, &block);
    require_free(NUM_BLOCKS);
}

/* More than one internal lookup handles at a time. */
TEST(get_n_can_take_every_block)
{
    assert_ok(ucxpool_block_get_n(pool, NUM_BLOCKS, blocks));
    require_free(0);
    for (unsigned i = 0; i < NUM_BLOCKS; i++) {
        memset(blocks[i].address, (int)i, blocks[i].size);
    }
    for (unsigned i = 0; i < NUM_BLOCKS; i++) {
        ck_assert_uint_eq(*(uint8_t *)blocks[i].address, i & 255);
    }
    put_n(NUM_BLOCKS);
    require_free(NUM_BLOCKS);
}

TEST(get_n_takes_none_if_one_is_missing)
{
    ucxpool_block_t untouched[NUM_BLOCKS + 1];

    memset(blocks, 0x55, sizeof(blocks));
    memset(untouched, 0x55, sizeof(untouched));
    assert_error(ucxpool_block_get_n(pool, NUM_BLOCKS + 1, blocks), NO_BLOCKS);
    assert_error(ucxpool_block_get_n(pool, SIZE_MAX, blocks), NO_BLOCKS);
    assert_detail("fewer free blocks than 18446744073709551615");
    ck_assert_mem_eq(blocks, untouched, sizeof(blocks));
    require_free(NUM_BLOCKS);
}

TEST(get_n_rejects_a_count_of_zero)
{
    assert_error(ucxpool_block_get_n(pool, 0, blocks), INVALID_PARAM);
    require_free(NUM_BLOCKS);
}

TEST(get_fails_when_all_blocks_are_held)
{
    ucxpool_block_t block = {.index = 77};

    assert_ok(ucxpool_block_get_n(pool, NUM_BLOCKS, blocks));
    base_error(UCXPOOL_ERR_INVALID_PARAM, "an older error");
    assert_error(ucxpool_block_get(pool, &block), NO_BLOCKS);
    assert_detail("the user share has fewer free blocks than 1");
    ck_assert_uint_eq(block.index, 77);
    ucxpool_block_put(pool, &blocks[9]);
    assert_ok(ucxpool_block_get(pool, &block));
    ck_assert_uint_eq(block.index, blocks[9].index);
    put_n(NUM_BLOCKS);
    require_free(NUM_BLOCKS);
}

static void require_refused(const ucxpool_block_t *block)
{
    base_error(UCXPOOL_ERR_INVALID_PARAM, "an older error");
    ucxpool_block_put(pool, block);
    assert_detail("cannot put block");
    assert_ok(ucxpool_check(pool));
}

TEST(a_block_can_be_put_once)
{
    ucxpool_block_t block;

    assert_ok(ucxpool_block_get_n(pool, 2, blocks));
    ucxpool_block_put(pool, &blocks[0]);
    require_refused(&blocks[0]);
    ucxpool_block_put(pool, &blocks[1]);
    require_refused(&blocks[1]);
    require_free(NUM_BLOCKS);
    block       = blocks[0];
    block.index = UINT32_MAX;
    require_refused(&block);
}

TEST(a_block_of_a_buffer_cannot_be_put)
{
    ucxpool_block_t block = {0};
    void           *buffer;

    assert_ok(ucxpool_comm_alloc(pool, 2 * BLOCK_SIZE, &buffer));
    block.index =
        (uint32_t)(((char *)buffer - (char *)pool->memory.regions.address) /
                   (ptrdiff_t)BLOCK_SIZE);
    require_refused(&block);
    require_free(NUM_BLOCKS - 2);
    ucxpool_comm_free(pool, buffer);
    require_free(NUM_BLOCKS);
}
