/* The GPU store keeps batches in GPU memory, in order and complete. */
#include "cuda_fixture.h"
#include "test.h"

#include "tools/shuffle/gpu_store.h"

#include "common/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_SIZE ((size_t)64 * 1024)
#define MIB        ((size_t)1 << 20)

static gpu_store_params_t params;
static gpu_store_t       *gpu_store;
static char              *memory; /* the batch's memory */
static batch_t            batch;

static void setup(void)
{
    cuda_start("");
    memset(&params, 0, sizeof(params));
    params.gpu         = -1;
    params.num_workers = 1;
    params.batch_size  = BATCH_SIZE;
    params.num_bytes   = 64 * MIB;
    gpu_store          = NULL;
    memory             = NULL;
}

static int open_gpu_store(void)
{
    if (gpu_store_create(&params, &gpu_store) != 0) {
        return -1;
    }
    memory = gpu_store_host_alloc(gpu_store, batch_memory_size(BATCH_SIZE));
    if (memory == NULL) {
        return -1;
    }
    batch_init(&batch, memory, BATCH_SIZE);
    return 0;
}

static void close_gpu_store(void)
{
    if (gpu_store != NULL) {
        gpu_store_host_free(gpu_store, memory);
    }
    gpu_store_destroy(gpu_store);
    gpu_store = NULL;
    memory    = NULL;
}

static void teardown(void)
{
    close_gpu_store();
}

/* A record that contains its number, and whose length depends on it. */
static size_t make_record(unsigned number, char *record, size_t size)
{
    int length =
        snprintf(record, size, "%u|%.*s\n", number, (int)(number * 31 % 90),
                 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"
                 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz");

    return (size_t)length;
}

/* A batch of `num` records with numbers from `first` on. */
static void fill_batch(unsigned first, unsigned num)
{
    char record[128];

    batch_reset(&batch);
    for (unsigned i = first; i < first + num; i++) {
        ck_assert_int_eq(batch_append(&batch, i, record,
                                      make_record(i, record, sizeof(record))),
                         1);
    }
}

static int hold(unsigned first, unsigned num)
{
    fill_batch(first, num);
    return gpu_store_hold_batch(gpu_store, &batch);
}

/* Take one batch out. Returns its lowest number and the number of records. Each
 * record must be the one that its hash names. */
static int bring(unsigned *first_p, unsigned *num_p)
{
    char     record[128];
    batch_t *held;
    size_t   start = 0;
    size_t   end;
    int      result = gpu_store_bring(gpu_store, &held);

    *num_p   = 0;
    *first_p = UINT32_MAX;
    if (result <= 0) {
        return result;
    }
    *num_p   = (unsigned)held->num_records;
    *first_p = (unsigned)held->hashes[0];
    for (size_t i = 0; i < held->num_records; i++) {
        end = i + 1 < held->num_records ? held->ends[i] : held->num_bytes;
        ck_assert_uint_eq(
            make_record((unsigned)held->hashes[i], record, sizeof(record)),
            end - start);
        ck_assert_mem_eq(held->bytes + start, record, end - start);
        start = end;
    }
    batch_list_put(gpu_store_list(gpu_store), held);
    return result;
}

static void expect(unsigned expected_first, unsigned expected_num)
{
    unsigned first;
    unsigned num;

    ck_assert_msg(bring(&first, &num) == 1, "%s", kept_error());
    ck_assert_uint_eq(first, expected_first);
    ck_assert_uint_eq(num, expected_num);
}

static void expect_nothing(void)
{
    unsigned first;
    unsigned num;

    ck_assert_int_eq(bring(&first, &num), 0);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown, .only_if = cuda_is_present);

TEST(batches_come_out_oldest_first)
{
    gpu_store_stats_t stats;

    ck_assert_msg(open_gpu_store() == 0, "%s", kept_error());
    expect_nothing();
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_int_eq(hold(1000 * i, 20 * (i + 1)), 0);
    }
    expect(0, 20);
    expect(1000, 40);
    ck_assert_int_eq(hold(5000, 7), 0);
    expect(2000, 60);
    expect(3000, 80);
    expect(4000, 100);
    expect(5000, 7);
    expect_nothing();
    ck_assert_int_eq(hold(6000, 1), 0);
    expect(6000, 1);
    expect_nothing();
    stats = *gpu_store_stats(gpu_store);
    ck_assert_uint_gt(stats.held, stats.held_max);
    ck_assert_uint_ge(stats.size, stats.held_max);
}

/* Staging buffers are filled while others are read. Their contents must not
 * mix. */
TEST(the_store_waits_for_slow_copies)
{
    if (cuda_is_real()) {
        return;
    }
    stand_in.configure("run=late");
    ck_assert_msg(open_gpu_store() == 0, "%s", kept_error());
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 8; i++) {
            ck_assert_int_eq(hold(1000 * i, 200), 0);
        }
        for (unsigned i = 0; i < 8; i++) {
            expect(1000 * i, 200);
        }
        expect_nothing();
    }
}

