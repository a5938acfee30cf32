/* Messages from and to equally long pieces, on both wires. */
#include "pair.h"
#include "segments.h"
#include "test.h"

#include "core/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each test runs once on each wire. */
static const char *const wires[] = {"WIRE=map", "WIRE=ucx",
                                    "WIRE=map CHECKSUM=crc32c",
                                    "WIRE=ucx CHECKSUM=crc32c"};
#define NUM_WIRES ((int)(sizeof(wires) / sizeof(wires[0])))

#define TAG        UINT64_C(0x1234)
#define ALL_BITS   UINT64_MAX
#define MAX_PIECES ((size_t)5000)
#define GAP        3

/* Pieces in any order, with unused bytes between them. */
typedef struct side {
    size_t   num;
    size_t   length;
    uint8_t *arena;
    size_t   arena_size;
    void    *pieces[MAX_PIECES];
} side_t;

static pair_t pair;
static side_t from, to;

static void side_init(side_t *side, size_t num, size_t length)
{
    ck_assert(num <= MAX_PIECES && length <= 1000000);
    side->num        = num;
    side->length     = length;
    side->arena_size = num * (length + GAP) + 1;
    side->arena      = malloc(side->arena_size);
    pair_poison(side->arena, side->arena_size);
    for (size_t i = 0; i < num; i++) {
        side->pieces[i] = side->arena + i * (length + GAP);
    }
    for (size_t i = 0; i < num; i++) {
        size_t other        = (size_t)rand() % num;
        void  *kept         = side->pieces[i];
        side->pieces[i]     = side->pieces[other];
        side->pieces[other] = kept;
    }
}

/* The bytes of the message that the pieces hold. */
static uint8_t *side_message(const side_t *side)
{
    uint8_t *message = malloc(side->num * side->length + 1);

    for (size_t i = 0; (i < side->num) && (side->length != 0); i++) {
        memcpy(message + i * side->length, side->pieces[i], side->length);
    }
    return message;
}

static void side_fill(side_t *side)
{
    for (size_t i = 0; i < side->num; i++) {
        pair_fill(side->pieces[i], side->length);
    }
}

/* Are the bytes between the pieces unchanged? */
static void side_check_gaps(const side_t *side)
{
    for (size_t i = 0; i < side->num; i++) {
        const uint8_t *gap = (uint8_t *)side->pieces[i] + side->length;

        for (size_t j = 0; j < GAP; j++) {
            ck_assert_uint_eq(gap[j], 0xfe);
        }
    }
}

static ucxpool_request_t *send_all(void)
{
    ucxpool_request_t *request;

    assert_ok(send_pieces(pair.to_b, from.pieces, from.num, from.length, TAG,
                          NULL, &request));
    return request;
}

static ucxpool_request_t *recv_all(void)
{
    ucxpool_request_t *request;

    assert_ok(recv_pieces(pair.b, pair.to_a, to.pieces, to.num, to.length, TAG,
                          ALL_BITS, NULL, &request));
    return request;
}

static void finish_both(ucxpool_request_t *send, ucxpool_request_t *recv,
                        size_t length)
{
    pair_until(&pair, pair_ended(send) && pair_ended(recv));
    ck_assert_uint_eq(pair_request_attr(recv).length, length);
    pair_finish_both(&pair, send, recv);
}

/* The first `length` bytes of both sides are equal. */
static void check_same(size_t length)
{
    uint8_t *sent = side_message(&from);
    uint8_t *came = side_message(&to);

    ck_assert_mem_eq(sent, came, length);
    side_check_gaps(&to);
    free(sent);
    free(came);
}

static void sides_cleanup(void)
{
    free(from.arena);
    free(to.arena);
}

static void exchange(size_t num_from, size_t from_length, size_t num_to,
                     size_t to_length)
{
    ucxpool_request_t *recv;

    side_init(&from, num_from, from_length);
    side_init(&to, num_to, to_length);
    side_fill(&from);
    recv = recv_all();
    finish_both(send_all(), recv, num_from * from_length);
    check_same(num_from * from_length);
    sides_cleanup();
}

