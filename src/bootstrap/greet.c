#include <config.h>

#include "bootstrap/greet.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/math.h"
#include "bootstrap/handshake.h"
#include "bootstrap/last_word.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct xfer_greet {
    xfer_where_t     where;
    xfer_self_t      self;
    int              epoll_fd;
    int              fd; /* -1 between two addresses and after the end */
    size_t           address_index;
    bool             is_connected;
    xfer_ends_t      ends;
    int              error; /* errno of the last address that failed */
    uint64_t         deadline;
    ucxpool_status_t status;
    char             reason[BASE_ERROR_SIZE];
    xfer_handshake_t handshake;
    uint8_t          blob[XFER_BLOB_MAX];
};

int xfer_greet_take_fd(xfer_greet_t *greet)
{
    int fd = greet->fd;

    if (fd >= 0) {
        /* A forked child may hold a copy, which would stay in the epoll. */
        (void)epoll_ctl(greet->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        greet->fd = -1;
    }
    return fd;
}

static void hang_up(xfer_greet_t *greet)
{
    int fd = xfer_greet_take_fd(greet);

    if (fd >= 0) {
        close(fd);
    }
}

/* The end; status and the thread's last error are kept. */
static ucxpool_status_t finish(xfer_greet_t *greet, ucxpool_status_t status)
{
    greet->status = status;
    if (status != UCXPOOL_OK) {
        hang_up(greet);
        snprintf(greet->reason, sizeof(greet->reason), "%s",
                 ucxpool_error_detail());
    }
    return status;
}

/* --- connecting ----------------------------------------------------------- */

static bool watch(xfer_greet_t *greet, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events};

    return epoll_ctl(greet->epoll_fd, operation, greet->fd, &event) == 0;
}

