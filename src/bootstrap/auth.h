/*
 * Authentication: the two ends of a connected stream socket prove to each other
 * that they have the same secret. docs/reference/protocol.md describes the
 * messages.
 *
 *     client                            listener
 *     HELLO         nonce         ->
 *                                 <-    CHALLENGE       nonce
 *     CLIENT_PROOF  mac, blob     ->
 *                                 <-    LISTENER_PROOF  mac, blob
 *
 * Instead of any of its messages, the listener may send REFUSE with a code and
 * a text. The header and the whole REFUSE message have the same layout in every
 * version of the protocol. A listener can therefore report a version mismatch.
 *
 * A blob is data from the caller for its peer, a few hundred bytes long. This
 * layer signs the blob but does not interpret it.
 *
 * The states of the two roles:
 *
 *     client:    CHALLENGE -> PROOF -> DONE
 *     listener:  HELLO -> PROOF -> ANSWER -> DONE
 *                  any of these -> DRAIN -> FAILED
 *     both:        any of these -> FAILED
 *
 * Calls do not block, do not allocate memory, and never read beyond the current
 * message. A listener that refuses a client sends the reason and shuts down its
 * side of the connection. Then it discards a bounded number of bytes until the
 * client closes the connection. If the listener closed the connection with
 * unread bytes, the connection would be reset, and the client might lose the
 * reason.
 *
 * Not thread-safe: only one thread at a time may use an authentication.
 */
#ifndef BOOTSTRAP_AUTH_H
#define BOOTSTRAP_AUTH_H

#include "base/secret.h"

#include <stdbool.h>
#include <stdint.h>

#define BOOTSTRAP_AUTH_VERSION        1
#define BOOTSTRAP_MESSAGE_HEADER_SIZE 12
#define BOOTSTRAP_NONCE_SIZE          32
#define BOOTSTRAP_MAC_SIZE            32 /* of an HMAC-SHA-256 */
#define BOOTSTRAP_BLOB_MAX            4096
#define BOOTSTRAP_REFUSE_TEXT_MAX     127

/* Size of the longest message, a proof with the largest blob. */
#define BOOTSTRAP_MESSAGE_MAX \
    (BOOTSTRAP_MESSAGE_HEADER_SIZE + BOOTSTRAP_MAC_SIZE + BOOTSTRAP_BLOB_MAX)

typedef enum bootstrap_message_type {
    BOOTSTRAP_MESSAGE_HELLO          = 1,
    BOOTSTRAP_MESSAGE_CHALLENGE      = 2,
    BOOTSTRAP_MESSAGE_CLIENT_PROOF   = 3,
    BOOTSTRAP_MESSAGE_LISTENER_PROOF = 4,
    BOOTSTRAP_MESSAGE_REFUSE         = 5
} bootstrap_message_type_t;

/* In the header of all messages except REFUSE: the sender has a secret. */
#define BOOTSTRAP_MESSAGE_FLAG_SECRET 0x01u

/* Follows 4 bytes that identify the protocol. */
typedef struct bootstrap_message_header {
    uint16_t version;
    uint8_t  type;
    uint8_t  flags;
    uint32_t length; /* bytes after the header */
} bootstrap_message_header_t;

/* The reason for a refusal, as sent to the client. */
typedef enum bootstrap_refusal {
    BOOTSTRAP_REFUSAL_OTHER   = 0,
    BOOTSTRAP_REFUSAL_VERSION = 1, /* another version of the protocol */
    BOOTSTRAP_REFUSAL_SECRET  = 2, /* no secret, or a different one */
    BOOTSTRAP_REFUSAL_FULL    = 3, /* too many peers are waiting: try again */
    BOOTSTRAP_REFUSAL_FORMAT  = 4  /* a message that breaks the protocol */
} bootstrap_refusal_t;

/* The signed data of one side. */
typedef struct bootstrap_auth_side {
    uint8_t     flags;
    uint8_t     nonce[BOOTSTRAP_NONCE_SIZE];
    const void *blob;
    uint32_t    blob_length; /* at most BOOTSTRAP_BLOB_MAX */
} bootstrap_auth_side_t;

/* --- the exchange --------------------------------------------------------- */

/* The current incoming and outgoing messages of a non-blocking socket. */
typedef struct bootstrap_auth_io {
    int fd;             /* owned by the caller */
    int error;          /* errno of a failure; 0: the peer has
                           closed the connection */
    size_t  in_length;  /* bytes received */
    size_t  out_length; /* bytes to send */
    size_t  out_offset; /* bytes sent */
    size_t  num_dropped;
    uint8_t in[BOOTSTRAP_MESSAGE_MAX];
    uint8_t out[BOOTSTRAP_MESSAGE_MAX];
} bootstrap_auth_io_t;