static void end_pair(void)
{
    pair_check_blocks(&pair);
    pair_cleanup(&pair);
}

static void connect_pair(int wire)
{
    srand(5);
    pair_init(&pair, wires[wire], wires[wire]);
    test_at_end(end_pair);
}

TEST_SETTINGS(.timeout = 60);

TEST_EACH(pieces_of_any_length_arrive, NUM_WIRES)
{
    static const size_t lengths[] = {1, 7, 16, 100, 256, 1000, 4096, 70000};

    connect_pair(_i);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        size_t num = (lengths[i] > 4096) ? 60 : 1200;

        exchange(1, lengths[i], 1, lengths[i]);
        exchange(2, lengths[i], 2, lengths[i]);
        exchange(num, lengths[i], num, lengths[i]);
    }
}

TEST_EACH(the_receivers_pieces_may_have_another_length, NUM_WIRES)
{
    connect_pair(_i);
    exchange(1000, 100, 100, 1000);
    exchange(100, 1000, 1000, 100);
    exchange(300, 1000, 4300, 70); /* the receive has room left */
    exchange(4321, 7, 1, 40000);
    exchange(1, 40000, 4444, 9 + 1);
}

TEST_EACH(segments_and_pieces_receive_each_other, NUM_WIRES)
{
    enum { LENGTH = 256 * 1000 };
    static ucxpool_segment_t segments[MAX_PIECES];
    static uint8_t           other[LENGTH + GAP * MAX_PIECES];
    ucxpool_request_t       *send;
    ucxpool_request_t       *recv;
    size_t                   num;

    connect_pair(_i);
    /* From pieces to segments, and from these back to pieces. */
    side_init(&from, 1000, 256);
    side_init(&to, 2000, 128);
    side_fill(&from);
    num = cut_segments(other, LENGTH, 400, GAP, segments, MAX_PIECES);
    pair_poison(other, sizeof(other));
    send = send_all();
    assert_ok(
        recv_segments(pair.b, NULL, segments, num, TAG, ALL_BITS, NULL, &recv));
    finish_both(send, recv, LENGTH);
    recv = recv_all();
    assert_ok(send_segments(pair.to_b, segments, num, TAG, NULL, &send));
    finish_both(send, recv, LENGTH);
    check_same(LENGTH);
    sides_cleanup();
}

TEST_EACH(a_message_of_pieces_probes_as_equal_segments, NUM_WIRES)
{
    ucxpool_message_t     *message = NULL;
    ucxpool_message_attr_t attr;
    ucxpool_segment_t      segment;
    ucxpool_request_t     *send, *recv;
    size_t                 lengths[4];

    connect_pair(_i);
    side_init(&from, 3, 50);
    side_init(&to, 3, 50);
    send    = send_all();
    message = pair_probe(&pair, TAG);
    ucxpool_message_query(message, &attr, sizeof(attr));
    ck_assert_uint_eq(attr.num_segments, 3);
    ck_assert_uint_eq(attr.length, 150);
    ck_assert_uint_eq(ucxpool_message_lengths(message, 0, 4, lengths), 3);
    ck_assert_uint_eq(lengths[2], 50);
    segment = (ucxpool_segment_t){to.arena, 150};
    assert_ok(message_recv_segments(message, &segment, 1, NULL, &recv));
    finish_both(send, recv, 150);
    sides_cleanup();
}

