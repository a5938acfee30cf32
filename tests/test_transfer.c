/* Messages between two pools, on both wires. */
#include "pair.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Each test runs once on each wire. */
static const char *const wires[] = {"WIRE=map", "WIRE=ucx",
                                    "WIRE=map CHECKSUM=crc32c",
                                    "WIRE=ucx CHECKSUM=crc32c"};
#define NUM_WIRES ((int)(sizeof(wires) / sizeof(wires[0])))

#define TAG      UINT64_C(0x1234)
#define ALL_BITS UINT64_MAX

static void exchange(pair_t *pair, const void *source, void *target,
                     size_t length)
{
    ucxpool_request_t *send;
    ucxpool_request_t *recv;

    ck_assert_int_eq(ucxpool_recv_buffer(pair->b, pair->to_a, target, length,
                                         TAG, ALL_BITS, NULL, &recv),
                     UCXPOOL_OK);
    ck_assert_int_eq(ucxpool_send_buffer(pair->to_b, source, length, TAG, NULL,
                                         &send),
                     UCXPOOL_OK);
    ck_assert_int_eq(pair_finish(pair, send), UCXPOOL_OK);
    ck_assert_int_eq(pair_finish(pair, recv), UCXPOOL_OK);
}

START_TEST(one_buffer_of_any_size_arrives)
{
    static const size_t sizes[] = {0,     1,     63,    4096,       4097,
                                   65535, 65536, 65537, 1000 * 1000, 5000000};
    pair_t pair;

    pair_init(&pair, wires[_i], wires[_i]);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint8_t *source = malloc(sizes[i] + 1);
        uint8_t *target = malloc(sizes[i] + 1);

        pair_fill(source, sizes[i]);
        pair_poison(target, sizes[i] + 1);
        exchange(&pair, source, target, sizes[i]);
        ck_assert_mem_eq(source, target, sizes[i]);
        ck_assert_uint_eq(target[sizes[i]], 0xfe);
        free(source);
        free(target);
    }
    pair_check_blocks(&pair);
    pair_cleanup(&pair);
}
END_TEST

/* Cut `length` bytes into random pieces, zero-length ones among them. */
static size_t cut(uint8_t *bytes, size_t length, ucxpool_segment_t *segments,
                  size_t max)
{
    size_t count = 0;

    while ((length > 0) && (count < max - 1)) {
        size_t piece = (size_t)rand() % 5000;

        if (rand() % 10 == 0) {
            piece = 0;
        }
        piece           = (piece > length) ? length : piece;
        segments[count] = (ucxpool_segment_t){bytes, piece};
        bytes += piece;
        length -= piece;
        count++;
    }
    segments[count] = (ucxpool_segment_t){bytes, length};
    return count + 1;
}

START_TEST(segments_cut_differently_on_both_sides_arrive)
{
    enum { LENGTH = 777777, MAX = 1000 };
    static uint8_t           source[LENGTH];
    static uint8_t           target[LENGTH];
    static ucxpool_segment_t from[MAX];
    static ucxpool_segment_t to[MAX];
    ucxpool_request_t       *send;
    ucxpool_request_t       *recv;
    pair_t                   pair;

    pair_init(&pair, wires[_i], wires[_i]);
    for (int round = 0; round < 5; round++) {
        size_t num_from = cut(source, LENGTH, from, MAX);
        size_t num_to   = cut(target, LENGTH, to, MAX);

        pair_fill(source, LENGTH);
        pair_poison(target, LENGTH);
        ck_assert_int_eq(ucxpool_send_buffers(pair.to_b, from, num_from, TAG,
                                              NULL, &send),
                         UCXPOOL_OK);
        ck_assert_int_eq(ucxpool_recv_buffers(pair.b, NULL, to, num_to, TAG,
                                              ALL_BITS, NULL, &recv),
                         UCXPOOL_OK);
        ck_assert_int_eq(pair_finish(&pair, send), UCXPOOL_OK);
        ck_assert_int_eq(pair_finish(&pair, recv), UCXPOOL_OK);
        ck_assert_mem_eq(source, target, LENGTH);
    }
    pair_check_blocks(&pair);
    pair_cleanup(&pair);
}
END_TEST

