/* The block pool: get, put and the split into shares. */
#include "base/math.h"
#include "base/memcheck.h"
#include "block/pool.h"
#include "rounds.h"
#include "test.h"

#include "core/stats.h"

#include <ucxpool/status.h>

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define BLOCK_SIZE  ((size_t)4096)
#define NUM_THREADS 4
#define NUM_ROUNDS  200
#define NUM_STEPS   100 /* per round */

/* --- fixture ---------------------------------------------------------- */

static mem_regions_t regions;
static block_pool_t *pool;

static ucxpool_status_t try_create(unsigned num_regions,
                                   size_t blocks_per_region, unsigned send,
                                   unsigned recv)
{
    block_pool_params_t params = {
        .regions    = &regions,
        .block_size = BLOCK_SIZE,
        .send_share = send,
        .recv_share = recv,
    };
    size_t size = num_regions * blocks_per_region * BLOCK_SIZE;

    regions.num_regions = num_regions;
    regions.region_size = blocks_per_region * BLOCK_SIZE;
    regions.address =
        mmap(NULL, base_max(size, BLOCK_SIZE), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(regions.address, MAP_FAILED);
    return block_pool_create(&params, &pool);
}

static void unmap(void)
{
    munmap(regions.address,
           base_max(regions.num_regions * regions.region_size, BLOCK_SIZE));
}

static void destroy(void)
{
    assert_ok(block_pool_check(pool));
    block_pool_destroy(pool);
    unmap();
}

static void create(unsigned num_regions, size_t blocks_per_region,
                   unsigned send, unsigned recv)
{
    assert_ok(try_create(num_regions, blocks_per_region, send, recv));
    test_at_end(destroy);
}

static block_stats_t stats_of(block_share_t share)
{
    block_stats_t stats;

    block_pool_stats(pool, share, &stats);
    return stats;
}

static void require_counts(block_share_t share, uint64_t num_free,
                           uint64_t num_held, uint64_t num_quarantined)
{
    block_stats_t stats = stats_of(share);

    ck_assert_uint_eq(stats.free, num_free);
    ck_assert_uint_eq(stats.held, num_held);
    ck_assert_uint_eq(stats.quarantined, num_quarantined);
    assert_ok(block_pool_check(pool));
}

static void require_split(size_t num_blocks, unsigned send_percent,
                          unsigned recv_percent, uint64_t send, uint64_t recv,
                          uint64_t user)
{
    create(1, num_blocks, send_percent, recv_percent);
    ck_assert_uint_eq(stats_of(BLOCK_SHARE_SEND).total, send);
    ck_assert_uint_eq(stats_of(BLOCK_SHARE_RECV).total, recv);
    ck_assert_uint_eq(stats_of(BLOCK_SHARE_USER).total, user);
    test_end();
}

static uint32_t get(block_share_t share)
{
    uint32_t index;

    assert_ok(block_pool_get(pool, share, &index));
    return index;
}

static void require_refused(unsigned num_regions, size_t blocks_per_region,
                            unsigned send, unsigned recv, const char *named)
{
    pool = NULL;
    assert_error(try_create(num_regions, blocks_per_region, send, recv),
                 INVALID_PARAM);
    ck_assert_ptr_null(pool);
    assert_detail(named);
    unmap();
}

/* --- shares -------------------------------------------------------------- */

TEST_SETTINGS(.timeout = 120);

/* Shares in percent, and the blocks that they get. */
TEST(blocks_are_split_by_percent)
{
    require_split(8, 25, 25, 2, 2, 4);
    require_split(100, 10, 60, 10, 60, 30);
    /* The user share gets what rounding leaves. */
    require_split(7, 25, 25, 1, 1, 5);
    /* Each share has at least one block, */
    require_split(8, 0, 0, 1, 1, 6);
    require_split(8, 100, 0, 7, 1, 0);
    require_split(8, 0, 100, 1, 7, 0);
    require_split(10, 50, 49, 5, 4, 1);
    require_split(3, 49, 50, 1, 1, 1);
    require_split(4, 98, 1, 2, 1, 1);
    /* except the user share if it is 0 % or there are two blocks. */
    require_split(5, 50, 50, 3, 2, 0);
    require_split(2, 25, 25, 1, 1, 0);
}

TEST(every_split_adds_up_and_leaves_no_share_empty)
{
    for (unsigned send = 0; send <= 100; send++) {
        for (unsigned recv = 0; recv <= 100 - send; recv += 3) {
            uint64_t total[BLOCK_SHARE_LAST];

            create(1, 5, send, recv);
            for (int i = 0; i < BLOCK_SHARE_LAST; i++) {
                total[i] = stats_of((block_share_t)i).total;
            }
            ck_assert_uint_ge(total[BLOCK_SHARE_SEND], 1);
            ck_assert_uint_ge(total[BLOCK_SHARE_RECV], 1);
            ck_assert_int_eq(total[BLOCK_SHARE_USER] >= 1, send + recv < 100);
            ck_assert_uint_eq(total[0] + total[1] + total[2], 5);
            test_end();
        }
    }
}

TEST(pool_without_regions_has_no_blocks)
{
    uint32_t index;

    create(0, 2, 25, 25);
    ck_assert_uint_eq(block_pool_num_blocks(pool), 0);
    for (int i = 0; i < BLOCK_SHARE_LAST; i++) {
        require_counts((block_share_t)i, 0, 0, 0);
        assert_error(block_pool_get(pool, (block_share_t)i, &index), NO_BLOCKS);
    }
}

TEST(fewer_than_two_blocks_are_rejected_naming_the_keys)
{
    require_refused(1, 1, 25, 25, "COMM_SIZE");
    require_refused(1, 1, 25, 25, "BLOCK_SIZE");
}

TEST(too_many_blocks_are_rejected_naming_the_keys)
{
    block_pool_params_t params = {
        .regions = &regions, .block_size = BLOCK_SIZE, .send_share = 25};

    regions.num_regions = 1u << 20;
    regions.region_size = BLOCK_SIZE << 20;
    assert_error_detail(block_pool_create(&params, &pool), INVALID_PARAM,
                        "BLOCK_SIZE");
    regions.num_regions = UINT32_MAX;
    regions.region_size = (SIZE_MAX / BLOCK_SIZE) * BLOCK_SIZE;
    assert_error(block_pool_create(&params, &pool), INVALID_PARAM);
}

TEST(destroy_takes_null)
{
    block_pool_destroy(NULL);
}

/* --- one thread ---------------------------------------------------------- */

TEST(get_takes_the_block_at_hand_then_the_lowest_free)
{
    create(2, 100, 25, 25);
    for (uint32_t i = 0; i < 100; i++) {
        ck_assert_uint_eq(get(BLOCK_SHARE_USER), i);
    }
    block_pool_put(pool, BLOCK_SHARE_USER, 70);
    block_pool_put(pool, BLOCK_SHARE_USER, 99);
    block_pool_put(pool, BLOCK_SHARE_USER, 3);
    require_counts(BLOCK_SHARE_USER, 3, 97, 0);
    ck_assert_uint_eq(get(BLOCK_SHARE_USER), 70);
    ck_assert_uint_eq(get(BLOCK_SHARE_USER), 3);
    block_pool_put(pool, BLOCK_SHARE_USER, 3);
    ck_assert_uint_eq(get(BLOCK_SHARE_USER), 3);
    ck_assert_uint_eq(get(BLOCK_SHARE_USER), 99);
    require_counts(BLOCK_SHARE_USER, 0, 100, 0);
}

TEST(block_at_hand_belongs_to_one_share)
{
    uint32_t index;

    create(1, 8, 25, 25);
    index = get(BLOCK_SHARE_SEND);
    block_pool_put(pool, BLOCK_SHARE_SEND, index);
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_ne(get(BLOCK_SHARE_USER), index);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_ne(get(BLOCK_SHARE_RECV), index);
    }
    require_counts(BLOCK_SHARE_SEND, 2, 0, 0);
    ck_assert_uint_eq(get(BLOCK_SHARE_SEND), index);
    get(BLOCK_SHARE_SEND);
}

