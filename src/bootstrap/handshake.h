/*
 * One greeting in progress over a connected stream socket, in either role.
 *
 *     caller:    CHALLENGE -> PROOF -> DONE
 *     listener:  GREET -> PROOF -> ANSWER -> DONE
 *                  any of these -> DRAIN -> FAILED
 *     both:        any of these -> FAILED
 *
 * It never blocks, allocates nothing, and reads no byte beyond the message at
 * hand. A refusing listener sends its reason, ends its side of the connection
 * and throws away a bounded number of bytes until the caller has hung up:
 * closing with unread bytes would reset the connection, and the caller might
 * lose the reason.
 *
 * No thread safety: one handshake, one caller at a time.
 */
#ifndef BOOTSTRAP_HANDSHAKE_H
#define BOOTSTRAP_HANDSHAKE_H

#include "bootstrap/mailbox.h"

/* Bytes of the longest reason, the final 0 included. */
#define XFER_REASON_SIZE 256

/* Bytes of a refused caller that are thrown away before we hang up. */
#define XFER_DRAIN_MAX 65536

typedef enum xfer_handshake_state {
    XFER_HANDSHAKE_GREET,     /* listener: the greeting is awaited */
    XFER_HANDSHAKE_CHALLENGE, /* caller: the challenge is awaited */
    XFER_HANDSHAKE_PROOF,     /* the peer's proof is awaited */
    XFER_HANDSHAKE_ANSWER,    /* listener: the peer is proven, our proof is
                                 on its way */
    XFER_HANDSHAKE_DRAIN,     /* listener: the refusal is on its way */
    XFER_HANDSHAKE_DONE,
    XFER_HANDSHAKE_FAILED
} xfer_handshake_state_t;

/* What we bring along. Lives longer than the handshake. */
typedef struct xfer_self {
    const xfer_secret_t *secret; /* NULL: none */
    const void          *blob;
    size_t               blob_length; /* at most XFER_BLOB_MAX */
    /* A listener may change the contents of its blob for a proven caller, just
     * before it is sent. NULL: it is the same for all. */
    void (*fit_blob)(void *arg, const void *caller, size_t length);
    void *arg;
} xfer_self_t;

typedef struct xfer_handshake {
    bool is_caller;
    /* Set by a listener that has no room for one more proven peer. */
    bool                   is_full;
    xfer_handshake_state_t state;
    const xfer_secret_t   *secret;
    const xfer_self_t     *self;
    xfer_greeting_side_t   caller;
    xfer_greeting_side_t   listener;
    ucxpool_status_t       status; /* once FAILED, or why in DRAIN */
    char                   reason[XFER_REASON_SIZE];
    xfer_mailbox_t         box;
} xfer_handshake_t;

/*
 * Begin. fd is a connected, non-blocking stream socket.
 *
 * UCXPOOL_ERR_IO  no random numbers
 */
ucxpool_status_t xfer_handshake_init(xfer_handshake_t *handshake, int fd,
                                     bool is_caller, const xfer_self_t *self);

/* Forget everything. The fd stays open. */
void xfer_handshake_cleanup(xfer_handshake_t *handshake);

/*
 * Go on as far as possible without waiting.
 *
 * UCXPOOL_INPROGRESS      wait for the fd to be readable, or writable if
 *                         xfer_handshake_wants_send()
 * UCXPOOL_OK              both sides are proven; for the listener, its proof
 *                         has been handed to the system
 * others                  it failed; handshake->reason says why. The error is
 *                         neither logged nor kept as the thread's last one
 *     UCXPOOL_ERR_PERMISSION  a side has no secret, or another one
 *     UCXPOOL_ERR_PROTOCOL    another version, or nonsense
 *     UCXPOOL_ERR_LIMIT       the listener is full
 *     UCXPOOL_ERR_REFUSED     the listener said no for another reason
 *     UCXPOOL_ERR_PEER_LOST   the peer hung up
 *     UCXPOOL_ERR_IO          the system or libcrypto failed
 */
ucxpool_status_t xfer_handshake_progress(xfer_handshake_t *handshake);

bool xfer_handshake_wants_send(const xfer_handshake_t *handshake);

/* The peer's blob; valid once done, until cleanup. */
const void *xfer_handshake_blob(const xfer_handshake_t *handshake,
                                size_t                 *length_p);

#endif
