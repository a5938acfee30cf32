/* Batches: built record by record, sent as segments, parsed from one buffer. */
#include "tools/shuffle/batch.h"

#include "common/error.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#define NUM_PARTITIONS 3u
#define SIZE           ((size_t)16384)

static char   *memory[2];
static batch_t batch;    /* the sender's */
static batch_t received; /* the receiver's */

static void setup(void)
{
    for (unsigned i = 0; i < 2; i++) {
        memory[i] = aligned_alloc(64, batch_memory_size(SIZE));
    }
    batch_init(&batch, memory[0], SIZE);
    batch_init(&received, memory[1], SIZE);
}

static void teardown(void)
{
    batch_reset(&batch);
    batch_reset(&received);
    free(memory[0]);
    free(memory[1]);
}

/* A hash that maps to the partition. */
static uint64_t hash_of(uint32_t partition)
{
    return UINT64_MAX / NUM_PARTITIONS * partition + 12345;
}

static int append(uint32_t partition, const char *record, size_t length)
{
    return batch_append(&batch, hash_of(partition), record, length);
}

/* Iterate over a batch. Returns the number of runs, or -1. */
static int count_runs(const batch_t *of, tally_t *tally)
{
    batch_run_t run      = {0};
    int         num_runs = 0;
    int         result;

    while ((result = batch_next_run(of, NUM_PARTITIONS, &run, tally)) > 0) {
        num_runs++;
    }
    return result == 0 ? num_runs : -1;
}

/* Simulates a transfer: concatenates the segments. */
static void transmit(void)
{
    const ucxpool_segment_t *segments;
    size_t                   num_segments = batch_segments(&batch, &segments);
    size_t                   length       = batch_length(&batch);
    char                    *at;

    ck_assert_int_eq(batch_prepare(&received, batch.num_records, length), 0);
    at = batch_place(&received);
    for (size_t i = 0; i < num_segments; i++) {
        memcpy(at, segments[i].address, segments[i].length);
        at += segments[i].length;
    }
    ck_assert_uint_eq((size_t)(at - batch_place(&received)), length);
    batch_parse(&received);
}

static void fill(void)
{
    ck_assert_int_eq(append(0, "a\n", 2), 1);
    ck_assert_int_eq(append(2, "ccc\n", 4), 1);
    ck_assert_int_eq(append(0, "\n", 1), 1);
    ck_assert_int_eq(append(1, "b\0b\n", 4), 1);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown);

TEST(a_message_contains_the_appended_records)
{
    tally_t expected = {0};
    tally_t tally    = {0};

    fill();
    tally_record(&expected, "a\n", 2);
    tally_record(&expected, "\n", 1);
    tally_record(&expected, "b\0b\n", 4);
    tally_record(&expected, "ccc\n", 4);
    transmit();
    ck_assert_int_eq(count_runs(&received, &tally), 4);
    ck_assert(tally_is_equal(&expected, &tally));
    ck_assert_uint_eq(tally.records, 4);
    ck_assert_uint_eq(tally.bytes, 11);
}

TEST(a_full_batch_accepts_no_record)
{
    char     record[100];
    unsigned num_records = 0;

    memset(record, 'x', sizeof(record));
    record[99] = '\n';
    while (append(num_records % NUM_PARTITIONS, record, sizeof(record)) == 1) {
        num_records++;
    }
    ck_assert_uint_eq(num_records, SIZE / sizeof(record));
    ck_assert_uint_eq(batch.num_records, num_records);
    ck_assert_uint_le(batch_length(&batch), batch_memory_size(SIZE));
    batch_reset(&batch);
    ck_assert_int_eq(append(0, record, sizeof(record)), 1);
}

TEST(a_batch_of_short_records_fits_its_memory)
{
    while (append(0, "\n", 1) == 1) {
    }
    ck_assert_uint_gt(batch.num_records, 500);
    ck_assert(batch.bytes + batch.num_bytes <=
              memory[0] + batch_memory_size(SIZE));
    transmit();
    ck_assert_ptr_null(received.large);
}

TEST(an_empty_batch_accepts_a_record_of_any_length)
{
    size_t length = 4 * SIZE;
    char  *record = test_alloc(length);

    memset(record, 'x', length);
    record[length - 1] = '\n';
    ck_assert_int_eq(append(1, record, length), 1);
    ck_assert_int_eq(append(1, "a\n", 2), 0);
    transmit();
    ck_assert_ptr_nonnull(received.large);
    ck_assert_uint_eq(received.num_bytes, length);
    ck_assert_mem_eq(received.bytes, record, length);
    batch_reset(&batch);
    ck_assert_int_eq(append(0, "a\n", 2), 1);
    ck_assert_int_eq(append(1, record, length), 0);
}

