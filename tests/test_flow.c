/* Flow control: few blocks, few credits, odd sizes, limits and refusals. */
#include <config.h>

#include "base/math.h"
#include "core/stats.h"
#include "files.h"
#include "pair.h"
#include "rounds.h"

#include "xfer/send.h"
#include "segments.h"
#include "test.h"
#include "xfer/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TAG      UINT64_C(0x77)
#define ALL_BITS UINT64_MAX

static const char *const wires[] = {"WIRE=map", "WIRE=ucx"};

/* At most one block each for sending, for receiving and for the caller. */
#define TINY "COMM_SIZE=192k REGION_SIZE=64k SEND_SHARE=33 RECV_SHARE=33"

static pair_t pair;

static const char *with(const char *wire, const char *settings)
{
    static char text[2][256];
    static int  turn;

    turn = !turn;
    snprintf(text[turn], sizeof(text[turn]), "%s %s", wire, settings);
    return text[turn];
}

TEST_SETTINGS(.timeout = 60);

TEST_EACH(messages_arrive_with_any_sizes_on_the_two_sides, 2)
{
    static const char *const sides[][2] = {
        {TINY, TINY},
        {"BLOCK_SIZE=16k", "BLOCK_SIZE=128k"},
        {"BLOCK_SIZE=128k", "BLOCK_SIZE=16k"},
        {"FRAG_SIZE=4k", "FRAG_SIZE=64k"},
        {"FRAG_SIZE=64k DEPTH=64", "FRAG_SIZE=4k DEPTH=64"},
        {"CREDITS=1", "CREDITS=1"},
        {"DEPTH=1 CREDITS=1 " TINY, "DEPTH=1 CREDITS=1 " TINY},
        {"EAGER_SIZE=0", "EAGER_SIZE=0"},
    };
    static const size_t sizes[] = {0, 1, 4096, 65535, 65537, 3000001};

    for (size_t i = 0; i < sizeof(sides) / sizeof(sides[0]); i++) {
        pair_init(&pair, with(wires[_i], sides[i][0]),
                  with(wires[_i], sides[i][1]));
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
            pair_exchange(&pair, sizes[j]);
        }
        pair_check_blocks(&pair);
        pair_cleanup(&pair);
    }
}

/* --- all to all ---------------------------------------------------------- */

#define PEERS 4
#define LARGE 1000000u

typedef struct crowd {
    ucxpool_t         *pools[PEERS];
    ucxpool_channel_t *to[PEERS][PEERS];
    uint8_t           *sources[PEERS];
    uint8_t           *targets[PEERS][PEERS];
    ucxpool_request_t *sends[PEERS][PEERS];
    ucxpool_request_t *recvs[PEERS][PEERS];
} crowd_t;

static void connect_all(crowd_t *crowd)
{
    for (int i = 0; i < PEERS; i++) {
        for (int j = 0; j < PEERS; j++) {
            if (i != j) {
                crowd->to[i][j] = pair_meet(crowd->pools[i], crowd->pools[j]);
            }
        }
    }
}

/* Peer i receives from peer j into pieces, so that it needs a block. */
static void post_recv(crowd_t *crowd, int i, int j)
{
    static ucxpool_segment_t pieces[PEERS][PEERS][LARGE / 1000];

    crowd->targets[i][j] = test_alloc(LARGE);
    for (size_t k = 0; k < LARGE / 1000; k++) {
        pieces[i][j][k] =
            (ucxpool_segment_t){crowd->targets[i][j] + k * 1000, 1000};
    }
    assert_ok(recv_segments(crowd->pools[i], crowd->to[i][j], pieces[i][j],
                            LARGE / 1000, TAG, ALL_BITS, NULL,
                            &crowd->recvs[i][j]));
}

static void post_all(crowd_t *crowd)
{
    for (int i = 0; i < PEERS; i++) {
        crowd->sources[i] = test_alloc(LARGE);
        memset(crowd->sources[i], 'a' + i, LARGE);
        for (int j = 0; j < PEERS; j++) {
            if (i == j) {
                continue;
            }
            crowd->sends[i][j] =
                pair_send(crowd->to[i][j], crowd->sources[i], LARGE, TAG);
            post_recv(crowd, i, j);
        }
    }
}

static bool is_done(const crowd_t *crowd)
{
    for (int i = 0; i < PEERS; i++) {
        for (int j = 0; j < PEERS; j++) {
            if ((i != j) && (!pair_ended(crowd->sends[i][j]) ||
                             !pair_ended(crowd->recvs[i][j]))) {
                return false;
            }
        }
    }
    return true;
}

