/* Closing a channel while its peer may still read. */
#include "base/clock.h"
#include "core/channel.h"
#include "core/control.h"
#include "core/local.h"
#include "core/stats.h"
#include "pair.h"
#include "test.h"
#include "window/remote.h"
#include "wireup/wireup.h"
#include "xfer/recv.h"
#include "xfer/state.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define LENGTH ((size_t)3000000)

static pair_t pair;

static uint64_t quarantined(ucxpool_t *pool)
{
    return pair_stats(pool).blocks[BLOCK_SHARE_SEND].quarantined;
}

static bool holds_send_blocks(ucxpool_t *pool)
{
    return pair_stats(pool).blocks[BLOCK_SHARE_SEND].held != 0;
}

/* A send whose fragments b has not read, because the test does not
 * progress b. */
static ucxpool_request_t *start_send(uint8_t *source, uint8_t *target,
                                     ucxpool_request_t **recv)
{
    ucxpool_request_t *send;
    uint64_t           until = pair_deadline();

    assert_ok(ucxpool_recv_buffer(pair.b, pair.to_a, target, LENGTH, 1,
                                  UINT64_MAX, NULL, recv));
    send = pair_send(pair.to_b, source, LENGTH, 1);
    ucxpool_progress(pair.b); /* accepts */
    while (!holds_send_blocks(pair.a)) {
        ucxpool_progress(pair.a);
        ck_assert(!pair_is_late(until));
    }
    return send;
}

static void end_by_close(void)
{
    ucxpool_channel_close(pair.to_b);
}

static void end_by_failure(void)
{
    ucxpool_channel_fail(pair.to_b);
}

static void (*const ends[])(void) = {end_by_close, end_by_failure};

TEST_SETTINGS(.timeout = 60);

TEST_EACH(blocks_are_quarantined_until_the_peer_answers, 2)
{
    uint8_t           *source = test_alloc(LENGTH);
    uint8_t           *target = test_alloc(LENGTH);
    ucxpool_request_t *send;
    ucxpool_request_t *recv;
    uint64_t           until = pair_deadline();

    pair_fill(source, LENGTH);
    pair_begin(&pair, "WIRE=map", "WIRE=map");
    send = start_send(source, target, &recv);
    ends[_i]();
    while (!pair_ended(send)) {
        ucxpool_progress(pair.a);
        ck_assert(!pair_is_late(until));
    }
    ck_assert_int_ne(ucxpool_request_test(send), UCXPOOL_OK);
    ck_assert_uint_gt(quarantined(pair.a), 0);
    for (int i = 0; i < 1000; i++) {
        ucxpool_progress(pair.a);
    }
    ck_assert_uint_gt(quarantined(pair.a), 0);

    pair_until(&pair, quarantined(pair.a) == 0);
    ck_assert(pair_ended(recv));
    ck_assert_int_ne(ucxpool_request_test(recv), UCXPOOL_OK);
    ucxpool_request_release(send);
    ucxpool_request_release(recv);
    pair_check_blocks(&pair);
}

TEST(destroy_does_not_wait_for_a_stopped_peer)
{
    uint8_t           *source = test_alloc(LENGTH);
    uint8_t           *target = test_alloc(LENGTH);
    ucxpool_request_t *send;
    ucxpool_request_t *recv;
    pair_fill(source, LENGTH);
    pair_init(&pair, "WIRE=map CLOSE_TIMEOUT=1000s",
              "WIRE=map CLOSE_TIMEOUT=1000s");
    send = start_send(source, target, &recv);
    ucxpool_destroy(pair.a);
    pair.a = NULL;
    (void)send; /* freed with its pool */
    pair_until(&pair, pair_ended(recv));
    ck_assert_int_ne(ucxpool_request_test(recv), UCXPOOL_OK);
    ucxpool_request_release(recv);
    ucxpool_destroy(pair.b);
}

/* LeakSanitizer calls this at exit: a worker that cannot be destroyed leaks. */
static bool may_lose_worker;

__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
    return may_lose_worker;
}

