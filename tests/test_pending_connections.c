/* The listener: authenticates incoming connections. */
#include <config.h>

#include "caught.h"
#include "fds.h"
#include "loopback.h"
#include "net_calls.h"
#include "slow.h"
#include "test.h"

#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/auth.h"

#include <ucxpool/ucxpool.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECRET "a secret of at least 16 bytes\n"

static base_secret_t        *secret;
static bootstrap_listener_t *listener;

static void setup(void)
{
    base_log_set_level(BASE_LOG_NONE);
    secret   = loopback_secret(SECRET);
    listener = loopback_listener(secret);
}

static void destroy_listener(void)
{
    bootstrap_listener_destroy(listener);
    listener = NULL;
}

/* Replace the listener. */
static ucxpool_status_t try_listener(const bootstrap_listener_params_t *params)
{
    destroy_listener();
    return bootstrap_listener_create(params, &listener);
}

/* Replace the listener by one with this many places for clients that have not
 * authenticated. */
static void limit_half_open(unsigned num)
{
    bootstrap_listener_params_t params = loopback_params(secret);

    params.max_half_open = num;
    assert_ok(try_listener(&params));
}

static void teardown(void)
{
    net_call_reset();
    destroy_listener();
    base_secret_put(secret);
}

static void assert_peer_waits(void)
{
    bootstrap_peer_t peer;

    loopback_settle(listener);
    assert_ok(bootstrap_listener_accept(listener, &peer));
    ck_assert_uint_eq(peer.length, sizeof(LOOPBACK_CLIENT_BLOB));
    ck_assert_mem_eq(peer.blob, LOOPBACK_CLIENT_BLOB, peer.length);
    ck_assert_int_eq(strncmp(peer.ends.remote, "127.0.0.1:", 10), 0);
    ck_assert_int_eq(close(peer.fd), 0);
}

static void assert_no_pending_connections(void)
{
    bootstrap_peer_t peer;

    loopback_settle(listener);
    ck_assert_int_eq(bootstrap_listener_accept(listener, &peer),
                     UCXPOOL_INPROGRESS);
}

static const bootstrap_listener_stats_t *stats(void)
{
    return bootstrap_listener_stats(listener);
}

static unsigned num_half_open(void)
{
    return stats()->num_half_open;
}

/* Wait for an event of the listener, and handle it. */
static void settle(void)
{
    loopback_wait(bootstrap_listener_fd(listener));
    loopback_settle(listener);
}

/* The client connects, and ends. */
static void assert_connects(bootstrap_client_t *client)
{
    assert_ok(loopback_meet(listener, client));
    assert_peer_waits();
    bootstrap_client_destroy(client);
}

/* The client fails with this status and reason, and ends. */
static void assert_fails(bootstrap_client_t *client, ucxpool_status_t status,
                         const char *words)
{
    ck_assert_int_eq(loopback_meet(listener, client), status);
    assert_detail(words);
    bootstrap_client_destroy(client);
}

/* Connections of strangers. With settle: the listener accepts each one before
 * the next arrives. */
static void open_strangers(int *fds, int num, bool with_settle)
{
    for (int i = 0; i < num; i++) {
        fds[i] = loopback_stranger(listener);
        if (with_settle) {
            settle();
        }
    }
}

static void close_all(const int *fds, int num)
{
    for (int i = 0; i < num; i++) {
        close(fds[i]);
    }
}

static void assert_peers_wait(unsigned num)
{
    for (unsigned i = 0; i < num; i++) {
        assert_peer_waits();
    }
    assert_no_pending_connections();
}

/* A client with the right secret connects. */
static void assert_open(void)
{
    bootstrap_client_t *client = loopback_client(listener, secret);
    const void         *blob;
    size_t              length;

    assert_ok(loopback_meet(listener, client));
    bootstrap_client_peer(client, &blob, &length);
    ck_assert_uint_eq(length, sizeof(LOOPBACK_LISTENER_BLOB));
    ck_assert_mem_eq(blob, LOOPBACK_LISTENER_BLOB, length);
    assert_peer_waits();
    bootstrap_client_destroy(client);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown, .timeout = 60);