static void check_all(crowd_t *crowd)
{
    for (int i = 0; i < PEERS; i++) {
        for (int j = 0; j < PEERS; j++) {
            if (i == j) {
                continue;
            }
            assert_ok(ucxpool_request_test(crowd->sends[i][j]));
            assert_ok(ucxpool_request_test(crowd->recvs[i][j]));
            ck_assert_int_eq(
                memcmp(crowd->targets[i][j], crowd->sources[j], LARGE), 0);
            ucxpool_request_release(crowd->sends[i][j]);
            ucxpool_request_release(crowd->recvs[i][j]);
        }
        assert_ok(ucxpool_check(crowd->pools[i]));
    }
}

TEST_EACH(all_to_all_completes_with_one_block_each_way, 2)
{
    static crowd_t crowd;
    uint64_t       until;
    uint64_t       block_wait_ns = 0;

    for (int i = 0; i < PEERS; i++) {
        crowd.pools[i] = pair_pool(with(wires[_i], TINY));
    }
    connect_all(&crowd);
    post_all(&crowd);
    until = pair_deadline();
    while (!is_done(&crowd)) {
        for (int i = 0; i < PEERS; i++) {
            ucxpool_progress(crowd.pools[i]);
        }
        if (pair_is_late(until)) {
            ck_abort_msg("never done");
        }
    }
    check_all(&crowd);
    for (int i = 0; i < PEERS; i++) {
        core_stats_t stats = pair_stats(crowd.pools[i]);

        block_wait_ns += stats.counts.block_wait_ns;
        ucxpool_destroy(crowd.pools[i]);
    }
    ck_assert_uint_gt(block_wait_ns, 0);
}

/* --- credits ------------------------------------------------------------- */

/* A few rounds, enough for everything that can happen. */
static void idle(void)
{
    for (int i = 0; i < 3000; i++) {
        pair_progress(&pair);
    }
}

TEST_EACH(unreceived_messages_are_bounded_by_credits_and_max_unexpected, 2)
{
    enum { CREDITS = 4, MAX = CREDITS + 6, COUNT = 30 };
    ucxpool_request_t *sends[COUNT];
    ucxpool_message_t *messages[COUNT];
    unsigned           num_sent    = 0;
    unsigned           num_arrived = 0;

    pair_begin(&pair, wires[_i], with(wires[_i], "CREDITS=4 MAX_UNEXPECTED=6"));
    for (int i = 0; i < COUNT; i++) {
        sends[i] = pair_send(pair.to_b, "m", 1, TAG);
    }
    pair_until(&pair, pair.to_a->xfer->messages.num_unexpected == MAX);
    idle();
    for (int i = 0; i < COUNT; i++) {
        num_sent += pair_ended(sends[i]);
    }
    ck_assert_uint_eq(num_sent, CREDITS);
    while (ucxpool_probe(pair.b, NULL, TAG, ALL_BITS, &messages[num_arrived]) ==
           UCXPOOL_OK) {
        num_arrived++;
    }
    ck_assert_uint_eq(num_arrived, MAX);
    /* Each completed message makes room for the next. */
    for (int i = 0; i < COUNT; i++) {
        if (i >= MAX) {
            pair_until(&pair, ucxpool_probe(pair.b, NULL, TAG, ALL_BITS,
                                            &messages[i]) == UCXPOOL_OK);
        }
        ucxpool_message_refuse(messages[i], NULL);
    }
    for (int i = 0; i < COUNT; i++) {
        ucxpool_status_t status = pair_finish(&pair, sends[i]);

        ck_assert((status == UCXPOOL_OK) ||
                  ((i >= CREDITS) && (status == UCXPOOL_ERR_REFUSED)));
    }
}

/* A small record has room for 64 bytes, of which the run takes 16. */
TEST_EACH(unreceived_messages_of_up_to_48_bytes_take_small_records, 2)
{
    static const size_t lengths[] = {1, 48, 49};
    char                source[49], target[49];

    memset(source, 'm', sizeof(source));
    pair_begin(&pair, wires[_i], wires[_i]);
    for (unsigned i = 0; i < 3; i++) {
        assert_ok(ucxpool_send_buffer(pair.to_b, source, lengths[i], TAG, NULL,
                                      NULL));
    }
    pair_until(&pair, pair.to_a->xfer->messages.num_unexpected == 3);
    ck_assert_uint_eq(pair.to_a->xfer->messages.small.count, 2);
    ck_assert_uint_eq(pair.to_a->xfer->messages.large.count, 1);
    for (unsigned i = 0; i < 3; i++) {
        memset(target, 0, sizeof(target));
        assert_ok(pair_finish(
            &pair, pair_recv(pair.b, NULL, target, sizeof(target), TAG)));
        ck_assert_mem_eq(target, source, lengths[i]);
    }
}