TEST(a_store_with_few_slots_becomes_full)
{
    unsigned num = 0;

    params.most = gpu_store_least_size(BATCH_SIZE);
    ck_assert_msg(open_gpu_store() == 0, "%s", kept_error());
    ck_assert(!gpu_store_is_full(gpu_store));
    while (!gpu_store_is_full(gpu_store)) {
        ck_assert_int_eq(hold(1000 * num++, 10), 0);
    }
    ck_assert_uint_gt(num, 1);
    ck_assert_uint_gt(gpu_store_oldest_size(gpu_store), 0);
    /* The order is still oldest first. */
    expect(0, 10);
    ck_assert(!gpu_store_is_full(gpu_store));
    ck_assert_int_eq(hold(1000 * num, 10), 0);
    expect(1000, 10);
}

TEST(the_store_is_no_larger_than_the_input_needs)
{
    gpu_store_stats_t small;
    gpu_store_stats_t large;

    params.num_bytes = 100;
    ck_assert_int_eq(open_gpu_store(), 0);
    small = *gpu_store_stats(gpu_store);
    close_gpu_store();
    params.num_bytes = 1000 * MIB;
    ck_assert_int_eq(open_gpu_store(), 0);
    large = *gpu_store_stats(gpu_store);
    ck_assert_uint_lt(small.size, 4 * MIB);
    ck_assert_uint_gt(large.size, 32 * MIB);
    close_gpu_store();
    params.most = 8 * MIB;
    ck_assert_int_eq(open_gpu_store(), 0);
    large = *gpu_store_stats(gpu_store);
    ck_assert_uint_le(large.size, 8 * MIB);
}

TEST(a_gpu_with_less_free_memory_gets_a_smaller_store)
{
    gpu_store_stats_t stats;

    if (cuda_is_real()) {
        return;
    }
    stand_in.configure("memory=24m");
    params.most = 64 * MIB;
    ck_assert_msg(open_gpu_store() == 0, "%s", kept_error());
    stats = *gpu_store_stats(gpu_store);
    ck_assert_uint_le(stats.size, 24 * MIB);
    ck_assert_int_eq(hold(0, 10), 0);
    expect(0, 10);
}

TEST(a_gpu_with_too_little_free_memory_is_an_error)
{
    if (cuda_is_real()) {
        return;
    }
    stand_in.configure("memory=64k");
    ck_assert_int_eq(open_gpu_store(), -1);
    ck_assert_ptr_nonnull(strstr(kept_error(), "65536 of 65536 are free"));
    ck_assert_ptr_nonnull(strstr(kept_error(), "fewer workers"));
    ck_assert_uint_eq(stand_in.live(), 0);
}

TEST(workers_use_the_gpus_in_turn)
{
    gpu_store_stats_t stats;

    if (cuda_is_real()) {
        return;
    }
    stand_in.configure("devices=3");
    for (unsigned turn = 0; turn < 7; turn++) {
        params.turn = turn;
        ck_assert_int_eq(open_gpu_store(), 0);
        stats = *gpu_store_stats(gpu_store);
        ck_assert_int_eq(stats.gpu, (int)(turn % 3));
        close_gpu_store();
    }
    params.gpu = 2;
    ck_assert_int_eq(open_gpu_store(), 0);
    ck_assert_int_eq(gpu_store_stats(gpu_store)->gpu, 2);
    close_gpu_store();
    params.gpu = 3;
    ck_assert_int_eq(open_gpu_store(), -1);
    ck_assert_ptr_nonnull(strstr(kept_error(), "GPU 3 does not exist"));
    ck_assert_uint_eq(stand_in.live(), 0);
}

/* Put two batches, and take two. */
static int use_gpu_store(void)
{
    unsigned first;
    unsigned num;

    if ((open_gpu_store() != 0) || (hold(0, 10) != 0) ||
        (hold(1000, 20) != 0) || (bring(&first, &num) != 1) || (num != 10) ||
        (bring(&first, &num) != 1) || (num != 20)) {
        return -1;
    }
    return 0;
}

TEST(a_failed_driver_call_is_an_error_and_leaks_nothing)
{
    unsigned num_failed = 0;
    int      result;

    if (cuda_is_real()) {
        return;
    }
    params.most = gpu_store_least_size(BATCH_SIZE);
    for (unsigned n = 1;; n++) {
        keep_error("nothing");
        stand_in.fail_call(NULL, n, 999);
        result = use_gpu_store();
        close_gpu_store();
        ck_assert_uint_eq(stand_in.live(), 0);
        if (!stand_in.has_failed()) {
            ck_assert_msg(result == 0, "%s", kept_error());
            break;
        }
        /* Failing to get the driver's error text is no failure. */
        if (result != 0) {
            num_failed++;
            ck_assert_str_ne(kept_error(), "nothing");
        }
        stand_in.fail_call(NULL, 0, 0);
        ck_assert_msg(use_gpu_store() == 0, "%u: %s", n, kept_error());
        close_gpu_store();
    }
    ck_assert_uint_gt(num_failed, 15);
}
