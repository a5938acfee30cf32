/* Messages between two pools, on both wires. */
#include "core/pool.h"
#include "pair.h"
#include "segments.h"
#include "test.h"

#include "core/stats.h"

#include <stdlib.h>
#include <string.h>

/* Each test runs once on each wire. */
static const char *const wires[] = {"WIRE=map", "WIRE=ucx",
                                    "WIRE=map CHECKSUM=crc32c",
                                    "WIRE=ucx CHECKSUM=crc32c"};
#define NUM_WIRES ((int)(sizeof(wires) / sizeof(wires[0])))

#define TAG      UINT64_C(0x1234)
#define ALL_BITS UINT64_MAX

static pair_t pair;

static void exchange(const void *source, void *target, size_t length)
{
    ucxpool_request_t *send;
    ucxpool_request_t *recv;

    recv = pair_recv(pair.b, pair.to_a, target, length, TAG);
    send = pair_send(pair.to_b, source, length, TAG);
    pair_finish_both(&pair, send, recv);
}

TEST_SETTINGS(.timeout = 120);

TEST_EACH(one_buffer_of_any_size_arrives, NUM_WIRES)
{
    static const size_t sizes[] = {0,     1,     63,    4096,        16384,
                                   16385, 65535, 65537, 1000 * 1000, 5000000};

    pair_begin(&pair, wires[_i], wires[_i]);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint8_t *source = malloc(sizes[i] + 1);
        uint8_t *target = malloc(sizes[i] + 1);

        pair_fill(source, sizes[i]);
        pair_poison(target, sizes[i] + 1);
        exchange(source, target, sizes[i]);
        ck_assert_mem_eq(source, target, sizes[i]);
        ck_assert_uint_eq(target[sizes[i]], 0xfe);
        free(source);
        free(target);
    }
    pair_check_blocks(&pair);
}

TEST_EACH(segments_split_differently_on_both_sides_arrive, NUM_WIRES)
{
    enum { LENGTH = 777777, MAX = 1000 };
    static uint8_t           source[LENGTH];
    static uint8_t           target[LENGTH];
    static ucxpool_segment_t from[MAX];
    static ucxpool_segment_t to[MAX];
    ucxpool_request_t       *send;
    ucxpool_request_t       *recv;

    pair_begin(&pair, wires[_i], wires[_i]);
    for (int round = 0; round < 5; round++) {
        size_t num_from = cut_segments(source, LENGTH, 5000, 0, from, MAX);
        size_t num_to   = cut_segments(target, LENGTH, 5000, 0, to, MAX);

        pair_fill(source, LENGTH);
        pair_poison(target, LENGTH);
        assert_ok(send_segments(pair.to_b, from, num_from, TAG, NULL, &send));
        assert_ok(recv_segments(pair.b, NULL, to, num_to, TAG, ALL_BITS, NULL,
                                &recv));
        pair_finish_both(&pair, send, recv);
        ck_assert_mem_eq(source, target, LENGTH);
    }
    pair_check_blocks(&pair);
}

/* The sender computes the checksum of a fragment before the receiver reads it.
 */
TEST_EACH(a_checksum_detects_memory_that_changes_while_it_is_sent, 2)
{
    enum { LENGTH = 400000 };
    const char        *wire = wires[2 + _i]; /* with checksums */
    ucxpool_request_t *send;
    ucxpool_request_t *recv;
    uint8_t           *target = test_alloc(LENGTH);
    void              *source;

    pair_begin(&pair, wire, wire);
    assert_ok(ucxpool_comm_alloc(pair.a, LENGTH, &source));
    pair_fill(source, LENGTH);
    recv = pair_recv(pair.b, pair.to_a, target, LENGTH, TAG);
    send = pair_send(pair.to_b, source, LENGTH, TAG);
    while (!pair_ended(recv)) {
        for (size_t i = 0; i < LENGTH; i += 4096) {
            ((uint8_t *)source)[i]++;
        }
        ucxpool_progress(pair.a);
        for (size_t i = 0; i < LENGTH; i += 4096) {
            ((uint8_t *)source)[i]++;
        }
        ucxpool_progress(pair.b);
    }
    pair_finish_error(
        &pair, recv, UCXPOOL_ERR_CHECKSUM,
        "the checksum of a fragment is wrong: the sender's memory was "
        "changed while it was sent, or the data was corrupted in "
        "transit");
    pair_until(&pair, pair_ended(send));
    assert_error(ucxpool_request_test(send), REFUSED);
    ucxpool_request_release(send);
    exchange(source, target, LENGTH);
    ck_assert_mem_eq(source, target, LENGTH);
    ucxpool_comm_free(pair.a, source);
    pair_check_blocks(&pair);
}