TEST(get_n_includes_the_block_at_hand_in_its_run)
{
    uint32_t indices[6];

    create(1, 8, 0, 0);
    assert_ok(block_pool_get_n(pool, BLOCK_SHARE_USER, 6, indices));
    for (uint32_t i = 2; i < 6; i++) {
        block_pool_put(pool, BLOCK_SHARE_USER, i);
    }
    require_counts(BLOCK_SHARE_USER, 4, 2, 0);
    assert_ok(block_pool_get_n(pool, BLOCK_SHARE_USER, 4, indices));
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(indices[i], 2 + i);
    }
    require_counts(BLOCK_SHARE_USER, 0, 6, 0);
}

TEST(every_block_of_a_large_pool_can_be_taken)
{
    enum { NUM_BLOCKS = 10000 };
    uint32_t indices[NUM_BLOCKS];

    create(10, NUM_BLOCKS / 10, 1, 1);
    for (uint32_t i = 0; i < 9800; i++) {
        indices[i] = get(BLOCK_SHARE_USER);
        ck_assert_uint_eq(indices[i], i);
    }
    require_counts(BLOCK_SHARE_USER, 0, 9800, 0);
    for (uint32_t i = 9800; i > 0; i--) {
        block_pool_put(pool, BLOCK_SHARE_USER, indices[i - 1]);
    }
    require_counts(BLOCK_SHARE_USER, 9800, 0, 0);
    assert_ok(block_pool_get_n(pool, BLOCK_SHARE_USER, 9800, indices));
    for (uint32_t i = 0; i < 9800; i++) {
        ck_assert_uint_eq(indices[i], i);
    }
}

