/* Which of UCX's TCP connections counts as dead. The answers of a real kernel
 * are tested in test_cable.sh. */
#include "ucx/peer_timeout.c"

#include "pair.h"
#include "test.h"

#include "base/clock.h"
#include "core/channel.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#define MS  UINT64_C(1000000)
#define SEC UINT64_C(1000000000)

#define FD         5
#define TIMEOUT_NS (8 * SEC)

static ucx_tcp_watch_t watch;

static void setup(void)
{
    ucx_tcp_watch_init(&watch, "pool", -1, TIMEOUT_NS);
}

static void teardown(void)
{
    ucx_tcp_watch_cleanup(&watch);
    ck_assert(base_list_is_empty(&watch.suspects));
}

/* Nothing has been received since time 0. */
static struct tcp_info silent(uint64_t now, unsigned retransmits)
{
    return (struct tcp_info){
        .tcpi_state          = TCP_ESTABLISHED,
        .tcpi_unacked        = 1,
        .tcpi_retransmits    = (uint8_t)retransmits,
        .tcpi_last_ack_recv  = (uint32_t)(now / MS),
        .tcpi_last_data_sent = 10,
    };
}

static bool judge(const struct tcp_info *info, uint64_t now)
{
    return judge_connection(&watch, FD, info, now);
}

static bool judge_silent(uint64_t now, unsigned retransmits)
{
    struct tcp_info info = silent(now, retransmits);

    return judge(&info, now);
}

static pair_t pair;

TEST_SETTINGS(.setup = setup, .teardown = teardown, .timeout = 60);

TEST(three_unanswered_tries_over_half_of_the_time_mean_dead)
{
    ck_assert(!judge_silent(1 * SEC, 1));
    ck_assert(!judge_silent(2 * SEC, 2));
    ck_assert(!judge_silent(4 * SEC, 4));
    ck_assert(judge_silent(5 * SEC, 4));
}

TEST(two_tries_are_not_enough)
{
    ck_assert(!judge_silent(1 * SEC, 1));
    ck_assert(!judge_silent(60 * SEC, 2));
    ck_assert(judge_silent(61 * SEC, 3));
}

/* After both sides have been silent for long, nothing has been retransmitted
 * yet. */
TEST(a_first_transmission_is_not_a_try)
{
    for (uint64_t now = 1000 * SEC; now < 1020 * SEC; now += SEC) {
        ck_assert(!judge_silent(now, 0));
    }
    ck_assert(base_list_is_empty(&watch.suspects));
}

/* The peer answers without acknowledging the data: its window shrank. */
TEST(a_peer_that_answers_each_try_is_alive)
{
    for (unsigned i = 1; i < 20; i++) {
        uint64_t        now  = i * 4 * SEC;
        struct tcp_info info = silent(now, i);

        info.tcpi_last_ack_recv = 2000;
        ck_assert(!judge(&info, now));
    }
}

/* The cable is cut in the millisecond of the last answer. Without a route, the
 * kernel counts its tries and sends nothing. */
TEST(tries_that_never_left_the_host_count)
{
    struct tcp_info info = silent(1 * SEC, 1);

    info.tcpi_last_data_sent = 1000;
    ck_assert(!judge(&info, 1 * SEC));
    info                     = silent(6 * SEC, 5);
    info.tcpi_last_data_sent = 6000;
    ck_assert(judge(&info, 6 * SEC));
}

TEST(one_answer_restarts_the_count)
{
    struct tcp_info info = silent(10 * SEC, 7);

    ck_assert(!judge_silent(1 * SEC, 1));
    info.tcpi_last_ack_recv = 3000; /* at 7 s, with tries since then */
    ck_assert(!judge(&info, 10 * SEC));
    info.tcpi_last_ack_recv = 6000;
    info.tcpi_retransmits   = 9;
    ck_assert(!judge(&info, 13 * SEC));
    info.tcpi_last_ack_recv = 7000;
    ck_assert(judge(&info, 14 * SEC));
}

/* Probes of a closed window, as sent to a stopped peer. */
TEST(probes_count_until_they_are_answered)
{
    struct tcp_info info = {.tcpi_state         = TCP_ESTABLISHED,
                            .tcpi_probes        = 1,
                            .tcpi_last_ack_recv = 120000};

    for (uint64_t now = 200 * SEC; now < 220 * SEC; now += SEC) {
        ck_assert(!judge(&info, now));
    }
    info.tcpi_probes = 3;
    ck_assert(judge(&info, 220 * SEC));
    info.tcpi_probes = 0;
    ck_assert(!judge(&info, 221 * SEC));
    ck_assert(base_list_is_empty(&watch.suspects));
}

TEST_EACH(only_established_connections_are_checked, 4)
{
    static const uint8_t states[] = {TCP_SYN_SENT, TCP_FIN_WAIT1, TCP_LISTEN,
                                     TCP_CLOSE};
    struct tcp_info      info     = silent(9 * SEC, 9);

    info.tcpi_state = states[_i];
    ck_assert(!judge(&info, 9 * SEC));
    ck_assert(base_list_is_empty(&watch.suspects));
}

TEST(a_new_connection_with_the_same_fd_restarts_the_count)
{
    ck_assert(!judge_silent(1 * SEC, 3));
    ck_assert(!judge_silent(9 * SEC, 1));
    ck_assert(!judge_silent(10 * SEC, 5));
    ck_assert(judge_silent(13 * SEC, 5));
}

/* --- in a pool ------------------------------------------------------------ */

static void count_tcp(int fd, void *arg)
{
    struct tcp_info info;
    socklen_t       size  = sizeof(info);
    unsigned       *count = arg;

    if ((getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) &&
        (info.tcpi_state == TCP_ESTABLISHED)) {
        (*count)++;
    }
}

TEST_SETTINGS(.timeout = 60);

TEST(ucxs_connections_are_found_and_checked_periodically)
{
    unsigned count = 0;
    uint64_t deadline;

    setenv("UCX_TLS", "tcp", 1);
    pair_begin(&pair, "WIRE=ucx PEER_TIMEOUT=1s", "WIRE=ucx PEER_TIMEOUT=1s");
    ucx_epoll_visit(pair.a->wakeup.worker_fd, count_tcp, &count);
    ck_assert_uint_ge(count, 1);
    for (int i = 0; i < 12; i++) {
        deadline = ucx_tcp_watch_deadline(&pair.a->wakeup.tcp_watch);
        ck_assert_uint_lt(deadline, base_clock_now() + SEC);
        pair_until(&pair, ucx_tcp_watch_deadline(&pair.a->wakeup.tcp_watch) >
                              deadline);
    }
    ck_assert(pair_is_open(pair.to_a) && pair_is_open(pair.to_b));
}

TEST(without_a_connection_or_a_timeout_nothing_is_checked)
{
    ucxpool_t *pool = pair_pool("WIRE=ucx");

    for (int i = 0; i < 10000; i++) {
        ucxpool_progress(pool);
    }
    ck_assert_uint_eq(pool->wakeup.tcp_watch.next_check, 0);
    ucxpool_destroy(pool);
    pair_begin(&pair, "WIRE=ucx PEER_TIMEOUT=inf", "WIRE=ucx PEER_TIMEOUT=inf");
    ck_assert_uint_eq(ucx_tcp_watch_deadline(&pair.a->wakeup.tcp_watch),
                      BASE_CLOCK_FOREVER);
}
