/*
 * The lifeline, a TCP connection that stays open next to a channel: which
 * channels keep it, what its end means, and that nothing of it leaks.
 */
#include "core/channel.h"
#include "pair.h"
#include "test.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

static const char *const wires[] = {"WIRE=ucx", "WIRE=auto"};

static void meet(pair_t *pair, const char *settings)
{
    ucxpool_listener_t *listener;

    pair->a  = pair_pool(settings);
    pair->b  = pair_pool(settings);
    listener = pair_listen(pair->a, "127.0.0.1:0");
    pair->to_a =
        pair_call(pair->b, "127.0.0.1", ucxpool_listener_port(listener));
    pair_until(pair, ucxpool_listener_accept(listener, NULL, &pair->to_b) ==
                         UCXPOOL_OK);
    ucxpool_listener_destroy(listener);
}

static void meet_open(pair_t *pair, const char *settings)
{
    meet(pair, settings);
    pair_until(pair, pair_is_open(pair->to_a) && pair_is_open(pair->to_b));
}

static void end(pair_t *pair)
{
    ucxpool_destroy(pair->a);
    ucxpool_destroy(pair->b);
}

TEST_SETTINGS(.timeout = 60);

TEST(ucx_channel_keeps_its_lifeline)
{
    pair_t pair;

    meet_open(&pair, "WIRE=ucx");
    ck_assert(core_lifeline_is_up(pair.to_a));
    ck_assert(core_lifeline_is_up(pair.to_b));
    end(&pair);
}

TEST(map_channel_closes_its_lifeline)
{
    pair_t pair;

    meet_open(&pair, "WIRE=map");
    pair_until(&pair, !core_lifeline_is_up(pair.to_a) &&
                          !core_lifeline_is_up(pair.to_b));
    for (int i = 0; i < 100; i++) {
        pair_progress(&pair);
    }
    ck_assert(pair_is_open(pair.to_a) && pair_is_open(pair.to_b));
    end(&pair);
}

TEST(lifeline_closes_with_the_channel)
{
    pair_t pair;

    meet_open(&pair, "WIRE=ucx");
    ucxpool_channel_close(pair.to_a);
    pair_until(&pair, pair_state(pair.to_b) == UCXPOOL_CHANNEL_CLOSED);
    pair_until(&pair, !core_lifeline_is_up(pair.to_b));
    ck_assert_uint_eq(pair.a->stats.channels_failed, 0);
    ck_assert_uint_eq(pair.b->stats.channels_failed, 0);
    end(&pair);
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
    pair_t                 pair;
    ucxpool_channel_attr_t attr;
    int                    fd;

    meet_open(&pair, "WIRE=ucx");
    fd = pair.to_b->conn.lifeline.source.fd;
    ck_assert_int_eq(send(fd, cases[_i].word, strlen(cases[_i].word), 0),
                     (int)strlen(cases[_i].word));
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    pair_until(&pair, pair_state(pair.to_a) == UCXPOOL_CHANNEL_FAILED);
    ucxpool_channel_query(pair.to_a, &attr, sizeof(attr));
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_PEER_LOST);
    ck_assert_str_eq(attr.reason, cases[_i].reason);
    /* The failure is passed on to the peer. */
    pair_until(&pair, pair_state(pair.to_b) == UCXPOOL_CHANNEL_FAILED);
    end(&pair);
}

/* Neither side had sent HELLO, so nothing is waited for. */
TEST(close_before_the_hello_does_not_wait)
{
    pair_t pair;

    meet(&pair, "WIRE=ucx CLOSE_TIMEOUT=inf");
    ck_assert_uint_eq(pair.to_b->wireup.handshake & CORE_HELLO_RECEIVED, 0);
    ucxpool_channel_close(pair.to_b);
    pair_until(&pair, pair_state(pair.to_a) == UCXPOOL_CHANNEL_CLOSED);
    pair_until(&pair, pair.a->channels.count == 0);
    end(&pair);
}

/* A caller that was not accepted sees that the process is alive, and can
 * connect again. */
TEST_EACH(destroyed_listener_closes_waiting_callers, 2)
{
    pair_t pair = {.a = pair_pool(wires[_i]), .b = pair_pool(wires[_i])};
    ucxpool_listener_t *listener = pair_listen(pair.a, "127.0.0.1:0");

    pair.to_a = pair_call(pair.b, "127.0.0.1", ucxpool_listener_port(listener));
    pair_until(&pair, core_lifeline_is_up(pair.to_a));
    ucxpool_listener_destroy(listener);
    pair_until(&pair, pair_state(pair.to_a) != UCXPOOL_CHANNEL_CONNECTING);
    ck_assert_int_eq(pair_state(pair.to_a), UCXPOOL_CHANNEL_CLOSED);
    ucxpool_channel_close(pair.to_a);
    listener  = pair_listen(pair.a, "127.0.0.1:0");
    pair.to_a = pair_call(pair.b, "127.0.0.1", ucxpool_listener_port(listener));
    pair_until(&pair, ucxpool_listener_accept(listener, NULL, &pair.to_b) ==
                          UCXPOOL_OK);
    pair_until(&pair, pair_is_open(pair.to_a) && pair_is_open(pair.to_b));
    pair_exchange(&pair, 1000);
    end(&pair);
}

/* The process has no descriptor left for the channel's ring. */
TEST(failed_accept_is_reported_to_the_caller)
{
    pair_t                 pair     = {.a = pair_pool("LOG_LEVEL=none"),
                                       .b = pair_pool("LOG_LEVEL=none")};
    ucxpool_listener_t    *listener = pair_listen(pair.a, "127.0.0.1:0");
    struct rlimit          none     = {0};
    struct rlimit          limit;
    ucxpool_channel_attr_t attr;

    pair.to_a = pair_call(pair.b, "127.0.0.1", ucxpool_listener_port(listener));
    pair_until(&pair, core_lifeline_is_up(pair.to_a));
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none.rlim_max = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ck_assert_int_lt(ucxpool_listener_accept(listener, NULL, &pair.to_b),
                     UCXPOOL_OK);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    pair_until(&pair, pair_state(pair.to_a) == UCXPOOL_CHANNEL_FAILED);
    ucxpool_channel_query(pair.to_a, &attr, sizeof(attr));
    ck_assert_str_eq(attr.reason, "the channel has failed at the peer");
    end(&pair);
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
    pair_t                 pair;
    ucxpool_channel_attr_t attr;

    meet(&pair, "WIRE=ucx PEER_TIMEOUT=1h");
    stop_answering(pair.to_b);
    ucxpool_channel_query(pair.to_b, &attr, sizeof(attr));
    ck_assert_int_eq(attr.state, UCXPOOL_CHANNEL_FAILED);
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_PEER_LOST);
    ck_assert_str_eq(attr.reason,
                     "the peer's host does not answer: Connection timed out");
    end(&pair);
}

/* The lifeline may use another network path than the data. */
TEST(open_channel_survives_a_lifeline_timeout)
{
    pair_t pair;

    meet_open(&pair, "WIRE=ucx PEER_TIMEOUT=1h");
    stop_answering(pair.to_b);
    ck_assert(pair_is_open(pair.to_b));
    end(&pair);
}
