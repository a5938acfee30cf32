/* Short messages: those that wait for their turn, and receives that wait for
 * short messages. */
#include "pair.h"
#include "test.h"

#include "core/request.h"

#include <stdlib.h>

#define ALL_BITS UINT64_MAX
#define TAG      UINT64_C(0x5407)
#define LONG_TAG UINT64_C(0x10)
#define HOUR_NS  UINT64_C(3600000000000)

/* More credits than messages. */
static const char settings[] = "WIRE=map CREDITS=1024 MAX_UNEXPECTED=256";

/* --- queued short messages ------------------------------------------------ */

/* More messages than the receiver buffers, and no receive is posted. */
static uint8_t *send_longs(pair_t *pair)
{
    enum { NUM_LONGS = 256 };
    const size_t length = 100000;
    uint8_t     *bytes  = calloc(1, length);

    for (unsigned i = 0; i < NUM_LONGS; i++) {
        assert_ok(ucxpool_send_buffer(pair->to_b, bytes, length, LONG_TAG, NULL,
                                      NULL));
    }
    pair_until(pair, pair->to_b->requests.sends.num == NUM_LONGS);
    return bytes;
}

/* Ways in which the previous message in the queue ends. */
static void cancel(ucxpool_request_t *request)
{
    ucxpool_request_cancel(request);
}

static void let_expire(ucxpool_request_t *request)
{
    uint64_t until = pair_deadline();

    pair_expire(request);
    while (!pair_ended(request)) {
        ucxpool_progress(request->pool);
        ck_assert(!pair_is_late(until));
    }
}

static void (*const ends[])(ucxpool_request_t *) = {cancel, let_expire};

static pair_t pair;

TEST_SETTINGS(.timeout = 60);

/* A long message waits for room that a short one does not need. */
TEST_EACH(the_next_queued_send_starts_when_the_first_ends, 2)
{
    static const uint64_t    timeouts[] = {UCXPOOL_FOREVER, HOUR_NS};
    ucxpool_request_params_t params     = {
            .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT,
            .timeout_ns = timeouts[_i],
    };
    char               target = 0;
    uint8_t           *longs;
    ucxpool_request_t *first;
    ucxpool_request_t *send;
    ucxpool_request_t *recv;

    pair_begin(&pair, settings, settings);
    longs = send_longs(&pair);
    assert_ok(ucxpool_send_buffer(pair.to_b, longs, 100000, LONG_TAG, &params,
                                  &first));
    send = pair_send(pair.to_b, "s", 1, TAG);
    recv = pair_recv(pair.b, pair.to_a, &target, 1, TAG);
    pair_progress(&pair);
    ck_assert(!pair_ended(send));
    ends[_i](first);
    ck_assert_int_eq(pair_finish(&pair, first),
                     (_i == 0) ? UCXPOOL_ERR_CANCELED : UCXPOOL_ERR_TIMED_OUT);
    pair_finish_both(&pair, send, recv);
    ck_assert_int_eq(target, 's');
    pair_cleanup(&pair);
    free(longs);
}

/* Cancel the short message itself; the messages after it are sent. */
TEST(a_send_canceled_in_the_queue_is_not_sent)
{
    static const char  letters[] = "abc";
    uint8_t           *longs;
    char               target = 0;
    ucxpool_request_t *first;
    ucxpool_request_t *sends[3];
    ucxpool_request_t *recv;

    pair_begin(&pair, settings, settings);
    longs = send_longs(&pair);
    first = pair_send(pair.to_b, longs, 100000, LONG_TAG);
    for (unsigned i = 0; i < 3; i++) {
        sends[i] = pair_send(pair.to_b, &letters[i], 1, TAG);
    }
    ucxpool_request_cancel(sends[0]);
    ucxpool_request_cancel(sends[1]);
    assert_error(pair_finish(&pair, sends[0]), CANCELED);
    assert_error(pair_finish(&pair, sends[1]), CANCELED);
    ck_assert(!pair_ended(sends[2]));
    ucxpool_request_cancel(first);
    ucxpool_request_release(first);
    recv = pair_recv(pair.b, NULL, &target, 1, TAG);
    pair_finish_both(&pair, recv, sends[2]);
    ck_assert_int_eq(target, 'c');
    pair_cleanup(&pair);
    free(longs);
}

