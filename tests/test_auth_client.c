/* The client of a listener: connecting, timeouts and errors. */
#include <config.h>

#include "loopback.h"
#include "net_calls.h"
#include "test.h"

#include "base/clock.h"
#include "base/log.h"

#include <ucxpool/ucxpool.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The timeout that loopback_client() sets. */
#define TIMEOUT_NS LOOPBACK_TIMEOUT_NS

static base_secret_t *secret;

static void setup(void)
{
    base_log_set_level(BASE_LOG_NONE);
    secret = loopback_secret("a secret of at least 16 bytes\n");
}

static void teardown(void)
{
    net_call_reset();
    base_secret_put(secret);
}

static void assert_reason(const bootstrap_client_t *client, const char *words)
{
    ck_assert_msg(strstr(bootstrap_client_reason(client), words) != NULL,
                  "\"%s\" is not in \"%s\"", words,
                  bootstrap_client_reason(client));
}

static bootstrap_where_t where_of(uint16_t port)
{
    bootstrap_where_t where;
    char              text[32];

    snprintf(text, sizeof(text), "127.0.0.1:%u", (unsigned)port);
    assert_ok(bootstrap_where_resolve(text, BOOTSTRAP_WHERE_CONNECT, &where));
    return where;
}

static bootstrap_client_t *call(const bootstrap_where_t *where)
{
    bootstrap_client_t *client;

    assert_ok(
        bootstrap_client_connect(where, secret, "x", 1, TIMEOUT_NS, &client));
    return client;
}