TEST_EACH(communication_memory_is_sent_in_place, NUM_WIRES)
{
    enum { LENGTH = 300000 };
    void        *source;
    void        *target;
    core_stats_t before;
    core_stats_t after;
    core_mode_t  mode = (strstr(wires[_i], "map") != NULL)
                            ? CORE_MODE_MAP_INPLACE
                            : CORE_MODE_UCX_INPLACE;

    pair_begin(&pair, wires[_i], wires[_i]);
    assert_ok(ucxpool_comm_alloc(pair.a, LENGTH, &source));
    assert_ok(ucxpool_comm_alloc(pair.b, LENGTH, &target));
    pair_fill(source, LENGTH);
    pair_poison(target, LENGTH);
    core_stats_get(pair.a, &before);
    exchange(source, target, LENGTH);
    core_stats_get(pair.a, &after);
    ck_assert_mem_eq(source, target, LENGTH);
    ck_assert_uint_eq(
        after.counts.sent[mode].bytes - before.counts.sent[mode].bytes, LENGTH);
    ucxpool_comm_free(pair.a, source);
    ucxpool_comm_free(pair.b, target);
    pair_check_blocks(&pair);
}

/* Bytes sent in place, and bytes sent packed, over the `ucx` wire. */
static void check_sent(uint64_t in_place, uint64_t packed)
{
    core_stats_t stats = pair_stats(pair.a);

    ck_assert_uint_eq(stats.counts.sent[CORE_MODE_UCX_INPLACE].bytes, in_place);
    ck_assert_uint_eq(stats.counts.sent[CORE_MODE_UCX_PACKED].bytes, packed);
}

TEST_EACH(memory_without_registration_is_sent_in_place_over_ucx, 2)
{
    enum { LONG = 256 * 1024, SHORT = 63 * 1024 };
    static uint8_t    source[LONG + 2 * SHORT];
    static uint8_t    target[LONG + 2 * SHORT];
    ucxpool_segment_t from[] = {
        {source + LONG, SHORT}, {source, LONG}, {source + LONG + SHORT, SHORT}};
    ucxpool_request_t *send;
    ucxpool_request_t *recv;
    bool               needs_registration = _i != 0;

    pair_begin(&pair, "WIRE=ucx INPLACE_MIN=4k FRAG_SIZE=64k", "WIRE=ucx");
    pair.a->needs_registration = needs_registration;
    pair_fill(source, sizeof(source));
    recv = pair_recv(pair.b, NULL, target, sizeof(target), TAG);
    assert_ok(send_segments(pair.to_b, from, 3, TAG, NULL, &send));
    pair_finish_both(&pair, send, recv);
    ck_assert_mem_eq(target, source + LONG, SHORT);
    ck_assert_mem_eq(target + SHORT, source, LONG);
    ck_assert_mem_eq(target + SHORT + LONG, source + LONG + SHORT, SHORT);
    if (needs_registration) {
        check_sent(0, sizeof(source));
    } else {
        /* Short segments are packed even if they are next to long ones. */
        check_sent(LONG, 2 * SHORT);
    }
    pair_check_blocks(&pair);
}

/* Start a send in place, and cancel it; from communication memory, or
 * from any. */
static ucxpool_request_t *begin_and_cancel(void *source, void *target,
                                           size_t              length,
                                           ucxpool_request_t **recv_p)
{
    ucxpool_request_t *send;
    core_stats_t       stats;

    pair.a->needs_registration = false;
    assert_ok(ucxpool_recv_buffer(pair.b, pair.to_a, target, length, TAG,
                                  ALL_BITS, NULL, recv_p));
    send = pair_send(pair.to_b, source, length, TAG);
    do {
        ucxpool_progress(pair.b);
        ucxpool_progress(pair.a);
        core_stats_get(pair.a, &stats);
    } while (stats.counts.sent[CORE_MODE_UCX_INPLACE].bytes == 0);
    ucxpool_request_cancel(send);
    ck_assert_int_eq(ucxpool_request_test(send), UCXPOOL_INPROGRESS);
    return send;
}

