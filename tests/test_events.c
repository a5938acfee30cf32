/* Sleeping and waking: no thread sleeps while an event is pending, and none
 * spins without one. */
#include "core/request.h"
#include "pair.h"
#include "rounds.h"
#include "test.h"
#include "two.h"
#include "xfer/state.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define TAG         UINT64_C(7)
#define ALL_BITS    UINT64_MAX
#define MILLISECOND UINT64_C(1000000)

static const char *const wires[] = {"WIRE=map SPIN=0us", "WIRE=ucx SPIN=0us"};
#define NUM_WIRES 2

static pair_t pair;

/* The event loop that the header documents. */
static void sleep_until_ended(ucxpool_t *pool, const ucxpool_request_t *request)
{
    struct pollfd event = {.events = POLLIN};

    two_ok(ucxpool_event_fd(pool, &event.fd));
    while (!pair_ended(request)) {
        while (ucxpool_arm(pool) == UCXPOOL_ERR_BUSY) {
            ucxpool_progress(pool);
        }
        if (!pair_ended(request)) {
            two_check(poll(&event, 1, -1) == 1);
            ucxpool_progress(pool);
        }
    }
}

static void sleep_in_wait(ucxpool_t *pool, const ucxpool_request_t *request)
{
    /* Wait without a timeout: when a timeout expires, ucxpool_wait() checks for
     * events once more, and would hide a lost wakeup. */
    two_ok(ucxpool_request_wait((ucxpool_request_t *)request, UCXPOOL_FOREVER));
}

/* Arm an idle pool. Without pidfds, as under valgrind, its timer fires twenty
 * times a second. */
static void arm_quietly(ucxpool_t *pool)
{
    uint64_t late = pair_deadline();

    do {
        ck_assert(!pair_is_late(late));
        pair_arm(pool);
    } while (pair_is_readable(pool));
}

TEST_SETTINGS(.before_fork = pair_warm_up, .timeout = 120);

/* A message that arrives while the loop arms the pool, which the loop has not
 * seen. */
TEST_EACH(message_arriving_during_arm_is_not_missed, NUM_WIRES)
{
    char               byte = 'x';
    ucxpool_request_t *send;

    pair_begin(&pair, wires[_i], wires[_i]);
    arm_quietly(pair.b);
    ucxpool_progress(pair.b); /* the loop checks here and finds nothing */
    send = pair_send(pair.to_b, &byte, 1, TAG);
    pair_until(&pair, !base_list_is_empty(&pair.b->xfer->unexpected));
    while (ucxpool_arm(pair.b) == UCXPOOL_ERR_BUSY) {
        ucxpool_progress(pair.b);
    }
    ck_assert(pair_is_readable(pair.b));
    ucxpool_request_release(send);
}

typedef void (*sleeper_t)(ucxpool_t *pool, const ucxpool_request_t *request);

static void receive(two_t *two, sleeper_t sleeper, uint64_t *number_p,
                    uint8_t *bytes, size_t length)
{
    ucxpool_request_t *request;

    two_ok(ucxpool_recv_buffer(two->pool, two->channel, bytes, length, TAG,
                               ALL_BITS, NULL, &request));
    sleeper(two->pool, request);
    two_ok(ucxpool_request_test(request));
    ucxpool_request_release(request);
    memcpy(number_p, bytes, sizeof(*number_p));
}

static void send_number(two_t *two, sleeper_t sleeper, uint64_t number,
                        uint8_t *bytes, size_t length)
{
    ucxpool_request_t *request;

    memcpy(bytes, &number, sizeof(number));
    two_ok(
        ucxpool_send_buffer(two->channel, bytes, length, TAG, NULL, &request));
    sleeper(two->pool, request);
    two_ok(ucxpool_request_test(request));
    ucxpool_request_release(request);
}

/* Messages are numbered; the other side answers each with the next number. */
static void play(two_t *two, sleeper_t sleeper, unsigned num_rounds,
                 size_t length)
{
    uint8_t *bytes = calloc(1, length);
    uint64_t number;

    for (uint64_t i = 0; i < num_rounds; i++) {
        if (!two->is_child) {
            send_number(two, sleeper, 2 * i, bytes, length);
        }
        receive(two, sleeper, &number, bytes, length);
        two_check(number == 2 * i + (two->is_child ? 0 : 1));
        if (two->is_child) {
            send_number(two, sleeper, 2 * i + 1, bytes, length);
        }
    }
    free(bytes);
}

TEST_EACH(no_wake_up_is_lost_by_an_event_loop, NUM_WIRES)
{
    two_t two;

    two_init(&two, wires[_i]);
    play(&two, sleep_until_ended, rounds(20000), 8);
    play(&two, sleep_until_ended, rounds(500), 150000);
    two_cleanup(&two);
}

