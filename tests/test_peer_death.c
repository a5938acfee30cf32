/* Effects of a peer's death at any moment and in any way. */
#include "core/channel.h"
#include "pair.h"
#include "rounds.h"
#include "test.h"
#include "two.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAG      UINT64_C(0x77)
#define ALL_BITS UINT64_MAX
#define LENGTH   (256u * 1024u)
#define LANES    4

/* The peer's end is detected at once, not after PEER_TIMEOUT. */
static const char *const wires[] = {"WIRE=map FRAG_SIZE=16k INPLACE_MIN=4k "
                                    "PEER_TIMEOUT=1h",
                                    "WIRE=ucx FRAG_SIZE=64k INPLACE_MIN=4k "
                                    "PEER_TIMEOUT=1h"};

typedef enum way {
    WAY_KILL,    /* SIGKILL */
    WAY_EXIT,    /* exit() without destroying the pool */
    WAY_DESTROY, /* ucxpool_destroy() while we read */
    NUM_WAYS
} way_t;

/* Messages in both directions, several at a time, packed and in place. */
typedef struct lane {
    uint8_t           *source;
    uint8_t           *target;
    ucxpool_request_t *send;
    ucxpool_request_t *recv;
} lane_t;

static void init_lanes(two_t *two, lane_t *lanes)
{
    for (int i = 0; i < LANES; i++) {
        void *source = NULL;

        lanes[i] = (lane_t){0};
        if (i == 0) {
            two_ok(ucxpool_comm_alloc(two->pool, LENGTH, &source));
        } else {
            source = malloc(LENGTH);
        }
        lanes[i].source = source;
        lanes[i].target = malloc(LENGTH);
        memset(source, i, LENGTH);
    }
}

static void free_lanes(two_t *two, lane_t *lanes)
{
    for (int i = 0; i < LANES; i++) {
        if (i == 0) {
            ucxpool_comm_free(two->pool, lanes[i].source);
        } else {
            free(lanes[i].source);
        }
        free(lanes[i].target);
    }
}

/* Frees the completed request and posts the next. false: posting failed. */
static bool renew(two_t *two, lane_t *lane)
{
    bool posted = true;

    if ((lane->send != NULL) && pair_ended(lane->send)) {
        ucxpool_request_release(lane->send);
        lane->send = NULL;
    }
    if ((lane->recv != NULL) && pair_ended(lane->recv)) {
        ucxpool_request_release(lane->recv);
        lane->recv = NULL;
    }
    if (lane->send == NULL) {
        posted &= ucxpool_send_buffer(two->channel, lane->source, LENGTH, TAG,
                                      NULL, &lane->send) == UCXPOOL_OK;
    }
    if (lane->recv == NULL) {
        posted &=
            ucxpool_recv_buffer(two->pool, two->channel, lane->target, LENGTH,
                                TAG, ALL_BITS, NULL, &lane->recv) == UCXPOOL_OK;
    }
    return posted;
}

static void run_step(two_t *two, lane_t *lanes)
{
    for (int i = 0; i < LANES; i++) {
        renew(two, &lanes[i]);
    }
    ucxpool_progress(two->pool);
}

/* LeakSanitizer calls this when a process ends. It would report false leaks for
 * a pool that still exists: UCX stores pointers in its own mappings, where the
 * sanitizer does not look (ucp_ep_create_base(), uct_mm_seg_new()). */
static bool ends_with_pool;

__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
    return ends_with_pool;
}

/* The peer runs until it receives the order to end, or is killed. */
static void run_peer(two_t *two, way_t way)
{
    lane_t lanes[LANES];
    char   byte;

    init_lanes(two, lanes);
    while (recv(two->talk, &byte, 1, MSG_DONTWAIT) != 1) {
        run_step(two, lanes);
    }
    if (way == WAY_DESTROY) {
        ucxpool_destroy(two->pool);
        _exit(0);
    }
    ends_with_pool = true;
    exit(0);
}