START_TEST(comm_memory_goes_in_place)
{
    enum { LENGTH = 300000 };
    pair_t          pair;
    void           *source;
    void           *target;
    ucxpool_stats_t before;
    ucxpool_stats_t after;
    ucxpool_mode_t  mode = (strstr(wires[_i], "map") != NULL)
                               ? UCXPOOL_MODE_MAP_INPLACE
                               : UCXPOOL_MODE_UCX_INPLACE;

    pair_init(&pair, wires[_i], wires[_i]);
    ck_assert_int_eq(ucxpool_comm_alloc(pair.a, LENGTH, &source), UCXPOOL_OK);
    ck_assert_int_eq(ucxpool_comm_alloc(pair.b, LENGTH, &target), UCXPOOL_OK);
    pair_fill(source, LENGTH);
    pair_poison(target, LENGTH);
    ucxpool_stats_get(pair.a, &before);
    exchange(&pair, source, target, LENGTH);
    ucxpool_stats_get(pair.a, &after);
    ck_assert_mem_eq(source, target, LENGTH);
    ck_assert_uint_eq(after.sent[mode].bytes - before.sent[mode].bytes, LENGTH);
    ucxpool_comm_free(pair.a, source);
    ucxpool_comm_free(pair.b, target);
    pair_check_blocks(&pair);
    pair_cleanup(&pair);
}
END_TEST

START_TEST(probe_shows_lengths_and_metadata_first)
{
    static const char        meta[]   = "the caller's own";
    uint8_t                  bytes[3][3000];
    uint8_t                  target[9000];
    ucxpool_segment_t        segments[] = {
               {bytes[0], 3000}, {bytes[1], 0}, {bytes[2], 2999}};
    ucxpool_segment_t        whole  = {target, 5999};
    ucxpool_request_params_t params = {
        .field_mask      = UCXPOOL_REQUEST_PARAM_FIELD_METADATA,
        .metadata        = meta,
        .metadata_length = sizeof(meta),
    };
    ucxpool_message_attr_t attr;
    ucxpool_request_attr_t done;
    ucxpool_message_t     *message = NULL;
    ucxpool_request_t     *send;
    ucxpool_request_t     *recv;
    size_t                 lengths[4];
    pair_t                 pair;

    pair_init(&pair, wires[_i], wires[_i]);
    pair_fill(bytes, sizeof(bytes));
    ck_assert_int_eq(ucxpool_probe(pair.b, NULL, TAG, ALL_BITS, &message),
                     UCXPOOL_ERR_NO_MESSAGE);
    ck_assert_int_eq(ucxpool_send_buffers(pair.to_b, segments, 3, TAG, &params,
                                          &send),
                     UCXPOOL_OK);
    pair_until(&pair, ucxpool_probe(pair.b, NULL, TAG, ALL_BITS, &message) ==
                          UCXPOOL_OK);
    ucxpool_message_query(message, &attr);
    ck_assert_uint_eq(attr.tag, TAG);
    ck_assert_uint_eq(attr.length, 5999);
    ck_assert_uint_eq(attr.num_segments, 3);
    ck_assert_uint_eq(attr.metadata_length, sizeof(meta));
    ck_assert_mem_eq(attr.metadata, meta, sizeof(meta));
    ck_assert_ptr_eq(attr.channel, pair.to_a);
    ck_assert_uint_eq(ucxpool_message_lengths(message, 0, 4, lengths), 3);
    ck_assert_uint_eq(lengths[0], 3000);
    ck_assert_uint_eq(lengths[1], 0);
    ck_assert_uint_eq(lengths[2], 2999);

    whole.length = 10;
    ck_assert_int_eq(ucxpool_message_recv(message, &whole, 1, NULL, &recv),
                     UCXPOOL_ERR_TRUNCATED);
    whole.length = 5999;
    ck_assert_int_eq(ucxpool_message_recv(message, &whole, 1, NULL, &recv),
                     UCXPOOL_OK);
    pair_until(&pair, pair_ended(recv));
    ucxpool_request_query(recv, &done);
    ck_assert_uint_eq(done.length, 5999);
    ck_assert_mem_eq(done.metadata, meta, sizeof(meta));
    ck_assert_mem_eq(target, bytes[0], 3000);
    ck_assert_mem_eq(target + 3000, bytes[2], 2999);
    ucxpool_request_free(recv);
    ck_assert_int_eq(pair_finish(&pair, send), UCXPOOL_OK);
    pair_cleanup(&pair);
}
END_TEST

int main(void)
{
    Suite   *suite = suite_create("transfer");
    TCase   *tcase = tcase_create("transfer");
    SRunner *runner;
    int      num_failed;

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, one_buffer_of_any_size_arrives, 0, NUM_WIRES);
    tcase_add_loop_test(tcase, segments_cut_differently_on_both_sides_arrive, 0,
                        NUM_WIRES);
    tcase_add_loop_test(tcase, comm_memory_goes_in_place, 0, NUM_WIRES);
    tcase_add_loop_test(tcase, probe_shows_lengths_and_metadata_first, 0,
                        NUM_WIRES);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return num_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