static void receive_many(uint64_t tag, const uint32_t *sources,
                         uint32_t *target)
{
    ucxpool_request_t *recv;

    *target = UINT32_MAX;
    recv    = pair_recv(pair.b, pair.to_a, target, sizeof(*target), tag);
    assert_ok(pair_finish(&pair, recv));
    ck_assert_uint_eq(*target, sources[tag]);
}

/* All with different tags, and the last one received first. */
TEST_EACH(the_last_of_many_unreceived_messages_is_received_first, 2)
{
    uint32_t  num      = rounds_are_few() ? 5000 : 100000;
    uint32_t  received = num / 50;
    uint32_t *sources  = test_alloc(num * sizeof(*sources));
    uint32_t  target;

    pair_begin(&pair, with(wires[_i], "CLOSE_TIMEOUT=0"),
               with(wires[_i], "CREDITS=64"));
    for (uint32_t i = 0; i < num; i++) {
        sources[i] = i;
        assert_ok(ucxpool_send_buffer(pair.to_b, &sources[i],
                                      sizeof(sources[i]), i, NULL, NULL));
    }
    pair_until(&pair, pair.to_a->xfer->messages.num_unexpected == num);
    for (uint32_t i = num; i-- > num - received;) {
        receive_many(i, sources, &target);
    }
    /* Messages that arrived with their bytes, and those queued after them. */
    for (uint32_t i = 0; i < received; i++) {
        receive_many(i, sources, &target);
    }
    /* UCX leaks unsent messages when an endpoint is closed by force. */
    ucxpool_channel_close(pair.to_b);
    pair_until(&pair, pair.to_a->xfer->messages.num_unexpected == 0);
}

/* Messages in the longest list of the index by tag. */
static unsigned longest_list(const ucxpool_t *pool)
{
    unsigned longest = 0;

    for (uint32_t i = 0; i < pool->xfer->index.size; i++) {
        const base_list_t *list   = &pool->xfer->index.lists[i];
        unsigned           length = 0;

        for (base_list_t *at = list->next; at != list; at = at->next) {
            length++;
        }
        longest = base_max(longest, length);
    }
    return longest;
}

/* A peer that knew the factor could choose tags that collide. */
TEST_EACH(index_spreads_tags_by_a_factor_of_each_pool, 2)
{
    enum { NUM = 512 };

    pair_begin(&pair, with(wires[_i], "CLOSE_TIMEOUT=0"),
               with(wires[_i], "CREDITS=64"));
    ck_assert_uint_ne(pair.a->xfer->index.factor, pair.b->xfer->index.factor);
    for (uint64_t i = 0; i < NUM; i++) {
        assert_ok(ucxpool_send_buffer(pair.to_b, "m", 1, i << 44, NULL, NULL));
    }
    pair_until(&pair, pair.to_a->xfer->messages.num_unexpected == NUM);
    ck_assert_uint_lt(longest_list(pair.b), NUM / 4);
    ucxpool_channel_close(pair.to_b);
    pair_until(&pair, pair.to_a->xfer->messages.num_unexpected <= 64);
}

#define KIND_NUM 5u

/* Empty, short, with metadata, in several segments, long. */
static void send_kind(const uint8_t *bytes, unsigned i,
                      ucxpool_request_t **send_p)
{
    static const size_t sizes[KIND_NUM] = {0, 100, 5000, 9000, 70000};
    const size_t        cut             = sizes[i] / 3;

    static ucxpool_const_segment_t all_segments[KIND_NUM][2];
    ucxpool_const_segment_t       *segments = all_segments[i];
    ucxpool_data_t                 data = ucxpool_source_segments(segments, 2);
    ucxpool_request_params_t       params = {
              .field_mask      = UCXPOOL_REQUEST_PARAM_FIELD_METADATA,
              .metadata        = bytes,
              .metadata_length = 300,
    };

    segments[0] = (ucxpool_const_segment_t){bytes, cut};
    segments[1] = (ucxpool_const_segment_t){bytes + cut, sizes[i] - cut};
    if (i < 3) {
        data = ucxpool_source_buffer(bytes, sizes[i]);
    }
    assert_ok(
        ucxpool_send(pair.to_b, &data, i, (i == 2) ? &params : NULL, send_p));
}