TEST(a_silent_connection_is_closed_at_its_deadline)
{
    uint64_t begin = base_clock_now();
    int      fd    = loopback_stranger(listener);
    char     byte;

    ck_assert_uint_eq(bootstrap_listener_deadline(listener),
                      BASE_CLOCK_FOREVER);
    loopback_settle(listener);
    ck_assert_uint_eq(num_half_open(), 1);
    ck_assert_uint_ge(bootstrap_listener_deadline(listener),
                      begin + LOOPBACK_TIMEOUT_NS);
    ck_assert_uint_le(bootstrap_listener_deadline(listener),
                      base_clock_now() + LOOPBACK_TIMEOUT_NS);
    net_call_skip(LOOPBACK_TIMEOUT_NS);
    ck_assert_uint_gt(bootstrap_listener_progress(listener), 0);
    ck_assert_uint_eq(loopback_read(listener, fd, &byte, 1), 0);
    ck_assert_uint_eq(num_half_open(), 0);
    ck_assert_uint_eq(stats()->num_timed_out, 1);
    ck_assert_uint_eq(stats()->num_refused, 1);
    ck_assert_uint_eq(bootstrap_listener_deadline(listener),
                      BASE_CLOCK_FOREVER);
    assert_open();
    close(fd);
}

TEST(a_client_connects_while_strangers_keep_coming)
{
    enum { NUM_STRANGERS = 6 };
    static int          fds[100 * NUM_STRANGERS];
    bootstrap_client_t *client = loopback_client(listener, secret);
    ucxpool_status_t    status;
    int                 num = 0;

    /* In each turn, fewer strangers arrive than there are slots. */
    while ((status = bootstrap_client_progress(client)) == UCXPOOL_INPROGRESS) {
        ck_assert_int_lt(num, 99 * NUM_STRANGERS);
        for (int i = 0; i < NUM_STRANGERS; i++) {
            fds[num++] = loopback_stranger(listener);
        }
        bootstrap_listener_progress(listener);
    }
    ck_assert_msg(status == UCXPOOL_OK, "%s", ucxpool_error_detail());
    assert_peer_waits();
    bootstrap_client_destroy(client);
    while (num > 0) {
        close(fds[--num]);
    }
}

TEST(one_slot_is_enough_to_accept_a_client)
{
    int fd;

    limit_half_open(1);
    fd = loopback_stranger(listener);
    loopback_settle(listener);
    assert_open();
    close(fd);
}

TEST(the_listener_survives_garbage_of_any_length)
{
    static uint8_t bytes[100000];

    for (unsigned length = 1; length <= sizeof(bytes); length *= 7) {
        int fd = loopback_stranger(listener);

        memset(bytes, (int)length, sizeof(bytes));
        /* The listener may close the connection before all is sent. */
        (void)send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        loopback_settle(listener);
        close(fd);
        loopback_settle(listener);
    }
    ck_assert_uint_eq(num_half_open(), 0);
    assert_no_pending_connections();
    assert_open();
}

/* Run until the listener has refused the client again and its next attempt is
 * due. */
static void be_refused(bootstrap_client_t *client)
{
    uint64_t num_refused = stats()->num_refused;

    while (stats()->num_refused == num_refused) {
        ck_assert_int_eq(bootstrap_client_progress(client), UCXPOOL_INPROGRESS);
        bootstrap_listener_progress(listener);
    }
    ck_assert_uint_lt(bootstrap_client_deadline(client),
                      base_clock_now() + 1000000000u);
    net_call_skip(1000000000u);
}

static void fill_queue(unsigned num)
{
    for (unsigned i = 0; i < num; i++) {
        bootstrap_client_t *client = loopback_client(listener, secret);

        assert_ok(loopback_meet(listener, client));
        bootstrap_client_destroy(client);
    }
    loopback_settle(listener);
}

/* The client takes one step of its handshake. */
static void advance(bootstrap_client_t *client)
{
    loopback_wait(bootstrap_client_fd(client));
    ck_assert_int_eq(bootstrap_client_progress(client), UCXPOOL_INPROGRESS);
}

/* A client that has connected and sends its first message next. */
static bootstrap_client_t *connected_client(void)
{
    bootstrap_client_t *client = loopback_client(listener, secret);

    advance(client);
    return client;
}

TEST(a_client_retries_until_the_queue_has_room)
{
    bootstrap_client_t *client;

    fill_queue(LOOPBACK_QUEUE);
    client = connected_client();
    for (int i = 0; i < 3; i++) {
        be_refused(client);
    }
    assert_peers_wait(LOOPBACK_QUEUE);
    assert_connects(client);
    assert_no_pending_connections();
}

