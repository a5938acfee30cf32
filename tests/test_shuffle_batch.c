/* Batches: built record by record, sent as segments, parsed from one buffer. */
#include "tools/shuffle/batch.h"
#include "tools/shuffle/error.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define NUM_PARTITIONS 3u

static batch_shape_t shape;
static char         *memory;
static batch_t      *batch;
static char         *message;
static size_t        message_length;
static chunk_t       chunks[64];

static void setup(void)
{
    batch_shape_init(&shape, NUM_PARTITIONS, 16384);
    memory = aligned_alloc(16, batch_memory_size(&shape));
    batch  = batch_create(&shape, memory, NULL);
    ck_assert_ptr_nonnull(batch);
    ck_assert_uint_le(shape.max_chunks, 64);
    batch_reset(batch, 1);
}

static void teardown(void)
{
    batch_destroy(batch);
    free(memory);
    free(message);
}

/* A hash that belongs to the partition. */
static uint64_t hash_of(uint32_t partition)
{
    return UINT64_MAX / NUM_PARTITIONS * partition + 12345;
}

/* Each partition is a bucket of its own. */
static int append(uint32_t partition, const char *record, size_t length)
{
    return batch_append(batch, partition, hash_of(partition), record, length);
}

/* Go through a chunk; returns the number of runs, or -1. */
static int count_runs(const chunk_t *chunk, tally_t *tally)
{
    chunk_run_t run      = {0};
    int         num_runs = 0;
    int         result;

    while ((result = chunk_next_run(chunk, NUM_PARTITIONS, &run, tally)) > 0) {
        num_runs++;
    }
    return result == 0 ? num_runs : -1;
}

/* What the wire does: the segments, one after the other. */
static void transmit(void)
{
    const ucxpool_segment_t *segments;
    size_t                   num_segments = batch_segments(batch, &segments);

    free(message);
    message        = aligned_alloc(16, batch_message_size(batch) + 16 -
                                           batch_message_size(batch) % 16);
    message_length = 0;
    for (size_t i = 0; i < num_segments; i++) {
        if (segments[i].length > 0) {
            memcpy(message + message_length, segments[i].address,
                   segments[i].length);
        }
        message_length += segments[i].length;
    }
    ck_assert_uint_eq(message_length, batch_message_size(batch));
}

static void fill(void)
{
    ck_assert_int_eq(append(0, "a\n", 2), 1);
    ck_assert_int_eq(append(2, "ccc\n", 4), 1);
    ck_assert_int_eq(append(0, "\n", 1), 1);
    ck_assert_int_eq(append(1, "b\0b\n", 4), 1);
}

START_TEST(what_is_sent_is_what_arrives)
{
    tally_t sent     = {0};
    tally_t received = {0};

    fill();
    tally_record(&sent, "a\n", 2);
    tally_record(&sent, "\n", 1);
    tally_record(&sent, "b\0b\n", 4);
    tally_record(&sent, "ccc\n", 4);
    transmit();
    ck_assert_int_eq(
        batch_parse(message, message_length, batch->num_chunks, chunks), 0);
    for (uint32_t i = 0; i < batch->num_chunks; i++) {
        ck_assert_int_eq(count_runs(&chunks[i], &received), 1);
    }
    ck_assert(tally_is_equal(&sent, &received));
    ck_assert_uint_eq(received.records, 4);
    ck_assert_uint_eq(received.bytes, 11);
}
END_TEST