TEST_EACH(a_probed_message_is_received_into_pieces, NUM_WIRES)
{
    ucxpool_message_t *message = NULL;
    ucxpool_request_t *send, *recv;
    uint8_t           *sent, *received;

    connect_pair(_i);
    side_init(&from, 6, 50);
    side_init(&to, 3, 100);
    side_fill(&from);
    send    = send_all();
    message = pair_probe(&pair, TAG);
    assert_error_detail(
        message_recv_pieces(message, to.pieces, 2, 100, NULL, &recv), TRUNCATED,
        "the pieces of the receive have room for 200");
    assert_ok(message_recv_pieces(message, to.pieces, 3, 100, NULL, &recv));
    finish_both(send, recv, 300);
    sent     = side_message(&from);
    received = side_message(&to);
    ck_assert_mem_eq(received, sent, 300);
    side_check_gaps(&to);
    free(sent);
    free(received);
    sides_cleanup();
}

TEST_EACH(zero_pieces_and_empty_pieces_are_messages, NUM_WIRES)
{
    static void *const null[3] = {NULL, NULL, NULL};
    ucxpool_request_t *send, *recv;

    connect_pair(_i);
    for (size_t num = 0; num < 4; num++) {
        assert_ok(send_pieces(pair.to_b, num == 0 ? NULL : null, num, 0, TAG,
                              NULL, &send));
        assert_ok(recv_pieces(pair.b, NULL, num == 0 ? NULL : null, num, 0, TAG,
                              ALL_BITS, NULL, &recv));
        finish_both(send, recv, 0);
    }
    /* Also zero pieces of a nonzero length. */
    assert_ok(send_pieces(pair.to_b, NULL, 0, 77, TAG, NULL, &send));
    assert_ok(
        recv_pieces(pair.b, NULL, null, 0, 77, TAG, ALL_BITS, NULL, &recv));
    finish_both(send, recv, 0);
}

static ucxpool_status_t post(bool is_send, void *const *addresses, size_t num,
                             size_t length)
{
    ucxpool_request_t *request = NULL;
    ucxpool_status_t   status;

    status = is_send ? send_pieces(pair.to_b, addresses, num, length, TAG, NULL,
                                   &request)
                     : recv_pieces(pair.b, NULL, addresses, num, length, TAG,
                                   ALL_BITS, NULL, &request);
    ck_assert_ptr_null(request);
    return status;
}

TEST_EACH(invalid_pieces_are_rejected_at_once, NUM_WIRES)
{
    connect_pair(_i);
    side_init(&from, 100, 64);
    for (int is_send = 0; is_send < 2; is_send++) {
        assert_error(post(is_send, NULL, 5, 64), INVALID_PARAM);
        assert_error(post(is_send, from.pieces, 100, SIZE_MAX / 50),
                     INVALID_PARAM);
        assert_error(post(is_send, from.pieces, SIZE_MAX, SIZE_MAX),
                     INVALID_PARAM);
        for (size_t i = 0; i < 100; i += 33) {
            void *kept = from.pieces[i];
            char  name[32];

            from.pieces[i] = NULL;
            assert_error(post(is_send, from.pieces, 100, 64), INVALID_PARAM);
            snprintf(name, sizeof(name), "piece %zu ", i);
            assert_detail(name);
            from.pieces[i] = kept;
        }
        assert_error(post(is_send, (void *[]){NULL}, 1, 64), INVALID_PARAM);
    }
    free(from.arena);
    exchange(10, 10, 10, 10);
}

TEST_EACH(too_few_pieces_truncate, NUM_WIRES)
{
    static const size_t nums[] = {3, 4000}; /* eager, and not eager */
    ucxpool_request_t  *send, *recv;

    connect_pair(_i);
    for (size_t i = 0; i < 2; i++) {
        side_init(&from, nums[i], 100);
        side_init(&to, nums[i] - 1, 100);
        recv = recv_all();
        send = send_all();
        assert_error(pair_finish(&pair, recv), TRUNCATED);
        ck_assert_int_eq(pair_finish(&pair, send),
                         i == 0 ? UCXPOOL_OK : UCXPOOL_ERR_REFUSED);
        sides_cleanup();
    }
    exchange(10, 10, 10, 10);
}