TEST(a_queue_that_stays_full_is_an_error_at_the_deadline)
{
    bootstrap_client_t *client;

    fill_queue(LOOPBACK_QUEUE);
    client = connected_client();
    be_refused(client);
    net_call_skip(LOOPBACK_TIMEOUT_NS);
    assert_fails(client, UCXPOOL_ERR_LIMIT, "too many peers are waiting");
    assert_peers_wait(LOOPBACK_QUEUE);
    assert_open();
}

TEST(a_refused_client_without_an_answer_to_its_last_try_times_out)
{
    bootstrap_client_t *client;
    const char         *reason;

    fill_queue(LOOPBACK_QUEUE);
    client = connected_client();
    be_refused(client);
    ck_assert_int_eq(bootstrap_client_progress(client), UCXPOOL_INPROGRESS);
    net_call_skip(LOOPBACK_TIMEOUT_NS);
    assert_error(loopback_meet(NULL, client), TIMED_OUT);
    reason = ucxpool_error_detail();
    ck_assert_msg((strstr(reason, "no answer in time") != NULL) &&
                      (strstr(reason, "too many peers are waiting") != NULL),
                  "%s", reason);
    bootstrap_client_destroy(client);
}

TEST(a_client_displaced_by_a_new_connection_retries)
{
    bootstrap_client_t *client;
    int                 fd;

    limit_half_open(1);
    for (unsigned num_turns = 0; num_turns < 2; num_turns++) {
        client = connected_client();
        fd     = loopback_stranger(listener);
        for (unsigned i = 0; i < num_turns; i++) {
            loopback_settle(listener); /* the stranger has a slot, too */
        }
        assert_connects(client);
        close(fd);
    }
    ck_assert_uint_ge(stats()->num_refused, 2);
}

TEST(a_client_retries_when_the_listener_has_no_descriptor)
{
    unsigned            num_fds;
    uint64_t            limit;
    bootstrap_client_t *client;

    destroy_listener();
    num_fds = fds_count();
    limit_half_open(8);
    client = connected_client();
    limit  = fds_limit(fds_count() + 2);
    loopback_settle(listener);
    fds_limit(limit);
    /* Valgrind's own descriptors appear in /proc/self/fd, but do not count
     * here. */
    if (!RUNNING_ON_VALGRIND) {
        ck_assert_uint_eq(stats()->num_refused, 1);
    }
    assert_connects(client);
    destroy_listener();
    ck_assert_uint_eq(fds_count(), num_fds);
}

TEST(unauthenticated_connections_get_a_quarter_of_the_descriptors)
{
    enum { LIMIT = 200 };
    int      fds[LIMIT];
    uint64_t limit;

    limit = fds_limit(LIMIT);
    limit_half_open(LIMIT);
    fds_limit(limit);
    open_strangers(fds, LIMIT, true);
    ck_assert_uint_eq(num_half_open(), LIMIT / 4);
    close_all(fds, LIMIT);
}

/* Progress the listener until the client has received something. */
static void progress_until_readable(bootstrap_client_t *client)
{
    struct pollfd event = {.fd = bootstrap_client_fd(client), .events = POLLIN};

    while (poll(&event, 1, 0) == 0) {
        bootstrap_listener_progress(listener);
    }
}

TEST(clients_do_not_time_out_if_the_listener_is_late)
{
    enum { NUM = 40 }; /* more than one call processes */
    bootstrap_listener_params_t params = loopback_params(secret);
    bootstrap_client_t         *clients[NUM];
    struct epoll_event          events[NUM];

    params.max_half_open = NUM;
    params.accept_queue  = NUM;
    assert_ok(try_listener(&params));
    for (int i = 0; i < NUM; i++) {
        clients[i] = connected_client();
        progress_until_readable(clients[i]);
    }
    for (int i = 0; i < NUM; i++) {
        ck_assert_int_eq(bootstrap_client_progress(clients[i]),
                         UCXPOOL_INPROGRESS);
    }
    while (epoll_wait(bootstrap_listener_fd(listener), events, NUM, -1) < NUM) {
    }
    net_call_skip(LOOPBACK_TIMEOUT_NS);
    loopback_settle(listener);
    ck_assert_uint_eq(stats()->num_timed_out, 0);
    for (int i = 0; i < NUM; i++) {
        loopback_wait(bootstrap_client_fd(clients[i]));
        assert_ok(bootstrap_client_progress(clients[i]));
        assert_peer_waits();
        bootstrap_client_destroy(clients[i]);
    }
}

