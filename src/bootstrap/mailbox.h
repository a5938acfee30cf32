/*
 * One message in, one message out, over a non-blocking stream socket. The
 * buffers are of fixed size and no byte beyond the asked-for ones is read.
 */
#ifndef BOOTSTRAP_MAILBOX_H
#define BOOTSTRAP_MAILBOX_H

#include "bootstrap/greeting.h"

typedef struct xfer_mailbox {
    int     fd;         /* borrowed */
    int     error;      /* errno behind a failure; 0: the peer hung up */
    size_t  in_length;  /* bytes that have come */
    size_t  out_length; /* bytes to send */
    size_t  out_offset; /* of them sent */
    size_t  num_dropped;
    uint8_t in[XFER_GREETING_MAX];
    uint8_t out[XFER_GREETING_MAX];
} xfer_mailbox_t;

void xfer_mailbox_init(xfer_mailbox_t *box, int fd);

/* Wipe the buffers. */
void xfer_mailbox_cleanup(xfer_mailbox_t *box);

/*
 * Send what is left of the message.
 *
 * UCXPOOL_OK             all of it is with the system
 * UCXPOOL_INPROGRESS     wait for the socket to be writable
 * UCXPOOL_ERR_PEER_LOST  the connection is gone
 * UCXPOOL_ERR_IO
 */
ucxpool_status_t xfer_mailbox_flush(xfer_mailbox_t *box);

bool xfer_mailbox_wants_send(const xfer_mailbox_t *box);

/* Read until `length` bytes have come in all. Answers as flush does. */
ucxpool_status_t xfer_mailbox_fill(xfer_mailbox_t *box, size_t length);

/* Read and forget until the peer hangs up, the connection fails or num_max
 * bytes have gone this way: then UCXPOOL_OK, else UCXPOOL_INPROGRESS. */
ucxpool_status_t xfer_mailbox_drop(xfer_mailbox_t *box, size_t num_max);

#endif