static void end_peer(two_t *two, way_t way)
{
    int status;

    if (way == WAY_KILL) {
        two_kill(two);
        return;
    }
    two_say(two);
    while (waitpid(two->child, &status, WNOHANG) == 0) {
        ucxpool_wait(two->pool, 1000000);
    }
    two_check(WIFEXITED(status) && (WEXITSTATUS(status) == 0));
}

static bool has_pending(const lane_t *lanes)
{
    for (int i = 0; i < LANES; i++) {
        if (((lanes[i].send != NULL) && !pair_ended(lanes[i].send)) ||
            ((lanes[i].recv != NULL) && !pair_ended(lanes[i].recv))) {
            return true;
        }
    }
    return false;
}

/* The requests of a survivor end with an error, and soon. Without pending
 * requests, the survivor gets the error from its next post. */
static void await_end(two_t *two, const lane_t *lanes)
{
    uint64_t late = pair_deadline();

    while (has_pending(lanes) ||
           (ucxpool_send_buffer(two->channel, "x", 1, TAG, NULL, NULL) ==
            UCXPOOL_OK)) {
        ucxpool_wait(two->pool, 10000000);
        two_check(!pair_is_late(late));
    }
}

static void free_requests(lane_t *lanes)
{
    for (int i = 0; i < LANES; i++) {
        ucxpool_request_release(lanes[i].send);
        ucxpool_request_release(lanes[i].recv);
    }
}

static void survive(two_t *two, way_t way)
{
    lane_t lanes[LANES];
    int    num_steps = rand() % 3000;

    init_lanes(two, lanes);
    for (int i = 0; i < num_steps; i++) {
        run_step(two, lanes);
    }
    end_peer(two, way);
    await_end(two, lanes);
    free_requests(lanes);
    free_lanes(two, lanes);
    two_survive(two);
}

TEST_SETTINGS(.timeout = 30 + 2 * rounds(10));

TEST_EACH(a_peer_that_ends_at_any_moment_fails_only_its_requests, 2 * NUM_WAYS)
{
    const char *wire = wires[_i / NUM_WAYS];
    way_t       way  = (way_t)(_i % NUM_WAYS);
    two_t       two;

    for (unsigned i = 0; i < rounds(10); i++) {
        srand(i * 31 + (unsigned)_i);
        two_init(&two, wire);
        if (two.is_child) {
            run_peer(&two, way);
        }
        survive(&two, way);
        /* No child process is left. (ThreadSanitizer may have its own.) */
        ck_assert_int_eq(waitpid(two.child, NULL, WNOHANG), -1);
    }
}

TEST_EACH(messages_sent_before_a_goodbye_still_arrive, 2)
{
    enum { COUNT = 20 };
    pair_t             pair;
    uint8_t            bytes[COUNT][200];
    uint8_t            target[200];
    ucxpool_request_t *request;

    pair_init(&pair, wires[_i], wires[_i]);
    for (int i = 0; i < COUNT; i++) {
        pair_fill(bytes[i], sizeof(bytes[i]));
        assert_ok(ucxpool_send_buffer(pair.to_b, bytes[i], sizeof(bytes[i]),
                                      TAG, NULL, NULL));
    }
    ucxpool_destroy(pair.a);
    pair.a = NULL;
    for (int i = 0; i < COUNT; i++) {
        request = pair_recv(pair.b, NULL, target, sizeof(target), TAG);
        assert_ok(pair_finish(&pair, request));
        ck_assert_mem_eq(target, bytes[i], sizeof(target));
    }
    ucxpool_destroy(pair.b);
}

