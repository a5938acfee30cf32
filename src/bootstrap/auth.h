/*
 * Authentication: two strangers at the ends of a connected stream socket prove
 * to each other that they know the same secret. docs/reference/protocol.md
 * draws the messages.
 *
 *     client                            listener
 *     HELLO         nonce         ->
 *                                 <-    CHALLENGE       nonce
 *     CLIENT_PROOF  mac, blob     ->
 *                                 <-    LISTENER_PROOF  mac, blob
 *
 * In place of any of its messages the listener may send REFUSE with a code and
 * words. The header, and REFUSE as a whole, are the same in every version of
 * the protocol, so that two versions can tell each other so.
 *
 * A blob is what the user of this layer wants its peer to have, some hundred
 * bytes; it is signed and not read here.
 *
 * The states of the two roles:
 *
 *     client:    CHALLENGE -> PROOF -> DONE
 *     listener:  HELLO -> PROOF -> ANSWER -> DONE
 *                  any of these -> DRAIN -> FAILED
 *     both:        any of these -> FAILED
 *
 * It never blocks, allocates nothing, and reads no byte beyond the message at
 * hand. A refusing listener sends its reason, ends its side of the connection
 * and throws away a bounded number of bytes until the client has hung up:
 * closing with unread bytes would reset the connection, and the client might
 * lose the reason.
 *
 * No thread safety: one authentication is used by one thread at a time.
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

/* Bytes of the longest message, a proof with the largest blob. */
#define BOOTSTRAP_MESSAGE_MAX \
    (BOOTSTRAP_MESSAGE_HEADER_SIZE + BOOTSTRAP_MAC_SIZE + BOOTSTRAP_BLOB_MAX)

typedef enum bootstrap_message_type {
    BOOTSTRAP_MESSAGE_HELLO          = 1,
    BOOTSTRAP_MESSAGE_CHALLENGE      = 2,
    BOOTSTRAP_MESSAGE_CLIENT_PROOF   = 3,
    BOOTSTRAP_MESSAGE_LISTENER_PROOF = 4,
    BOOTSTRAP_MESSAGE_REFUSE         = 5
} bootstrap_message_type_t;

/* In the header of all messages but REFUSE: the sender has a secret. */
#define BOOTSTRAP_MESSAGE_FLAG_SECRET 0x01u

typedef struct bootstrap_message_header {
    uint16_t version;
    uint8_t  type;
    uint8_t  flags;
    uint32_t length; /* bytes that follow the header */
} bootstrap_message_header_t;

/* Why a listener refuses, as sent. */
typedef enum bootstrap_refusal {
    BOOTSTRAP_REFUSAL_OTHER   = 0,
    BOOTSTRAP_REFUSAL_VERSION = 1, /* another version of the protocol */
    BOOTSTRAP_REFUSAL_SECRET  = 2, /* no secret, or another one */
    BOOTSTRAP_REFUSAL_FULL    = 3, /* too many peers wait: try again */
    BOOTSTRAP_REFUSAL_FORMAT  = 4  /* a message that breaks the protocol */
} bootstrap_refusal_t;

void bootstrap_message_pack_header(
    const bootstrap_message_header_t *header,
    uint8_t                           bytes_p[BOOTSTRAP_MESSAGE_HEADER_SIZE]);

/* False: these bytes do not begin a message of a pool. */
bool bootstrap_message_unpack_header(
    const uint8_t               bytes[BOOTSTRAP_MESSAGE_HEADER_SIZE],
    bootstrap_message_header_t *header_p);

/* Whether a message of this type may have this many bytes after its header. */
bool bootstrap_message_length_fits(uint8_t type, uint32_t length);

/* Make a whole REFUSE message; a longer text is cut. Returns its bytes. */
size_t bootstrap_message_pack_refuse(bootstrap_refusal_t code, const char *text,
                                     uint8_t bytes_p[BOOTSTRAP_MESSAGE_MAX]);

/* Read what follows the header of a REFUSE. Its text is not trusted: what is
 * not printable ASCII becomes '?'. */
bootstrap_refusal_t
bootstrap_message_unpack_refuse(const uint8_t *bytes, uint32_t length,
                                char text_p[BOOTSTRAP_REFUSE_TEXT_MAX + 1]);

/* The status that stands for a refusal. */
ucxpool_status_t bootstrap_refusal_status(bootstrap_refusal_t code);

/* One side's share in what is signed. */
typedef struct bootstrap_auth_side {
    uint8_t     flags;
    uint8_t     nonce[BOOTSTRAP_NONCE_SIZE];
    const void *blob;
    uint32_t    blob_length; /* at most BOOTSTRAP_BLOB_MAX */
} bootstrap_auth_side_t;

/* HMAC-SHA-256 of some bytes; without a secret (NULL) the key is empty. */
ucxpool_status_t bootstrap_auth_sign(const base_secret_t *secret,
                                     const void *data, size_t length,
                                     uint8_t mac_p[BOOTSTRAP_MAC_SIZE]);

/*
 * The proof of the client or of the listener (type says whose). The client's
 * signs both flags and nonces and its own blob, the listener's both blobs. The
 * two differ in their first bytes, so that neither can be sent back as the
 * other.
 */