#define FULL_NUM    100u
#define FULL_LENGTH 4000u

/* No credit that would wake a sender is returned. */
TEST(sends_that_find_the_ring_full_start_when_it_has_room)
{
    const size_t       size    = (size_t)FULL_NUM * FULL_LENGTH;
    uint8_t           *sources = test_alloc(size);
    uint8_t           *targets = test_alloc(size);
    unsigned           ended   = 0;
    ucxpool_request_t *sends[FULL_NUM];
    ucxpool_request_t *recvs[FULL_NUM];

    pair_fill(sources, size);
    pair_begin(&pair, settings, settings);
    for (unsigned i = 0; i < FULL_NUM; i++) {
        recvs[i] = pair_recv(pair.b, NULL, targets + i * FULL_LENGTH,
                             FULL_LENGTH, TAG);
        sends[i] =
            pair_send(pair.to_b, sources + i * FULL_LENGTH, FULL_LENGTH, TAG);
        ended += pair_ended(sends[i]) ? 1 : 0;
    }
    if (pair_is_mapped(&pair)) {
        ck_assert_uint_gt(ended, 0);
        ck_assert_uint_lt(ended, FULL_NUM);
    }
    for (unsigned i = 0; i < FULL_NUM; i++) {
        pair_finish_both(&pair, sends[i], recvs[i]);
    }
    ck_assert_mem_eq(targets, sources, size);
    ck_assert_uint_ge(pair.to_b->flow.credits, 1024 - FULL_NUM);
}

/* --- receives ---------------------------------------------------------------
 */

/* A receive from the failing channel, one from another channel, and one from
 * any. */
TEST(a_failed_channel_fails_only_its_own_receives)
{
    char               targets[3] = "";
    ucxpool_request_t *recvs[3];
    ucxpool_channel_t *from_c;
    ucxpool_channel_t *to_c;
    ucxpool_t         *c;
    uint64_t           until;

    pair_begin(&pair, settings, settings);
    c      = pair_pool(settings);
    from_c = pair_meet(c, pair.b);
    to_c   = pair_meet(pair.b, c);
    until  = pair_deadline();
    while (!pair_is_open(from_c) || !pair_is_open(to_c)) {
        ucxpool_progress(c);
        ucxpool_progress(pair.b);
        ck_assert(!pair_is_late(until));
    }
    const ucxpool_channel_t *const channels[] = {pair.to_a, to_c, NULL};
    for (unsigned i = 0; i < 3; i++) {
        recvs[i] = pair_recv(pair.b, (ucxpool_channel_t *)channels[i],
                             &targets[i], 1, TAG);
    }
    ucxpool_channel_abort(pair.to_a);
    assert_error(pair_finish(&pair, recvs[0]), CANCELED);
    ck_assert(!pair_ended(recvs[1]));
    ck_assert(!pair_ended(recvs[2]));
    assert_ok(ucxpool_send_buffer(from_c, "1", 1, TAG, NULL, NULL));
    assert_ok(ucxpool_send_buffer(from_c, "2", 1, TAG, NULL, NULL));
    while (!pair_ended(recvs[1]) || !pair_ended(recvs[2])) {
        ucxpool_progress(c);
        ucxpool_progress(pair.b);
        ck_assert(!pair_is_late(until));
    }
    pair_finish_both(&pair, recvs[1], recvs[2]);
    ck_assert_mem_eq(targets,
                     "\0"
                     "12",
                     3);
    ucxpool_destroy(c);
}