/* A port without a listener: the socket is bound and does not listen. */
static int closed_port(uint16_t *port_p)
{
    struct sockaddr_in address = {
        .sin_family      = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    socklen_t length = sizeof(address);
    int       fd     = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *port_p = ntohs(address.sin_port);
    return fd;
}

/* A listener of the test, which can send anything. */
static int open_listener(uint16_t *port_p)
{
    int fd = closed_port(port_p);

    ck_assert_int_eq(listen(fd, 4), 0);
    return fd;
}

/* Drive the client until it has sent all it can for now. */
static void advance(bootstrap_client_t *client)
{
    struct pollfd fd = {.fd = bootstrap_client_fd(client), .events = POLLIN};

    while (poll(&fd, 1, 0) > 0) {
        ck_assert_int_eq(bootstrap_client_progress(client), UCXPOOL_INPROGRESS);
    }
}

TEST_SETTINGS(.setup = setup, .teardown = teardown, .timeout = 60);

TEST(port_without_a_listener_is_reported)
{
    uint16_t            port;
    int                 fd     = closed_port(&port);
    bootstrap_where_t   where  = where_of(port);
    bootstrap_client_t *client = call(&where);

    assert_error(loopback_meet(NULL, client), PEER_LOST);
    assert_reason(client, "Connection refused");
    assert_reason(client, where.text);
    assert_error(bootstrap_client_progress(client), PEER_LOST);
    ck_assert_uint_eq(bootstrap_client_deadline(client), BASE_CLOCK_FOREVER);
    bootstrap_client_destroy(client);
    close(fd);
}

TEST(failed_address_falls_back_to_the_next)
{
    uint16_t              port;
    int                   fd       = closed_port(&port);
    bootstrap_listener_t *listener = loopback_listener(secret);
    bootstrap_where_t     where    = where_of(port);
    bootstrap_where_t     good = where_of(bootstrap_listener_port(listener));
    bootstrap_client_t   *client;
    int                   client_fd;

    where.addresses[where.num_addresses++] = good.addresses[0];
    client                                 = call(&where);
    client_fd                              = bootstrap_client_fd(client);
    assert_ok(loopback_meet(listener, client));
    ck_assert_int_eq(bootstrap_client_fd(client), client_fd);
    ck_assert_str_eq(bootstrap_client_reason(client), "");
    bootstrap_client_destroy(client);
    bootstrap_listener_destroy(listener);
    close(fd);
}

TEST(client_connects_over_ipv6)
{
    bootstrap_listener_params_t params = loopback_params(secret);
    bootstrap_where_t           where;
    bootstrap_listener_t       *listener;
    bootstrap_client_t         *client;

    assert_ok(
        bootstrap_where_resolve("[::1]:0", BOOTSTRAP_WHERE_LISTEN, &where));
    params.where = &where;
    if (bootstrap_listener_create(&params, &listener) != UCXPOOL_OK) {
        /* This machine has no IPv6, so the client must report an error with a
         * detail. */
        ck_assert_str_ne(ucxpool_error_detail(), "");
        return;
    }
    where.addresses[0].ipv6.sin6_port =
        htons(bootstrap_listener_port(listener));
    client = call(&where);
    assert_ok(loopback_meet(listener, client));
    bootstrap_client_destroy(client);
    bootstrap_listener_destroy(listener);
}

TEST(silent_listener_times_out)
{
    uint16_t            port;
    int                 fd     = open_listener(&port);
    bootstrap_where_t   where  = where_of(port);
    uint64_t            begin  = base_clock_now();
    bootstrap_client_t *client = call(&where);

    ck_assert_uint_ge(bootstrap_client_deadline(client), begin + TIMEOUT_NS);
    ck_assert_uint_le(bootstrap_client_deadline(client),
                      base_clock_now() + TIMEOUT_NS);
    loopback_wait(bootstrap_client_fd(client));
    advance(client);
    net_call_skip(TIMEOUT_NS);
    assert_error(bootstrap_client_progress(client), TIMED_OUT);
    assert_reason(client, "no answer in time");
    bootstrap_client_destroy(client);
    close(fd);
}

TEST(unfinished_tcp_connect_times_out)
{
    enum { NUM_OTHERS = 4 };
    uint16_t            port;
    int                 fd = closed_port(&port);
    bootstrap_where_t   where;
    bootstrap_client_t *clients[NUM_OTHERS];

    /* The kernel accepts one or two connections for this backlog and ignores
     * further ones. */
    ck_assert_int_eq(listen(fd, 0), 0);
    where = where_of(port);
    for (int i = 0; i < NUM_OTHERS; i++) {
        clients[i] = call(&where);
    }
    ck_assert_int_eq(bootstrap_client_progress(clients[NUM_OTHERS - 1]),
                     UCXPOOL_INPROGRESS);
    net_call_skip(TIMEOUT_NS);
    assert_error(bootstrap_client_progress(clients[NUM_OTHERS - 1]), TIMED_OUT);
    assert_reason(clients[NUM_OTHERS - 1], "not connected");
    for (int i = 0; i < NUM_OTHERS; i++) {
        bootstrap_client_destroy(clients[i]);
    }
    close(fd);
}

/* The first address does not answer. The wait for it must not use up the time
 * of the second one. */
TEST(silent_address_falls_back_to_the_next)
{
    enum { NUM_OTHERS = 4 };
    uint16_t              port;
    int                   fd       = closed_port(&port);
    bootstrap_listener_t *listener = loopback_listener(secret);
    bootstrap_where_t     where    = where_of(port);
    bootstrap_where_t     good = where_of(bootstrap_listener_port(listener));
    bootstrap_client_t   *others[NUM_OTHERS];
    bootstrap_client_t   *client;

    ck_assert_int_eq(listen(fd, 0), 0);
    for (int i = 0; i < NUM_OTHERS; i++) {
        others[i] = call(&where);
    }
    where.addresses[where.num_addresses++] = good.addresses[0];
    client                                 = call(&where);
    ck_assert_uint_le(bootstrap_client_deadline(client),
                      base_clock_now() + TIMEOUT_NS / 2);
    ck_assert_int_eq(bootstrap_client_progress(client), UCXPOOL_INPROGRESS);
    net_call_skip(TIMEOUT_NS / 2);
    assert_ok(loopback_meet(listener, client));
    bootstrap_client_destroy(client);
    for (int i = 0; i < NUM_OTHERS; i++) {
        bootstrap_client_destroy(others[i]);
    }
    bootstrap_listener_destroy(listener);
    close(fd);
}

/* A forked child holds a copy of the socket that failed. */
TEST(a_forked_child_does_not_confuse_the_client)
{
    uint16_t            ports[2];
    int                 closed_fd = closed_port(&ports[0]);
    int                 fd        = open_listener(&ports[1]);
    bootstrap_where_t   where     = where_of(ports[0]);
    bootstrap_where_t   silent    = where_of(ports[1]);
    struct pollfd       poll_fd   = {.events = POLLIN};
    bootstrap_client_t *client;
    int                 pipe_fds[2];
    pid_t               child;
    char                byte;

    where.addresses[where.num_addresses++] = silent.addresses[0];
    client                                 = call(&where);
    ck_assert_int_eq(pipe(pipe_fds), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        close(pipe_fds[1]);
        _exit(read(pipe_fds[0], &byte, 1) == 0 ? 0 : 1);
    }
    /* The first address fails, the second one gets the HELLO. */
    for (int i = 0; i < 2; i++) {
        loopback_wait(bootstrap_client_fd(client));
        ck_assert_int_eq(bootstrap_client_progress(client), UCXPOOL_INPROGRESS);
    }
    poll_fd.fd = bootstrap_client_fd(client);
    ck_assert_int_eq(poll(&poll_fd, 1, 0), 0);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    bootstrap_client_destroy(client);
    close(closed_fd);
    close(fd);
}

TEST(without_a_timeout_the_client_keeps_waiting)
{
    uint16_t            port;
    int                 fd    = open_listener(&port);
    bootstrap_where_t   where = where_of(port);
    bootstrap_client_t *client;

    assert_ok(bootstrap_client_connect(&where, secret, NULL, 0,
                                       BASE_CLOCK_FOREVER, &client));
    ck_assert_uint_eq(bootstrap_client_deadline(client), BASE_CLOCK_FOREVER);
    net_call_skip(100 * (uint64_t)TIMEOUT_NS);
    ck_assert_int_eq(bootstrap_client_progress(client), UCXPOOL_INPROGRESS);
    bootstrap_client_destroy(client);
    close(fd);
}

TEST(closing_listener_is_reported_lost)
{
    uint16_t            port;
    int                 fd     = open_listener(&port);
    bootstrap_where_t   where  = where_of(port);
    bootstrap_client_t *client = call(&where);
    int                 peer   = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

    ck_assert_int_ge(peer, 0);
    close(peer);
    assert_error(loopback_meet(NULL, client), PEER_LOST);
    assert_reason(client, where.text);
    bootstrap_client_destroy(client);
    close(fd);
}

/* Accept the client's connection, and reset it. */
static void reset_connection(int fd)
{
    struct linger at_once = {.l_onoff = 1};
    int           peer    = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

    ck_assert_int_ge(peer, 0);
    ck_assert_int_eq(
        setsockopt(peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    close(peer);
}

/* A kernel with a full accept queue does this, before or after the client's
 * HELLO. */
TEST(client_retries_after_a_connection_reset)
{
    uint16_t            port;
    int                 fd     = open_listener(&port);
    bootstrap_where_t   where  = where_of(port);
    bootstrap_client_t *client = call(&where);
    struct pollfd       again  = {.fd = fd, .events = POLLIN};

    for (int i = 0; i < 4; i++) {
        if (i % 2 == 0) {
            advance(client);
        }
        reset_connection(fd);
        while (poll(&again, 1, 0) == 0) {
            ck_assert_int_eq(bootstrap_client_progress(client),
                             UCXPOOL_INPROGRESS);
            net_call_skip(10000000);
        }
    }
    reset_connection(fd);
    loopback_wait(bootstrap_client_fd(client));
    ck_assert_int_eq(bootstrap_client_progress(client), UCXPOOL_INPROGRESS);
    net_call_skip(TIMEOUT_NS);
    assert_error(loopback_meet(NULL, client), PEER_LOST);
    assert_reason(client, "reset");
    bootstrap_client_destroy(client);
    close(fd);
}

TEST(listener_that_is_not_a_pool_is_reported)
{
    static const char   banner[] = "220 mail.example ESMTP ready\r\n";
    uint16_t            port;
    int                 fd     = open_listener(&port);
    bootstrap_where_t   where  = where_of(port);
    bootstrap_client_t *client = call(&where);
    int                 peer   = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

    ck_assert_int_ge(peer, 0);
    ck_assert_int_eq(send(peer, banner, sizeof(banner), MSG_NOSIGNAL),
                     (ssize_t)sizeof(banner));
    assert_error(loopback_meet(NULL, client), PROTOCOL);
    assert_reason(client, "the listener is not a pool");
    bootstrap_client_destroy(client);
    close(peer);
    close(fd);
}

TEST(client_connected_to_itself_is_rejected)
{
    static uint8_t      bytes[8192];
    uint16_t            port;
    int                 fd     = open_listener(&port);
    bootstrap_where_t   where  = where_of(port);
    bootstrap_client_t *client = call(&where);
    int                 peer   = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    ssize_t             length;

    ck_assert_int_ge(peer, 0);
    advance(client);
    length = recv(peer, bytes, sizeof(bytes), 0);
    ck_assert_int_eq(send(peer, bytes, (size_t)length, MSG_NOSIGNAL), length);
    assert_error(loopback_meet(NULL, client), PROTOCOL);
    bootstrap_client_destroy(client);
    close(peer);
    close(fd);
}

TEST(blob_that_is_too_long_is_rejected)
{
    static uint8_t      bytes[BOOTSTRAP_BLOB_MAX + 1];
    bootstrap_where_t   where = where_of(7);
    bootstrap_client_t *client;

    assert_error(bootstrap_client_connect(&where, secret, bytes, sizeof(bytes),
                                          TIMEOUT_NS, &client),
                 INVALID_PARAM);
}

TEST(cleanup_in_mid_handshake_leaks_nothing)
{
    unsigned              num_fds  = net_call_num_fds();
    bootstrap_listener_t *listener = loopback_listener(secret);

    for (unsigned num_steps = 0; num_steps < 4; num_steps++) {
        bootstrap_client_t *client = loopback_client(listener, secret);

        for (unsigned i = 0; i < num_steps; i++) {
            loopback_settle(listener);
            ck_assert_int_ge(bootstrap_client_progress(client), 0);
        }
        bootstrap_client_destroy(client);
        loopback_settle(listener);
    }
    bootstrap_client_destroy(NULL);
    bootstrap_listener_destroy(listener);
    ck_assert_uint_eq(net_call_num_fds(), num_fds);
}

/* One complete authentication. Returns its status, or that of connect if
 * connect failed. The listener's status does not count. */
static ucxpool_status_t connect_once(bootstrap_listener_t    *listener,
                                     const bootstrap_where_t *where)
{
    bootstrap_client_t *client;
    ucxpool_status_t    status;

    status =
        bootstrap_client_connect(where, secret, "x", 1, TIMEOUT_NS, &client);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = loopback_meet(listener, client);
    if (status != UCXPOOL_OK) {
        ck_assert_str_ne(bootstrap_client_reason(client), "");
    }
    bootstrap_client_destroy(client);
    loopback_settle(listener);
    return status;
}

static void take_all(bootstrap_listener_t *listener)
{
    bootstrap_peer_t peer;

    while (bootstrap_listener_accept(listener, &peer) == UCXPOOL_OK) {
        ck_assert_int_eq(close(peer.fd), 0);
    }
}

TEST(failed_call_is_reported_and_retry_works)
{
    static const struct {
        net_call_t call;
        int        error;
    } cases[] = {
        {NET_CALL_CALLOC, ENOMEM},    {NET_CALL_EPOLL_CREATE1, EMFILE},
        {NET_CALL_SOCKET, EMFILE},    {NET_CALL_CONNECT, ENETUNREACH},
        {NET_CALL_EPOLL_CTL, ENOSPC}, {NET_CALL_RAND_BYTES, 0},
        {NET_CALL_SEND, ECONNRESET},  {NET_CALL_RECV, ECONNRESET},
        {NET_CALL_HMAC, 0},           {NET_CALL_GETSOCKOPT, ENOBUFS},
    };
    bootstrap_listener_t *listener = loopback_listener(secret);
    bootstrap_where_t     where = where_of(bootstrap_listener_port(listener));
    unsigned              num_fds;
    bool                  has_failed;
    ucxpool_status_t      status;

    assert_ok(connect_once(listener, &where));
    take_all(listener);
    num_fds = net_call_num_fds();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned n = 0;

        do {
            net_call_fail(cases[i].call, ++n, cases[i].error);
            status     = connect_once(listener, &where);
            has_failed = net_call_reset();
            /* An error of the listener can be harmless for the client: removing
             * a socket from the epoll set, for example. */
            if (!has_failed) {
                assert_ok(status);
            }
            take_all(listener);
            ck_assert_uint_eq(net_call_num_fds(), num_fds);
        } while (has_failed);
        ck_assert_uint_gt(n, 1);
    }
    bootstrap_listener_destroy(listener);
}

TEST(the_first_failing_call_is_named)
{
    uint16_t            port;
    int                 fd     = closed_port(&port);
    bootstrap_where_t   where  = where_of(port);
    bootstrap_client_t *client = NULL;

    net_call_fail(NET_CALL_SOCKET, 1, EMFILE);
    assert_error_detail(
        bootstrap_client_connect(&where, secret, "x", 1, TIMEOUT_NS, &client),
        IO, "Too many open files");
    net_call_fail(NET_CALL_CALLOC, 1, ENOMEM);
    assert_error(
        bootstrap_client_connect(&where, secret, "x", 1, TIMEOUT_NS, &client),
        NO_MEMORY);
    ck_assert_ptr_null(client);
    close(fd);
}