/* Errors come back in errno. */
static bool dial(xfer_greet_t *greet, const xfer_address_t *address)
{
    int one = 1;

    greet->fd = socket(address->any.sa_family,
                       SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (greet->fd < 0) {
        return false;
    }
    /* Without it the greeting only takes longer. */
    (void)setsockopt(greet->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if ((connect(greet->fd, &address->any, address->length) != 0) &&
        (errno != EINPROGRESS)) {
        return false;
    }
    return watch(greet, EPOLL_CTL_ADD, EPOLLOUT);
}

/* Begin with the next address that can be begun with. */
static ucxpool_status_t dial_next(xfer_greet_t *greet)
{
    while (greet->address_index < greet->where.num_addresses) {
        if (dial(greet, &greet->where.addresses[greet->address_index++])) {
            return UCXPOOL_OK;
        }
        greet->error = errno;
        hang_up(greet);
    }
    return base_error_errno(greet->error,
                            "cannot connect to %s, see that a pool listens "
                            "there",
                            greet->where.text);
}

/* Whether the connection stands: OK, INPROGRESS, or an error. */
static ucxpool_status_t check_connected(xfer_greet_t *greet)
{
    struct epoll_event event;
    socklen_t          length = sizeof(int);
    int                error  = 0;

    if (epoll_wait(greet->epoll_fd, &event, 1, 0) <= 0) {
        return UCXPOOL_INPROGRESS;
    }
    if (getsockopt(greet->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
        error = errno;
    }
    if (error == 0) {
        return UCXPOOL_OK;
    }
    greet->error = error;
    hang_up(greet);
    return dial_next(greet) == UCXPOOL_OK
               ? UCXPOOL_INPROGRESS
               : finish(greet, UCXPOOL_ERR_PEER_LOST);
}

/* --- greeting ------------------------------------------------------------- */

static ucxpool_status_t begin_handshake(xfer_greet_t *greet)
{
    ucxpool_status_t status;

    status =
        xfer_handshake_init(&greet->handshake, greet->fd, true, &greet->self);
    if (status != UCXPOOL_OK) {
        return finish(greet,
                      base_error(status, "cannot greet %s: %s",
                                 greet->where.text, greet->handshake.reason));
    }
    greet->is_connected = true;
    xfer_address_format_own(greet->fd, greet->ends.local);
    xfer_address_format(&greet->where.addresses[greet->address_index - 1],
                        greet->ends.remote);
    return UCXPOOL_OK;
}

static ucxpool_status_t go_on(xfer_greet_t *greet)
{
    ucxpool_status_t status     = xfer_handshake_progress(&greet->handshake);
    bool             wants_send = xfer_handshake_wants_send(&greet->handshake);

    if (status == UCXPOOL_OK) {
        return finish(greet, UCXPOOL_OK);
    }
    if (status != UCXPOOL_INPROGRESS) {
        return finish(greet, base_error(status, "%s: %s", greet->where.text,
                                        greet->handshake.reason));
    }
    if (!watch(greet, EPOLL_CTL_MOD, wants_send ? EPOLLOUT : EPOLLIN)) {
        return finish(greet, base_error_errno(errno,
                                              "cannot watch the connection to "
                                              "%s",
                                              greet->where.text));
    }
    return UCXPOOL_INPROGRESS;
}

static ucxpool_status_t advance(xfer_greet_t *greet)
{
    ucxpool_status_t status;

    if (!greet->is_connected) {
        status = check_connected(greet);
        if (status != UCXPOOL_OK) {
            return status;
        }
        status = begin_handshake(greet);
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    return go_on(greet);
}

ucxpool_status_t xfer_greet_progress(xfer_greet_t *greet)
{
    ucxpool_status_t status = greet->status;

    if (status == UCXPOOL_INPROGRESS) {
        status = advance(greet);
    }
    if ((status == UCXPOOL_INPROGRESS) &&
        (greet->deadline != BASE_CLOCK_FOREVER) &&
        (base_clock_now() >= greet->deadline)) {
        status =
            finish(greet, base_error(UCXPOOL_ERR_TIMED_OUT,
                                     "%s: no answer in time (%s): see that a "
                                     "pool listens there, or raise "
                                     "HANDSHAKE_TIMEOUT",
                                     greet->where.text,
                                     greet->is_connected ? "it took the "
                                                           "connection"
                                                         : "not connected"));
    }
    return status;
}

/* --- begin and end -------------------------------------------------------- */

static void init(xfer_greet_t *greet, const xfer_where_t *where,
                 const xfer_secret_t *secret, const void *blob, size_t length)
{
    greet->where            = *where;
    greet->fd               = -1;
    greet->status           = UCXPOOL_INPROGRESS;
    greet->self.secret      = secret;
    greet->self.blob        = greet->blob;
    greet->self.blob_length = length;
    if (length > 0) {
        memcpy(greet->blob, blob, length);
    }
}

ucxpool_status_t xfer_greet_connect(const xfer_where_t  *where,
                                    const xfer_secret_t *secret,
                                    const void *blob, size_t blob_length,
                                    uint64_t timeout_ns, xfer_greet_t **greet_p)
{
    ucxpool_status_t status;
    xfer_greet_t    *greet;

    if (blob_length > XFER_BLOB_MAX) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%zu bytes to greet %s with are more than %d",
                          blob_length, where->text, XFER_BLOB_MAX);
    }
    greet = calloc(1, sizeof(*greet));
    if (greet == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory to greet %s",
                          where->text);
    }
    init(greet, where, secret, blob, blob_length);
    greet->deadline = base_clock_deadline(timeout_ns);
    greet->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (greet->epoll_fd < 0) {
        status = base_error_errno(errno, "cannot watch a connection to %s",
                                  where->text);
        goto err_free_greet;
    }
    status = dial_next(greet);
    if (status != UCXPOOL_OK) {
        goto err_close_epoll;
    }
    *greet_p = greet;
    return UCXPOOL_OK;

err_close_epoll:
    close(greet->epoll_fd);
err_free_greet:
    free(greet);
    return status;
}

/* Has the listener all that it needs to make a channel? */
static bool may_be_proven(const xfer_greet_t *greet)
{
    return (greet->fd >= 0) && greet->is_connected &&
           (greet->handshake.state >= XFER_HANDSHAKE_PROOF) &&
           !xfer_handshake_wants_send(&greet->handshake);
}

void xfer_greet_destroy(xfer_greet_t *greet)
{
    if (greet == NULL) {
        return;
    }
    if (may_be_proven(greet)) {
        xfer_last_word_say(greet->fd, XFER_LAST_WORD_CLOSED);
    }
    hang_up(greet);
    close(greet->epoll_fd);
    free(greet);
}

int xfer_greet_fd(const xfer_greet_t *greet)
{
    return greet->epoll_fd;
}

uint64_t xfer_greet_deadline(const xfer_greet_t *greet)
{
    return greet->status == UCXPOOL_INPROGRESS ? greet->deadline
                                               : BASE_CLOCK_FOREVER;
}

const char *xfer_greet_reason(const xfer_greet_t *greet)
{
    return greet->reason;
}

const xfer_ends_t *xfer_greet_ends(const xfer_greet_t *greet)
{
    return &greet->ends;
}

void xfer_greet_peer(const xfer_greet_t *greet, const void **blob_p,
                     size_t *length_p)
{
    *blob_p = xfer_handshake_blob(&greet->handshake, length_p);
}
