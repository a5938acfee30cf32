/* The client of a listener: connecting, timeouts and errors. */
#include <config.h>

#include "loopback.h"
#include "fds.h"
#include "net_calls.h"
#include "test.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#include <ucxpool/ucxpool.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The timeout that loopback_client() sets. */
#define TIMEOUT_NS LOOPBACK_TIMEOUT_NS

static base_secret_t        *secret;
static bootstrap_listener_t *listener; /* NULL: none */
static bootstrap_client_t   *client;   /* NULL: none */
static int                   fd;       /* a socket of the test, or -1 */
static bootstrap_where_t     where;    /* that the client connects to */

static void setup(void)
{
    base_log_set_level(BASE_LOG_NONE);
    secret   = loopback_secret("a secret of at least 16 bytes\n");
    listener = NULL;
    client   = NULL;
    fd       = -1;
}

static void teardown(void)
{
    net_call_reset();
    bootstrap_client_destroy(client);
    bootstrap_listener_destroy(listener);
    base_secret_put(secret);
    if (fd >= 0) {
        close(fd);
    }
}

static bootstrap_where_t where_of(uint16_t port)
{
    bootstrap_where_t at;
    char              text[32];

    snprintf(text, sizeof(text), "127.0.0.1:%u", (unsigned)port);
    assert_ok(bootstrap_where_resolve(text, BOOTSTRAP_WHERE_CONNECT, &at));
    return at;
}

static bootstrap_client_t *call(void)
{
    bootstrap_client_t *made;

    assert_ok(
        bootstrap_client_connect(&where, secret, "x", 1, TIMEOUT_NS, &made));
    return made;
}

/* Connect to a port without a listener: the socket is bound and does not
 * listen. */
static void use_closed_port(void)
{
    uint16_t port;

    fd    = loopback_bind(&port);
    where = where_of(port);
}

/* Connect to a listener of the test, which can send anything. */
static void use_own_listener(int backlog)
{
    use_closed_port();
    ck_assert_int_eq(listen(fd, backlog), 0);
}

/* Connect to a pool's listener if the addresses before it fail. */
static void add_listener(void)
{
    listener = loopback_listener(secret);
    where.addresses[where.num_addresses++] =
        where_of(bootstrap_listener_port(listener)).addresses[0];
}

/* Accept the client's connection. */
static int accept_client(void)
{
    int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

    ck_assert_int_ge(peer, 0);
    return peer;
}

/* Drive the client until it has sent all it can for now. */
static void advance(void)
{
    struct pollfd event = {.fd = bootstrap_client_fd(client), .events = POLLIN};

    while (poll(&event, 1, 0) > 0) {
        ck_assert_int_eq(bootstrap_client_progress(client), UCXPOOL_INPROGRESS);
    }
}

TEST_SETTINGS(.setup = setup, .teardown = teardown, .timeout = 60);

TEST(port_without_a_listener_is_reported)
{
    use_closed_port();
    client = call();
    assert_error(loopback_meet(NULL, client), PEER_LOST);
    assert_detail("Connection refused");
    assert_detail(where.text);
    assert_error(bootstrap_client_progress(client), PEER_LOST);
    ck_assert_uint_eq(bootstrap_client_deadline(client), BASE_CLOCK_FOREVER);
}

TEST(failed_address_falls_back_to_the_next)
{
    int client_fd;

    use_closed_port();
    add_listener();
    client    = call();
    client_fd = bootstrap_client_fd(client);
    assert_ok(loopback_meet(listener, client));
    ck_assert_int_eq(bootstrap_client_fd(client), client_fd);
}

TEST(client_connects_over_ipv6)
{
    bootstrap_listener_params_t params = loopback_params(secret);

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
    client = call();
    assert_ok(loopback_meet(listener, client));
}