ucxpool_status_t bootstrap_auth_prove(bootstrap_message_type_t     type,
                                      const base_secret_t         *secret,
                                      const bootstrap_auth_side_t *client,
                                      const bootstrap_auth_side_t *listener,
                                      uint8_t mac_p[BOOTSTRAP_MAC_SIZE]);

/* --- the exchange --------------------------------------------------------- */

/* One message in, one message out, over a non-blocking socket. */
typedef struct bootstrap_auth_io {
    int     fd;         /* borrowed */
    int     error;      /* errno behind a failure; 0: the peer hung up */
    size_t  in_length;  /* bytes that have come */
    size_t  out_length; /* bytes to send */
    size_t  out_offset; /* of them sent */
    size_t  num_dropped;
    uint8_t in[BOOTSTRAP_MESSAGE_MAX];
    uint8_t out[BOOTSTRAP_MESSAGE_MAX];
} bootstrap_auth_io_t;

/* Bytes of the longest reason, the final 0 included. */
#define BOOTSTRAP_REASON_SIZE 256

/* Bytes of a refused client that are thrown away before we hang up. */
#define BOOTSTRAP_DRAIN_MAX 65536

typedef enum bootstrap_auth_state {
    BOOTSTRAP_AUTH_HELLO,     /* listener: the hello is awaited */
    BOOTSTRAP_AUTH_CHALLENGE, /* client: the challenge is awaited */
    BOOTSTRAP_AUTH_PROOF,     /* the peer's proof is awaited */
    BOOTSTRAP_AUTH_ANSWER,    /* listener: the peer is proven, our proof is
                                 on its way */
    BOOTSTRAP_AUTH_DRAIN,     /* listener: the refusal is on its way */
    BOOTSTRAP_AUTH_DONE,
    BOOTSTRAP_AUTH_FAILED
} bootstrap_auth_state_t;

/* What we bring along. Lives longer than the exchange. */
typedef struct bootstrap_self {
    const base_secret_t *secret; /* NULL: none */
    const void          *blob;
    size_t               blob_length; /* at most BOOTSTRAP_BLOB_MAX */
    /* A listener may change the contents of its blob for a proven client, just
     * before it is sent. NULL: it is the same for all. */
    void (*fit_blob)(void *arg, const void *client, size_t length);
    void *arg;
} bootstrap_self_t;

typedef struct bootstrap_auth {
    bool is_client;
    /* Set by a listener that has no room for one more proven peer. */
    bool                    is_full;
    bool                    is_heard; /* the first message has come */
    bootstrap_auth_state_t  state;
    const base_secret_t    *secret;
    const bootstrap_self_t *self;
    bootstrap_auth_side_t   client;
    bootstrap_auth_side_t   listener;
    ucxpool_status_t        status; /* once FAILED, or why in DRAIN */
    char                    reason[BOOTSTRAP_REASON_SIZE];
    bootstrap_auth_io_t     io;
} bootstrap_auth_t;

/*
 * Begin. fd is a connected, non-blocking stream socket.
 *
 * UCXPOOL_ERR_IO  no random numbers
 */
ucxpool_status_t bootstrap_auth_init(bootstrap_auth_t *auth, int fd,
                                     bool                    is_client,
                                     const bootstrap_self_t *self);

/* Forget everything. The fd stays open. */
void bootstrap_auth_cleanup(bootstrap_auth_t *auth);

/*
 * Go on as far as possible without waiting.
 *
 * UCXPOOL_INPROGRESS      wait for the fd to be readable, or writable if
 *                         bootstrap_auth_wants_send()
 * UCXPOOL_OK              both sides are proven; for the listener, its proof
 *                         has been handed to the system
 * others                  it failed; auth->reason says why. The error is
 *                         neither logged nor kept as the thread's last one
 *     UCXPOOL_ERR_PERMISSION  a side has no secret, or another one
 *     UCXPOOL_ERR_PROTOCOL    another version, or nonsense
 *     UCXPOOL_ERR_LIMIT       the listener is full
 *     UCXPOOL_ERR_REFUSED     the listener said no for another reason
 *     UCXPOOL_ERR_PEER_LOST   the peer hung up
 *     UCXPOOL_ERR_IO          the system or libcrypto failed
 */
ucxpool_status_t bootstrap_auth_progress(bootstrap_auth_t *auth);

bool bootstrap_auth_wants_send(const bootstrap_auth_t *auth);

/* The peer's blob; valid once done, until cleanup. */
const void *bootstrap_auth_blob(const bootstrap_auth_t *auth, size_t *length_p);

/* --- in place of it, and after it ----------------------------------------- */

/* Tell a client that is about to be hung up on to try again. */
void bootstrap_refuse_full(int fd, const char *text);

/* What the side that hangs up tells the other over the connection of two proven
 * peers: one byte; docs/reference/protocol.md. */
typedef enum bootstrap_close {
    BOOTSTRAP_CLOSE_NONE   = 0, /* not sent: the process has ended */
    BOOTSTRAP_CLOSE_CLOSED = 1,
    BOOTSTRAP_CLOSE_FAILED = 2,
    BOOTSTRAP_CLOSE_SPARE  = 3 /* it is not needed: the channel is on `map` */
} bootstrap_close_t;

/* Send it, unless the connection takes nothing, and end the connection: a
 * forked child may hold a copy, which would keep it. */
void bootstrap_close_notify(int fd, bootstrap_close_t reason);

#endif