/* Does UCX still owe the peer an answer, which the peer waits for? */
static bool owes_answer(ucxpool_t *pool)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t    flush = ucp_worker_flush_nbx(pool->ucx.worker, &param);

    if (!UCS_PTR_IS_PTR(flush)) {
        return false;
    }
    ucp_request_free(flush);
    return true;
}

/* UCX 1.13 would abort the process here. */
TEST(destroy_works_while_ucx_owes_the_peer_an_answer)
{
    pair_pools(&pair, "WIRE=ucx CLOSE_TIMEOUT=1ms",
               "WIRE=ucx CLOSE_TIMEOUT=1ms LOG_LEVEL=none");
    may_lose_worker = true;
    pair.to_b       = pair_meet(pair.a, pair.b);
    pair_until(&pair, owes_answer(pair.b));
    ucxpool_destroy(pair.b);
    pair.b = NULL;
}

/* --- requests posted before the close ------------------------------------ */

static const char *const wires[]   = {"WIRE=ucx CLOSE_TIMEOUT=1s",
                                      "WIRE=map CLOSE_TIMEOUT=1s"};
static const char *const patient[] = {"WIRE=ucx CLOSE_TIMEOUT=1000s",
                                      "WIRE=map CLOSE_TIMEOUT=1000s"};
static uint8_t           sent[LENGTH];
static uint8_t           got[LENGTH];

static ucxpool_request_t *post_send(void)
{
    ucxpool_request_t *send;

    pair_fill(sent, LENGTH);
    pair_poison(got, LENGTH);
    send = pair_send(pair.to_b, sent, LENGTH, 1);
    return send;
}

static ucxpool_request_t *post_recv(void)
{
    return pair_recv(pair.b, NULL, got, LENGTH, 1);
}

TEST_EACH(messages_posted_before_a_close_arrive, 2)
{
    ucxpool_request_t *send;
    ucxpool_request_t *recv;
    pair_begin(&pair, patient[_i], patient[_i]);
    send = post_send();
    ucxpool_channel_close(pair.to_b);
    recv = post_recv();
    pair_finish_both(&pair, recv, send);
    ck_assert_mem_eq(sent, got, LENGTH);
    pair_until(&pair, pair.a->channels.count == 0);
    pair_check_blocks(&pair);
}

TEST_EACH(close_waits_for_its_timeout_and_abort_does_not, 2)
{
    ucxpool_request_t *send;

    pair_begin(&pair, patient[_i], patient[_i]);
    send = post_send();
    ucxpool_channel_abort(pair.to_b);
    assert_error(pair_finish(&pair, send), CANCELED);
    ucxpool_channel_close(pair.to_a);
    pair.to_b = pair_meet(pair.a, pair.b);
    pair.to_a = pair_meet(pair.b, pair.a);
    send      = post_send();
    ucxpool_channel_close(pair.to_b);
    pair_progress(&pair);
    ck_assert(!pair_ended(send));
    pair.to_b->closing.drain_deadline = base_clock_now();
    assert_error(pair_finish(&pair, send), CANCELED);
    pair_until(&pair, pair.a->channels.count == 0);
}

/* A write of the GPU in flight delays BYE until the deadline has passed, as a
 * process that gets no CPU time does. */
TEST_EACH(late_goodbye_contains_the_reason, 2)
{
    pair_begin(&pair, patient[_i], patient[_i]);
    core_channel_fail(pair.to_b, UCXPOOL_ERR_PROTOCOL, "a test of BYE");
    pair.to_b->xfer->num_pushes++;
    pair_progress(&pair);
    pair.to_b->closing.deadline = base_clock_now();
    pair.to_b->xfer->num_pushes--;
    pair_until(&pair, !pair_is_open(pair.to_a));
    assert_error_detail(ucxpool_channel_wait(pair.to_a, 0), PEER_LOST,
                        "the channel has failed at the peer: a test of BYE");
    pair_check_blocks(&pair);
}