TEST_EACH(unreceived_messages_of_each_kind_arrive_whole, 2)
{
    uint8_t               *bytes  = test_alloc((size_t)2 * 70000);
    uint8_t               *target = bytes + 70000;
    ucxpool_request_t     *sends[KIND_NUM], *recv;
    ucxpool_request_attr_t attr;

    for (unsigned i = 0; i < 70000; i++) {
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    }
    pair_begin(&pair, wires[_i], with(wires[_i], "CREDITS=1"));
    assert_ok(ucxpool_send_buffer(pair.to_b, "1", 1, 99, NULL, NULL));
    for (unsigned i = 0; i < KIND_NUM; i++) {
        send_kind(bytes, i, &sends[i]);
    }
    for (unsigned i = KIND_NUM; i-- > 0;) {
        memset(target, 0, 70000);
        recv = pair_recv(pair.b, NULL, target, 70000, i);
        pair_until(&pair, pair_ended(recv));
        attr = pair_request_attr(recv);
        ck_assert_mem_eq(target, bytes, attr.length);
        ck_assert_uint_eq(attr.metadata_length, (i == 2) ? 300 : 0);
        pair_finish_both(&pair, recv, sends[i]);
    }
    ck_assert_uint_eq(pair.to_b->flow.announced, 0);
}

#define LEFT_NUM 3000u

static void leave_unreceived(const char        *settings,
                             ucxpool_request_t *sends[LEFT_NUM])
{
    pair_init(&pair, settings, settings);
    for (unsigned i = 0; i < LEFT_NUM; i++) {
        sends[i] = pair_send(pair.to_b, "m", 1, TAG);
    }
    pair_until(&pair, pair.to_a->xfer->messages.num_unexpected == LEFT_NUM);
}

TEST_EACH(unreceived_messages_end_with_their_channel, 2)
{
    enum { CREDITS = 8 };
    static ucxpool_request_t *sends[LEFT_NUM];
    ucxpool_request_t        *flush;

    leave_unreceived(with(wires[_i], "CREDITS=8 CLOSE_TIMEOUT=0"), sends);
    assert_ok(ucxpool_channel_flush(pair.to_b, NULL, &flush));
    ck_assert(!pair_ended(flush));
    ucxpool_channel_close(pair.to_b);
    for (unsigned i = 0; i < LEFT_NUM; i++) {
        ck_assert_int_eq(pair_finish(&pair, sends[i]),
                         (i < CREDITS) ? UCXPOOL_OK : UCXPOOL_ERR_CANCELED);
    }
    assert_error(pair_finish(&pair, flush), CANCELED);
    /* Messages that arrived with their bytes can still be received. */
    pair_until(&pair, pair.to_a->xfer->messages.num_unexpected == CREDITS);
    pair.to_b = NULL;
    pair_cleanup(&pair);
}

TEST_EACH(canceling_unreceived_messages_makes_room, 2)
{
    enum { CREDITS = 8 };
    static ucxpool_request_t *sends[LEFT_NUM];

    leave_unreceived(with(wires[_i], "CREDITS=8 MAX_UNEXPECTED=2992"), sends);
    for (unsigned i = LEFT_NUM; i-- > CREDITS;) {
        ucxpool_request_cancel(sends[i]);
    }
    for (unsigned i = 0; i < LEFT_NUM; i++) {
        ck_assert_int_eq(pair_finish(&pair, sends[i]),
                         (i < CREDITS) ? UCXPOOL_OK : UCXPOOL_ERR_CANCELED);
    }
    pair_until(&pair, pair.to_b->flow.announced == 0);
    ck_assert_uint_eq(pair.to_a->xfer->messages.announced, 0);
    ck_assert_uint_eq(pair.to_a->xfer->messages.num_unexpected, CREDITS);
    pair_cleanup(&pair);
}

TEST_EACH(waiting_message_blocks_no_other_while_credits_last, 2)
{
    enum { CREDITS = 8 };
    char               target;
    ucxpool_request_t *recv;

    pair_begin(&pair, wires[_i], with(wires[_i], "CREDITS=8"));
    for (int i = 0; i < CREDITS - 1; i++) {
        assert_ok(ucxpool_send_buffer(pair.to_b, "w", 1, TAG, NULL, NULL));
    }
    for (int i = 0; i < 3 * CREDITS; i++) {
        recv = pair_recv(pair.b, NULL, &target, 1, 1);
        assert_ok(ucxpool_send_buffer(pair.to_b, "n", 1, 1, NULL, NULL));
        assert_ok(pair_finish(&pair, recv));
    }
}

#define WAITING_CREDITS 8u
#define WAITING_NUM     (3 * WAITING_CREDITS)

/* Short sends, alone or with metadata. Each credit allows one to go at once. */
static void send_waiting(const uint8_t     *bytes,
                         ucxpool_request_t *sends[WAITING_NUM])
{
    const ucxpool_request_params_t params = {
        .field_mask      = UCXPOOL_REQUEST_PARAM_FIELD_METADATA,
        .metadata        = "m",
        .metadata_length = 1,
    };

    for (unsigned i = 0; i < WAITING_NUM; i++) {
        assert_ok(ucxpool_send_buffer(pair.to_b, &bytes[i], 1, TAG,
                                      (i % 4 == 3) ? &params : NULL,
                                      &sends[i]));
        ck_assert_int_eq(pair_ended(sends[i]), i < WAITING_CREDITS);
    }
}