START_TEST(a_batch_with_a_mirror_is_sent_from_there)
{
    char    *mirror   = aligned_alloc(16, batch_memory_size(&shape));
    batch_t *other    = batch;
    tally_t  received = {0};

    batch = batch_create(&shape, memory, mirror);
    batch_reset(batch, 1);
    fill();
    /* The directory is made with the segments. */
    batch_segments(batch, &(const ucxpool_segment_t *){NULL});
    ck_assert(!batch_is_large(batch));
    memcpy(mirror, memory, batch_extent(batch));
    memset(batch->arena, 0, batch->used);
    transmit();
    ck_assert_int_eq(
        batch_parse(message, message_length, batch->num_chunks, chunks), 0);
    for (uint32_t i = 0; i < batch->num_chunks; i++) {
        ck_assert_int_eq(count_runs(&chunks[i], &received), 1);
    }
    ck_assert_uint_eq(received.records, 4);
    ck_assert_uint_eq(received.bytes, 11);
    batch_destroy(batch);
    free(mirror);
    batch = other;
}
END_TEST

START_TEST(a_large_record_is_sent_from_where_it_was_built)
{
    size_t   length = 4 * shape.arena_size;
    char    *record = malloc(length);
    char    *mirror = aligned_alloc(16, batch_memory_size(&shape));
    batch_t *other  = batch;

    memset(record, 'x', length);
    record[length - 1] = '\n';
    batch              = batch_create(&shape, memory, mirror);
    batch_reset(batch, 1);
    ck_assert_int_eq(append(1, record, length), 1);
    ck_assert(batch_is_large(batch));
    transmit();
    ck_assert_int_eq(batch_parse(message, message_length, 1, chunks), 0);
    ck_assert_int_eq(memcmp(chunks[0].bytes, record, length), 0);
    batch_destroy(batch);
    free(mirror);
    free(record);
    batch = other;
}
END_TEST

START_TEST(columns_of_a_received_message_are_aligned)
{
    fill();
    transmit();
    ck_assert_int_eq(
        batch_parse(message, message_length, batch->num_chunks, chunks), 0);
    for (uint32_t i = 0; i < batch->num_chunks; i++) {
        ck_assert_uint_eq((uintptr_t)chunks[i].hashes % 8, 0);
        ck_assert_uint_eq((uintptr_t)chunks[i].ends % 4, 0);
    }
}
END_TEST

START_TEST(a_full_batch_takes_no_more)
{
    char     record[100];
    unsigned num_records = 0;

    memset(record, 'x', sizeof(record));
    record[99] = '\n';
    while (append(num_records % NUM_PARTITIONS, record, sizeof(record)) == 1) {
        num_records++;
    }
    ck_assert_uint_gt(num_records, 50);
    ck_assert_uint_eq(batch->num_records, num_records);
    batch_reset(batch, 1);
    ck_assert_int_eq(append(0, record, sizeof(record)), 1);
}
END_TEST

START_TEST(an_empty_batch_takes_a_record_of_any_length)
{
    size_t length = 4 * shape.arena_size;
    char  *record = malloc(length);

    memset(record, 'x', length);
    record[length - 1] = '\n';
    ck_assert_int_eq(append(1, record, length), 1);
    ck_assert_int_eq(append(1, "a\n", 2), 0);
    transmit();
    ck_assert_int_eq(batch_parse(message, message_length, 1, chunks), 0);
    ck_assert_uint_eq(chunks[0].num_bytes, length);
    ck_assert_int_eq(memcmp(chunks[0].bytes, record, length), 0);
    batch_reset(batch, 1);
    ck_assert_int_eq(append(0, "a\n", 2), 1);
    ck_assert_int_eq(append(1, record, length), 0);
    free(record);
}
END_TEST

START_TEST(a_message_of_the_wrong_length_is_refused)
{
    fill();
    transmit();
    for (size_t length = 0; length < message_length; length++) {
        ck_assert_int_eq(
            batch_parse(message, length, batch->num_chunks, chunks), -1);
    }
    ck_assert_ptr_nonnull(strstr(error_text(), "directory"));
    ck_assert_int_eq(batch_parse(message, message_length, UINT32_MAX, chunks),
                     -1);
}
END_TEST

