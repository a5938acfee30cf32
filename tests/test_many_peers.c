/* 1,000 peers that connect to one listener at the same moment, with default
 * timeouts. */
#include "fds.h"
#include "pair.h"
#include "rounds.h"
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAG           UINT64_C(7)
#define ALL_BITS      UINT64_MAX
#define NUM_PROCESSES 8
#define MAX_EACH      125 /* channels per process */
#define MAX_CHANNELS  (NUM_PROCESSES * MAX_EACH)

/* Descriptors of the listening process: for each peer, and for the rest. */
#define DESCRIPTORS_EACH 5
#define DESCRIPTORS_ELSE 100

typedef struct peer {
    ucxpool_channel_t *channel;
    ucxpool_request_t *request;
    uint32_t           number;
} peer_t;

static peer_t peers[MAX_CHANNELS];
static pid_t  processes[NUM_PROCESSES];

/* Channels per process, as many as the limit on open files allows. */
static unsigned num_channels(void)
{
    uint64_t limit;
    unsigned num;

    fds_limit(FDS_ALL);
    limit = fds_limit(FDS_ALL);
    ck_assert_uint_gt(limit, 2 * DESCRIPTORS_ELSE);
    num = rounds_are_few() ? 10 : MAX_EACH;
    while ((uint64_t)num * NUM_PROCESSES * DESCRIPTORS_EACH >
           limit - DESCRIPTORS_ELSE) {
        num--;
    }
    return num;
}

/* On an overloaded machine, the default timeout may be too short. */
static const char *timeout_setting(void)
{
    double load = 0;
    long   num  = sysconf(_SC_NPROCESSORS_ONLN);

    return slow_is() || (getloadavg(&load, 1) != 1) ||
                   (load > 2.0 * (double)num)
               ? "HANDSHAKE_TIMEOUT=1h"
               : "";
}

static ucxpool_t *make_pool(const char *settings)
{
    char text[128];

    snprintf(text, sizeof(text), "%s %s", settings, timeout_setting());
    return pair_pool(text);
}

/* Connect at the same time, send a number over each channel, and stay. */
static void peer_main(const char *settings, unsigned first, unsigned num,
                      int port_fd)
{
    ucxpool_t *pool;
    uint16_t   port;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pool = make_pool(settings);
    if (read(port_fd, &port, sizeof(port)) != sizeof(port)) {
        _exit(1);
    }
    for (unsigned i = 0; i < num; i++) {
        peers[i].channel = pair_call(pool, "127.0.0.1", port);
        peers[i].number  = first + i;
        peers[i].request = pair_send(peers[i].channel, &peers[i].number,
                                     sizeof(peers[i].number), TAG);
    }
    for (unsigned i = 0; i < num; i++) {
        if (ucxpool_request_wait(peers[i].request, UCXPOOL_FOREVER) !=
            UCXPOOL_OK) {
            fprintf(stderr, "peer %u: %s\n", first + i, ucxpool_error_detail());
            _exit(1);
        }
    }
    for (;;) {
        ucxpool_wait(pool, UCXPOOL_FOREVER);
    }
}

static void start_processes(const char *settings, unsigned num, int port_fd)
{
    for (unsigned i = 0; i < NUM_PROCESSES; i++) {
        processes[i] = fork();
        ck_assert_int_ge(processes[i], 0);
        if (processes[i] == 0) {
            peer_main(settings, i * num, num, port_fd);
        }
    }
}

static void end_processes(void)
{
    for (unsigned i = 0; i < NUM_PROCESSES; i++) {
        test_kill(processes[i]);
    }
}

static unsigned accept_all(ucxpool_t *pool, ucxpool_listener_t *listener,
                           unsigned num_accepted)
{
    peer_t *peer = &peers[num_accepted];

    while (ucxpool_listener_accept(listener, NULL, &peer->channel) ==
           UCXPOOL_OK) {
        peer->request = pair_recv(pool, peer->channel, &peer->number,
                                  sizeof(peer->number), TAG);
        peer++;
    }
    return (unsigned)(peer - peers);
}

/* Wait until each number has arrived once. */
static void receive_all(ucxpool_t *pool, ucxpool_listener_t *listener,
                        unsigned num)
{
    static bool has_come[MAX_CHANNELS];
    unsigned    num_accepted = 0;

    for (unsigned i = 0; i < num; i++) {
        has_come[i] = false;
    }
    for (unsigned i = 0; i < num; i++) {
        while ((i == num_accepted) || !pair_ended(peers[i].request)) {
            num_accepted = accept_all(pool, listener, num_accepted);
            ucxpool_wait(pool, 10000000);
            ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), 0);
        }
        assert_ok(pair_end_of(peers[i].request));
        ck_assert_uint_lt(peers[i].number, num);
        ck_assert(!has_come[peers[i].number]);
        has_come[peers[i].number] = true;
    }
    ck_assert_uint_eq(num_accepted, num);
}

static const char *const all_settings[] = {"WIRE=map", "WIRE=ucx",
                                           "WIRE=map ACCEPT_QUEUE=16"};

/* scripts/end-hung ends a test that hangs. */
TEST_SETTINGS(.timeout = TEST_NO_TIMEOUT);

TEST_EACH(a_thousand_peers_connect_at_once, 3)
{
    /* Valgrind cannot watch a process. */
    const char *settings = (RUNNING_ON_VALGRIND != 0) ? "" : all_settings[_i];
    unsigned    num      = num_channels();
    ucxpool_listener_t *listener;
    ucxpool_t          *pool;
    uint16_t            port;
    int                 fds[2];

    ck_assert_int_eq(pipe(fds), 0);
    start_processes(settings, num, fds[0]);
    pool     = make_pool(settings);
    listener = pair_listen(pool, "127.0.0.1:0");
    port     = ucxpool_listener_port(listener);
    for (int i = 0; i < NUM_PROCESSES; i++) {
        ck_assert_int_eq(write(fds[1], &port, sizeof(port)), sizeof(port));
    }
    receive_all(pool, listener, NUM_PROCESSES * num);
    ucxpool_destroy(pool);
    end_processes();
    close(fds[0]);
    close(fds[1]);
}