TEST_EACH(queued_short_sends_use_all_new_credits_in_one_round, 2)
{
    uint8_t            bytes[WAITING_NUM];
    uint8_t            targets[WAITING_NUM];
    ucxpool_request_t *sends[WAITING_NUM];
    ucxpool_request_t *recvs[WAITING_NUM];

    pair_begin(&pair, wires[_i], with(wires[_i], "CREDITS=8"));
    pair.a->announce_ns = UCXPOOL_FOREVER;
    pair_fill(bytes, sizeof(bytes));
    send_waiting(bytes, sends);
    for (unsigned i = 0; i < WAITING_NUM; i++) {
        recvs[i] = pair_recv(pair.b, NULL, &targets[i], 1, TAG);
    }
    pair_until(&pair, pair_ended(recvs[WAITING_CREDITS - 1]));
    while (!pair_ended(sends[WAITING_CREDITS])) {
        ucxpool_progress(pair.a);
    }
    /* The peer returns credits when it owes more than half. */
    ck_assert(pair_ended(sends[WAITING_CREDITS + WAITING_CREDITS / 2]));
    for (unsigned i = 0; i < WAITING_NUM; i++) {
        pair_finish_both(&pair, sends[i], recvs[i]);
    }
    ck_assert_mem_eq(targets, bytes, sizeof(bytes));
}

/* The first queued send fails without sending a message, so only the next one
 * can wake the receiver, which went to sleep after it had returned credits. */
TEST_WITH(queued_short_sends_wake_a_sleeping_receiver, .end = 1,
          .only_if = pair_has_pidfd)
{
    char               target;
    int                empty = memfd_create("empty", MFD_CLOEXEC);
    ucxpool_range_t    range = ucxpool_range_file(empty, 0, 1, NULL);
    ucxpool_request_t *recv, *send, *failing;

    pair_begin(&pair, wires[0], with(wires[0], "CREDITS=1"));
    pair.a->announce_ns = UCXPOOL_FOREVER;
    assert_ok(ucxpool_send_buffer(pair.to_b, "w", 1, TAG, NULL, NULL));
    assert_ok(send_ranges(pair.to_b, &range, 1, TAG, NULL, &failing));
    send = pair_send(pair.to_b, "w", 1, TAG);
    recv = pair_recv(pair.b, NULL, &target, 1, TAG);
    while (!pair_ended(recv)) {
        ucxpool_progress(pair.b);
    }
    pair_arm(pair.b);
    ck_assert(!pair_ended(send));
    ck_assert(!pair_is_readable(pair.b));
    while (!pair_ended(send)) {
        ucxpool_progress(pair.a);
    }
    ck_assert(pair_is_readable(pair.b));
    pair_finish_both(&pair, send, recv);
    assert_error(pair_finish(&pair, failing), IO);
    close(empty);
}

/* So that the peer can write while others are being read. */
TEST(credits_are_returned_before_the_ring_is_read_to_its_end)
{
    uint8_t            bytes[WAITING_NUM];
    uint8_t            targets[WAITING_CREDITS];
    ucxpool_request_t *sends[WAITING_NUM];

    pair_begin(&pair, "WIRE=map", "WIRE=map CREDITS=8");
    pair.a->announce_ns = UCXPOOL_FOREVER;
    pair_fill(bytes, sizeof(bytes));
    for (unsigned i = 0; i < WAITING_CREDITS; i++) {
        assert_ok(ucxpool_recv_buffer(pair.b, NULL, &targets[i], 1, TAG,
                                      ALL_BITS, NULL, NULL));
    }
    send_waiting(bytes, sends);
    ucxpool_progress(pair.b); /* reads them all */
    ck_assert_mem_eq(targets, bytes, sizeof(targets));
    ck_assert_uint_eq(pair.to_a->flow.credits_owed, WAITING_CREDITS / 2 - 1);
    for (unsigned i = 0; i < WAITING_NUM; i++) {
        ucxpool_request_release(sends[i]);
    }
}

/* --- two concurrent messages --------------------------------------------- */

#define SIDE_SIZE ((size_t)4 << 20)

static unsigned num_blocks(const ucxpool_request_t *request)
{
    unsigned count = 0;

    for (unsigned i = 0; i < request->send->num_blocks; i++) {
        count += request->send->blocks[i].index != XFER_NO_BLOCK;
    }
    return count;
}