/* Take all blocks of a pool of 200, free [start, start + num) and some single
 * blocks below it, and require that get_n finds the run. */
static void require_run(uint32_t start, uint32_t num)
{
    uint32_t indices[200];

    create(2, 100, 0, 0);
    assert_ok(block_pool_get_n(pool, BLOCK_SHARE_USER, 198, indices));
    for (uint32_t i = 0; i + 1 < start; i += 2) {
        block_pool_put(pool, BLOCK_SHARE_USER, i);
    }
    for (uint32_t i = start; i < start + num; i++) {
        block_pool_put(pool, BLOCK_SHARE_USER, i);
    }
    assert_ok(block_pool_get_n(pool, BLOCK_SHARE_USER, num, indices));
    for (uint32_t i = 0; i < num; i++) {
        ck_assert_uint_eq(indices[i], start + i);
    }
    test_end();
}

/* Inside a word, to its end, from its start, and across words. */
TEST(get_n_finds_a_run_anywhere)
{
    require_run(20, 2);
    require_run(66, 30);
    require_run(60, 4);
    require_run(64, 64);
    require_run(128, 3);
    require_run(63, 2);
    require_run(50, 100);
    require_run(0, 198);
}

TEST(get_n_scatters_if_no_run_is_free)
{
    uint32_t indices[198];

    create(2, 100, 0, 0);
    assert_ok(block_pool_get_n(pool, BLOCK_SHARE_USER, 198, indices));
    for (uint32_t i = 0; i < 198; i += 2) {
        block_pool_put(pool, BLOCK_SHARE_USER, i);
    }
    /* Blocks 198 and 199, of the other two shares, are free as well. */
    assert_ok(block_pool_get_n(pool, BLOCK_SHARE_USER, 99, indices));
    for (uint32_t i = 0; i < 99; i++) {
        ck_assert_uint_eq(indices[i], 2 * i);
    }
}

TEST(high_water_is_the_maximum_not_free)
{
    uint32_t a;
    uint32_t b;

    create(1, 8, 25, 25);
    ck_assert_uint_eq(stats_of(BLOCK_SHARE_USER).high_water, 0);
    a = get(BLOCK_SHARE_USER);
    b = get(BLOCK_SHARE_USER);
    block_pool_quarantine(pool, BLOCK_SHARE_USER, a);
    get(BLOCK_SHARE_USER);
    ck_assert_uint_eq(stats_of(BLOCK_SHARE_USER).high_water, 3);
    block_pool_put(pool, BLOCK_SHARE_USER, b);
    block_pool_release(pool, BLOCK_SHARE_USER, a);
    ck_assert_uint_eq(stats_of(BLOCK_SHARE_USER).high_water, 3);
}

