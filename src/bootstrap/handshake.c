#include <config.h>

#include "bootstrap/handshake.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static xfer_greeting_side_t *our_side(xfer_handshake_t *handshake)
{
    return handshake->is_caller ? &handshake->caller : &handshake->listener;
}

static xfer_greeting_side_t *their_side(xfer_handshake_t *handshake)
{
    return handshake->is_caller ? &handshake->listener : &handshake->caller;
}

static const char *name_of(bool is_caller)
{
    return is_caller ? "caller" : "listener";
}

/* --- how it ends ---------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static ucxpool_status_t
fail(xfer_handshake_t *handshake, ucxpool_status_t status, const char *format,
     ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(handshake->reason, sizeof(handshake->reason), format, args);
    va_end(args);
    handshake->state  = XFER_HANDSHAKE_FAILED;
    handshake->status = status;
    return status;
}

/* The box could not move bytes. */
static ucxpool_status_t fail_box(xfer_handshake_t *handshake,
                                 ucxpool_status_t  status)
{
    char text[64];

    if (handshake->box.error == 0) {
        return fail(handshake, status,
                    "the %s hung up before the greeting was complete",
                    name_of(!handshake->is_caller));
    }
    return fail(handshake, status, "the connection to the %s failed: %s",
                name_of(!handshake->is_caller),
                strerror_r(handshake->box.error, text, sizeof(text)));
}

/* A listener tells its caller; a caller has nobody who would wait for it. The
 * text is read on both sides, so it calls them by their roles. */
__attribute__((format(printf, 3, 4))) static ucxpool_status_t
refuse(xfer_handshake_t *handshake, xfer_refusal_t code, const char *format,
       ...)
{
    char    text[XFER_REFUSE_TEXT_MAX + 1];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);

    fail(handshake, xfer_refusal_status(code), "%s", text);
    if (handshake->is_caller) {
        return handshake->status;
    }
    handshake->state          = XFER_HANDSHAKE_DRAIN;
    handshake->box.out_offset = 0;
    handshake->box.out_length =
        xfer_greeting_pack_refuse(code, text, handshake->box.out);
    return UCXPOOL_OK;
}

/* Make a message; the body has been written behind the header's place. */
static void post(xfer_handshake_t *handshake, xfer_greeting_type_t type,
                 size_t body_length)
{
    const xfer_greeting_header_t header = {
        .version = XFER_GREETING_VERSION,
        .type    = (uint8_t)type,
        .flags   = our_side(handshake)->flags,
        .length  = (uint32_t)body_length,
    };

    assert(handshake->box.out_offset == handshake->box.out_length);
    xfer_greeting_pack_header(&header, handshake->box.out);
    handshake->box.out_offset = 0;
    handshake->box.out_length = XFER_GREETING_HEADER_SIZE + body_length;
}

static void post_nonce(xfer_handshake_t *handshake, xfer_greeting_type_t type)
{
    memcpy(handshake->box.out + XFER_GREETING_HEADER_SIZE,
           our_side(handshake)->nonce, XFER_NONCE_SIZE);
    post(handshake, type, XFER_NONCE_SIZE);
}

static ucxpool_status_t post_proof(xfer_handshake_t *handshake)
{
    const xfer_greeting_side_t *side = our_side(handshake);
    xfer_greeting_type_t        type = handshake->is_caller
                                           ? XFER_GREETING_CALLER_PROOF
                                           : XFER_GREETING_ANSWER_PROOF;
    uint8_t *body = handshake->box.out + XFER_GREETING_HEADER_SIZE;

    if (xfer_greeting_prove(type, handshake->secret, &handshake->caller,
                            &handshake->listener, body) != UCXPOOL_OK) {
        return fail(handshake, UCXPOOL_ERR_IO, "libcrypto cannot sign");
    }
    if (side->blob_length > 0) {
        memcpy(body + XFER_MAC_SIZE, side->blob, side->blob_length);
    }
    post(handshake, type, XFER_MAC_SIZE + side->blob_length);
    return UCXPOOL_OK;
}

static uint8_t awaited_type(const xfer_handshake_t *handshake)
{
    switch (handshake->state) {
    case XFER_HANDSHAKE_GREET:
        return XFER_GREETING_GREET;
    case XFER_HANDSHAKE_CHALLENGE:
        return XFER_GREETING_CHALLENGE;
    default:
        return handshake->is_caller ? XFER_GREETING_ANSWER_PROOF
                                    : XFER_GREETING_CALLER_PROOF;
    }
}

/* Decide from the header alone whether the body may be read. After an OK the
 * state is DRAIN if the message was refused. */