TEST_EACH(only_the_first_of_two_messages_gets_more_than_one_block, 2)
{
    static const char  settings[] = "WIRE=map COMM_SIZE=2m BLOCK_SIZE=32k "
                                    "FRAG_SIZE=16k DEPTH=8";
    uint8_t           *source     = test_alloc((size_t)2 * SIDE_SIZE);
    uint8_t           *target     = test_alloc(2 * SIDE_SIZE);
    ucxpool_request_t *sends[2];
    ucxpool_request_t *recvs[2];
    unsigned           most_before = 0;
    unsigned           most_after  = 0;

    /* Enough blocks of two fragments each: a window of fragments takes four. On
     * the other wire, the caller's memory is sent in place. */
    pair_begin(&pair, settings, settings);
    for (unsigned i = 0; i < 2; i++) {
        recvs[i] =
            pair_recv(pair.b, pair.to_a, target + i * SIDE_SIZE, SIDE_SIZE, i);
        sends[i] = pair_send(pair.to_b, source + i * SIDE_SIZE, SIDE_SIZE, i);
    }
    while (ucxpool_request_test(sends[1]) == UCXPOOL_INPROGRESS) {
        unsigned *most_p =
            sends[0]->send->all_posted ? &most_after : &most_before;

        *most_p = base_max(*most_p, num_blocks(sends[1]));
        pair_progress(&pair);
    }
    ck_assert_uint_eq(most_before, 1);
    ck_assert_uint_gt(most_after, 1);
    for (unsigned i = 0; i < 2; i++) {
        pair_finish_both(&pair, sends[i], recvs[i]);
    }
    ck_assert_int_eq(memcmp(source, target, 2 * SIDE_SIZE), 0);
}

/* --- refusals and limits ------------------------------------------------- */

TEST_EACH(receive_that_is_too_small_rejects_with_a_reason, 2)
{
    uint8_t           *source = test_alloc(100000);
    uint8_t           *target = test_alloc(100000);
    ucxpool_request_t *send;
    ucxpool_request_t *recv;

    pair_begin(&pair, wires[_i], wires[_i]);
    pair_poison(target, 100000);
    recv = pair_recv(pair.b, NULL, target, 99999, TAG);
    send = pair_send(pair.to_b, source, 100000, TAG);
    assert_error(pair_finish(&pair, recv), TRUNCATED);
    pair_finish_error(&pair, send, UCXPOOL_ERR_REFUSED,
                      "the message has 100000 bytes, the receive "
                      "has room for 99999");
    ck_assert_int_eq(target[0], 0xfe);
    pair_exchange(&pair, 100000);
    pair_check_blocks(&pair);
}

TEST_EACH(message_is_rejected_with_the_given_reason, 2)
{
    uint8_t           *source = test_alloc(100000);
    ucxpool_request_t *send;
    ucxpool_message_t *message;

    pair_begin(&pair, wires[_i], wires[_i]);
    send    = pair_send(pair.to_b, source, 100000, TAG);
    message = pair_probe(&pair, TAG);
    ucxpool_message_refuse(message, "the disk is full");
    pair_finish_error(&pair, send, UCXPOOL_ERR_REFUSED, "the disk is full");
    pair_exchange(&pair, 100000);
}

TEST_EACH(a_message_without_segments_arrives, 2)
{
    ucxpool_request_t       *send;
    ucxpool_request_t       *recv;
    ucxpool_request_attr_t   attr;
    ucxpool_request_params_t params = {
        .field_mask      = UCXPOOL_REQUEST_PARAM_FIELD_METADATA,
        .metadata        = "head",
        .metadata_length = 4,
    };

    pair_begin(&pair, wires[_i], wires[_i]);
    assert_ok(recv_segments(pair.b, NULL, NULL, 0, TAG, ALL_BITS, NULL, &recv));
    assert_ok(send_segments(pair.to_b, NULL, 0, TAG, &params, &send));
    assert_ok(pair_finish(&pair, send));
    pair_until(&pair, pair_ended(recv));
    attr = pair_request_attr(recv);
    assert_ok(attr.status);
    ck_assert_uint_eq(attr.length, 0);
    ck_assert_uint_eq(attr.metadata_length, 4);
    ck_assert_mem_eq(attr.metadata, "head", 4);
    ucxpool_request_release(recv);
}

/* Segments of different lengths, all in one buffer. */
static ucxpool_segment_t *differing(uint8_t *bytes, size_t count,
                                    size_t *length_p)
{
    ucxpool_segment_t *segments = test_alloc(count * sizeof(*segments));

    *length_p = 0;
    for (size_t i = 0; i < count; i++) {
        segments[i] = (ucxpool_segment_t){bytes + i % 50, 1 + i % 97};
        *length_p += segments[i].length;
    }
    return segments;
}

#define ORDERED_NUM 60u

static ucxpool_request_t *recv_one(uint8_t *target, size_t size)
{
    return pair_recv(pair.b, NULL, target, size, TAG);
}