/* The system's limit: it truncates a longer queue to this length. */
static int longest_queue(void)
{
    FILE *file = fopen("/proc/sys/net/core/somaxconn", "r");
    int   most = 0;

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%d", &most), 1);
    ck_assert_int_eq(fclose(file), 0);
    return most;
}

TEST(simultaneous_connections_fit_in_the_accept_queue)
{
    int num = longest_queue();
    int fds[200];

    num = (num < 200) ? num : 200;
    limit_half_open(200);
    open_strangers(fds, num, false); /* would block if the queue were full */
    loopback_settle(listener);
    ck_assert_uint_eq(num_half_open(), (unsigned)num);
    close_all(fds, num);
}

TEST(the_work_of_one_progress_call_is_bounded)
{
    int fds[40];

    limit_half_open(64);
    open_strangers(fds, 40, false);
    loopback_wait(bootstrap_listener_fd(listener));
    ck_assert_uint_le(bootstrap_listener_progress(listener), 16);
    ck_assert_uint_le(num_half_open(), 16);
    loopback_settle(listener);
    ck_assert_uint_eq(num_half_open(), 40);
    close_all(fds, 40);
}

TEST(the_callers_epoll_can_watch_the_fd)
{
    int                epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event    = {.events = EPOLLIN};
    int                fd;

    ck_assert_int_eq(epoll_ctl(epoll_fd, EPOLL_CTL_ADD,
                               bootstrap_listener_fd(listener), &event),
                     0);
    ck_assert_int_eq(epoll_wait(epoll_fd, &event, 1, 0), 0);
    fd = loopback_stranger(listener);
    ck_assert_int_eq(epoll_wait(epoll_fd, &event, 1, 20000), 1);
    loopback_settle(listener);
    ck_assert_int_eq(epoll_wait(epoll_fd, &event, 1, 0), 0);
    ck_assert_int_eq(send(fd, "x", 1, MSG_NOSIGNAL), 1);
    ck_assert_int_eq(epoll_wait(epoll_fd, &event, 1, 20000), 1);
    loopback_settle(listener);
    ck_assert_int_eq(epoll_wait(epoll_fd, &event, 1, 0), 0);
    close(fd);
    close(epoll_fd);
}

TEST(destroying_the_listener_closes_pending_connections)
{
    unsigned              num_fds = fds_count();
    bootstrap_listener_t *second  = loopback_listener(secret);
    int                   fd      = loopback_stranger(second);
    char                  byte;

    loopback_settle(second);
    bootstrap_listener_destroy(second);
    ck_assert_int_le(recv(fd, &byte, 1, 0), 0);
    close(fd);
    bootstrap_listener_destroy(NULL);
    ck_assert_uint_eq(fds_count(), num_fds);
}

/* A forked child holds copies of the sockets. */
TEST(a_forked_child_does_not_confuse_the_listener)
{
    int              fd = loopback_stranger(listener);
    loopback_child_t child;

    loopback_settle(listener);
    loopback_fork(&child);
    net_call_skip(LOOPBACK_TIMEOUT_NS);
    loopback_settle(listener);
    ck_assert_int_eq(send(fd, "x", 1, MSG_NOSIGNAL), 1);
    ck_assert_uint_eq(bootstrap_listener_progress(listener), 0);
    assert_open();
    loopback_end_child(&child);
    close(fd);
}

TEST(a_forked_child_does_not_keep_pending_connections_open)
{
    bootstrap_client_t *client = loopback_client(listener, secret);
    struct pollfd       fd     = {.events = POLLRDHUP};
    loopback_child_t    child;

    assert_ok(loopback_meet(listener, client));
    loopback_fork(&child);
    destroy_listener();
    fd.fd = bootstrap_client_detach_fd(client);
    ck_assert_int_eq(poll(&fd, 1, -1), 1);
    loopback_end_child(&child);
    close(fd.fd);
    bootstrap_client_destroy(client);
}

TEST(an_answer_that_would_block_is_sent_later)
{
    bootstrap_client_t *client = loopback_client(listener, secret);

    /* Order of the sends: HELLO, CHALLENGE, CLIENT_PROOF, LISTENER_PROOF. */
    net_call_fail(NET_CALL_SEND, 4, EAGAIN);
    assert_ok(loopback_meet(listener, client));
    ck_assert(net_call_reset());
    assert_peer_waits();
    ck_assert_uint_eq(num_half_open(), 0);
    bootstrap_client_destroy(client);
}