/* The same with a copy of the GPU to or from a window. */
TEST(late_goodbye_waits_for_copies_of_windows)
{
    static uint8_t           bytes[100];
    ucxpool_window_t        *window;
    ucxpool_remote_window_t *remote;

    pair_begin(&pair, patient[1], patient[1]);
    assert_ok(
        ucxpool_window_create(pair.b, bytes, sizeof(bytes), NULL, &window));
    remote = pair_import(pair.to_b, window, PAIR_READ_AND_WRITE);
    core_channel_fail(pair.to_b, UCXPOOL_ERR_PROTOCOL, "a test of BYE");
    remote->refs++;
    pair_progress(&pair);
    pair.to_b->closing.deadline = base_clock_now();
    pair_progress(&pair);
    ck_assert(!pair.to_b->closing.bye_sent);
    /* The passed deadline does not wake the pool. */
    ck_assert_uint_eq(wireup_channel_close_deadline(pair.to_b),
                      BASE_CLOCK_FOREVER);
    window_remote_put(remote);
    pair_until(&pair, !pair_is_open(pair.to_a));
    assert_error_detail(ucxpool_channel_wait(pair.to_a, 0), PEER_LOST,
                        "the channel has failed at the peer: a test of BYE");
    ucxpool_remote_window_release(remote);
    pair_destroy_window(window);
}

/* Pool b has refused the channel and closed the connection. Pool a sends a
 * message before it reads what b sent before. */
TEST(reason_is_read_after_the_peer_has_closed_the_connection)
{
    pair_pools(&pair, "LOG_LEVEL=none", "LOG_LEVEL=none REQUIRE=rma");
    pair.to_a = pair_meet(pair.b, pair.a);
    pair.to_b = pair_meet(pair.a, pair.b);
    pair_until(&pair, pair_state(pair.to_a) != UCXPOOL_CHANNEL_CONNECTING);
    pair.to_a->closing.deadline = base_clock_now();
    ucxpool_progress(pair.b);
    ck_assert(!core_local_is_up(pair.to_a));
    core_lock(pair.a);
    core_control_post(pair.to_b, PROTO_DOORBELL, CORE_OUTSIDE);
    core_unlock(pair.a);
    pair_until(&pair, pair_state(pair.to_b) != UCXPOOL_CHANNEL_CONNECTING);
    assert_has(pair_attr(pair.to_b).reason, "requires rma");
}

static void *destroy(void *pool)
{
    ucxpool_destroy(pool);
    return NULL;
}

/* Longer than the margin that is added to a timeout for local work. */
TEST(destroy_waits_for_a_drain_without_timeout)
{
    const char *const  settings = "WIRE=map CLOSE_TIMEOUT=inf";
    uint64_t           later;
    ucxpool_request_t *recv;

    pair_init(&pair, settings, settings);
    (void)post_send(); /* freed with its pool */
    ucxpool_channel_close(pair.to_b);
    later = base_clock_deadline(UINT64_C(1500000000));
    test_thread(destroy, pair.a);
    while (base_clock_now() < later) {
        (void)ucxpool_wait(pair.b, UINT64_C(10000000));
    }
    recv = post_recv();
    assert_ok(ucxpool_request_wait(recv, pair_patience()));
    ck_assert_mem_eq(sent, got, LENGTH);
    ucxpool_request_release(recv);
    test_join(1);
    ucxpool_destroy(pair.b);
}

TEST_EACH(a_flush_ends_after_the_sends_before_it, 2)
{
    ucxpool_request_t *sends[3];
    ucxpool_request_t *flush;
    pair_begin(&pair, wires[_i], wires[_i]);
    assert_ok(ucxpool_channel_flush(pair.to_b, NULL, &flush));
    assert_ok(ucxpool_request_test(flush));
    ucxpool_request_release(flush);
    sends[0] = post_send();
    sends[1] = post_send();
    assert_ok(ucxpool_channel_flush(pair.to_b, NULL, &flush));
    sends[2] = post_send();
    for (int i = 0; i < 2; i++) {
        ck_assert(!pair_ended(flush));
        assert_ok(pair_finish(&pair, post_recv()));
        assert_ok(pair_finish(&pair, sends[i]));
    }
    assert_ok(pair_finish(&pair, flush));
    ck_assert(!pair_ended(sends[2]));
    assert_ok(ucxpool_channel_flush(pair.to_b, NULL, &flush));
    ucxpool_channel_abort(pair.to_b);
    assert_error(pair_finish(&pair, flush), CANCELED);
    assert_error(pair_finish(&pair, sends[2]), CANCELED);
}

