/* Resident memory of a pool: the memory it has used, not the memory it
 * may use. */
#include "pair.h"
#include "resident.h"
#include "segments.h"
#include "test.h"

#include "core/stats.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

/* Memory of UCX and its libraries. */
#define MOST_AT_START (16 * MIB)

/* Avoid devices that pin registered memory, which makes it resident. */
static void setup(void)
{
    setenv("UCX_TLS", "self,tcp", 1);
    unsetenv("UCXPOOL_COMM_SIZE");
}

static pair_t pair;

TEST_SETTINGS(.setup = setup, .timeout = 60);

TEST(new_pool_of_64_mib_has_none_of_it_resident)
{
    size_t       before = resident_size();
    uint64_t     size   = 0;
    core_stats_t stats;
    ucxpool_t   *pool;

    assert_ok(ucxpool_create(NULL, &pool));
    core_stats_get(pool, &stats);
    for (unsigned i = 0; i < BLOCK_SHARE_LAST; i++) {
        size += stats.blocks[i].total * stats.block_size;
    }
    ck_assert_uint_eq(size, 64 * MIB);
    ck_assert_uint_eq(stats.block_size, MIB);
    ck_assert_uint_lt(resident_size(), before + MOST_AT_START);
    ucxpool_destroy(pool);
}

TEST(memory_becomes_resident_when_written)
{
    size_t     before = resident_size();
    ucxpool_t *pool;
    void      *address;

    assert_ok(ucxpool_create(NULL, &pool));
    assert_ok(ucxpool_comm_alloc(pool, 24 * MIB, &address));
    ck_assert_uint_lt(resident_size(), before + MOST_AT_START);
    memset(address, 1, 24 * MIB);
    ck_assert_uint_ge(resident_size(), before + 24 * MIB);
    ucxpool_destroy(pool);
}

/* Both pools are in this process, and each has mapped the other's memory. */
TEST(peers_memory_becomes_resident_when_read)
{
    static char source[MIB], target[MIB];
    size_t      before = resident_size();

    pair_begin(&pair, "WIRE=map BLOCK_SIZE=1m REGION_SIZE=64m COMM_SIZE=64m",
               "WIRE=map BLOCK_SIZE=1m REGION_SIZE=64m COMM_SIZE=64m");
    ck_assert_uint_lt(resident_size(), before + MOST_AT_START);
    pair_fill(source, sizeof(source));
    for (unsigned i = 0; i < 32; i++) {
        ucxpool_request_t *send, *receive;

        assert_ok(recv_segments(pair.b, pair.to_a,
                                &(ucxpool_segment_t){target, sizeof(target)}, 1,
                                0, 0, NULL, &receive));
        send = pair_send(pair.to_b, source, sizeof(source), 1);
        pair_finish_both(&pair, receive, send);
        ck_assert_mem_eq(source, target, sizeof(source));
    }
    /* The first 32 MiB used the blocks that were free first. */
    ck_assert_uint_lt(resident_size(), before + 2 * MOST_AT_START);
}