/* A client whose proof is right, but the listener cannot send its answer. */
static bootstrap_client_t *client_without_answer(void)
{
    bootstrap_client_t *client = loopback_client(listener, secret);

    net_call_fail_from(NET_CALL_SEND, 4, EAGAIN);
    while (!net_call_has_failed()) {
        ck_assert_int_eq(bootstrap_client_progress(client), UCXPOOL_INPROGRESS);
        bootstrap_listener_progress(listener);
    }
    ck_assert_uint_eq(num_half_open(), 1);
    return client;
}

TEST(an_answer_that_cannot_be_sent_frees_its_slot)
{
    for (int i = 0; i < 2 * LOOPBACK_QUEUE; i++) {
        bootstrap_client_t *client = client_without_answer();

        if ((i % 2) == 0) {
            net_call_skip(LOOPBACK_TIMEOUT_NS);
        } else {
            net_call_reset();
            net_call_fail(NET_CALL_SEND, 1, ECONNRESET);
        }
        loopback_settle(listener);
        net_call_reset();
        ck_assert_uint_eq(num_half_open(), 0);
        ck_assert_int_lt(loopback_meet(listener, client), 0);
        bootstrap_client_destroy(client);
    }
    ck_assert_uint_eq(stats()->num_refused, 2 * LOOPBACK_QUEUE);
    assert_no_pending_connections();
    assert_open();
}

TEST(a_client_is_closed_if_its_socket_cannot_be_polled)
{
    bootstrap_client_t *client = connected_client();

    /* Sending the challenge would block, and adding the socket to epoll
     * fails. */
    net_call_fail(NET_CALL_SEND, 1, EAGAIN);
    net_call_then(NET_CALL_EPOLL_CTL, ENOMEM);
    settle();
    ck_assert(net_call_reset());
    ck_assert_uint_eq(num_half_open(), 0);
    ck_assert_uint_eq(stats()->num_refused, 1);
    ck_assert_int_lt(loopback_meet(listener, client), 0);
    bootstrap_client_destroy(client);
    assert_open();
}

TEST(a_refused_client_that_stays_is_closed_at_its_deadline)
{
    bootstrap_client_t *client = loopback_client(listener, NULL);
    int                 fd     = loopback_stranger(listener);
    char                bytes[512];
    char                hello[44] = "UCXP\1\0\1\0\x20\0\0\0";

    ck_assert_int_eq(send(fd, hello, sizeof(hello), MSG_NOSIGNAL),
                     (ssize_t)sizeof(hello));
    assert_fails(client, UCXPOOL_ERR_PERMISSION, "");
    /* The stranger receives the refusal and the end of the stream, but keeps
     * its socket open. */
    ck_assert_uint_gt(loopback_read(listener, fd, bytes, sizeof(bytes)), 12);
    ck_assert_uint_eq(num_half_open(), 1);
    net_call_skip(LOOPBACK_TIMEOUT_NS);
    loopback_settle(listener);
    ck_assert_uint_eq(num_half_open(), 0);
    close(fd);
}

TEST(the_log_gets_one_warning_per_second)
{
    const char *text;
    int         num_lines = 0;

    /* The strangers may take longer than a second on a busy machine. */
    net_call_stop_clock();
    base_log_set_level(BASE_LOG_WARN);
    caught_begin();
    for (int i = 0; i < 100; i++) {
        int fd = loopback_stranger(listener);

        ck_assert_int_eq(send(fd, "GET / HTTP/1.0", 14, MSG_NOSIGNAL), 14);
        settle();
        close(fd);
        loopback_settle(listener);
        if (i == 98) {
            net_call_skip(1000000000u);
        }
    }
    text = caught_text();
    caught_end();
    for (const char *c = text; *c != '\0'; c++) {
        num_lines += *c == '\n';
    }
    ck_assert_int_eq(num_lines, 2);
    assert_has(text, "is not a pool");
    assert_has(text, "and 98 more warnings before it");
}