TEST(silent_listener_times_out)
{
    uint64_t begin = base_clock_now();

    use_own_listener(4);
    client = call();
    ck_assert_uint_ge(bootstrap_client_deadline(client), begin + TIMEOUT_NS);
    ck_assert_uint_le(bootstrap_client_deadline(client),
                      base_clock_now() + TIMEOUT_NS);
    loopback_wait(bootstrap_client_fd(client));
    advance();
    net_call_skip(TIMEOUT_NS);
    assert_error(bootstrap_client_progress(client), TIMED_OUT);
    assert_detail("no answer in time");
}

/* A listener whose queue is full: the kernel accepts one or two connections for
 * this backlog and ignores further ones. */
#define NUM_OTHERS 4
static bootstrap_client_t *others[NUM_OTHERS];

static void use_full_queue(void)
{
    use_own_listener(0);
    for (int i = 0; i < NUM_OTHERS; i++) {
        others[i] = call();
    }
}

static void destroy_others(void)
{
    for (int i = 0; i < NUM_OTHERS; i++) {
        bootstrap_client_destroy(others[i]);
    }
}

TEST(unfinished_tcp_connect_times_out)
{
    use_full_queue();
    client = call();
    ck_assert_int_eq(bootstrap_client_progress(client), UCXPOOL_INPROGRESS);
    net_call_skip(TIMEOUT_NS);
    assert_error(bootstrap_client_progress(client), TIMED_OUT);
    assert_detail("not connected");
    destroy_others();
}

/* The first address does not answer. The wait for it must not use up the time
 * of the second one. */
TEST(silent_address_falls_back_to_the_next)
{
    use_full_queue();
    add_listener();
    client = call();
    ck_assert_uint_le(bootstrap_client_deadline(client),
                      base_clock_now() + TIMEOUT_NS / 2);
    ck_assert_int_eq(bootstrap_client_progress(client), UCXPOOL_INPROGRESS);
    net_call_skip(TIMEOUT_NS / 2);
    assert_ok(loopback_meet(listener, client));
    destroy_others();
}

/* A forked child holds a copy of the socket that failed. */
TEST(a_forked_child_does_not_confuse_the_client)
{
    int               closed_fd;
    bootstrap_where_t closed;
    struct pollfd     event = {.events = POLLIN};
    loopback_child_t  child;

    use_closed_port();
    closed    = where;
    closed_fd = fd;
    use_own_listener(4);
    closed.addresses[closed.num_addresses++] = where.addresses[0];
    where                                    = closed;
    client                                   = call();
    loopback_fork(&child);
    /* The first address fails, the second one gets the HELLO. */
    for (int i = 0; i < 2; i++) {
        loopback_wait(bootstrap_client_fd(client));
        ck_assert_int_eq(bootstrap_client_progress(client), UCXPOOL_INPROGRESS);
    }
    event.fd = bootstrap_client_fd(client);
    ck_assert_int_eq(poll(&event, 1, 0), 0);
    loopback_end_child(&child);
    close(closed_fd);
}

TEST(without_a_timeout_the_client_keeps_waiting)
{
    use_own_listener(4);
    assert_ok(bootstrap_client_connect(&where, secret, NULL, 0,
                                       BASE_CLOCK_FOREVER, &client));
    ck_assert_uint_eq(bootstrap_client_deadline(client), BASE_CLOCK_FOREVER);
    net_call_skip(100 * (uint64_t)TIMEOUT_NS);
    ck_assert_int_eq(bootstrap_client_progress(client), UCXPOOL_INPROGRESS);
}

TEST(closing_listener_is_reported_lost)
{
    use_own_listener(4);
    client = call();
    close(accept_client());
    assert_error(loopback_meet(NULL, client), PEER_LOST);
    assert_detail(where.text);
}

