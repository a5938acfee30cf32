#include <config.h>

#include "bootstrap/mailbox.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <sys/socket.h>

void xfer_mailbox_init(xfer_mailbox_t *box, int fd)
{
    box->fd          = fd;
    box->error       = 0;
    box->in_length   = 0;
    box->out_length  = 0;
    box->out_offset  = 0;
    box->num_dropped = 0;
}

void xfer_mailbox_cleanup(xfer_mailbox_t *box)
{
    OPENSSL_cleanse(box->in, sizeof(box->in));
    OPENSSL_cleanse(box->out, sizeof(box->out));
    xfer_mailbox_init(box, -1);
}

bool xfer_mailbox_wants_send(const xfer_mailbox_t *box)
{
    return box->out_offset < box->out_length;
}

/* What errno means after a call that moved nothing; OK: call again. */
static ucxpool_status_t errno_status(xfer_mailbox_t *box)
{
    switch (errno) {
    case EINTR:
        return UCXPOOL_OK;
    case EAGAIN:
#if EAGAIN != EWOULDBLOCK
    case EWOULDBLOCK:
#endif
        return UCXPOOL_INPROGRESS;
    case EPIPE:
    case ECONNRESET:
    case ECONNREFUSED:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
        box->error = errno;
        return UCXPOOL_ERR_PEER_LOST;
    default:
        box->error = errno;
        return UCXPOOL_ERR_IO;
    }
}

ucxpool_status_t xfer_mailbox_flush(xfer_mailbox_t *box)
{
    ucxpool_status_t status = UCXPOOL_OK;
    ssize_t          length;

    while ((status == UCXPOOL_OK) && xfer_mailbox_wants_send(box)) {
        length = send(box->fd, box->out + box->out_offset,
                      box->out_length - box->out_offset,
                      MSG_NOSIGNAL | MSG_DONTWAIT);
        if (length >= 0) {
            box->out_offset += (size_t)length;
        } else {
            status = errno_status(box);
        }
    }
    return status;
}

ucxpool_status_t xfer_mailbox_fill(xfer_mailbox_t *box, size_t length)
{
    ucxpool_status_t status = UCXPOOL_OK;
    ssize_t          received;

    assert(length <= sizeof(box->in));
    while ((status == UCXPOOL_OK) && (box->in_length < length)) {
        received = recv(box->fd, box->in + box->in_length,
                        length - box->in_length, MSG_DONTWAIT);
        if (received > 0) {
            box->in_length += (size_t)received;
        } else if (received == 0) {
            box->error = 0;
            status     = UCXPOOL_ERR_PEER_LOST;
        } else {
            status = errno_status(box);
        }
    }
    return status;
}

ucxpool_status_t xfer_mailbox_drop(xfer_mailbox_t *box, size_t num_max)
{
    ucxpool_status_t status = UCXPOOL_OK;
    ssize_t          length = 1;

    while ((status == UCXPOOL_OK) && (length != 0) &&
           (box->num_dropped < num_max)) {
        length = recv(box->fd, box->in, sizeof(box->in), MSG_DONTWAIT);
        if (length > 0) {
            box->num_dropped += (size_t)length;
        } else if (length < 0) {
            status = errno_status(box);
        }
    }
    return status == UCXPOOL_INPROGRESS ? status : UCXPOOL_OK;
}