/* Size of the longest reason, including the terminating NUL. */
#define BOOTSTRAP_REASON_SIZE 256

/* Maximum number of bytes from a refused client that the listener discards
 * before it closes the connection. */
#define BOOTSTRAP_DRAIN_MAX 65536

typedef enum bootstrap_auth_state {
    BOOTSTRAP_AUTH_HELLO,     /* listener: waits for HELLO */
    BOOTSTRAP_AUTH_CHALLENGE, /* client: waits for CHALLENGE */
    BOOTSTRAP_AUTH_PROOF,     /* waits for the peer's proof */
    BOOTSTRAP_AUTH_ANSWER,    /* listener: the peer is authenticated; the
                                 listener's proof is being sent */
    BOOTSTRAP_AUTH_DRAIN,     /* listener: the refusal is being sent */
    BOOTSTRAP_AUTH_DONE,
    BOOTSTRAP_AUTH_FAILED
} bootstrap_auth_state_t;

/* The local side's data. Must outlive the exchange. */
typedef struct bootstrap_self {
    const base_secret_t *secret; /* NULL: no secret */
    void                *blob;
    size_t               blob_length; /* at most BOOTSTRAP_BLOB_MAX */
    /* Lets a listener change its blob for an authenticated client just before
     * the blob is sent. NULL: all clients get the same blob. */
    void (*fit_blob)(void *arg, void *blob, const void *client, size_t length);
    void *arg;
} bootstrap_self_t;

typedef struct bootstrap_auth {
    bool is_client;
    /* Set by a listener that has no room for another authenticated peer. */
    bool is_full;
    bool has_first_message; /* the first message has arrived */
    bootstrap_auth_state_t  state;
    const bootstrap_self_t *self;
    bootstrap_auth_side_t   client;
    bootstrap_auth_side_t   listener;
    ucxpool_status_t        status; /* the error, in FAILED and DRAIN */
    char                    reason[BOOTSTRAP_REASON_SIZE];
    bootstrap_auth_io_t     io;
} bootstrap_auth_t;

/*
 * Start an authentication. fd is a connected, non-blocking stream socket.
 *
 * UCXPOOL_ERR_IO  libcrypto cannot generate random numbers
 */
ucxpool_status_t bootstrap_auth_init(bootstrap_auth_t *auth, int fd,
                                     bool                    is_client,
                                     const bootstrap_self_t *self);

/* Wipe all data. The socket stays open. */
void bootstrap_auth_cleanup(bootstrap_auth_t *auth);

/*
 * Continue as far as possible without waiting.
 *
 * UCXPOOL_INPROGRESS      wait until the fd is readable, or writable if
 *                         bootstrap_auth_wants_send()
 * UCXPOOL_OK              both sides are authenticated; the listener has passed
 *                         its proof to the system
 * others                  failed; auth->reason has the reason. The error is
 *                         neither logged nor kept as the thread's last error
 *     UCXPOOL_ERR_PERMISSION  a side has no secret, or the secrets differ
 *     UCXPOOL_ERR_PROTOCOL    the peer has another version of the protocol, or
 *                             sent an invalid message
 *     UCXPOOL_ERR_LIMIT       the listener is full
 *     UCXPOOL_ERR_REFUSED     the listener refused for another reason
 *     UCXPOOL_ERR_PEER_LOST   the peer closed the connection, or it failed
 *     UCXPOOL_ERR_IO          the system or libcrypto failed
 */
ucxpool_status_t bootstrap_auth_progress(bootstrap_auth_t *auth);

bool bootstrap_auth_wants_send(const bootstrap_auth_t *auth);

/* Returns the peer's blob. Valid after a success and until cleanup. */
const void *bootstrap_auth_blob(const bootstrap_auth_t *auth, size_t *length_p);

/* --- refusal without an exchange, and closing ----------------------------- */

/* Send a REFUSE with BOOTSTRAP_REFUSAL_FULL, after which the client may try
 * again. The caller then closes the connection. */
void bootstrap_refuse_full(int fd, const char *text);

/* The reason for which an authenticated peer closes the connection. The peer
 * sends the reason as one byte: see docs/reference/protocol.md. */
typedef enum bootstrap_close {
    BOOTSTRAP_CLOSE_NONE   = 0, /* not sent: the process has ended */
    BOOTSTRAP_CLOSE_CLOSED = 1,
    BOOTSTRAP_CLOSE_FAILED = 2,
    BOOTSTRAP_CLOSE_SPARE  = 3 /* not needed: the channel uses `map` */
} bootstrap_close_t;

/* Send the reason, unless the send buffer is full, and shut down the
 * connection. Closing the fd alone is not enough: a copy in a forked child
 * would keep the connection open. */
void bootstrap_close_notify(int fd, bootstrap_close_t reason);

#endif