/* As one buffer, or as a list of three segments. */
static ucxpool_request_t *send_one(ucxpool_segment_t segments[3],
                                   uint8_t *source, size_t length)
{
    ucxpool_data_t     data = ucxpool_data_buffer(source, length);
    ucxpool_request_t *send;

    if (length % 5 == 2) {
        segments[0] = (ucxpool_segment_t){source, 1};
        segments[1] = (ucxpool_segment_t){source, 0};
        segments[2] = (ucxpool_segment_t){source + 1, length - 1};
        data        = ucxpool_data_segments(segments, 3);
    }
    assert_ok(ucxpool_send(pair.to_b, &data, TAG, NULL, &send));
    return send;
}

/* Some arrive with their bytes, alone or after a list of lengths, and others
 * are fetched; some have posted receives, others do not. */
TEST_EACH(messages_of_one_tag_arrive_in_their_order, 2)
{
    enum { SIZE = 20000 };
    static ucxpool_segment_t segments[ORDERED_NUM][3];
    static uint8_t           sources[ORDERED_NUM][SIZE];
    static uint8_t           targets[ORDERED_NUM][SIZE];
    ucxpool_request_t       *sends[ORDERED_NUM];
    ucxpool_request_t       *recvs[ORDERED_NUM];
    ucxpool_request_attr_t   attr;

    pair_begin(&pair, wires[_i], wires[_i]);
    for (unsigned i = 0; i < ORDERED_NUM; i++) {
        size_t length = (i % 4 == 3) ? SIZE : i % 9;

        memset(sources[i], (int)i + 1, SIZE);
        if (i >= ORDERED_NUM / 2) {
            recvs[i - ORDERED_NUM / 2] =
                recv_one(targets[i - ORDERED_NUM / 2], SIZE);
        }
        sends[i] = send_one(segments[i], sources[i], length);
        pair_progress(&pair);
    }
    for (unsigned i = ORDERED_NUM / 2; i < ORDERED_NUM; i++) {
        recvs[i] = recv_one(targets[i], SIZE);
    }
    for (unsigned i = 0; i < ORDERED_NUM; i++) {
        assert_ok(pair_finish(&pair, sends[i]));
        pair_until(&pair, pair_ended(recvs[i]));
        attr = pair_request_attr(recvs[i]);
        ck_assert_uint_eq(attr.length, (i % 4 == 3) ? SIZE : i % 9);
        ck_assert_mem_eq(targets[i], sources[i], attr.length);
        assert_ok(pair_finish(&pair, recvs[i]));
    }
    pair_check_blocks(&pair);
}

/* The same when all receives are posted first. */
TEST_EACH(short_messages_match_posted_receives, 2)
{
    enum { SIZE = 4096 };
    static uint8_t     sources[ORDERED_NUM][SIZE];
    static uint8_t     targets[ORDERED_NUM][SIZE];
    ucxpool_request_t *recvs[ORDERED_NUM];

    pair_begin(&pair, wires[_i], wires[_i]);
    for (unsigned i = 0; i < ORDERED_NUM; i++) {
        pair_poison(targets[i], SIZE);
        recvs[i] = recv_one(targets[i], SIZE);
    }
    for (unsigned i = 0; i < ORDERED_NUM; i++) {
        memset(sources[i], (int)i + 1, SIZE);
        assert_ok(ucxpool_send_buffer(pair.to_b, sources[i], i * 69 + 1, TAG,
                                      NULL, NULL));
    }
    for (unsigned i = 0; i < ORDERED_NUM; i++) {
        assert_ok(pair_finish(&pair, recvs[i]));
        ck_assert_mem_eq(targets[i], sources[i], i * 69 + 1);
        ck_assert_uint_eq(targets[i][i * 69 + 1], 0xfe);
    }
}

TEST_EACH(list_of_65536_different_lengths_arrives, 2)
{
    const size_t       count = 65536;
    uint8_t            bytes[200];
    size_t             length;
    ucxpool_segment_t *segments = differing(bytes, count, &length);
    uint8_t           *target   = test_alloc(length);
    uint8_t           *at       = target;
    ucxpool_request_t *send;
    ucxpool_request_t *recv;

    pair_fill(bytes, sizeof(bytes));
    pair_begin(&pair, wires[_i], wires[_i]);
    assert_ok(send_segments(pair.to_b, segments, count, TAG, NULL, &send));
    recv = pair_recv(pair.b, NULL, target, length, TAG);
    pair_finish_both(&pair, send, recv);
    for (size_t i = 0; i < count; i++) {
        if (memcmp(at, segments[i].address, segments[i].length) != 0) {
            ck_abort_msg("segment %zu differs", i);
        }
        at += segments[i].length;
    }
    pair_check_blocks(&pair);
}