TEST(try_put_rejects_blocks_the_share_does_not_hold)
{
    uint32_t index;
    uint32_t quarantined;

    create(1, 8, 25, 25);
    index       = get(BLOCK_SHARE_USER);
    quarantined = get(BLOCK_SHARE_USER);
    block_pool_quarantine(pool, BLOCK_SHARE_USER, quarantined);
    ck_assert(!block_pool_try_put(pool, BLOCK_SHARE_USER, UINT32_MAX));
    ck_assert(!block_pool_try_put(pool, BLOCK_SHARE_USER, 8));
    ck_assert(!block_pool_try_put(pool, BLOCK_SHARE_USER, 7));
    ck_assert(!block_pool_try_put(pool, BLOCK_SHARE_RECV, index));
    ck_assert(!block_pool_try_put(pool, BLOCK_SHARE_USER, quarantined));
    require_counts(BLOCK_SHARE_USER, 2, 1, 1);
    ck_assert(block_pool_try_put(pool, BLOCK_SHARE_USER, index));
    ck_assert(!block_pool_try_put(pool, BLOCK_SHARE_USER, index));
    require_counts(BLOCK_SHARE_USER, 3, 0, 1);
}

TEST(memory_of_a_destroyed_pool_is_not_poisoned)
{
    assert_ok(try_create(1, 8, 25, 25));
    block_pool_destroy(pool);
    memset(regions.address, 1, regions.region_size);
    unmap();
}

/* Ask the active memory checker, if any, whether a byte may be accessed. */
static bool is_poisoned(const char *address)
{
#ifdef BASE_MEMCHECK_ASAN
    return __asan_address_is_poisoned(address) != 0;
#elif defined(HAVE_VALGRIND_MEMCHECK_H)
    unsigned char bits;

    /* 3: part of the range must not be accessed. */
    return VALGRIND_GET_VBITS(address, &bits, 1) == 3;
#else
    return false;
#endif
}

/* Poison memory outside any pool, to detect whether a memory checker is
 * active. */
static bool has_checker(void)
{
    static char page[8] __attribute__((aligned(8)));
    bool        is_there;

    base_memcheck_poison(page, sizeof(page));
    is_there = is_poisoned(page);
    base_memcheck_unpoison(page, sizeof(page));
    return is_there;
}

static void require_poison(uint32_t index, bool wanted)
{
    const char *block = block_pool_address(pool, index);

    if (has_checker()) {
        ck_assert_int_eq(is_poisoned(block), wanted);
        ck_assert_int_eq(is_poisoned(block + BLOCK_SIZE - 1), wanted);
    }
}

TEST(memory_checkers_detect_access_to_free_blocks)
{
    uint32_t index;

    create(1, 8, 25, 25);
    require_poison(0, true);
    require_poison(7, true);
    index = get(BLOCK_SHARE_USER);
    require_poison(index, false);
    require_poison(index + 1, true);
    block_pool_put(pool, BLOCK_SHARE_USER, index);
    require_poison(index, true);
}

TEST(quarantined_blocks_are_poisoned_only_on_request)
{
    uint32_t index;

    create(1, 8, 25, 25);
    index = get(BLOCK_SHARE_USER);
    block_pool_quarantine(pool, BLOCK_SHARE_USER, index);
    require_poison(index, false);
    block_pool_poison(pool, index);
    require_poison(index, true);
    block_pool_release(pool, BLOCK_SHARE_USER, index);
    require_poison(index, true);
    ck_assert_uint_eq(get(BLOCK_SHARE_USER), index);
    require_poison(index, false);
}

/* --- threads ---------------------------------------------------------- */

/* Owner of each block, as recorded by the threads. */
static _Atomic int  owners[4096];
static _Atomic bool stop;

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

typedef struct worker {
    int           id;
    block_share_t share;
    uint32_t      num_held;
    uint32_t      held[64];
} worker_t;

static void own(worker_t *worker, uint32_t index)
{
    int   nobody = 0;
    char *block  = block_pool_address(pool, index);

    ck_assert(
        atomic_compare_exchange_strong(&owners[index], &nobody, worker->id));
    /* Plain stores: with them TSan checks that a put happens before the next
     * get. */
    block[0]                         = (char)worker->id;
    worker->held[worker->num_held++] = index;
}

static void disown_one(worker_t *worker, uint32_t number, bool quarantine)
{
    uint32_t index = worker->held[number];

    ck_assert_int_eq(*(char *)block_pool_address(pool, index), worker->id);
    ck_assert_int_eq(atomic_exchange(&owners[index], 0), worker->id);
    worker->held[number] = worker->held[--worker->num_held];
    if (quarantine) {
        block_pool_quarantine(pool, worker->share, index);
        block_pool_release(pool, worker->share, index);
    } else {
        block_pool_put(pool, worker->share, index);
    }
}