TEST_EACH(no_wake_up_is_lost_by_waiting, NUM_WIRES)
{
    two_t two;

    two_init(&two, wires[_i]);
    play(&two, sleep_in_wait, rounds(5000), 8);
    play(&two, sleep_in_wait, rounds(500), 150000);
    two_cleanup(&two);
}

static void meet(two_t *two, const char *settings)
{
    two_connect(two, settings);
    two_meet(two);
    two_cleanup(two);
}

/* Each side sleeps until the channel is open. Each round has its own child. */
TEST_EACH(no_wake_up_is_lost_while_connecting, NUM_WIRES)
{
    unsigned num = rounds(20);
    two_t   *two = test_alloc(num * sizeof(*two));

    for (unsigned i = 0; i < num; i++) {
        two_fork(&two[i]);
        if (two[i].is_child) {
            meet(&two[i], wires[_i]);
        }
    }
    for (unsigned i = 0; i < num; i++) {
        meet(&two[i], wires[_i]);
    }
}

/* Randomly poll for a message or sleep until it arrives. */
TEST(no_wake_up_is_lost_between_polling_and_sleep)
{
    two_t two;

    two_init(&two, "WIRE=map SPIN=5us");
    play(&two, sleep_in_wait, rounds(5000), 8);
    two_cleanup(&two);
}

/* Number of system calls of this process, all threads. */
static _Atomic unsigned num_sends, num_receives, num_checks;

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
int     __real_epoll_wait(int fd, struct epoll_event *events, int max, int ms);
int     __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int ms);
ucs_status_t __real_ucp_worker_arm(ucp_worker_h worker);
ucs_status_t __wrap_ucp_worker_arm(ucp_worker_h worker);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    num_sends++;
    return __real_sendmsg(fd, message, flags);
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    num_receives++;
    return __real_recvmsg(fd, message, flags);
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int ms)
{
    num_checks++;
    return __real_epoll_wait(fd, events, max, ms);
}

ucs_status_t __wrap_ucp_worker_arm(ucp_worker_h worker)
{
    num_checks++;
    return __real_ucp_worker_arm(worker);
}

static ucxpool_request_t *expect_number(uint64_t *number)
{
    return pair_recv(pair.b, pair.to_a, number, sizeof(*number), TAG);
}

/* System calls of an event loop, without its poll(). Without a pidfd, the pool
 * checks for the peer's process twenty times a second. */
TEST_WITH(a_message_to_a_sleeper_costs_two_system_calls, .end = 1,
          .only_if = pair_has_pidfd)
{
    const unsigned     num    = 200;
    uint64_t           number = 0;
    ucxpool_request_t *recv;

    pair_begin(&pair, wires[0], wires[0]);
    pair_arm(pair.b);
    ucxpool_progress(pair.b);
    num_sends = num_receives = num_checks = 0;
    for (uint64_t i = 1; i <= num; i++) {
        recv = expect_number(&number);
        assert_ok(ucxpool_arm(pair.b));
        ck_assert(!pair_is_readable(pair.b));
        ucxpool_progress(pair.a); /* receives credits */
        assert_ok(
            ucxpool_send_buffer(pair.to_b, &i, sizeof(i), TAG, NULL, NULL));
        ck_assert(pair_is_readable(pair.b));
        ucxpool_progress(pair.b);
        ck_assert_uint_eq(number, i);
        assert_ok(ucxpool_request_test(recv));
        ucxpool_request_release(recv);
    }
    ck_assert_uint_eq(num_sends, num);
    ck_assert_uint_le(num_receives, num);
    ck_assert_uint_le(num_checks,
                      num / 10); /* rarely, compared with the rounds */
}

TEST_EACH(wait_times_out_without_events, NUM_WIRES)
{
    static uint8_t     byte;
    ucxpool_request_t *recv;

    pair_begin(&pair, wires[_i], wires[_i]);
    recv = pair_recv(pair.a, NULL, &byte, 1, TAG);
    /* UCX may still have to process parts of the handshake. */
    pair_until(&pair, ucxpool_wait(pair.a, 0) == UCXPOOL_INPROGRESS);
    pair_until(&pair, ucxpool_wait(pair.a, MILLISECOND) == UCXPOOL_INPROGRESS);
    ck_assert_int_eq(ucxpool_request_wait(recv, 0), UCXPOOL_INPROGRESS);
    ck_assert_int_eq(ucxpool_request_wait(recv, MILLISECOND),
                     UCXPOOL_INPROGRESS);
    ucxpool_request_cancel(recv);
    assert_error(ucxpool_request_wait(recv, UCXPOOL_FOREVER), CANCELED);
    ucxpool_request_release(recv);
}

