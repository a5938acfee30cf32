/* Deadlines: for each kind of request, and with a stopped peer. */
#include "core/pool.h"
#include "pair.h"
#include "test.h"
#include "two.h"

#include "core/stats.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAG      UINT64_C(0x77)
#define ALL_BITS UINT64_MAX
#define LENGTH   (256u * 1024u)
#define LONG     (64u * 1024u * 1024u)
#define HOUR_MS  3600000u

static const char *const wires[] = {"WIRE=map FRAG_SIZE=16k INPLACE_MIN=4k",
                                    "WIRE=ucx FRAG_SIZE=64k INPLACE_MIN=inf",
                                    "WIRE=ucx FRAG_SIZE=64k INPLACE_MIN=4k"};
#define IN_PLACE 2

static pair_t pair;

static ucxpool_request_params_t within(uint64_t milliseconds)
{
    return (ucxpool_request_params_t){
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT,
        .timeout_ns = milliseconds * 1000000u,
    };
}

/* The request ends at its deadline, with the matching status and detail. */
static void check_expires(ucxpool_request_t *request)
{
    pair_finish_error(&pair, request, UCXPOOL_ERR_TIMED_OUT,
                      "the deadline passed");
}

static void check_channel(void)
{
    char               target = 0;
    ucxpool_request_t *recv;

    recv = pair_recv(pair.b, pair.to_a, &target, 1, 1);
    assert_ok(ucxpool_send_buffer(pair.to_b, "c", 1, 1, NULL, NULL));
    assert_ok(pair_finish(&pair, recv));
    ck_assert_int_eq(target, 'c');
    pair_check_blocks(&pair);
}

TEST_SETTINGS(.timeout = 60);

TEST_EACH(a_receive_without_a_message_expires, 2)
{
    ucxpool_request_params_t params = within(20);
    char                     target = 7;
    ucxpool_request_t       *recv;

    pair_begin(&pair, wires[_i], wires[_i]);
    assert_ok(ucxpool_recv_buffer(pair.b, NULL, &target, 1, TAG, ALL_BITS,
                                  &params, &recv));
    check_expires(recv);
    ck_assert_int_eq(target, 7);
    check_channel();
}

TEST(wait_returns_the_requests_error_detail)
{
    const ucxpool_request_params_t params = within(1);
    ucxpool_t                     *pool   = pair_pool("");
    ucxpool_request_t             *recv;
    char                           target;

    /* Fail something else first. */
    assert_error_detail(ucxpool_request_wait(NULL, 0), INVALID_PARAM, "NULL");
    assert_ok(ucxpool_recv_buffer(pool, NULL, &target, 1, TAG, ALL_BITS,
                                  &params, &recv));
    assert_error(ucxpool_request_wait(recv, UCXPOOL_FOREVER), TIMED_OUT);
    ck_assert_str_eq(ucxpool_error_detail(), "the deadline passed");
    ucxpool_request_release(recv);
    ucxpool_destroy(pool);
}

TEST_EACH(default_deadline_comes_from_the_setting, 2)
{
    char               settings[128];
    char               target = 7;
    ucxpool_request_t *recv;

    snprintf(settings, sizeof(settings), "%s REQUEST_TIMEOUT=20ms", wires[_i]);
    pair_begin(&pair, settings, settings);
    recv = pair_recv(pair.b, NULL, &target, 1, TAG);
    check_expires(recv);
    ck_assert_int_eq(target, 7);
}

TEST_EACH(send_without_a_receive_expires, 2)
{
    ucxpool_request_params_t params = within(20);
    uint8_t                 *source = test_alloc(LENGTH);
    ucxpool_request_t       *send;
    ucxpool_message_t       *message;

    pair_begin(&pair, wires[_i], wires[_i]);
    assert_ok(
        ucxpool_send_buffer(pair.to_b, source, LENGTH, TAG, &params, &send));
    check_expires(send);
    check_channel();
    assert_error(ucxpool_probe(pair.b, NULL, TAG, ALL_BITS, &message),
                 NO_MESSAGE);
}

TEST_EACH(receiver_of_an_expired_send_gets_the_reason, 2)
{
    ucxpool_request_params_t params = within(HOUR_MS);
    uint8_t                 *bytes  = test_alloc(LENGTH);
    ucxpool_request_t       *send;
    ucxpool_request_t       *recv;
    ucxpool_message_t       *message;
    ucxpool_data_t           target = ucxpool_data_buffer(bytes, LENGTH);

    pair_begin(&pair, wires[_i], wires[_i]);
    assert_ok(
        ucxpool_send_buffer(pair.to_b, bytes, LENGTH, TAG, &params, &send));
    message = pair_probe(&pair, TAG);
    pair_expire(send);
    check_expires(send);
    check_channel();
    assert_ok(ucxpool_message_recv(message, &target, NULL, &recv));
    ck_assert(pair_ended(recv));
    pair_finish_error(&pair, recv, UCXPOOL_ERR_CANCELED,
                      "the sender ended the message: the deadline passed");
}

