/*
 * The greeting: the messages by which two strangers prove that they know the
 * same secret. docs/protocol.md draws them.
 *
 *     caller                            listener
 *     GREET      nonce            ->
 *                                 <-    CHALLENGE     nonce
 *     CALLER_PROOF  mac, blob     ->
 *                                 <-    ANSWER_PROOF  mac, blob
 *
 * In place of any of its messages the listener may send REFUSE with a code and
 * words. The header, and REFUSE as a whole, are the same in every version of
 * the protocol, so that two versions can tell each other so.
 *
 * A blob is what the caller of this layer wants its peer to have, some hundred
 * bytes; it is signed and not read here.
 */
#ifndef BOOTSTRAP_GREETING_H
#define BOOTSTRAP_GREETING_H

#include "bootstrap/secret.h"

#include <stdbool.h>

#define XFER_GREETING_VERSION     1
#define XFER_GREETING_HEADER_SIZE 12
#define XFER_NONCE_SIZE           32
#define XFER_BLOB_MAX             4096
#define XFER_REFUSE_TEXT_MAX      127

/* Bytes of the longest message, a proof with the largest blob. */
#define XFER_GREETING_MAX \
    (XFER_GREETING_HEADER_SIZE + XFER_MAC_SIZE + XFER_BLOB_MAX)

typedef enum xfer_greeting_type {
    XFER_GREETING_GREET        = 1,
    XFER_GREETING_CHALLENGE    = 2,
    XFER_GREETING_CALLER_PROOF = 3,
    XFER_GREETING_ANSWER_PROOF = 4,
    XFER_GREETING_REFUSE       = 5
} xfer_greeting_type_t;

/* In the header of all messages but REFUSE: the sender has a secret. */
#define XFER_GREETING_FLAG_SECRET 0x01u

typedef struct xfer_greeting_header {
    uint16_t version;
    uint8_t  type;
    uint8_t  flags;
    uint32_t length; /* bytes that follow the header */
} xfer_greeting_header_t;

/* Why a listener refuses, as sent. */
typedef enum xfer_refusal {
    XFER_REFUSAL_OTHER   = 0,
    XFER_REFUSAL_VERSION = 1, /* another version of the protocol */
    XFER_REFUSAL_SECRET  = 2, /* no secret, or another one */
    XFER_REFUSAL_FULL    = 3, /* too many peers wait */
    XFER_REFUSAL_FORMAT  = 4  /* a message that breaks the protocol */
} xfer_refusal_t;

void xfer_greeting_pack_header(const xfer_greeting_header_t *header,
                               uint8_t bytes_p[XFER_GREETING_HEADER_SIZE]);

/* False: these bytes do not begin a message of a pool. */
bool xfer_greeting_unpack_header(const uint8_t bytes[XFER_GREETING_HEADER_SIZE],
                                 xfer_greeting_header_t *header_p);

/* Whether a message of this type may have this many bytes after its header. */
bool xfer_greeting_length_fits(uint8_t type, uint32_t length);

/* Make a whole REFUSE message; a longer text is cut. Returns its bytes. */
size_t xfer_greeting_pack_refuse(xfer_refusal_t code, const char *text,
                                 uint8_t bytes_p[XFER_GREETING_MAX]);

/* Read what follows the header of a REFUSE. Its text is not trusted: what is
 * not printable ASCII becomes '?'. */
xfer_refusal_t
xfer_greeting_unpack_refuse(const uint8_t *bytes, uint32_t length,
                            char text_p[XFER_REFUSE_TEXT_MAX + 1]);

/* The status that stands for a refusal. */
ucxpool_status_t xfer_refusal_status(xfer_refusal_t code);

/* One side's share in what is signed. */
typedef struct xfer_greeting_side {
    uint8_t     flags;
    uint8_t     nonce[XFER_NONCE_SIZE];
    const void *blob;
    uint32_t    blob_length; /* at most XFER_BLOB_MAX */
} xfer_greeting_side_t;

/*
 * The proof of the caller or of the listener (type says whose). The caller's
 * signs both flags and nonces and its own blob, the listener's both blobs. The
 * two differ in their first bytes, so that neither can be sent back as the
 * other.
 */
ucxpool_status_t xfer_greeting_prove(xfer_greeting_type_t        type,
                                     const xfer_secret_t        *secret,
                                     const xfer_greeting_side_t *caller,
                                     const xfer_greeting_side_t *listener,
                                     uint8_t mac_p[XFER_MAC_SIZE]);

#endif