static ucxpool_request_t *receive_by(ucxpool_t *pool, uint64_t timeout_ns)
{
    static uint8_t           byte;
    ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT,
        .timeout_ns = timeout_ns,
    };
    ucxpool_request_t *recv;

    assert_ok(ucxpool_recv_buffer(pool, NULL, &byte, 1, TAG, ALL_BITS, &params,
                                  &recv));
    return recv;
}

TEST(deadline_wakes_a_sleeping_thread)
{
    ucxpool_t         *pool = pair_pool("SPIN=0us");
    ucxpool_request_t *late = receive_by(pool, pair_patience());
    ucxpool_request_t *recv;

    for (int i = 0; i < 5; i++) {
        recv = receive_by(pool, 2 * MILLISECOND);
        assert_error(ucxpool_request_wait(recv, UCXPOOL_FOREVER), TIMED_OUT);
        ucxpool_request_release(recv);
        recv = receive_by(pool, 2 * MILLISECOND);
        sleep_until_ended(pool, recv);
        assert_error(ucxpool_request_test(recv), TIMED_OUT);
        ucxpool_request_release(recv);
    }
    ck_assert_int_eq(ucxpool_request_test(late), UCXPOOL_INPROGRESS);
    ucxpool_request_release(late);
    ucxpool_destroy(pool);
}

TEST_EACH(a_post_after_arming_makes_the_descriptor_readable, NUM_WIRES)
{
    static uint8_t     byte;
    ucxpool_request_t *send;

    pair_begin(&pair, wires[_i], wires[_i]);
    arm_quietly(pair.a);
    send = pair_send(pair.to_b, &byte, 1, TAG);
    ck_assert(pair_is_readable(pair.a));
    ucxpool_request_release(send);
}

static void *progress_elsewhere(void *arg)
{
    const ucxpool_request_t *request = arg;
    uint64_t                 until   = pair_deadline();

    while (!pair_ended(request) && !pair_is_late(until)) {
        ucxpool_progress(request->pool);
    }
    return NULL;
}

TEST_EACH(progress_by_another_thread_makes_the_descriptor_readable, NUM_WIRES)
{
    static uint8_t     byte;
    pthread_t          thread;
    ucxpool_request_t *recv;

    pair_begin(&pair, wires[_i], wires[_i]);
    for (unsigned i = 0; i < rounds(50); i++) {
        recv = pair_recv(pair.a, NULL, &byte, 1, TAG);
        pair_arm(pair.a);
        assert_ok(ucxpool_send_buffer(pair.to_a, &byte, 1, TAG, NULL, NULL));
        ck_assert_int_eq(
            pthread_create(&thread, NULL, progress_elsewhere, recv), 0);
        pair_until(&((pair_t){NULL, pair.b, NULL, NULL}), pair_ended(recv));
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert(pair_is_readable(pair.a));
        ucxpool_request_release(recv);
    }
}

TEST_EACH(a_failed_endpoint_makes_the_descriptor_readable, NUM_WIRES)
{
    pair_begin(&pair, wires[_i], wires[_i]);
    arm_quietly(pair.a);
    ucxpool_channel_fail(pair.to_b);
    ck_assert(pair_is_readable(pair.a));
    ucxpool_progress(pair.a);
}

/* Posts more than the ring holds, while its reader makes no progress. */
TEST(a_writer_sleeps_while_the_ring_is_full)
{
    enum { COUNT = 200, LENGTH = 4000 };
    static uint8_t     bytes[LENGTH];
    static uint8_t     target[LENGTH];
    ucxpool_request_t *last;
    ucxpool_request_t *recv;

    pair_begin(&pair, "WIRE=map CREDITS=300", "WIRE=map CREDITS=300");
    for (int i = 0; i < COUNT; i++) {
        bytes[0] = (uint8_t)i;
        assert_ok(ucxpool_send_buffer(pair.to_b, bytes, LENGTH, TAG, NULL,
                                      (i == COUNT - 1) ? &last : NULL));
    }
    pair_arm(pair.a);
    ck_assert(!pair_ended(last));
    ck_assert_int_eq(ucxpool_wait(pair.a, MILLISECOND), UCXPOOL_INPROGRESS);
    pair_arm(pair.a);
    pair_until(&((pair_t){NULL, pair.b, NULL, NULL}), pair_is_readable(pair.a));
    for (int i = 0; i < COUNT; i++) {
        recv = pair_recv(pair.b, NULL, target, LENGTH, TAG);
        assert_ok(pair_finish(&pair, recv));
    }
    assert_ok(pair_finish(&pair, last));
}