static void *hammer(void *arg)
{
    worker_t *worker = arg;
    uint32_t  random = (uint32_t)worker->id;
    uint32_t  indices[16];

    for (unsigned i = 0; i < rounds(NUM_ROUNDS) * NUM_STEPS; i++) {
        uint32_t num = 1 + next_random(&random) % 16;

        if ((worker->num_held + num <= 64) && (next_random(&random) & 1)) {
            if (block_pool_get_n(pool, worker->share, num, indices) ==
                UCXPOOL_OK) {
                for (uint32_t j = 0; j < num; j++) {
                    own(worker, indices[j]);
                }
            }
        } else {
            for (; (num > 0) && (worker->num_held > 0); num--) {
                disown_one(worker, next_random(&random) % worker->num_held,
                           next_random(&random) % 8 == 0);
            }
        }
    }
    while (worker->num_held > 0) {
        disown_one(worker, 0, false);
    }
    return NULL;
}

static void *watch(void *arg)
{
    do {
        for (int i = 0; i < BLOCK_SHARE_LAST; i++) {
            block_stats_t stats = stats_of((block_share_t)i);

            ck_assert_uint_eq(stats.free + stats.held + stats.quarantined,
                              stats.total);
            ck_assert_uint_le(stats.free, stats.total);
            ck_assert_uint_le(stats.held, stats.total);
            ck_assert_uint_ge(stats.high_water, stats.held + stats.quarantined);
            ck_assert_uint_le(stats.high_water, stats.total);
        }
    } while (!atomic_load(&stop));
    return NULL;
}

static void hammer_pool(unsigned num_regions, size_t blocks_per_region)
{
    worker_t workers[NUM_THREADS] = {0};

    create(num_regions, blocks_per_region, 25, 25);
    atomic_store(&stop, false);
    test_thread(watch, NULL);
    for (int i = 0; i < NUM_THREADS; i++) {
        workers[i].id    = i + 1;
        workers[i].share = (block_share_t)(i % BLOCK_SHARE_LAST);
        test_thread(hammer, &workers[i]);
    }
    test_join(NUM_THREADS);
    atomic_store(&stop, true);
    test_join(1);
    for (int i = 0; i < BLOCK_SHARE_LAST; i++) {
        uint64_t total = stats_of((block_share_t)i).total;

        require_counts((block_share_t)i, total, 0, 0);
    }
}

TEST(threads_competing_for_few_blocks_lose_none)
{
    hammer_pool(1, 24);
}

TEST(threads_sharing_many_words_lose_no_block)
{
    hammer_pool(4, 70);
}

static void *get_and_put_one(void *arg)
{
    block_share_t share = *(block_share_t *)arg;
    uint32_t      index;

    for (unsigned i = 0; i < rounds(NUM_ROUNDS) * NUM_STEPS; i++) {
        /* The share has one block for each thread, so a get never fails. */
        assert_ok(block_pool_get(pool, share, &index));
        block_pool_put(pool, share, index);
    }
    return NULL;
}

TEST(get_succeeds_while_the_share_has_a_free_block)
{
    block_share_t shares[NUM_THREADS] = {BLOCK_SHARE_SEND, BLOCK_SHARE_RECV,
                                         BLOCK_SHARE_USER, BLOCK_SHARE_USER};

    create(1, NUM_THREADS, 25, 25);
    for (int i = 0; i < NUM_THREADS; i++) {
        test_thread(get_and_put_one, &shares[i]);
    }
    test_join(NUM_THREADS);
}

typedef struct putter {
    uint32_t num_done;
} putter_t;

static void *put_all(void *arg)
{
    putter_t *putter = arg;

    for (uint32_t i = 0; i < 1000; i++) {
        putter->num_done += block_pool_try_put(pool, BLOCK_SHARE_USER, i);
    }
    return NULL;
}

TEST(second_concurrent_put_of_a_block_is_rejected)
{
    putter_t putters[2] = {0};
    uint32_t indices[1000];

    create(1, 1002, 0, 0);
    assert_ok(block_pool_get_n(pool, BLOCK_SHARE_USER, 1000, indices));
    for (int i = 0; i < 2; i++) {
        test_thread(put_all, &putters[i]);
    }
    test_join(2);
    ck_assert_uint_eq(putters[0].num_done + putters[1].num_done, 1000);
    require_counts(BLOCK_SHARE_USER, 1000, 0, 0);
}
