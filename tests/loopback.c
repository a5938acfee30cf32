#include <config.h>

#include "loopback.h"

#include "base/clock.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long to wait for what must come. */
#define PATIENCE_MS 20000

xfer_secret_t *loopback_secret(const char *text)
{
    char           path[] = "/tmp/test_secret_XXXXXX";
    int            fd     = mkstemp(path);
    xfer_secret_t *secret;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    ck_assert_int_eq(xfer_secret_read(path, &secret), UCXPOOL_OK);
    unlink(path);
    return secret;
}

xfer_door_params_t loopback_params(const xfer_secret_t *secret)
{
    static xfer_where_t where;
    xfer_door_params_t  params = {
         .where                = &where,
         .secret               = secret,
         .blob                 = LOOPBACK_DOOR_BLOB,
         .blob_length          = sizeof(LOOPBACK_DOOR_BLOB),
         .max_half_open        = 8,
         .accept_queue         = LOOPBACK_QUEUE,
         .handshake_timeout_ns = 5000000000u,
    };

    ck_assert_int_eq(
        xfer_where_resolve("127.0.0.1:0", XFER_WHERE_LISTEN, &where),
        UCXPOOL_OK);
    return params;
}

xfer_door_t *loopback_door(const xfer_secret_t *secret)
{
    xfer_door_params_t params = loopback_params(secret);
    xfer_door_t       *door;

    ck_assert_int_eq(xfer_door_create(&params, &door), UCXPOOL_OK);
    return door;
}

xfer_greet_t *loopback_caller(const xfer_door_t   *door,
                              const xfer_secret_t *secret)
{
    xfer_where_t  where;
    xfer_greet_t *greet;
    char          text[32];

    snprintf(text, sizeof(text), "127.0.0.1:%u",
             (unsigned)xfer_door_port(door));
    ck_assert_int_eq(xfer_where_resolve(text, XFER_WHERE_CONNECT, &where),
                     UCXPOOL_OK);
    ck_assert_int_eq(xfer_greet_connect(&where, secret, LOOPBACK_CALLER_BLOB,
                                        sizeof(LOOPBACK_CALLER_BLOB),
                                        5000000000u, &greet),
                     UCXPOOL_OK);
    return greet;
}

static void wait_for(int fd, int other_fd)
{
    struct pollfd fds[] = {
        {.fd = fd, .events = POLLIN},
        {.fd = other_fd, .events = POLLIN},
    };

    ck_assert_msg(poll(fds, 2, PATIENCE_MS) > 0, "nothing happens");
}

void loopback_wait(int fd)
{
    wait_for(fd, -1);
}

ucxpool_status_t loopback_meet(xfer_door_t *door, xfer_greet_t *greet)
{
    ucxpool_status_t status;

    while ((status = xfer_greet_progress(greet)) == UCXPOOL_INPROGRESS) {
        if ((door == NULL) || (xfer_door_progress(door) == 0)) {
            wait_for(xfer_greet_fd(greet),
                     door != NULL ? xfer_door_fd(door) : -1);
        }
    }
    return status;
}

void loopback_settle(xfer_door_t *door)
{
    while (xfer_door_progress(door) > 0) {
    }
}

int loopback_stranger(const xfer_door_t *door)
{
    struct sockaddr_in address = {
        .sin_family      = AF_INET,
        .sin_port        = htons(xfer_door_port(door)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(
        connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

size_t loopback_read(xfer_door_t *door, int fd, void *bytes_p, size_t length)
{
    size_t  offset = 0;
    ssize_t got;

    while (offset < length) {
        loopback_settle(door);
        got = recv(fd, (char *)bytes_p + offset, length - offset, MSG_DONTWAIT);
        if (got > 0) {
            offset += (size_t)got;
        } else if ((got == 0) || (errno == ECONNRESET)) {
            break;
        } else {
            ck_assert_int_eq(errno, EAGAIN);
            wait_for(fd, xfer_door_fd(door));
        }
    }
    return offset;
}
