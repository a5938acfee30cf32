/*
 * The connection that stays beside a channel: who has it, what its end means,
 * and that nothing of it is left.
 */
#include "core/channel.h"
#include "pair.h"

#include <check.h>
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

START_TEST(on_ucx_it_stays)
{
    pair_t pair;

    meet_open(&pair, "WIRE=ucx");
    ck_assert(core_lifeline_is_up(pair.to_a));
    ck_assert(core_lifeline_is_up(pair.to_b));
    end(&pair);
}
END_TEST

START_TEST(on_map_it_is_not_needed)
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
END_TEST

START_TEST(it_goes_with_the_channel)
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
END_TEST

/* As by a process that has ended, or a word of a side that has failed; in
 * place of which UCX says nothing here. */
START_TEST(one_that_hangs_up_is_lost)
{
    static const struct {
        const char *word;
        const char *reason;
    } cases[] = {{"", "the peer's process has ended"},
                 {"\2", "the peer's end of the channel has failed"}};
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
    /* And that is told on. */
    pair_until(&pair, pair_state(pair.to_b) == UCXPOOL_CHANNEL_FAILED);
    end(&pair);
}
END_TEST

/* Neither side had said HELLO: nothing is waited for. */
START_TEST(one_that_is_closed_unheard_takes_no_time)
{
    pair_t pair;

    meet(&pair, "WIRE=ucx CLOSE_TIMEOUT=inf");
    ck_assert_uint_eq(pair.to_b->wireup.handshake & CORE_HELLO_RECEIVED, 0);
    ucxpool_channel_close(pair.to_b);
    pair_until(&pair, pair_state(pair.to_a) == UCXPOOL_CHANNEL_CLOSED);
    pair_until(&pair, pair.a->channels.count == 0);
    end(&pair);
}
END_TEST

/* Whom nobody has accepted is told that the process lives; and may call
 * again. */
START_TEST(a_listener_that_goes_lets_its_callers_know)
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
END_TEST

/* There is no descriptor for the channel's ring. */
START_TEST(who_cannot_be_accepted_is_told_that_it_failed)
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
    ck_assert_str_eq(attr.reason, "the peer's end of the channel has failed");
    end(&pair);
}
END_TEST

/* The kernel gives up a connection, here since the peer's end reads nothing and
 * is full. */
static void go_silent(ucxpool_channel_t *channel)
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

START_TEST(a_host_that_goes_while_the_channel_opens_is_noticed)
{
    pair_t                 pair;
    ucxpool_channel_attr_t attr;

    meet(&pair, "WIRE=ucx PEER_TIMEOUT=1h");
    go_silent(pair.to_b);
    ucxpool_channel_query(pair.to_b, &attr, sizeof(attr));
    ck_assert_int_eq(attr.state, UCXPOOL_CHANNEL_FAILED);
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_PEER_LOST);
    ck_assert_str_eq(attr.reason,
                     "the peer's host does not answer: Connection timed out");
    end(&pair);
}
END_TEST

/* By another way than its data, perhaps. */
START_TEST(an_open_channel_lives_without_it)
{
    pair_t pair;

    meet_open(&pair, "WIRE=ucx PEER_TIMEOUT=1h");
    go_silent(pair.to_b);
    ck_assert(pair_is_open(pair.to_b));
    end(&pair);
}
END_TEST

int main(void)
{
    Suite   *suite = suite_create("lifeline");
    TCase   *tcase = tcase_create("lifeline");
    SRunner *runner;
    int      num_failed;

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, on_ucx_it_stays);
    tcase_add_test(tcase, on_map_it_is_not_needed);
    tcase_add_test(tcase, it_goes_with_the_channel);
    tcase_add_loop_test(tcase, one_that_hangs_up_is_lost, 0, 2);
    tcase_add_test(tcase, one_that_is_closed_unheard_takes_no_time);
    tcase_add_test(tcase, who_cannot_be_accepted_is_told_that_it_failed);
    tcase_add_loop_test(tcase, a_listener_that_goes_lets_its_callers_know, 0,
                        2);
    tcase_add_test(tcase, a_host_that_goes_while_the_channel_opens_is_noticed);
    tcase_add_test(tcase, an_open_channel_lives_without_it);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    num_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return (num_failed == 0) ? 0 : 1;
}
