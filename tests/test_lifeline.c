/*
 * The lifeline, a TCP connection that stays open next to a channel: which
 * channels keep it, what its end means, and that nothing of it leaks.
 */
#include "core/channel.h"
#include "fds.h"
#include "pair.h"
#include "test.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

static const char *const wires[] = {"WIRE=ucx", "WIRE=auto"};

static pair_t              pair;
static ucxpool_listener_t *listener;

static void begin(const char *settings)
{
    pair_pools(&pair, settings, settings);
    listener = pair_listen(pair.a, "127.0.0.1:0");
}

static void meet(const char *settings)
{
    begin(settings);
    pair_call_a(&pair, listener, "127.0.0.1");
    pair_accept(&pair, listener);
    ucxpool_listener_destroy(listener);
}

static void meet_open(const char *settings)
{
    meet(settings);
    pair_until(&pair, pair_is_open(pair.to_a) && pair_is_open(pair.to_b));
}

TEST_SETTINGS(.timeout = 60);

TEST(ucx_channel_keeps_its_lifeline)
{
    meet_open("WIRE=ucx");
    ck_assert(core_lifeline_is_up(pair.to_a));
    ck_assert(core_lifeline_is_up(pair.to_b));
}

TEST(map_channel_closes_its_lifeline)
{
    meet_open("WIRE=map");
    pair_until(&pair, !core_lifeline_is_up(pair.to_a) &&
                          !core_lifeline_is_up(pair.to_b));
    for (int i = 0; i < 100; i++) {
        pair_progress(&pair);
    }
    ck_assert(pair_is_open(pair.to_a) && pair_is_open(pair.to_b));
}

TEST(lifeline_closes_with_the_channel)
{
    meet_open("WIRE=ucx");
    ucxpool_channel_close(pair.to_a);
    pair_until(&pair, pair_state(pair.to_b) == UCXPOOL_CHANNEL_CLOSED);
    pair_until(&pair, !core_lifeline_is_up(pair.to_b));
    ck_assert_uint_eq(pair.a->stats.channels_failed, 0);
    ck_assert_uint_eq(pair.b->stats.channels_failed, 0);
}

/* As when a process ends, or when a side that has failed sends its last
 * message; UCX reports neither here. */
TEST_EACH(closed_lifeline_fails_the_channel, 2)
{
    static const struct {
        const char *word;
        const char *reason;
    } cases[] = {{"", "the peer's process has ended"},
                 {"\2", "the channel has failed at the peer"}};
    ucxpool_channel_attr_t attr;
    int                    fd;

    meet_open("WIRE=ucx");
    fd = pair.to_b->conn.lifeline.source.fd;
    ck_assert_int_eq(send(fd, cases[_i].word, strlen(cases[_i].word), 0),
                     (int)strlen(cases[_i].word));
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    pair_until(&pair, pair_state(pair.to_a) == UCXPOOL_CHANNEL_FAILED);
    attr = pair_attr(pair.to_a);
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_PEER_LOST);
    ck_assert_str_eq(attr.reason, cases[_i].reason);
    /* The failure is passed on to the peer. */
    pair_until(&pair, pair_state(pair.to_b) == UCXPOOL_CHANNEL_FAILED);
}

/* Neither side had sent HELLO, so nothing is waited for. */
TEST(close_before_the_hello_does_not_wait)
{
    meet("WIRE=ucx CLOSE_TIMEOUT=inf");
    ck_assert_uint_eq(pair.to_b->wireup.handshake & CORE_HELLO_RECEIVED, 0);
    ucxpool_channel_close(pair.to_b);
    pair_until(&pair, pair_state(pair.to_a) == UCXPOOL_CHANNEL_CLOSED);
    pair_until(&pair, pair.a->channels.count == 0);
}

/* A caller that was not accepted sees that the process is alive, and can
 * connect again. */
TEST_EACH(destroyed_listener_closes_waiting_callers, 2)
{
    begin(wires[_i]);
    pair_call_a(&pair, listener, "127.0.0.1");
    pair_until(&pair, core_lifeline_is_up(pair.to_a));
    ucxpool_listener_destroy(listener);
    pair_until(&pair, pair_state(pair.to_a) != UCXPOOL_CHANNEL_CONNECTING);
    ck_assert_int_eq(pair_state(pair.to_a), UCXPOOL_CHANNEL_CLOSED);
    ucxpool_channel_close(pair.to_a);
    listener = pair_listen(pair.a, "127.0.0.1:0");
    pair_meet_at(&pair, listener, "127.0.0.1");
    pair_exchange(&pair, 1000);
}

/* The process has no descriptor left for the channel's ring. */
TEST(failed_accept_is_reported_to_the_caller)
{
    uint64_t limit;

    begin("LOG_LEVEL=none");
    pair_call_a(&pair, listener, "127.0.0.1");
    pair_until(&pair, core_lifeline_is_up(pair.to_a));
    limit = fds_limit(0);
    ck_assert_int_lt(ucxpool_listener_accept(listener, NULL, &pair.to_b),
                     UCXPOOL_OK);
    fds_limit(limit);
    pair_until(&pair, pair_state(pair.to_a) == UCXPOOL_CHANNEL_FAILED);
    ck_assert_str_eq(pair_attr(pair.to_a).reason,
                     "the channel has failed at the peer");
}

/* The kernel drops the connection, here because the peer reads nothing and its
 * buffer is full. */
static void stop_answering(ucxpool_channel_t *channel)
{
    static const char junk[1 << 16];
    int               fd = channel->conn.lifeline.source.fd;
    unsigned          ms = 100;

    ck_assert_int_eq(
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms)), 0);
    while (send(fd, junk, sizeof(junk), MSG_DONTWAIT) > 0) {
    }
    ck_assert_int_eq(errno, EAGAIN);
    while (core_lifeline_is_up(channel)) {
        ucxpool_progress(channel->pool);
    }
}

TEST(host_loss_is_detected_while_the_channel_opens)
{
    ucxpool_channel_attr_t attr;

    meet("WIRE=ucx PEER_TIMEOUT=1h");
    stop_answering(pair.to_b);
    attr = pair_attr(pair.to_b);
    ck_assert_int_eq(attr.state, UCXPOOL_CHANNEL_FAILED);
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_PEER_LOST);
    ck_assert_str_eq(attr.reason,
                     "the peer's host does not answer: Connection timed out");
}

/* The lifeline may use another network path than the data. */
TEST(open_channel_survives_a_lifeline_timeout)
{
    meet_open("WIRE=ucx PEER_TIMEOUT=1h");
    stop_answering(pair.to_b);
    ck_assert(pair_is_open(pair.to_b));
}