TEST_EACH(a_pool_can_be_destroyed_while_a_peer_reads_its_memory, 2)
{
    pair_t             pair;
    uint8_t           *source = test_alloc(LENGTH);
    uint8_t           *target = test_alloc(LENGTH);
    ucxpool_request_t *recv;

    for (int num_steps = 0; num_steps < 12; num_steps++) {
        pair_init(&pair, wires[_i], wires[_i]);
        memset(source, num_steps, LENGTH);
        recv = pair_recv(pair.b, pair.to_a, target, LENGTH, TAG);
        assert_ok(
            ucxpool_send_buffer(pair.to_b, source, LENGTH, TAG, NULL, NULL));
        for (int i = 0; i < num_steps; i++) {
            pair_progress(&pair);
        }
        ucxpool_destroy(pair.a);
        pair.a = NULL;
        pair_until(&pair, pair_ended(recv));
        if (ucxpool_request_test(recv) == UCXPOOL_OK) {
            memset(source, num_steps, LENGTH);
            ck_assert_mem_eq(source, target, LENGTH);
        }
        ucxpool_request_release(recv);
        pair_until(&pair, pair_is_whole(pair.b));
        assert_ok(ucxpool_check(pair.b));
        ucxpool_destroy(pair.b);
    }
}

/* Report the end of this side's turn, and wait for the next turn. */
static void take_turns(int talk)
{
    char byte = 0;

    two_check(send(talk, &byte, 1, MSG_NOSIGNAL) == 1);
    two_check(recv(talk, &byte, 1, 0) == 1);
}

/* Connects to the port that it receives. After HELLO it progresses once
 * a turn. */
static void call_by_turns(int talk)
{
    char               where[32];
    uint16_t           port;
    ucxpool_t         *pool;
    ucxpool_channel_t *channel;

    two_check(recv(talk, &port, sizeof(port), 0) == sizeof(port));
    snprintf(where, sizeof(where), "127.0.0.1:%u", port);
    pool = pair_pool("WIRE=ucx");
    two_ok(ucxpool_channel_connect(pool, where, NULL, &channel));
    while (!(channel->wireup.handshake & CORE_HELLO_SENT)) {
        ucxpool_progress(pool);
    }
    for (;;) {
        take_turns(talk);
        ucxpool_progress(pool);
    }
}

/* Progress until the caller's turn has ended and this side is idle. */
static void await_turn(ucxpool_t *pool, int talk)
{
    uint64_t until = pair_deadline();
    char     byte;

    while (recv(talk, &byte, 1, MSG_DONTWAIT) != 1) {
        ucxpool_progress(pool);
        two_check(!pair_is_late(until));
    }
    for (int i = 0; i < 100; i++) {
        ucxpool_progress(pool);
    }
}

static ucxpool_status_t await_failure(ucxpool_listener_t *listener)
{
    uint64_t           until = pair_deadline();
    ucxpool_channel_t *channel;
    ucxpool_status_t   status;

    assert_ok(ucxpool_listener_accept(listener, NULL, &channel));
    while ((status = ucxpool_channel_wait(channel, 10000000)) >= 0) {
        ck_assert(!pair_is_late(until));
        if (status == UCXPOOL_OK) {
            (void)ucxpool_send_buffer(channel, "x", 1, TAG, NULL, NULL);
        }
    }
    ucxpool_channel_close(channel);
    return status;
}

TEST_EACH(a_caller_that_dies_while_connecting_does_not_abort_us, 8)
{
    ucxpool_t          *pool;
    ucxpool_listener_t *listener;
    uint16_t            port;
    int                 talk[2];
    pid_t               child;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk),
                     0);
    child = fork();
    if (child == 0) {
        call_by_turns(talk[1]);
    }
    pool = pair_pool("WIRE=ucx");
    assert_ok(ucxpool_listener_create(pool, "127.0.0.1:0", &listener));
    port = ucxpool_listener_port(listener);
    ck_assert_int_eq(send(talk[0], &port, sizeof(port), 0), sizeof(port));
    await_turn(pool, talk[0]);
    for (int i = 0; i < _i; i++) {
        ck_assert_int_eq(send(talk[0], "", 1, MSG_NOSIGNAL), 1);
        await_turn(pool, talk[0]);
    }
    test_kill(child);
    assert_error(await_failure(listener), PEER_LOST);
    ucxpool_destroy(pool);
    close(talk[0]);
    close(talk[1]);
}