TEST_EACH(an_array_of_one_piece_is_copied, NUM_WIRES)
{
    ucxpool_request_t *send, *recv;
    void              *source, *target;

    connect_pair(_i);
    side_init(&from, 1, 100000);
    side_init(&to, 1, 100000);
    side_fill(&from);
    source         = from.pieces[0];
    target         = to.pieces[0];
    recv           = recv_all();
    send           = send_all();
    from.pieces[0] = NULL;
    to.pieces[0]   = NULL;
    finish_both(send, recv, 100000);
    from.pieces[0] = source;
    to.pieces[0]   = target;
    check_same(100000);
    sides_cleanup();
}

/* Pieces in communication memory go in place if they are long enough, as
 * segments do. */
TEST_EACH(pieces_in_comm_memory_go_in_place, NUM_WIRES)
{
    enum { NUM = 6, LENGTH = 40000 };
    core_mode_t        mode = (strstr(wires[_i], "map") != NULL)
                                  ? CORE_MODE_MAP_INPLACE
                                  : CORE_MODE_UCX_INPLACE;
    void              *memory;
    core_stats_t       before, after;
    ucxpool_request_t *recv;

    connect_pair(_i);
    assert_ok(ucxpool_comm_alloc(pair.a, NUM * LENGTH, &memory));
    side_init(&to, NUM, LENGTH);
    from = (side_t){.num = NUM, .length = LENGTH};
    for (size_t i = 0; i < NUM; i++) {
        from.pieces[i] = (uint8_t *)memory + (i ^ 1) * LENGTH;
    }
    side_fill(&from);
    core_stats_get(pair.a, &before);
    recv = recv_all();
    finish_both(send_all(), recv, NUM * LENGTH);
    core_stats_get(pair.a, &after);
    check_same(NUM * LENGTH);
    ck_assert_uint_eq(after.counts.sent[mode].bytes -
                          before.counts.sent[mode].bytes,
                      NUM * LENGTH);
    ucxpool_comm_free(pair.a, memory);
    free(to.arena);
}

/* The sender's arrays and memory are const from the public API to the wire. */
TEST_EACH(sources_are_const, NUM_WIRES)
{
    static const char             words[]    = "to be sent only";
    const ucxpool_const_segment_t segments[] = {{words, 6}, {words + 6, 10}};
    const void *const             pieces[]   = {words, words + 8};
    const ucxpool_data_t          sources[]  = {
                  ucxpool_source_buffer(words, sizeof(words)),
                  ucxpool_source_segments(segments, 2),
                  ucxpool_source_pieces(pieces, 2, 8),
    };
    char               received[sizeof(words)];
    ucxpool_request_t *send, *recv;

    connect_pair(_i);
    for (size_t i = 0; i < 3; i++) {
        memset(received, 0, sizeof(received));
        assert_ok(ucxpool_send(pair.to_b, &sources[i], TAG, NULL, &send));
        recv = pair_recv(pair.b, NULL, received, sizeof(received), TAG);
        finish_both(send, recv, sizeof(words));
        ck_assert_str_eq(received, words);
        assert_error_detail(
            ucxpool_recv(pair.b, NULL, &sources[i], TAG, ALL_BITS, NULL, &recv),
            INVALID_PARAM, "use ucxpool_data_...()");
    }
}

/* Program built against a newer library, or with uninitialized data. */
TEST_EACH(data_of_an_unknown_kind_is_rejected, NUM_WIRES)
{
    ucxpool_data_t     data = ucxpool_data_buffer(NULL, 0);
    ucxpool_request_t *request;

    connect_pair(_i);
    data.kind = (ucxpool_data_kind_t)77;
    assert_error_detail(ucxpool_send(pair.to_b, &data, TAG, NULL, &request),
                        UNSUPPORTED, "kind 77");
    data             = ucxpool_data_buffer(NULL, 0);
    data.reserved[3] = 1;
    assert_error(
        ucxpool_recv(pair.b, NULL, &data, TAG, ALL_BITS, NULL, &request),
        UNSUPPORTED);
}