TEST(a_new_connection_displaces_the_oldest)
{
    int  fds[9];
    char words[256];
    char byte;

    open_strangers(fds, 9, true);
    ck_assert_uint_ge(loopback_read(listener, fds[0], words, sizeof(words)),
                      BOOTSTRAP_MESSAGE_HEADER_SIZE + 4);
    ck_assert_uint_eq(words[BOOTSTRAP_MESSAGE_HEADER_SIZE],
                      BOOTSTRAP_REFUSAL_FULL);
    for (int i = 1; i < 9; i++) {
        ck_assert_int_lt(recv(fds[i], &byte, 1, MSG_DONTWAIT), 0);
        ck_assert_int_eq(errno, EAGAIN);
    }
    close_all(fds, 9);
}

TEST(an_unsent_answer_keeps_its_slot_in_the_queue)
{
    bootstrap_client_t *clients[2];
    unsigned            num_in = 0;

    fill_queue(LOOPBACK_QUEUE - 1);

    /* The proofs of two clients arrive together, and both answers would
     * block. */
    for (int i = 0; i < 2; i++) {
        clients[i] = connected_client();
    }
    loopback_settle(listener);
    ck_assert_uint_eq(num_half_open(), 2);
    for (int i = 0; i < 2; i++) {
        advance(clients[i]);
    }
    net_call_fail_from(NET_CALL_SEND, 1, EAGAIN);
    ck_assert_uint_eq(bootstrap_listener_progress(listener), 2);
    ck_assert(net_call_reset());

    while (bootstrap_listener_num_waiting(listener) < LOOPBACK_QUEUE) {
        loopback_settle(listener);
    }
    for (int i = 0; i < 2; i++) {
        loopback_wait(bootstrap_client_fd(clients[i]));
        num_in += bootstrap_client_progress(clients[i]) == UCXPOOL_OK;
        bootstrap_client_destroy(clients[i]);
    }
    ck_assert_uint_eq(num_in, 1);
    assert_peers_wait(LOOPBACK_QUEUE);
}

/* --- listening addresses ------------------------------------------------ */

static ucxpool_status_t listen_on(const char *text)
{
    bootstrap_listener_params_t params = loopback_params(secret);
    bootstrap_where_t           where;

    assert_ok(bootstrap_where_resolve(text, BOOTSTRAP_WHERE_LISTEN, &where));
    params.where = &where;
    return try_listener(&params);
}

TEST(a_port_in_use_is_reported)
{
    bootstrap_listener_t *first = listener;
    char                  text[32];

    snprintf(text, sizeof(text), "127.0.0.1:%u",
             (unsigned)bootstrap_listener_port(listener));
    listener = NULL;
    assert_error_detail(listen_on(text), ADDRESS_IN_USE, text);
    assert_detail("another port");
    listener = first;
    /* The listener closes first, so its side of the connection stays in
     * TIME_WAIT. The port can be bound again all the same. */
    assert_open();
    assert_ok(listen_on(text));
    assert_open();
}

TEST(an_unusable_listen_address_is_reported)
{
    static const struct {
        int              error;
        ucxpool_status_t status;
        const char      *words;
    } cases[] = {
        {EACCES, UCXPOOL_ERR_PERMISSION, "over 1023"},
        {EADDRNOTAVAIL, UCXPOOL_ERR_IO, "address of this machine"},
        {ENOBUFS, UCXPOOL_ERR_IO, "cannot listen on 127.0.0.1:0"},
    };

    for (size_t i = 0; i < 3; i++) {
        net_call_fail(NET_CALL_BIND, 1, cases[i].error);
        ck_assert_int_eq(listen_on("127.0.0.1:0"), cases[i].status);
        assert_detail(cases[i].words);
    }
}

TEST(invalid_parameters_are_rejected)
{
    static uint8_t              bytes[BOOTSTRAP_BLOB_MAX + 1];
    bootstrap_listener_params_t params = loopback_params(secret);

    params.max_half_open = 0;
    assert_error(try_listener(&params), INVALID_PARAM);
    params.max_half_open = 1;
    params.accept_queue  = 0;
    assert_error(try_listener(&params), INVALID_PARAM);
    params.accept_queue = 1;
    params.blob         = bytes;
    params.blob_length  = sizeof(bytes);
    assert_error(try_listener(&params), INVALID_PARAM);
}

/* --- failing system calls ---------------------------------------------- */

