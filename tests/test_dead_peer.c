/*
 * The parent kills a peer's process, on the wire `ucx`. On TCP the kernel
 * reports the end at once. On an RDMA device only UCX's own timers detect it;
 * the tests of tests/rdma/ run this program there, with other limits in the
 * environment:
 *
 *   DEAD_PEER_SECONDS  limit for the detection
 *   DEAD_PEER_UNSEEN   set: UCX does not detect it before the request's
 * deadline
 */
#include "base/clock.h"
#include "pair.h"
#include "test.h"
#include "two.h"

#include "core/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG      UINT64_C(0x77)
#define ALL_BITS UINT64_MAX
#define LENGTH   (4u * 1024u * 1024u)
#define SETTINGS "WIRE=ucx FRAG_SIZE=64k"
#define SECOND   UINT64_C(1000000000)

static uint64_t limit(void)
{
    const char *text = getenv("DEAD_PEER_SECONDS");

    return SECOND * ((text == NULL) ? 100u : strtoul(text, NULL, 10));
}

/* The child: receives and sends until it is killed. */
static void live(two_t *two)
{
    uint8_t           *bytes       = calloc(2, LENGTH);
    ucxpool_request_t *requests[2] = {NULL, NULL};

    two_check(bytes != NULL);
    for (;;) {
        for (int i = 0; i < 2; i++) {
            if ((requests[i] != NULL) && !pair_ended(requests[i])) {
                continue;
            }
            ucxpool_request_release(requests[i]);
            requests[i] = NULL;
        }
        if (requests[0] == NULL) {
            two_ok(ucxpool_recv_buffer(two->pool, two->channel, bytes, LENGTH,
                                       TAG, ALL_BITS, NULL, &requests[0]));
        }
        if (requests[1] == NULL) {
            two_ok(ucxpool_send_buffer(two->channel, bytes + LENGTH, LENGTH,
                                       TAG, NULL, &requests[1]));
        }
        ucxpool_wait(two->pool, 1000000);
    }
}

/* Progress until the request has ended; returns how long that took. */
static uint64_t await(two_t *two, const ucxpool_request_t *request,
                      uint64_t since)
{
    while (!pair_ended(request)) {
        ucxpool_wait(two->pool, 10000000);
        two_check(base_clock_now() - since < limit());
    }
    return base_clock_now() - since;
}

/* All blocks come back, and the pool is destroyed soon. */
static void leave(two_t *two)
{
    uint64_t since = base_clock_now();

    while (!pair_is_whole(two->pool)) {
        ucxpool_wait(two->pool, 10000000);
        two_check(base_clock_now() - since < limit());
    }
    two_ok(ucxpool_check(two->pool));
    since = base_clock_now();
    ucxpool_destroy(two->pool);
    printf("destroyed in %.3f s\n", (double)(base_clock_now() - since) / 1e9);
    close(two->talk);
}

static void post(two_t *two, uint8_t *bytes,
                 const ucxpool_request_params_t *params,
                 ucxpool_request_t **send_p, ucxpool_request_t **recv_p)
{
    two_ok(ucxpool_recv_buffer(two->pool, two->channel, bytes, LENGTH, TAG,
                               ALL_BITS, params, recv_p));
    two_ok(ucxpool_send_buffer(two->channel, bytes + LENGTH, LENGTH, TAG,
                               params, send_p));
}

TEST_SETTINGS(.timeout = 30);

TEST(peer_killed_during_a_transfer_fails_the_requests)
{
    two_t              two;
    uint8_t           *bytes = calloc(2, LENGTH);
    ucxpool_request_t *send;
    ucxpool_request_t *recv;
    uint64_t           died;

    two_init(&two, SETTINGS);
    if (two.is_child) {
        live(&two);
    }
    post(&two, bytes, NULL, &send, &recv);
    while (pair_sent_bytes(two.pool) < LENGTH / 16) {
        ucxpool_wait(two.pool, 1000000);
    }
    two_kill(&two);
    died = base_clock_now();
    printf("the send ended after %.3f s, ",
           (double)await(&two, send, died) / 1e9);
    printf("the receive after %.3f s\n", (double)await(&two, recv, died) / 1e9);
    two_check(ucxpool_request_test(send) != UCXPOOL_OK);
    two_check(ucxpool_request_test(recv) != UCXPOOL_OK);
    ucxpool_request_release(send);
    ucxpool_request_release(recv);
    /* Requests posted now fail at once. */
    two_check(ucxpool_send_buffer(two.channel, bytes, 1, TAG, NULL, NULL) !=
              UCXPOOL_OK);
    leave(&two);
    free(bytes);
}

TEST(idle_peer_killed_fails_a_receive)
{
    two_t              two;
    uint8_t            byte = 0;
    ucxpool_request_t *recv;

    two_init(&two, SETTINGS);
    if (two.is_child) {
        while (true) {
            ucxpool_wait(two.pool, SECOND);
        }
    }
    two_ok(ucxpool_recv_buffer(two.pool, two.channel, &byte, 1, TAG, ALL_BITS,
                               NULL, &recv));
    two_kill(&two);
    printf("the receive ended after %.3f s\n",
           (double)await(&two, recv, base_clock_now()) / 1e9);
    two_check(ucxpool_request_test(recv) != UCXPOOL_OK);
    ucxpool_request_release(recv);
    leave(&two);
}

static void check_ended(ucxpool_request_t *request)
{
    bool timed_out = ucxpool_request_test(request) == UCXPOOL_ERR_TIMED_OUT;

    if (getenv("DEAD_PEER_UNSEEN") != NULL) {
        two_check(timed_out);
    }
    two_check(ucxpool_request_test(request) != UCXPOOL_OK);
    ucxpool_request_release(request);
}

TEST(deadline_ends_requests_to_an_undetected_dead_peer)
{
    const ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT,
        .timeout_ns = 3 * SECOND,
    };
    two_t              two;
    uint8_t           *bytes = calloc(2, LENGTH);
    ucxpool_request_t *send;
    ucxpool_request_t *recv;
    uint64_t           posted;
    uint64_t           until = limit();

    two_init(&two, SETTINGS);
    if (two.is_child) {
        live(&two);
    }
    posted = base_clock_now();
    post(&two, bytes, &params, &send, &recv);
    while ((pair_sent_bytes(two.pool) < LENGTH / 16) && !pair_ended(send)) {
        ucxpool_wait(two.pool, 1000000);
    }
    /* Without progress until the peer's exit: UCX detects a peer whose memory
     * is no longer registered while its queue pair still exists. */
    test_kill(two.child);
    printf("posted with 3 s: the send ended after %.3f s, ",
           (double)await(&two, send, posted) / 1e9);
    printf("the receive after %.3f s\n",
           (double)await(&two, recv, posted) / 1e9);
    two_check(base_clock_now() - posted < until);
    check_ended(send);
    check_ended(recv);
    two_ok(ucxpool_check(two.pool));
    posted = base_clock_now();
    ucxpool_destroy(two.pool);
    printf("destroyed in %.3f s\n", (double)(base_clock_now() - posted) / 1e9);
    close(two.talk);
    free(bytes);
}