static void *get_source(size_t length, bool from_comm)
{
    void *source = NULL;

    if (!from_comm) {
        source = malloc(length);
    } else {
        assert_ok(ucxpool_comm_alloc(pair.a, length, &source));
    }
    pair_fill(source, length);
    return source;
}

static void put_source(void *source, bool from_comm)
{
    if (from_comm) {
        ucxpool_comm_free(pair.a, source);
    } else {
        free(source);
    }
}

TEST_EACH(a_canceled_in_place_send_ends_when_ucx_releases_its_memory, 2)
{
    enum { LENGTH = 256 * 1024 };
    static uint8_t     target[LENGTH];
    void              *source;
    ucxpool_request_t *recv;
    ucxpool_request_t *send;

    pair_begin(&pair, "WIRE=ucx INPLACE_MIN=4k DEPTH=2", "WIRE=ucx");
    pair.a->drain_ns = UCXPOOL_FOREVER;
    source           = get_source(LENGTH, _i != 0);
    send             = begin_and_cancel(source, target, LENGTH, &recv);
    ucxpool_request_cancel(send); /* has no effect */
    assert_error(pair_finish(&pair, send), CANCELED);
    put_source(source, _i != 0);
    assert_error(pair_finish(&pair, recv), CANCELED);
    ck_assert_int_eq(pair_state(pair.to_b), UCXPOOL_CHANNEL_OPEN);
    exchange(target, target + LENGTH / 2, LENGTH / 2);
    pair_check_blocks(&pair);
}

TEST_EACH(a_peer_that_never_completes_a_canceled_send_loses_its_channel, 2)
{
    enum { LENGTH = 256 * 1024 };
    static uint8_t         target[LENGTH];
    void                  *source;
    ucxpool_request_t     *recv;
    ucxpool_request_t     *send;
    ucxpool_channel_attr_t attr;

    pair_begin(&pair, "WIRE=ucx INPLACE_MIN=4k DEPTH=2", "WIRE=ucx");
    pair.a->drain_ns = 0;
    source           = get_source(LENGTH, _i != 0);
    send             = begin_and_cancel(source, target, LENGTH, &recv);
    while (ucxpool_request_test(send) == UCXPOOL_INPROGRESS) {
        ucxpool_progress(pair.a);
    }
    assert_error(pair_finish(&pair, send), CANCELED);
    put_source(source, _i != 0);
    attr = pair_attr(pair.to_b);
    ck_assert_int_eq(attr.state, UCXPOOL_CHANNEL_FAILED);
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_CANCELED);
    ck_assert_int_ne(pair_finish(&pair, recv), UCXPOOL_OK);
    pair_check_blocks(&pair);
}

TEST_EACH(probe_returns_lengths_and_metadata_before_the_data, NUM_WIRES)
{
    static const char meta[] = "the caller's own";
    uint8_t           bytes[3][3000];
    uint8_t           target[9000];
    ucxpool_segment_t segments[] = {
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

    pair_begin(&pair, wires[_i], wires[_i]);
    pair_fill(bytes, sizeof(bytes));
    assert_error(ucxpool_probe(pair.b, NULL, TAG, ALL_BITS, &message),
                 NO_MESSAGE);
    assert_ok(send_segments(pair.to_b, segments, 3, TAG, &params, &send));
    message = pair_probe(&pair, TAG);
    ucxpool_message_query(message, &attr, sizeof(attr));
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
    assert_error(message_recv_segments(message, &whole, 1, NULL, &recv),
                 TRUNCATED);
    whole.length = 5999;
    assert_ok(message_recv_segments(message, &whole, 1, NULL, &recv));
    pair_until(&pair, pair_ended(recv));
    ucxpool_request_query(recv, &done, sizeof(done));
    ck_assert_uint_eq(done.length, 5999);
    ck_assert_mem_eq(done.metadata, meta, sizeof(meta));
    ck_assert_mem_eq(target, bytes[0], 3000);
    ck_assert_mem_eq(target + 3000, bytes[2], 2999);
    ucxpool_request_release(recv);
    assert_ok(pair_finish(&pair, send));
}