TEST(a_failing_call_at_creation_leaves_nothing_behind)
{
    static const net_call_t calls[] = {
        NET_CALL_CALLOC,    NET_CALL_EPOLL_CREATE1, NET_CALL_SOCKET,
        NET_CALL_BIND,      NET_CALL_LISTEN,        NET_CALL_GETSOCKNAME,
        NET_CALL_EPOLL_CTL,
    };
    bootstrap_listener_params_t params = loopback_params(secret);
    unsigned                    num_fds;

    destroy_listener();
    num_fds = fds_count();
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (unsigned n = 1;; n++) {
            net_call_fail(calls[i], n, EMFILE);
            if (try_listener(&params) == UCXPOOL_OK) {
                ck_assert(!net_call_reset());
                ck_assert_uint_gt(n, 1);
                assert_open();
                destroy_listener();
                break;
            }
            ck_assert(net_call_reset());
            ck_assert_uint_eq(fds_count(), num_fds);
        }
    }
}

TEST(without_file_descriptors_the_listener_waits_and_does_not_spin)
{
    bootstrap_client_t *client = loopback_client(listener, secret);
    uint64_t            deadline;

    net_call_stop_clock();
    net_call_fail_from(NET_CALL_ACCEPT4, 1, EMFILE);
    settle();
    ck_assert(net_call_reset());

    /* Nothing is due until the pause is over, even with a pending
     * connection. */
    deadline = bootstrap_listener_deadline(listener);
    ck_assert_uint_gt(deadline, base_clock_now());
    ck_assert_uint_ne(deadline, BASE_CLOCK_FOREVER);
    ck_assert_uint_eq(bootstrap_listener_progress(listener), 0);
    ck_assert_int_eq(bootstrap_client_progress(client), UCXPOOL_INPROGRESS);

    net_call_skip(deadline - base_clock_now());
    ck_assert_uint_gt(bootstrap_listener_progress(listener), 0);
    assert_connects(client);
}

TEST(with_no_descriptor_left_at_all_the_listener_recovers)
{
    bootstrap_client_t *client = loopback_client(listener, secret);
    ucxpool_status_t    status;
    uint64_t            limit;

    loopback_wait(bootstrap_listener_fd(listener));
    limit = fds_limit(0);
    loopback_settle(listener);
    fds_limit(limit);
    ck_assert_uint_eq(num_half_open(), 0);
    net_call_skip(1000000000u);
    /* Valgrind accepts the connection and then closes it. */
    status = loopback_meet(listener, client);
    if (status != UCXPOOL_ERR_PEER_LOST) {
        assert_ok(status);
        assert_peer_waits();
    }
    assert_open();
    bootstrap_client_destroy(client);
}

TEST(aborted_connections_are_skipped)
{
    static const int errors[] = {EINTR,       ECONNABORTED, EPROTO,
                                 ENETUNREACH, EPERM,        EHOSTDOWN};

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        net_call_fail(NET_CALL_ACCEPT4, 1, errors[i]);
        assert_open();
        ck_assert(net_call_reset());
    }
}

TEST(a_persistently_failing_accept_is_not_retried_forever)
{
    int fd = loopback_stranger(listener);

    net_call_fail_from(NET_CALL_ACCEPT4, 1, EPERM);
    settle();
    ck_assert(net_call_reset());
    net_call_skip(1000000000u);
    assert_open();
    close(fd);
}

TEST(a_connection_that_cannot_be_served_is_closed)
{
    static const net_call_t calls[] = {NET_CALL_EPOLL_CTL, NET_CALL_RAND_BYTES};
    unsigned                num_fds = fds_count();
    char                    byte;

    for (size_t i = 0; i < 2; i++) {
        int fd = loopback_stranger(listener);

        net_call_fail(calls[i], 1, ENOSPC);
        ck_assert_uint_eq(loopback_read(listener, fd, &byte, 1), 0);
        ck_assert(net_call_reset());
        close(fd);
        ck_assert_uint_eq(num_half_open(), 0);
        ck_assert_uint_eq(stats()->num_refused, i + 1);
        ck_assert_uint_eq(fds_count(), num_fds);
    }
    assert_open();
}

TEST(watching_the_listener_again_is_retried_later)
{
    int fd = loopback_stranger(listener);

    net_call_stop_clock();
    net_call_fail(NET_CALL_ACCEPT4, 1, ENFILE);
    settle();
    ck_assert(net_call_reset());
    net_call_skip(200000000u);
    net_call_fail(NET_CALL_EPOLL_CTL, 1, ENOMEM);
    loopback_settle(listener);
    ck_assert(net_call_reset());
    ck_assert_uint_gt(bootstrap_listener_deadline(listener), base_clock_now());
    net_call_skip(200000000u);
    assert_open();
    close(fd);
}