TEST_EACH(more_than_our_limits_is_rejected_at_once, 2)
{
    uint8_t                  bytes[200] = {0};
    size_t                   length;
    ucxpool_segment_t       *segments = differing(bytes, 20, &length);
    char                     metadata[101];
    ucxpool_request_params_t params = {
        .field_mask      = UCXPOOL_REQUEST_PARAM_FIELD_METADATA,
        .metadata        = metadata,
        .metadata_length = sizeof(metadata),
    };
    ucxpool_request_t *send;

    memset(metadata, 'm', sizeof(metadata));
    pair_begin(&pair, with(wires[_i], "MAX_SEGMENTS=19 MAX_METADATA=100"),
               wires[_i]);
    assert_error(send_segments(pair.to_b, segments, 20, TAG, NULL, &send),
                 LIMIT);
    assert_error(ucxpool_send_buffer(pair.to_b, "x", 1, TAG, &params, &send),
                 LIMIT);
    pair_exchange(&pair, 5000);
}

TEST_EACH(more_than_the_peers_limits_is_rejected_in_any_state, 2)
{
    uint8_t            bytes[200] = {0};
    size_t             length;
    ucxpool_segment_t *segments = differing(bytes, 20, &length);
    ucxpool_request_t *send;

    pair_pools(&pair, wires[_i], with(wires[_i], "MAX_SEGMENTS=19"));
    pair.to_b = pair_meet(pair.a, pair.b);
    assert_ok(send_segments(pair.to_b, segments, 20, TAG, NULL, &send));
    pair.to_a = pair_meet(pair.b, pair.a);
    assert_error(pair_finish(&pair, send), LIMIT);
    assert_error(send_segments(pair.to_b, segments, 20, TAG, NULL, &send),
                 LIMIT);
    pair_exchange(&pair, 100000);
}

TEST_EACH(lists_beyond_the_receivers_limit_are_refused, 2)
{
    enum { COUNT = 5000 }; /* too many for a descriptor */
    uint8_t            bytes[200] = {0};
    size_t             length;
    ucxpool_segment_t *segments = differing(bytes, COUNT, &length);
    uint8_t           *target   = test_alloc(length);
    ucxpool_request_t *sends[2], *recv;

    pair_begin(&pair, wires[_i], with(wires[_i], "MAX_SEGMENTS=8000"));
    for (int i = 0; i < 2; i++) {
        assert_ok(
            send_segments(pair.to_b, segments, COUNT, TAG, NULL, &sends[i]));
    }
    pair_until(&pair, pair_ended(sends[1]));
    assert_has(pair_request_attr(sends[1]).detail,
               "raise the receiver's UCXPOOL_MAX_SEGMENTS=8000 or post its "
               "receives earlier");
    assert_error(pair_finish(&pair, sends[1]), REFUSED);
    recv = pair_recv(pair.b, NULL, target, length, TAG);
    pair_finish_both(&pair, sends[0], recv);
    pair_check_blocks(&pair);
}

/* More than 4 GiB: one small buffer many times, received the same way. */
TEST_EACH(a_message_of_5_gib_arrives, 2)
{
    const size_t           piece   = 1u << 20;
    const size_t           count   = 5u << 10;
    uint8_t               *source  = test_alloc(piece);
    uint8_t               *target  = test_alloc(piece);
    ucxpool_segment_t     *sources = test_alloc(count * sizeof(*sources));
    ucxpool_segment_t     *targets = test_alloc(count * sizeof(*targets));
    ucxpool_request_t     *send;
    ucxpool_request_t     *recv;
    ucxpool_request_attr_t attr;

    if (getenv("TEST_SLOW") != NULL) {
        return;
    }
    pair_fill(source, piece);
    for (size_t i = 0; i < count; i++) {
        sources[i] = (ucxpool_segment_t){source, piece};
        targets[i] = (ucxpool_segment_t){target, piece};
    }
    pair_begin(&pair,
               with(wires[_i], "COMM_SIZE=32m BLOCK_SIZE=1m REGION_SIZE=16m"),
               with(wires[_i], "COMM_SIZE=32m BLOCK_SIZE=1m REGION_SIZE=16m"));
    assert_ok(send_segments(pair.to_b, sources, count, TAG, NULL, &send));
    assert_ok(recv_segments(pair.b, NULL, targets, count, TAG, ALL_BITS, NULL,
                            &recv));
    pair_until(&pair, pair_ended(recv));
    attr = pair_request_attr(recv);
    assert_ok(attr.status);
    ck_assert_uint_eq(attr.length, piece * count);
    ucxpool_request_release(recv);
    assert_ok(pair_finish(&pair, send));
    ck_assert_int_eq(memcmp(source, target, piece), 0);
    pair_check_blocks(&pair);
}
