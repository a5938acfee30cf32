/* The self-test succeeds, uses every region, and leaves no trace. */
#include "base/log.h"
#include "core/pool.h"
#include "pair.h"
#include "test.h"

#include "core/stats.h"

#include <stdlib.h>
#include <sys/mman.h>

static const char *const settings[] = {
    "WIRE=auto", "WIRE=ucx", "WIRE=map", "WIRE=ucx CHECKSUM=crc32c",
    "WIRE=auto FRAG_SIZE=16k SEND_SHARE=10 RECV_SHARE=10"};
#define NUM_SETTINGS 5

/* Reads the region's file, because free blocks must not be accessed through the
 * pool's own mapping. */
static bool has_been_used(const ucxpool_t *pool, unsigned region)
{
    size_t   size  = pool->memory.regions.region_size;
    uint8_t *bytes = mmap(NULL, size, PROT_READ, MAP_SHARED,
                          pool->memory.regions.regions[region].fd, 0);
    bool     found = false;

    ck_assert_ptr_ne(bytes, MAP_FAILED);
    for (size_t i = 0; (i < size) && !found; i++) {
        found = bytes[i] != 0;
    }
    munmap(bytes, size);
    return found;
}

static void check_whole(ucxpool_t *pool, uint64_t num_held)
{
    core_stats_t stats;
    uint64_t     count = 0;

    core_stats_get(pool, &stats);
    for (int i = 0; i < BLOCK_SHARE_LAST; i++) {
        count += stats.blocks[i].total - stats.blocks[i].free;
    }
    ck_assert_uint_eq(count, num_held);
    ck_assert_uint_eq(stats.channels_open, 0);
    ck_assert_uint_eq(stats.counts.messages_failed, 0);
    assert_ok(ucxpool_check(pool));
}

TEST_SETTINGS(.timeout = 60);

TEST_EACH(every_region_is_used, NUM_SETTINGS)
{
    char       text[128];
    ucxpool_t *pool;

    snprintf(text, sizeof(text), "COMM_SIZE=4m %s", settings[_i]);
    pool = pair_pool(text);
    ck_assert_uint_eq(pool->memory.regions.num_regions, 16);
    ck_assert_msg(ucxpool_self_test(pool) == UCXPOOL_OK, "%s",
                  ucxpool_error_detail());
    for (unsigned i = 0; i < 16; i++) {
        ck_assert_msg(has_been_used(pool, i), "region %u was not used", i);
    }
    check_whole(pool, 0);
    assert_ok(ucxpool_self_test(pool));
    check_whole(pool, 0);
    ucxpool_destroy(pool);
}

TEST(a_pool_of_one_region_passes)
{
    ucxpool_t *pool = pair_pool("COMM_SIZE=256k REGION_SIZE=256k");

    ck_assert_msg(ucxpool_self_test(pool) == UCXPOOL_OK, "%s",
                  ucxpool_error_detail());
    check_whole(pool, 0);
    ucxpool_destroy(pool);
}

TEST(the_callers_blocks_are_not_changed)
{
    ucxpool_t      *pool = pair_pool("");
    ucxpool_block_t blocks[8];

    assert_ok(ucxpool_block_get_n(pool, 8, blocks));
    for (int i = 0; i < 8; i++) {
        *(uint8_t *)blocks[i].address = (uint8_t)(0xa0 + i);
    }
    assert_ok(ucxpool_self_test(pool));
    check_whole(pool, 8);
    for (int i = 0; i < 8; i++) {
        ck_assert_uint_eq(*(uint8_t *)blocks[i].address, 0xa0 + i);
        ucxpool_block_put(pool, &blocks[i]);
    }
    ucxpool_destroy(pool);
}

TEST(open_channels_stay_open)
{
    ucxpool_channel_attr_t attr;
    pair_t                 pair;

    pair_init(&pair, "", "");
    assert_ok(ucxpool_self_test(pair.a));
    ucxpool_channel_query(pair.to_b, &attr, sizeof(attr));
    ck_assert_int_eq(attr.state, UCXPOOL_CHANNEL_OPEN);
    pair_check_blocks(&pair);
    pair_cleanup(&pair);
}

TEST(the_reason_of_a_failed_message_is_reported)
{
    /* The timeout is too short for such a long message. Not over `ucx`: a UCX
     * built with assertions (Debian's 1.13) aborts if a peer disappears while
     * their endpoints connect. */
    ucxpool_t *pool = pair_pool("BLOCK_SIZE=32m REGION_SIZE=32m COMM_SIZE=128m "
                                "WIRE=map REQUEST_TIMEOUT=1ms");

    ck_assert_int_eq(ucxpool_self_test(pool), UCXPOOL_ERR_TIMED_OUT);
    ck_assert_str_eq(ucxpool_error_detail(), "the deadline passed");
    ucxpool_destroy(pool);
}

TEST(the_log_level_is_restored)
{
    ucxpool_t *pool = pair_pool("");

    assert_ok(ucxpool_log_set_level(UCXPOOL_LOG_NONE));
    assert_ok(ucxpool_self_test(pool));
    ck_assert_int_eq(base_log_get_level(), BASE_LOG_NONE);
    ucxpool_destroy(pool);
}