/* The pool with the smaller name begins. */
static ucxpool_t *first_of(ucxpool_t *a, ucxpool_t *b)
{
    return (memcmp(a->id, b->id, CORE_ID_SIZE) < 0) ? a : b;
}

TEST(close_does_not_wait_for_a_disconnected_peer)
{
    const char *const  settings = "WIRE=map CLOSE_TIMEOUT=1000s";
    ucxpool_t         *one      = pair_pool(settings);
    ucxpool_t         *other    = pair_pool(settings);
    ucxpool_t         *first    = first_of(one, other);
    ucxpool_t         *second   = (first == one) ? other : one;
    ucxpool_channel_t *peer     = pair_meet(first, second);
    ucxpool_channel_t *channel  = pair_meet(second, first);
    uint64_t           until    = pair_deadline();

    while (!(channel->wireup.handshake & CORE_HELLO_RECEIVED)) {
        ucxpool_progress(second);
        ck_assert(!pair_is_late(until));
    }
    ucxpool_channel_close(channel);
    /* Nothing else must wake it. */
    while (second->wireup.next_hello != BASE_CLOCK_FOREVER) {
        (void)ucxpool_wait(second, UINT64_C(10000000));
    }
    ck_assert_uint_eq(second->channels.count, 1);
    core_local_close(peer);
    while (second->channels.count != 0) {
        assert_ok(ucxpool_wait(second, UCXPOOL_FOREVER));
    }
    ucxpool_destroy(second);
    ucxpool_destroy(first);
}

/* --- messages of an ended channel ---------------------------------------- */

static void closed_here(void)
{
    ucxpool_channel_close(pair.to_a);
}

static void aborted_here(void)
{
    ucxpool_channel_abort(pair.to_a);
}

static void closed_by_the_peer(void)
{
    ucxpool_channel_abort(pair.to_b);
    pair_until(&pair, pair_state(pair.to_a) != UCXPOOL_CHANNEL_OPEN);
}

static void lost(void)
{
    ucxpool_channel_fail(pair.to_a);
    pair_until(&pair, pair_state(pair.to_a) != UCXPOOL_CHANNEL_OPEN);
}

static const struct {
    void (*end)(void);
    ucxpool_status_t status;
} channel_ends[] = {
    {closed_here, UCXPOOL_ERR_CANCELED},
    {aborted_here, UCXPOOL_ERR_CANCELED},
    {closed_by_the_peer, UCXPOOL_ERR_CANCELED}, /* cancels its sends */
    {lost, UCXPOOL_ERR_PEER_LOST},
};
#define NUM_CHANNEL_ENDS ((int)(sizeof(channel_ends) / sizeof(channel_ends[0])))

/* If the bytes are still with the sender, the message ends with the channel's
 * status. If they have arrived, it can be received. */
TEST_EACH(probed_message_ends_with_the_channels_status, 2 * NUM_CHANNEL_ENDS)
{
    static const char *const plain[] = {"WIRE=map", "WIRE=ucx"};
    const char              *wire    = plain[_i / NUM_CHANNEL_ENDS];
    int                      index   = _i % NUM_CHANNEL_ENDS;
    uint8_t                 *bytes   = test_alloc(LENGTH);
    ucxpool_data_t           data    = ucxpool_data_buffer(bytes, LENGTH);
    ucxpool_message_t       *message[2];
    ucxpool_request_t       *recv;
    ucxpool_request_attr_t   attr;

    pair_begin(&pair, wire, wire);
    for (uint64_t tag = 0; tag < 2; tag++) {
        assert_ok(ucxpool_send_buffer(
            pair.to_b, bytes, (tag == 0) ? LENGTH : 10, tag, NULL, NULL));
        pair_until(&pair, ucxpool_probe(pair.b, pair.to_a, tag, UINT64_MAX,
                                        &message[tag]) == UCXPOOL_OK);
    }
    channel_ends[index].end();
    assert_ok(ucxpool_message_recv(message[0], &data, NULL, &recv));
    pair_until(&pair, pair_ended(recv));
    ucxpool_request_query(recv, &attr, sizeof(attr));
    ck_assert_int_eq(attr.status, channel_ends[index].status);
    ck_assert_str_ne(attr.detail, "");
    ucxpool_request_release(recv);
    assert_ok(ucxpool_message_recv(message[1], &data, NULL, &recv));
    assert_ok(pair_finish(&pair, recv));
}