static ucxpool_status_t check_header(xfer_handshake_t       *handshake,
                                     xfer_greeting_header_t *header_p)
{
    if (!xfer_greeting_unpack_header(handshake->box.in, header_p)) {
        return fail(handshake, UCXPOOL_ERR_PROTOCOL,
                    "the %s is not a pool: its first bytes are not those of a "
                    "greeting",
                    name_of(!handshake->is_caller));
    }
    if (handshake->is_caller && (header_p->type == XFER_GREETING_REFUSE)) {
        if (!xfer_greeting_length_fits(header_p->type, header_p->length)) {
            return fail(handshake, UCXPOOL_ERR_PROTOCOL,
                        "the listener's refusal has %u bytes, that is wrong",
                        (unsigned)header_p->length);
        }
        return UCXPOOL_OK;
    }
    if (header_p->version != XFER_GREETING_VERSION) {
        return refuse(handshake, XFER_REFUSAL_VERSION,
                      "the %s speaks protocol %u, the %s speaks %u",
                      name_of(!handshake->is_caller),
                      (unsigned)header_p->version,
                      name_of(handshake->is_caller), XFER_GREETING_VERSION);
    }
    if (header_p->type != awaited_type(handshake)) {
        return refuse(handshake, XFER_REFUSAL_FORMAT,
                      "the %s sent message %u where %u is due",
                      name_of(!handshake->is_caller), (unsigned)header_p->type,
                      (unsigned)awaited_type(handshake));
    }
    if (!xfer_greeting_length_fits(header_p->type, header_p->length)) {
        return refuse(handshake, XFER_REFUSAL_FORMAT,
                      "the %s sent message %u with %u bytes, that is wrong",
                      name_of(!handshake->is_caller), (unsigned)header_p->type,
                      (unsigned)header_p->length);
    }
    return UCXPOOL_OK;
}

/* --- what the messages mean ----------------------------------------------- */

/* GREET or CHALLENGE: what the peer wants signed, and whether it can sign. */
static ucxpool_status_t handle_nonce(xfer_handshake_t             *handshake,
                                     const xfer_greeting_header_t *header)
{
    xfer_greeting_side_t *side      = their_side(handshake);
    bool                  we_have   = handshake->secret != NULL;
    bool                  they_have = header->flags & XFER_GREETING_FLAG_SECRET;

    side->flags = header->flags;
    memcpy(side->nonce, handshake->box.in + XFER_GREETING_HEADER_SIZE,
           XFER_NONCE_SIZE);
    if (we_have != they_have) {
        return refuse(handshake, XFER_REFUSAL_SECRET,
                      "the %s asks for a secret and the %s has none: set "
                      "UCXPOOL_SECRET_FILE there",
                      name_of(handshake->is_caller == we_have),
                      name_of(handshake->is_caller != we_have));
    }
    handshake->state = XFER_HANDSHAKE_PROOF;
    if (handshake->is_caller) {
        return post_proof(handshake);
    }
    post_nonce(handshake, XFER_GREETING_CHALLENGE);
    return UCXPOOL_OK;
}

static ucxpool_status_t handle_proof(xfer_handshake_t             *handshake,
                                     const xfer_greeting_header_t *header)
{
    const uint8_t        *body = handshake->box.in + XFER_GREETING_HEADER_SIZE;
    xfer_greeting_side_t *side = their_side(handshake);
    uint8_t               mac[XFER_MAC_SIZE];
    bool                  is_right;

    if (header->flags != side->flags) {
        return refuse(handshake, XFER_REFUSAL_FORMAT,
                      "the %s changed its flags",
                      name_of(!handshake->is_caller));
    }
    side->blob        = body + XFER_MAC_SIZE;
    side->blob_length = header->length - XFER_MAC_SIZE;
    if (xfer_greeting_prove((xfer_greeting_type_t)header->type,
                            handshake->secret, &handshake->caller,
                            &handshake->listener, mac) != UCXPOOL_OK) {
        return fail(handshake, UCXPOOL_ERR_IO, "libcrypto cannot sign");
    }
    is_right = CRYPTO_memcmp(mac, body, sizeof(mac)) == 0;
    OPENSSL_cleanse(mac, sizeof(mac));
    if (!is_right) {
        return refuse(handshake, XFER_REFUSAL_SECRET,
                      "the secrets differ: caller and listener need the same "
                      "UCXPOOL_SECRET_FILE");
    }
    if (handshake->is_caller) {
        handshake->state = XFER_HANDSHAKE_DONE;
        return UCXPOOL_OK;
    }
    if (handshake->is_full) {
        return refuse(handshake, XFER_REFUSAL_FULL,
                      "too many peers wait to be accepted by the listener: "
                      "try again later");
    }
    handshake->state = XFER_HANDSHAKE_ANSWER;
    if (handshake->self->fit_blob != NULL) {
        handshake->self->fit_blob(handshake->self->arg, handshake->caller.blob,
                                  handshake->caller.blob_length);
    }
    return post_proof(handshake);
}

static ucxpool_status_t handle_refuse(xfer_handshake_t             *handshake,
                                      const xfer_greeting_header_t *header)
{
    char           text[XFER_REFUSE_TEXT_MAX + 1];
    xfer_refusal_t code;

    code = xfer_greeting_unpack_refuse(
        handshake->box.in + XFER_GREETING_HEADER_SIZE, header->length, text);
    return fail(handshake, xfer_refusal_status(code),
                "refused by the listener: %s", text);
}