/* Accept the client's connection, and reset it. */
static void reset_connection(void)
{
    struct linger at_once = {.l_onoff = 1};
    int           peer    = accept_client();

    ck_assert_int_eq(
        setsockopt(peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    close(peer);
}

/* A kernel with a full accept queue does this, before or after the client's
 * HELLO. */
TEST(client_retries_after_a_connection_reset)
{
    struct pollfd again = {.events = POLLIN};

    use_own_listener(4);
    client   = call();
    again.fd = fd;
    for (int i = 0; i < 4; i++) {
        if (i % 2 == 0) {
            advance();
        }
        reset_connection();
        while (poll(&again, 1, 0) == 0) {
            ck_assert_int_eq(bootstrap_client_progress(client),
                             UCXPOOL_INPROGRESS);
            net_call_skip(10000000);
        }
    }
    reset_connection();
    loopback_wait(bootstrap_client_fd(client));
    ck_assert_int_eq(bootstrap_client_progress(client), UCXPOOL_INPROGRESS);
    net_call_skip(TIMEOUT_NS);
    assert_error(loopback_meet(NULL, client), PEER_LOST);
    assert_detail("reset");
}

TEST(blob_that_is_too_long_is_rejected)
{
    static uint8_t bytes[BOOTSTRAP_BLOB_MAX + 1];

    where = where_of(7);
    assert_error(bootstrap_client_connect(&where, secret, bytes, sizeof(bytes),
                                          TIMEOUT_NS, &client),
                 INVALID_PARAM);
}

TEST(cleanup_in_mid_handshake_leaks_nothing)
{
    unsigned num_fds = fds_count();

    listener = loopback_listener(secret);
    for (unsigned num_steps = 0; num_steps < 4; num_steps++) {
        client = loopback_client(listener, secret);
        for (unsigned i = 0; i < num_steps; i++) {
            loopback_settle(listener);
            ck_assert_int_ge(bootstrap_client_progress(client), 0);
        }
        bootstrap_client_destroy(client);
        loopback_settle(listener);
    }
    client = NULL;
    bootstrap_client_destroy(NULL);
    bootstrap_listener_destroy(listener);
    listener = NULL;
    ck_assert_uint_eq(fds_count(), num_fds);
}

/* One complete authentication. Returns its status, or that of connect if
 * connect failed. The listener's status does not count. */
static ucxpool_status_t connect_once(void)
{
    ucxpool_status_t status;

    status =
        bootstrap_client_connect(&where, secret, "x", 1, TIMEOUT_NS, &client);
    if (status != UCXPOOL_OK) {
        return status;
    }
    (void)base_error(UCXPOOL_OK, "%s", ""); /* forget earlier errors */
    status = loopback_meet(listener, client);
    if (status != UCXPOOL_OK) {
        ck_assert_str_ne(ucxpool_error_detail(), "");
    }
    bootstrap_client_destroy(client);
    client = NULL;
    loopback_settle(listener);
    return status;
}

static void take_all(void)
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
    unsigned         num_fds;
    bool             has_failed;
    ucxpool_status_t status;

    listener = loopback_listener(secret);
    where    = where_of(bootstrap_listener_port(listener));
    assert_ok(connect_once());
    take_all();
    num_fds = fds_count();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned n = 0;

        do {
            net_call_fail(cases[i].call, ++n, cases[i].error);
            status     = connect_once();
            has_failed = net_call_reset();
            /* An error of the listener can be harmless for the client: removing
             * a socket from the epoll set, for example. */
            if (!has_failed) {
                assert_ok(status);
            }
            take_all();
            ck_assert_uint_eq(fds_count(), num_fds);
        } while (has_failed);
        ck_assert_uint_gt(n, 1);
    }
}

TEST(the_first_failing_call_is_named)
{
    use_closed_port();
    net_call_fail(NET_CALL_SOCKET, 1, EMFILE);
    assert_error_detail(
        bootstrap_client_connect(&where, secret, "x", 1, TIMEOUT_NS, &client),
        IO, "Too many open files");
    net_call_fail(NET_CALL_CALLOC, 1, ENOMEM);
    assert_error(
        bootstrap_client_connect(&where, secret, "x", 1, TIMEOUT_NS, &client),
        NO_MEMORY);
    ck_assert_ptr_null(client);
}