TEST(a_message_too_short_for_its_records_is_rejected)
{
    ck_assert_int_eq(batch_prepare(&received, 0, 100), -1);
    ck_assert_int_eq(batch_prepare(&received, 9, 100), -1);
    ck_assert_int_eq(batch_prepare(&received, UINT64_MAX, 100), -1);
    assert_has(kept_error(), "100 bytes");
    ck_assert_int_eq(batch_prepare(&received, 8, 100), 0);
}

TEST(wrong_record_ends_are_an_error)
{
    tally_t tally = {0};

    fill();
    batch.ends[0] = 3;
    ck_assert_int_eq(count_runs(&batch, &tally), -1);
    batch.ends[0] = 1;
    ck_assert_int_eq(count_runs(&batch, &tally), -1);
    batch.ends[0] = UINT32_MAX;
    ck_assert_int_eq(count_runs(&batch, &tally), -1);
}

static void expect_run(batch_run_t *run, uint32_t partition, const char *text)
{
    tally_t tally = {0};

    ck_assert_int_eq(batch_next_run(&batch, NUM_PARTITIONS, run, &tally), 1);
    ck_assert_uint_eq(run->partition, partition);
    ck_assert_uint_eq(run->length, strlen(text));
    ck_assert_mem_eq(batch.bytes + run->offset, text, run->length);
    ck_assert_uint_eq(tally.bytes, run->length);
}

TEST(a_batch_is_split_into_runs_of_one_partition)
{
    batch_run_t run   = {0};
    tally_t     tally = {0};

    append(0, "a\n", 2);
    append(2, "cc\n", 3);
    append(2, "c\n", 2);
    append(0, "aaa\n", 4);
    expect_run(&run, 0, "a\n");
    expect_run(&run, 2, "cc\nc\n");
    expect_run(&run, 0, "aaa\n");
    ck_assert_int_eq(batch_next_run(&batch, NUM_PARTITIONS, &run, &tally), 0);
    ck_assert_int_eq(batch_next_run(&batch, NUM_PARTITIONS, &run, &tally), 0);
    ck_assert_uint_eq(tally.records, 0);
}

TEST(a_list_has_a_fixed_number_of_batches)
{
    char        *both = aligned_alloc(64, 2 * batch_memory_size(SIZE));
    batch_list_t list;
    batch_t     *one;

    batch_list_init(&list, both, 2, SIZE);
    one = batch_list_get(&list);
    ck_assert_ptr_ne(one, batch_list_get(&list));
    ck_assert_ptr_null(batch_list_get(&list));
    batch_append(one, 0, "a\n", 2);
    batch_list_put(&list, one);
    ck_assert_ptr_eq(batch_list_get(&list), one);
    ck_assert_uint_eq(one->num_records, 0);
    batch_list_cleanup(&list);
    free(both);
}

TEST(the_checksum_depends_on_the_content_but_not_on_the_order)
{
    tally_t one = {0};
    tally_t two = {0};

    tally_record(&one, "aaaa\n", 5);
    tally_record(&one, "bbbb\n", 5);
    tally_record(&two, "bbbb\n", 5);
    tally_record(&two, "aaaa\n", 5);
    ck_assert(tally_is_equal(&one, &two));
    for (size_t length = 1; length < 100; length++) {
        char     record[100] = {0};
        uint64_t before      = hash_bytes(record, length, HASH_SEED_RECORD);

        for (size_t bit = 0; bit < 8 * length; bit++) {
            record[bit / 8] ^= (char)(1 << bit % 8);
            ck_assert_uint_ne(hash_bytes(record, length, HASH_SEED_RECORD),
                              before);
            record[bit / 8] ^= (char)(1 << bit % 8);
        }
        ck_assert_uint_ne(hash_bytes(record, length - 1, HASH_SEED_RECORD),
                          before);
    }
}

TEST(keys_spread_evenly_over_partitions)
{
    unsigned counts[7] = {0};

    for (uint32_t key = 0; key < 70000; key++) {
        counts[hash_partition(hash_bytes(&key, 4, HASH_SEED_KEY), 7)]++;
    }
    for (unsigned i = 0; i < 7; i++) {
        ck_assert_uint_gt(counts[i], 9500);
        ck_assert_uint_lt(counts[i], 10500);
    }
}