START_TEST(a_directory_that_overflows_is_refused)
{
    batch_entry_t *directory;

    fill();
    transmit();
    directory              = (batch_entry_t *)message;
    directory[0].num_bytes = UINT64_MAX - 3;
    ck_assert_int_eq(
        batch_parse(message, message_length, batch->num_chunks, chunks), -1);
    directory[0].num_bytes   = 3;
    directory[0].num_records = 0;
    ck_assert_int_eq(
        batch_parse(message, message_length, batch->num_chunks, chunks), -1);
}
END_TEST

START_TEST(ends_that_lie_are_noticed)
{
    tally_t tally = {0};

    fill();
    batch->chunks[0].ends[0] = 3;
    ck_assert_int_eq(count_runs(&batch->chunks[0], &tally), -1);
    batch->chunks[0].ends[0] = 1;
    ck_assert_int_eq(count_runs(&batch->chunks[0], &tally), -1);
    batch->chunks[0].ends[0] = UINT32_MAX;
    ck_assert_int_eq(count_runs(&batch->chunks[0], &tally), -1);
}
END_TEST

/* Append to the first bucket, whatever the partition. */
static void append_mixed(uint32_t partition, const char *record)
{
    ck_assert_int_eq(
        batch_append(batch, 0, hash_of(partition), record, strlen(record)), 1);
}

static void expect_run(chunk_run_t *run, uint32_t partition, const char *text)
{
    const chunk_t *chunk = &batch->chunks[0];
    tally_t        tally = {0};

    ck_assert_int_eq(chunk_next_run(chunk, NUM_PARTITIONS, run, &tally), 1);
    ck_assert_uint_eq(run->partition, partition);
    ck_assert_uint_eq(run->length, strlen(text));
    ck_assert_int_eq(memcmp(chunk->bytes + run->offset, text, run->length), 0);
    ck_assert_uint_eq(tally.bytes, run->length);
}

START_TEST(a_bucket_of_several_partitions_is_parted_into_runs)
{
    chunk_run_t run   = {0};
    tally_t     tally = {0};

    append_mixed(0, "a\n");
    append_mixed(2, "cc\n");
    append_mixed(2, "c\n");
    append_mixed(0, "aaa\n");
    ck_assert_uint_eq(batch->num_chunks, 1);
    expect_run(&run, 0, "a\n");
    expect_run(&run, 2, "cc\nc\n");
    expect_run(&run, 0, "aaa\n");
    ck_assert_int_eq(
        chunk_next_run(&batch->chunks[0], NUM_PARTITIONS, &run, &tally), 0);
    ck_assert_int_eq(
        chunk_next_run(&batch->chunks[0], NUM_PARTITIONS, &run, &tally), 0);
    ck_assert_uint_eq(tally.records, 0);
}
END_TEST

START_TEST(the_checksum_sees_any_change_but_not_the_order)
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
END_TEST

START_TEST(keys_spread_evenly_over_partitions)
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
END_TEST

int main(void)
{
    Suite   *suite = suite_create("shuffle batch");
    TCase   *tcase = tcase_create("batch");
    SRunner *runner;
    int      num_failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, what_is_sent_is_what_arrives);
    tcase_add_test(tcase, columns_of_a_received_message_are_aligned);
    tcase_add_test(tcase, a_batch_with_a_mirror_is_sent_from_there);
    tcase_add_test(tcase, a_large_record_is_sent_from_where_it_was_built);
    tcase_add_test(tcase, a_full_batch_takes_no_more);
    tcase_add_test(tcase, an_empty_batch_takes_a_record_of_any_length);
    tcase_add_test(tcase, a_message_of_the_wrong_length_is_refused);
    tcase_add_test(tcase, a_directory_that_overflows_is_refused);
    tcase_add_test(tcase, ends_that_lie_are_noticed);
    tcase_add_test(tcase, a_bucket_of_several_partitions_is_parted_into_runs);
    tcase_add_test(tcase, the_checksum_sees_any_change_but_not_the_order);
    tcase_add_test(tcase, keys_spread_evenly_over_partitions);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return num_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