TEST_EACH(queued_send_expires_and_the_next_proceeds, 2)
{
    ucxpool_request_params_t params = within(20);
    char                     target = 0;
    ucxpool_request_t       *send;
    ucxpool_request_t       *recv;

    pair_begin(&pair, wires[_i], "CREDITS=1");
    pair.a->announce_ns = UCXPOOL_FOREVER;
    assert_ok(ucxpool_send_buffer(pair.to_b, "a", 1, TAG, NULL, NULL));
    assert_ok(ucxpool_send_buffer(pair.to_b, "b", 1, TAG, &params, &send));
    assert_ok(ucxpool_send_buffer(pair.to_b, "c", 1, TAG, NULL, NULL));
    check_expires(send);
    for (const char *expected = "ac"; *expected != '\0'; expected++) {
        recv = pair_recv(pair.b, NULL, &target, 1, TAG);
        assert_ok(pair_finish(&pair, recv));
        ck_assert_int_eq(target, *expected);
    }
    check_channel();
}

/* Progress until UCX's own handshake has finished. UCX 1.13 aborts the process
 * if a peer disconnects during that handshake. */
static void finish_handshake(void)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t flush = ucp_worker_flush_nbx(pair.a->ucx.worker, &param);

    if (UCS_PTR_IS_PTR(flush)) {
        pair_until(&pair, ucp_request_check_status(flush) != UCS_INPROGRESS);
        ucp_request_free(flush);
    }
}

TEST_EACH(request_on_an_unopened_channel_expires, 2)
{
    ucxpool_request_params_t params = within(20);
    ucxpool_request_t       *send;

    pair_pools(&pair, wires[_i], wires[_i]);
    pair.to_b = pair_meet(pair.a, pair.b);
    assert_ok(ucxpool_send_buffer(pair.to_b, "x", 1, TAG, &params, &send));
    check_expires(send);
    pair_check_blocks(&pair);
    finish_handshake();
}

/* --- a peer that is stopped during a transfer ---------------------------- */

/* Received when the other process may continue. */
static char go;

static void await(two_t *two, ucxpool_request_t *request)
{
    uint64_t until = pair_deadline();

    while (!pair_ended(request)) {
        ucxpool_wait(two->pool, 10000000);
        two_check(!pair_is_late(until));
    }
}

/* The child receives, is stopped during the transfer, and later finds that it
 * failed. */
static void run_receiver(two_t *two)
{
    uint8_t           *target = malloc(LONG);
    ucxpool_request_t *recv;

    two_ok(ucxpool_recv_buffer(two->pool, two->channel, target, LONG, TAG,
                               ALL_BITS, NULL, &recv));
    two_say(two);
    await(two, recv);
    two_check(ucxpool_request_test(recv) != UCXPOOL_OK);
    /* The memory of the ended receive is not written any more. */
    memset(target, 9, LONG);
    ucxpool_request_release(recv);
    two_await_blocks(two);
    two_check(pair_is_all(target, LONG, 9));
    two_say(two);
    two_recv(two, &go, 1);
    free(target);
}

/* Stop the peer when this pool has moved so many bytes, and more are in
 * flight. */
static void stop_peer(two_t *two, uint64_t (*num_bytes)(ucxpool_t *pool))
{
    int status;

    while (num_bytes(two->pool) < LENGTH) {
        ucxpool_wait(two->pool, 1000000);
    }
    two_check(kill(two->child, SIGSTOP) == 0);
    two_check(waitpid(two->child, &status, WUNTRACED) == two->child);
    two_check(WIFSTOPPED(status));
}

/* Packed data waits for the peer; in-place data fails the channel. */
static void check_left(two_t *two, bool in_place)
{
    core_stats_t stats = pair_stats(two->pool);

    two_check(stats.blocks[BLOCK_SHARE_SEND].held == 0);
    if (in_place) {
        two_check(pair_state(two->channel) == UCXPOOL_CHANNEL_FAILED);
    } else {
        two_check(stats.blocks[BLOCK_SHARE_SEND].quarantined >= 1);
        two_check(pair_state(two->channel) == UCXPOOL_CHANNEL_OPEN);
    }
    two_ok(ucxpool_check(two->pool));
}

