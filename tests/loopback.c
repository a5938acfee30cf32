#include <config.h>

#include "loopback.h"
#include "test.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The limit for expected events. */
#define PATIENCE_MS 20000

base_secret_t *loopback_secret(const char *text)
{
    char           path[] = "/tmp/test_secret_XXXXXX";
    int            fd     = mkstemp(path);
    base_secret_t *secret;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    assert_ok(base_secret_read(path, &secret));
    unlink(path);
    return secret;
}

bootstrap_listener_params_t loopback_params(const base_secret_t *secret)
{
    static bootstrap_where_t    where;
    bootstrap_listener_params_t params = {
        .where                = &where,
        .secret               = secret,
        .blob                 = LOOPBACK_LISTENER_BLOB,
        .blob_length          = sizeof(LOOPBACK_LISTENER_BLOB),
        .max_half_open        = 8,
        .accept_queue         = LOOPBACK_QUEUE,
        .handshake_timeout_ns = LOOPBACK_TIMEOUT_NS,
    };

    assert_ok(
        bootstrap_where_resolve("127.0.0.1:0", BOOTSTRAP_WHERE_LISTEN, &where));
    return params;
}

bootstrap_listener_t *loopback_listener(const base_secret_t *secret)
{
    bootstrap_listener_params_t params = loopback_params(secret);
    bootstrap_listener_t       *listener;

    assert_ok(bootstrap_listener_create(&params, &listener));
    return listener;
}

bootstrap_client_t *loopback_client(const bootstrap_listener_t *listener,
                                    const base_secret_t        *secret)
{
    bootstrap_where_t   where;
    bootstrap_client_t *client;
    char                text[32];

    snprintf(text, sizeof(text), "127.0.0.1:%u",
             (unsigned)bootstrap_listener_port(listener));
    assert_ok(bootstrap_where_resolve(text, BOOTSTRAP_WHERE_CONNECT, &where));
    assert_ok(bootstrap_client_connect(&where, secret, LOOPBACK_CLIENT_BLOB,
                                       sizeof(LOOPBACK_CLIENT_BLOB),
                                       LOOPBACK_TIMEOUT_NS, &client));
    return client;
}

/* Until one is readable, or until the deadline. */
static void wait_until(int fd, int other_fd, uint64_t deadline)
{
    struct pollfd fds[] = {
        {.fd = fd, .events = POLLIN},
        {.fd = other_fd, .events = POLLIN},
    };
    uint64_t now     = base_clock_now();
    uint64_t wait_ms = (deadline > now) ? (deadline - now) / 1000000 + 1 : 0;
    bool     is_near = wait_ms < PATIENCE_MS;

    ck_assert_msg((poll(fds, 2, is_near ? (int)wait_ms : PATIENCE_MS) > 0) ||
                      is_near,
                  "nothing happens");
}

static void wait_for(int fd, int other_fd)
{
    wait_until(fd, other_fd, BASE_CLOCK_FOREVER);
}

void loopback_wait(int fd)
{
    wait_for(fd, -1);
}

ucxpool_status_t loopback_meet(bootstrap_listener_t *listener,
                               bootstrap_client_t   *client)
{
    ucxpool_status_t status;

    while ((status = bootstrap_client_progress(client)) == UCXPOOL_INPROGRESS) {
        if ((listener == NULL) ||
            (bootstrap_listener_progress(listener) == 0)) {
            wait_until(bootstrap_client_fd(client),
                       listener != NULL ? bootstrap_listener_fd(listener) : -1,
                       bootstrap_client_deadline(client));
        }
    }
    return status;
}

void loopback_settle(bootstrap_listener_t *listener)
{
    while (bootstrap_listener_progress(listener) > 0) {
    }
}

int loopback_connect(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family      = AF_INET,
        .sin_port        = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(
        connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

int loopback_bind(uint16_t *port_p)
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

int loopback_stranger(const bootstrap_listener_t *listener)
{
    return loopback_connect(bootstrap_listener_port(listener));
}

size_t loopback_read(bootstrap_listener_t *listener, int fd, void *bytes_p,
                     size_t length)
{
    size_t  offset = 0;
    ssize_t got;

    while (offset < length) {
        loopback_settle(listener);
        got = recv(fd, (char *)bytes_p + offset, length - offset, MSG_DONTWAIT);
        if (got > 0) {
            offset += (size_t)got;
        } else if ((got == 0) || (errno == ECONNRESET)) {
            break;
        } else {
            ck_assert_int_eq(errno, EAGAIN);
            wait_for(fd, bootstrap_listener_fd(listener));
        }
    }
    return offset;
}

void loopback_fork(loopback_child_t *child)
{
    char byte;

    ck_assert_int_eq(pipe(child->fds), 0);
    child->pid = fork();
    ck_assert_int_ge(child->pid, 0);
    if (child->pid == 0) {
        close(child->fds[1]);
        _exit(read(child->fds[0], &byte, 1) == 0 ? 0 : 1);
    }
}

void loopback_end_child(loopback_child_t *child)
{
    close(child->fds[0]);
    close(child->fds[1]);
    ck_assert_int_eq(waitpid(child->pid, NULL, 0), child->pid);
}