#define NUM_EARLY ((uint64_t)200)

/* Messages with these tags arrive before the first one, and then all at once:
 * more than a round delivers. */
static void arrive(ucxpool_channel_t *channel)
{
    uint64_t first = channel->flow.arrived_sequence;

    core_lock(channel->pool);
    for (uint64_t i = 1; i <= NUM_EARLY; i++) {
        const proto_short_t in_short = {.num = 1, .length = 1};
        const uint64_t      tag      = i % NUM_EARLY;
        const uint64_t      data[2]  = {tag, tag};

        channel->flow.arrived_sequence = first + tag;
        xfer_message_short(channel, &in_short, data);
    }
    core_unlock(channel->pool);
}

TEST_EACH(messages_that_arrived_before_the_end_can_be_received,
          NUM_CHANNEL_ENDS)
{
    ucxpool_request_t *recv;
    uint8_t            byte;

    pair_begin(&pair, "WIRE=map CREDITS=256", "WIRE=map CREDITS=256");
    arrive(pair.to_a);
    channel_ends[_i].end();
    for (uint64_t tag = 0; tag < NUM_EARLY; tag++) {
        recv = pair_recv(pair.b, NULL, &byte, 1, tag);
        assert_ok(pair_finish(&pair, recv));
        ck_assert_uint_eq(byte, (uint8_t)tag);
    }
}

/* Shut down all TCP connections of this process, including those of UCX. */
static void shut_down_connections(void)
{
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in peer;
        socklen_t          size = sizeof(peer);

        if ((getpeername(fd, (struct sockaddr *)&peer, &size) == 0) &&
            (peer.sin_family == AF_INET)) {
            ck_assert_int_eq(shutdown(fd, SHUT_RDWR), 0);
        }
    }
}

TEST(failed_endpoint_is_reported_with_the_status_of_ucx)
{
    setenv("UCX_TLS", "tcp", 1);
    pair_init(&pair, "WIRE=ucx LOG_LEVEL=none", "WIRE=ucx LOG_LEVEL=none");
    shut_down_connections();
    pair_until(&pair, pair_state(pair.to_b) == UCXPOOL_CHANNEL_FAILED);
    assert_error_detail(ucxpool_channel_wait(pair.to_b, 0), PEER_LOST,
                        "the connection to the peer failed; UCX reports: ");
}

/* The endpoint is then closed at once. If the peer took it for kept, its next
 * channel would use an endpoint without another end. */
TEST(close_after_its_deadline_does_not_post_kept)
{
    ucxpool_channel_t *begun;
    ucxpool_channel_t *answered;

    pair_init(&pair, "WIRE=ucx CLOSE_TIMEOUT=1000s",
              "WIRE=ucx CLOSE_TIMEOUT=1000s");
    begun    = pair.to_b->closing.has_begun ? pair.to_b : pair.to_a;
    answered = (begun == pair.to_b) ? pair.to_a : pair.to_b;
    ck_assert(begun->closing.has_begun && !answered->closing.has_begun);
    answered->pool->config.close_timeout_ns = 0;
    ucxpool_channel_abort(begun);
    pair_until(&pair, answered->closing.step == CORE_CLOSE_DONE);
    ck_assert(answered->closing.bye_sent && answered->closing.bye_received);
    ck_assert(!answered->closing.kept);
    ucxpool_channel_abort(answered);
    pair_cleanup(&pair);
}