/* The memory of the ended send is not used any more. */
static void send_until_expired(two_t *two)
{
    uint8_t                 *source = calloc(1, LONG);
    ucxpool_request_params_t params = within(HOUR_MS);
    ucxpool_request_t       *send;

    two_recv(two, &go, 1);
    two_ok(
        ucxpool_send_buffer(two->channel, source, LONG, TAG, &params, &send));
    stop_peer(two, pair_sent_bytes);
    pair_expire(send);
    await(two, send);
    two_check(ucxpool_request_test(send) == UCXPOOL_ERR_TIMED_OUT);
    ucxpool_request_release(send);
    memset(source, 1, LONG);
    free(source);
}

static void run_sender(two_t *two, bool in_place)
{
    two->pool->needs_registration = false;
    send_until_expired(two);
    check_left(two, in_place);
    two_check(kill(two->child, SIGCONT) == 0);
    two_await_blocks(two);
    two_recv(two, &go, 1);
    two_say(two);
}

TEST_EACH(send_to_a_stopped_peer_expires_and_returns_blocks, 3)
{
    two_t two;

    two_init(&two, wires[_i]);
    if (two.is_child) {
        run_receiver(&two);
    } else {
        run_sender(&two, _i == IN_PLACE);
    }
    two_cleanup(&two);
}

/* --- a peer that never continues ----------------------------------------- */

static uint64_t quarantined(ucxpool_t *pool)
{
    return pair_stats(pool).blocks[BLOCK_SHARE_SEND].quarantined;
}

/* The peer stays stopped until it is killed. On `ucx`, the forced close of the
 * endpoint returns the blocks. On `map`, only the end of the peer's process
 * does, since the peer may still read them. */
static void leave_stopped_peer(two_t *two, bool by_map)
{
    two_check(quarantined(two->pool) >= 1);
    ucxpool_channel_close(two->channel);
    if (by_map) {
        for (int i = 0; i < 1000; i++) {
            ucxpool_progress(two->pool);
            two_ok(ucxpool_check(two->pool));
        }
        two_check(quarantined(two->pool) >= 1);
    } else {
        two_await_blocks(two);
    }
    two_kill(two);
    two_survive(two);
}

TEST_EACH(blocks_come_back_from_a_peer_that_stays_stopped, 2)
{
    two_t two;

    two_init(&two, wires[_i]);
    if (two.is_child) {
        run_receiver(&two);
        _exit(1);
    }
    send_until_expired(&two);
    leave_stopped_peer(&two, _i == 0);
}

/* --- the reverse: the sender is stopped ---------------------------------- */

static uint64_t received_bytes(ucxpool_t *pool)
{
    core_stats_t stats;
    uint64_t     bytes = 0;

    core_stats_get(pool, &stats);
    for (int i = 0; i < CORE_MODE_LAST; i++) {
        bytes += stats.counts.received[i].bytes;
    }
    return bytes;
}

static void run_stopped_sender(two_t *two)
{
    uint8_t           *source = calloc(1, LONG);
    ucxpool_request_t *send;

    two_recv(two, &go, 1);
    two_ok(ucxpool_send_buffer(two->channel, source, LONG, TAG, NULL, &send));
    await(two, send);
    two_check(ucxpool_request_test(send) != UCXPOOL_OK);
    ucxpool_request_release(send);
    two_await_blocks(two);
    two_say(two);
    two_recv(two, &go, 1);
    free(source);
}

static void run_expiring_receiver(two_t *two)
{
    uint8_t                 *target = malloc(LONG);
    ucxpool_request_params_t params = within(HOUR_MS);
    ucxpool_request_t       *recv;

    two_ok(ucxpool_recv_buffer(two->pool, two->channel, target, LONG, TAG,
                               ALL_BITS, &params, &recv));
    two_say(two);
    stop_peer(two, received_bytes);
    pair_expire(recv);
    await(two, recv);
    two_check(ucxpool_request_test(recv) == UCXPOOL_ERR_TIMED_OUT);
    ucxpool_request_release(recv);
    memset(target, 9, LONG);
    two_check(kill(two->child, SIGCONT) == 0);
    two_await_blocks(two);
    two_recv(two, &go, 1);
    two_check(pair_is_all(target, LONG, 9));
    two_say(two);
    free(target);
}

TEST_EACH(receive_from_a_stopped_peer_expires_for_good, 3)
{
    two_t two;

    two_init(&two, wires[_i]);
    if (two.is_child) {
        run_stopped_sender(&two);
    } else {
        run_expiring_receiver(&two);
    }
    two_cleanup(&two);
}