static ucxpool_status_t await(xfer_handshake_t *handshake, size_t length)
{
    ucxpool_status_t status = xfer_mailbox_fill(&handshake->box, length);

    if ((status == UCXPOOL_OK) || (status == UCXPOOL_INPROGRESS)) {
        return status;
    }
    return fail_box(handshake, status);
}

/* Read one message as far as it has come, and when it is whole, act on it. */
static ucxpool_status_t receive(xfer_handshake_t *handshake)
{
    xfer_greeting_header_t header;
    ucxpool_status_t       status;

    status = await(handshake, XFER_GREETING_HEADER_SIZE);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = check_header(handshake, &header);
    if ((status != UCXPOOL_OK) || (handshake->state == XFER_HANDSHAKE_DRAIN)) {
        return status;
    }
    status = await(handshake, XFER_GREETING_HEADER_SIZE + header.length);
    if (status != UCXPOOL_OK) {
        return status;
    }
    handshake->box.in_length = 0;

    switch (header.type) {
    case XFER_GREETING_GREET:
    case XFER_GREETING_CHALLENGE:
        return handle_nonce(handshake, &header);
    case XFER_GREETING_REFUSE:
        return handle_refuse(handshake, &header);
    default:
        return handle_proof(handshake, &header);
    }
}

/* The refusal is sent: wait, within bounds, for the caller to hang up. */
static ucxpool_status_t drain(xfer_handshake_t *handshake)
{
    /* Repeated on each call, which does no harm. */
    shutdown(handshake->box.fd, SHUT_WR);
    if (xfer_mailbox_drop(&handshake->box, XFER_DRAIN_MAX) ==
        UCXPOOL_INPROGRESS) {
        return UCXPOOL_INPROGRESS;
    }
    handshake->state = XFER_HANDSHAKE_FAILED;
    return handshake->status;
}

ucxpool_status_t xfer_handshake_progress(xfer_handshake_t *handshake)
{
    ucxpool_status_t status = UCXPOOL_OK;

    while (status == UCXPOOL_OK) {
        if (handshake->state == XFER_HANDSHAKE_FAILED) {
            return handshake->status;
        }
        status = xfer_mailbox_flush(&handshake->box);
        if (status == UCXPOOL_INPROGRESS) {
            break;
        }
        if (status != UCXPOOL_OK) {
            return fail_box(handshake, status);
        }
        switch (handshake->state) {
        case XFER_HANDSHAKE_ANSWER:
        case XFER_HANDSHAKE_DONE:
            handshake->state = XFER_HANDSHAKE_DONE;
            return UCXPOOL_OK;
        case XFER_HANDSHAKE_DRAIN:
            return drain(handshake);
        default:
            status = receive(handshake);
        }
    }
    return status;
}

ucxpool_status_t xfer_handshake_init(xfer_handshake_t *handshake, int fd,
                                     bool is_caller, const xfer_self_t *self)
{
    xfer_greeting_side_t *side;

    assert(self->blob_length <= XFER_BLOB_MAX);
    xfer_mailbox_init(&handshake->box, fd);
    handshake->is_caller = is_caller;
    handshake->is_full   = false;
    handshake->secret    = self->secret;
    handshake->self      = self;
    handshake->status    = UCXPOOL_INPROGRESS;
    handshake->reason[0] = '\0';
    memset(&handshake->caller, 0, sizeof(handshake->caller));
    memset(&handshake->listener, 0, sizeof(handshake->listener));

    side              = our_side(handshake);
    side->blob        = self->blob;
    side->blob_length = (uint32_t)self->blob_length;
    side->flags       = self->secret != NULL ? XFER_GREETING_FLAG_SECRET : 0;
    if (RAND_bytes(side->nonce, XFER_NONCE_SIZE) != 1) {
        return fail(handshake, UCXPOOL_ERR_IO,
                    "libcrypto has no random numbers");
    }
    if (is_caller) {
        handshake->state = XFER_HANDSHAKE_CHALLENGE;
        post_nonce(handshake, XFER_GREETING_GREET);
    } else {
        handshake->state = XFER_HANDSHAKE_GREET;
    }
    return UCXPOOL_OK;
}

void xfer_handshake_cleanup(xfer_handshake_t *handshake)
{
    xfer_mailbox_cleanup(&handshake->box);
}

bool xfer_handshake_wants_send(const xfer_handshake_t *handshake)
{
    return xfer_mailbox_wants_send(&handshake->box);
}

const void *xfer_handshake_blob(const xfer_handshake_t *handshake,
                                size_t                 *length_p)
{
    const xfer_greeting_side_t *side =
        handshake->is_caller ? &handshake->listener : &handshake->caller;

    *length_p = side->blob_length;
    return side->blob;
}
