#include <config.h>

#include "bootstrap/auth.h"

#include "base/error.h"
#include "base/math.h"
#include "base/random.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* --- messages ------------------------------------------------------------- */

static const uint8_t magic[4] = {'U', 'C', 'X', 'P'};

/* Size of the fixed part of a REFUSE, before its text. */
#define REFUSE_FIXED_SIZE 4

/* Maximum size of the signed data: a label, the version, two flags, two nonces,
 * two lengths and two blobs. */
#define SIGNED_MAX (128 + (2 * BOOTSTRAP_BLOB_MAX))

static_assert((sizeof(magic) + sizeof(bootstrap_message_header_t) ==
               BOOTSTRAP_MESSAGE_HEADER_SIZE) &&
                  (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__),
              "numbers and headers are sent as they are in memory");

static uint8_t *put_bytes(uint8_t *to, const void *bytes, size_t length)
{
    if (length > 0) {
        memcpy(to, bytes, length);
    }
    return to + length;
}

static void pack_header(const bootstrap_message_header_t *header,
                        uint8_t bytes_p[BOOTSTRAP_MESSAGE_HEADER_SIZE])
{
    put_bytes(put_bytes(bytes_p, magic, sizeof(magic)), header,
              sizeof(*header));
}

/* Parse a header. Returns false if these bytes are not the header of a pool's
 * message. */
static bool unpack_header(const uint8_t bytes[BOOTSTRAP_MESSAGE_HEADER_SIZE],
                          bootstrap_message_header_t *header_p)
{
    if (memcmp(bytes, magic, sizeof(magic)) != 0) {
        return false;
    }
    memcpy(header_p, bytes + sizeof(magic), sizeof(*header_p));
    return true;
}

/* Returns true if a message of this type may have this many bytes after its
 * header. */
static bool length_fits(uint8_t type, uint32_t length)
{
    switch (type) {
    case BOOTSTRAP_MESSAGE_HELLO:
    case BOOTSTRAP_MESSAGE_CHALLENGE:
        return length == BOOTSTRAP_NONCE_SIZE;
    case BOOTSTRAP_MESSAGE_CLIENT_PROOF:
    case BOOTSTRAP_MESSAGE_LISTENER_PROOF:
        return (length >= BOOTSTRAP_MAC_SIZE) &&
               (length <= BOOTSTRAP_MAC_SIZE + BOOTSTRAP_BLOB_MAX);
    case BOOTSTRAP_MESSAGE_REFUSE:
        return (length >= REFUSE_FIXED_SIZE) &&
               (length <= REFUSE_FIXED_SIZE + BOOTSTRAP_REFUSE_TEXT_MAX);
    default:
        return false;
    }
}

/* Write a complete REFUSE message and return its size. A text that is too long
 * is truncated. */
static size_t pack_refuse(bootstrap_refusal_t code, const char *text,
                          uint8_t bytes_p[BOOTSTRAP_MESSAGE_MAX])
{
    size_t   length = base_min(strlen(text), (size_t)BOOTSTRAP_REFUSE_TEXT_MAX);
    uint32_t number = code;
    bootstrap_message_header_t header = {
        .version = BOOTSTRAP_AUTH_VERSION,
        .type    = BOOTSTRAP_MESSAGE_REFUSE,
        .length  = (uint32_t)(REFUSE_FIXED_SIZE + length),
    };
    uint8_t *to = bytes_p + BOOTSTRAP_MESSAGE_HEADER_SIZE;

    pack_header(&header, bytes_p);
    to = put_bytes(to, &number, sizeof(number));
    to = put_bytes(to, text, length);
    return (size_t)(to - bytes_p);
}

/* Parse the bytes after the header of a REFUSE. Characters of the text that are
 * not printable ASCII become '?'. */
static bootstrap_refusal_t
unpack_refuse(const uint8_t *bytes, uint32_t length,
              char text_p[BOOTSTRAP_REFUSE_TEXT_MAX + 1])
{
    size_t   text_length = length - REFUSE_FIXED_SIZE;
    uint32_t code;

    assert(length_fits(BOOTSTRAP_MESSAGE_REFUSE, length));
    memcpy(&code, bytes, sizeof(code));
    for (size_t i = 0; i < text_length; i++) {
        uint8_t c = bytes[REFUSE_FIXED_SIZE + i];

        text_p[i] = (c >= 0x20) && (c < 0x7f) ? (char)c : '?';
    }
    text_p[text_length] = '\0';
    return code <= BOOTSTRAP_REFUSAL_FORMAT ? (bootstrap_refusal_t)code
                                            : BOOTSTRAP_REFUSAL_OTHER;
}

/* Convert a refusal to a status. */
static ucxpool_status_t refusal_status(bootstrap_refusal_t code)
{
    switch (code) {
    case BOOTSTRAP_REFUSAL_VERSION:
    case BOOTSTRAP_REFUSAL_FORMAT:
        return UCXPOOL_ERR_PROTOCOL;
    case BOOTSTRAP_REFUSAL_SECRET:
        return UCXPOOL_ERR_PERMISSION;
    case BOOTSTRAP_REFUSAL_FULL:
        return UCXPOOL_ERR_LIMIT;
    case BOOTSTRAP_REFUSAL_OTHER:
        break;
    }
    return UCXPOOL_ERR_REFUSED;
}

static uint8_t *put_blob(uint8_t *to, const bootstrap_auth_side_t *side)
{
    assert(side->blob_length <= BOOTSTRAP_BLOB_MAX);
    to = put_bytes(to, &side->blob_length, sizeof(side->blob_length));
    return put_bytes(to, side->blob, side->blob_length);
}

/* Compute the HMAC-SHA-256 of `length` bytes. If there is no secret (NULL), the
 * key is empty. */
static ucxpool_status_t sign(const base_secret_t *secret, const void *data,
                             size_t length, uint8_t mac_p[BOOTSTRAP_MAC_SIZE])
{
    /* With a NULL key, HMAC() would use the key of the previous call. */
    const void *key        = "";
    size_t      key_length = 0;

    if (secret != NULL) {
        key = base_secret_bytes(secret, &key_length);
    }
    if (HMAC(EVP_sha256(), key, (int)key_length, data, length, mac_p, NULL) ==
        NULL) {
        return base_error(UCXPOOL_ERR_IO, "libcrypto cannot compute an "
                                          "HMAC-SHA-256; check its "
                                          "configuration");
    }
    return UCXPOOL_OK;
}

/*
 * Compute the proof of the client or of the listener, according to `type`. The
 * client signs both flags and nonces and its own blob; the listener signs both
 * blobs. The two sides sign data with different first bytes, so that an
 * attacker cannot send a proof back to its sender.
 */
static ucxpool_status_t prove(bootstrap_message_type_t     type,
                              const base_secret_t         *secret,
                              const bootstrap_auth_side_t *client,
                              const bootstrap_auth_side_t *listener,
                              uint8_t mac_p[BOOTSTRAP_MAC_SIZE])
{
    static const char client_label[]   = "ucxpool caller";
    static const char listener_label[] = "ucxpool listen";
    const uint16_t    version          = BOOTSTRAP_AUTH_VERSION;
    bool              is_client        = type == BOOTSTRAP_MESSAGE_CLIENT_PROOF;
    uint8_t           bytes[SIGNED_MAX];
    uint8_t          *to;

    static_assert(sizeof(client_label) == sizeof(listener_label),
                  "both labels must have the same length");
    to    = put_bytes(bytes, is_client ? client_label : listener_label,
                      sizeof(client_label));
    to    = put_bytes(to, &version, sizeof(version));
    *to++ = client->flags;
    *to++ = listener->flags;
    to    = put_bytes(to, client->nonce, BOOTSTRAP_NONCE_SIZE);
    to    = put_bytes(to, listener->nonce, BOOTSTRAP_NONCE_SIZE);
    to    = put_blob(to, client);
    if (!is_client) {
        to = put_blob(to, listener);
    }
    return sign(secret, bytes, (size_t)(to - bytes), mac_p);
}

/* --- bytes in and out ----------------------------------------------------- */

static void io_init(bootstrap_auth_io_t *io, int fd)
{
    io->fd          = fd;
    io->error       = 0;
    io->in_length   = 0;
    io->out_length  = 0;
    io->out_offset  = 0;
    io->num_dropped = 0;
}

/* Convert errno after a failed call to a status. UCXPOOL_OK: call again. */
static ucxpool_status_t errno_status(bootstrap_auth_io_t *io)
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
        io->error = errno;
        return UCXPOOL_ERR_PEER_LOST;
    default:
        io->error = errno;
        return UCXPOOL_ERR_IO;
    }
}

/*
 * Send the rest of the message.
 *
 * UCXPOOL_OK             the whole message has been passed to the system
 * UCXPOOL_INPROGRESS     wait for the socket to be writable
 * UCXPOOL_ERR_PEER_LOST  the connection has failed
 * UCXPOOL_ERR_IO
 */
static ucxpool_status_t io_flush(bootstrap_auth_io_t *io)
{
    ucxpool_status_t status = UCXPOOL_OK;
    ssize_t          length;

    while ((status == UCXPOOL_OK) && (io->out_offset < io->out_length)) {
        length =
            send(io->fd, io->out + io->out_offset,
                 io->out_length - io->out_offset, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (length >= 0) {
            io->out_offset += (size_t)length;
        } else {
            status = errno_status(io);
        }
    }
    return status;
}

/* Read until `length` bytes have arrived in total. Returns the same results as
 * io_flush(). */
static ucxpool_status_t io_fill(bootstrap_auth_io_t *io, size_t length)
{
    ucxpool_status_t status = UCXPOOL_OK;
    ssize_t          received;

    assert(length <= sizeof(io->in));
    while ((status == UCXPOOL_OK) && (io->in_length < length)) {
        received = recv(io->fd, io->in + io->in_length, length - io->in_length,
                        MSG_DONTWAIT);
        if (received > 0) {
            io->in_length += (size_t)received;
        } else if (received == 0) {
            io->error = 0;
            status    = UCXPOOL_ERR_PEER_LOST;
        } else {
            status = errno_status(io);
        }
    }
    return status;
}

/* --- the exchange --------------------------------------------------------- */

static bootstrap_auth_side_t *our_side(bootstrap_auth_t *auth)
{
    return auth->is_client ? &auth->client : &auth->listener;
}

static bootstrap_auth_side_t *their_side(bootstrap_auth_t *auth)
{
    return auth->is_client ? &auth->listener : &auth->client;
}

static const char *name_of(bool is_client)
{
    return is_client ? "client" : "listener";
}

/* --- failures ------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static ucxpool_status_t
fail(bootstrap_auth_t *auth, ucxpool_status_t status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(auth->reason, sizeof(auth->reason), format, args);
    va_end(args);
    auth->state  = BOOTSTRAP_AUTH_FAILED;
    auth->status = status;
    return status;
}

/* Fail because the socket could not send or receive. */
static ucxpool_status_t fail_io(bootstrap_auth_t *auth, ucxpool_status_t status)
{
    char text[64];

    if (auth->io.error == 0) {
        return fail(auth, status,
                    "the %s closed the connection before it was authenticated",
                    name_of(!auth->is_client));
    }
    return fail(auth, status, "the connection to the %s failed: %s",
                name_of(!auth->is_client),
                strerror_r(auth->io.error, text, sizeof(text)));
}

/* Refuse the peer. A listener sends the reason to its client; a client only
 * fails. Both sides log the text, so the text names the sides by their
 * roles. */
__attribute__((format(printf, 3, 4))) static ucxpool_status_t
refuse(bootstrap_auth_t *auth, bootstrap_refusal_t code, const char *format,
       ...)
{
    char    text[BOOTSTRAP_REFUSE_TEXT_MAX + 1];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);

    fail(auth, refusal_status(code), "%s", text);
    if (auth->is_client) {
        return auth->status;
    }
    auth->state         = BOOTSTRAP_AUTH_DRAIN;
    auth->io.out_offset = 0;
    auth->io.out_length = pack_refuse(code, text, auth->io.out);
    return UCXPOOL_OK;
}

/* Complete a message, whose body has already been written after the header. */
static void post(bootstrap_auth_t *auth, bootstrap_message_type_t type,
                 size_t body_length)
{
    const bootstrap_message_header_t header = {
        .version = BOOTSTRAP_AUTH_VERSION,
        .type    = (uint8_t)type,
        .flags   = our_side(auth)->flags,
        .length  = (uint32_t)body_length,
    };

    assert(auth->io.out_offset == auth->io.out_length);
    pack_header(&header, auth->io.out);
    auth->io.out_offset = 0;
    auth->io.out_length = BOOTSTRAP_MESSAGE_HEADER_SIZE + body_length;
}

static void post_nonce(bootstrap_auth_t *auth, bootstrap_message_type_t type)
{
    memcpy(auth->io.out + BOOTSTRAP_MESSAGE_HEADER_SIZE, our_side(auth)->nonce,
           BOOTSTRAP_NONCE_SIZE);
    post(auth, type, BOOTSTRAP_NONCE_SIZE);
}

static ucxpool_status_t post_proof(bootstrap_auth_t *auth)
{
    const bootstrap_auth_side_t *side = our_side(auth);
    bootstrap_message_type_t     type = auth->is_client
                                            ? BOOTSTRAP_MESSAGE_CLIENT_PROOF
                                            : BOOTSTRAP_MESSAGE_LISTENER_PROOF;
    uint8_t *body = auth->io.out + BOOTSTRAP_MESSAGE_HEADER_SIZE;

    if (prove(type, auth->self->secret, &auth->client, &auth->listener, body) !=
        UCXPOOL_OK) {
        return fail(auth, UCXPOOL_ERR_IO, "libcrypto cannot compute the proof");
    }
    if (side->blob_length > 0) {
        memcpy(body + BOOTSTRAP_MAC_SIZE, side->blob, side->blob_length);
    }
    post(auth, type, BOOTSTRAP_MAC_SIZE + side->blob_length);
    return UCXPOOL_OK;
}

static uint8_t awaited_type(const bootstrap_auth_t *auth)
{
    switch (auth->state) {
    case BOOTSTRAP_AUTH_HELLO:
        return BOOTSTRAP_MESSAGE_HELLO;
    case BOOTSTRAP_AUTH_CHALLENGE:
        return BOOTSTRAP_MESSAGE_CHALLENGE;
    default:
        return auth->is_client ? BOOTSTRAP_MESSAGE_LISTENER_PROOF
                               : BOOTSTRAP_MESSAGE_CLIENT_PROOF;
    }
}

/* Check the header before the body is read. If the message is refused, returns
 * OK, and the state is DRAIN. */
static ucxpool_status_t check_header(bootstrap_auth_t           *auth,
                                     bootstrap_message_header_t *header_p)
{
    if (!unpack_header(auth->io.in, header_p)) {
        return fail(auth, UCXPOOL_ERR_PROTOCOL,
                    "the %s is not a pool: its first bytes are not those of a "
                    "pool's message",
                    name_of(!auth->is_client));
    }
    if (auth->is_client && (header_p->type == BOOTSTRAP_MESSAGE_REFUSE)) {
        if (!length_fits(header_p->type, header_p->length)) {
            return fail(auth, UCXPOOL_ERR_PROTOCOL,
                        "the listener's refusal has an invalid length (%u "
                        "bytes)",
                        (unsigned)header_p->length);
        }
        return UCXPOOL_OK;
    }
    if (header_p->version != BOOTSTRAP_AUTH_VERSION) {
        return refuse(auth, BOOTSTRAP_REFUSAL_VERSION,
                      "the %s uses protocol %u, the %s uses protocol %u",
                      name_of(!auth->is_client), (unsigned)header_p->version,
                      name_of(auth->is_client), BOOTSTRAP_AUTH_VERSION);
    }
    if (header_p->type != awaited_type(auth)) {
        return refuse(auth, BOOTSTRAP_REFUSAL_FORMAT,
                      "the %s sent message %u instead of message %u",
                      name_of(!auth->is_client), (unsigned)header_p->type,
                      (unsigned)awaited_type(auth));
    }
    if (!length_fits(header_p->type, header_p->length)) {
        return refuse(auth, BOOTSTRAP_REFUSAL_FORMAT,
                      "the %s sent message %u with an invalid length (%u "
                      "bytes)",
                      name_of(!auth->is_client), (unsigned)header_p->type,
                      (unsigned)header_p->length);
    }
    return UCXPOOL_OK;
}

/* --- handlers of messages ------------------------------------------------- */

/* Handle HELLO or CHALLENGE: keep the nonce, and check whether the peer has a
 * secret. */
static ucxpool_status_t handle_nonce(bootstrap_auth_t                 *auth,
                                     const bootstrap_message_header_t *header)
{
    bootstrap_auth_side_t *side    = their_side(auth);
    bool                   we_have = auth->self->secret != NULL;
    bool they_have = header->flags & BOOTSTRAP_MESSAGE_FLAG_SECRET;

    auth->has_first_message = true;
    side->flags             = header->flags;
    memcpy(side->nonce, auth->io.in + BOOTSTRAP_MESSAGE_HEADER_SIZE,
           BOOTSTRAP_NONCE_SIZE);
    if (we_have != they_have) {
        return refuse(auth, BOOTSTRAP_REFUSAL_SECRET,
                      "the %s requires a secret, and the %s has none: set "
                      "UCXPOOL_SECRET_FILE there",
                      name_of(auth->is_client == we_have),
                      name_of(auth->is_client != we_have));
    }
    auth->state = BOOTSTRAP_AUTH_PROOF;
    if (auth->is_client) {
        return post_proof(auth);
    }
    post_nonce(auth, BOOTSTRAP_MESSAGE_CHALLENGE);
    return UCXPOOL_OK;
}

static ucxpool_status_t handle_proof(bootstrap_auth_t                 *auth,
                                     const bootstrap_message_header_t *header)
{
    const uint8_t         *body = auth->io.in + BOOTSTRAP_MESSAGE_HEADER_SIZE;
    bootstrap_auth_side_t *side = their_side(auth);
    uint8_t                mac[BOOTSTRAP_MAC_SIZE];
    bool                   is_right;

    if (header->flags != side->flags) {
        return refuse(auth, BOOTSTRAP_REFUSAL_FORMAT,
                      "the %s changed its flags", name_of(!auth->is_client));
    }
    side->blob        = body + BOOTSTRAP_MAC_SIZE;
    side->blob_length = header->length - BOOTSTRAP_MAC_SIZE;
    if (prove((bootstrap_message_type_t)header->type, auth->self->secret,
              &auth->client, &auth->listener, mac) != UCXPOOL_OK) {
        return fail(auth, UCXPOOL_ERR_IO, "libcrypto cannot compute the proof");
    }
    is_right = CRYPTO_memcmp(mac, body, sizeof(mac)) == 0;
    OPENSSL_cleanse(mac, sizeof(mac));
    if (!is_right) {
        return refuse(auth, BOOTSTRAP_REFUSAL_SECRET,
                      "the secrets differ: client and listener need the same "
                      "UCXPOOL_SECRET_FILE");
    }
    if (auth->is_client) {
        auth->state = BOOTSTRAP_AUTH_DONE;
        return UCXPOOL_OK;
    }
    if (auth->is_full) {
        return refuse(auth, BOOTSTRAP_REFUSAL_FULL,
                      "too many peers are waiting to be accepted by the "
                      "listener: try again later");
    }
    auth->state = BOOTSTRAP_AUTH_ANSWER;
    if (auth->self->fit_blob != NULL) {
        auth->self->fit_blob(auth->self->arg, auth->self->blob,
                             auth->client.blob, auth->client.blob_length);
    }
    return post_proof(auth);
}

static ucxpool_status_t handle_refuse(bootstrap_auth_t                 *auth,
                                      const bootstrap_message_header_t *header)
{
    char                text[BOOTSTRAP_REFUSE_TEXT_MAX + 1];
    bootstrap_refusal_t code;

    code = unpack_refuse(auth->io.in + BOOTSTRAP_MESSAGE_HEADER_SIZE,
                         header->length, text);
    return fail(auth, refusal_status(code), "refused by the listener: %s",
                text);
}

static ucxpool_status_t await(bootstrap_auth_t *auth, size_t length)
{
    ucxpool_status_t status = io_fill(&auth->io, length);

    if ((status == UCXPOOL_OK) || (status == UCXPOOL_INPROGRESS)) {
        return status;
    }
    return fail_io(auth, status);
}

/* Read the available part of a message, and handle the message when it is
 * complete. */
static ucxpool_status_t receive(bootstrap_auth_t *auth)
{
    bootstrap_message_header_t header = {.type = 0};
    ucxpool_status_t           status;

    status = await(auth, BOOTSTRAP_MESSAGE_HEADER_SIZE);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = check_header(auth, &header);
    if ((status != UCXPOOL_OK) || (auth->state == BOOTSTRAP_AUTH_DRAIN)) {
        return status;
    }
    status = await(auth, BOOTSTRAP_MESSAGE_HEADER_SIZE + header.length);
    if (status != UCXPOOL_OK) {
        return status;
    }
    auth->io.in_length = 0;

    switch (header.type) {
    case BOOTSTRAP_MESSAGE_HELLO:
    case BOOTSTRAP_MESSAGE_CHALLENGE:
        return handle_nonce(auth, &header);
    case BOOTSTRAP_MESSAGE_REFUSE:
        return handle_refuse(auth, &header);
    default:
        return handle_proof(auth, &header);
    }
}

/* After the refusal has been sent, discard at most BOOTSTRAP_DRAIN_MAX bytes
 * until the client closes the connection, or the connection fails. */
static ucxpool_status_t drain(bootstrap_auth_t *auth)
{
    bootstrap_auth_io_t *io     = &auth->io;
    ucxpool_status_t     status = UCXPOOL_OK;
    ssize_t              length = 1;

    /* Each call repeats the shutdown, which is harmless. */
    shutdown(io->fd, SHUT_WR);
    while ((status == UCXPOOL_OK) && (length != 0) &&
           (io->num_dropped < BOOTSTRAP_DRAIN_MAX)) {
        length = recv(io->fd, io->in, sizeof(io->in), MSG_DONTWAIT);
        if (length > 0) {
            io->num_dropped += (size_t)length;
        } else if (length < 0) {
            status = errno_status(io);
        }
    }
    if (status == UCXPOOL_INPROGRESS) {
        return status;
    }
    auth->state = BOOTSTRAP_AUTH_FAILED;
    return auth->status;
}

/* Handle a failed send. If the listener sent a refusal before it closed the
 * connection, fail with the reason in the refusal. */
static ucxpool_status_t fail_send(bootstrap_auth_t *auth,
                                  ucxpool_status_t  status)
{
    int error = auth->io.error;

    if (auth->is_client && (status == UCXPOOL_ERR_PEER_LOST)) {
        auth->io.out_offset = auth->io.out_length;
        (void)receive(auth);
        if ((auth->state == BOOTSTRAP_AUTH_FAILED) &&
            (auth->status != UCXPOOL_ERR_PEER_LOST)) {
            return auth->status;
        }
        auth->io.error = error;
    }
    return fail_io(auth, status);
}

ucxpool_status_t bootstrap_auth_progress(bootstrap_auth_t *auth)
{
    ucxpool_status_t status = UCXPOOL_OK;

    while (status == UCXPOOL_OK) {
        if (auth->state == BOOTSTRAP_AUTH_FAILED) {
            return auth->status;
        }
        status = io_flush(&auth->io);
        if (status == UCXPOOL_INPROGRESS) {
            break;
        }
        if (status != UCXPOOL_OK) {
            return fail_send(auth, status);
        }
        switch (auth->state) {
        case BOOTSTRAP_AUTH_ANSWER:
        case BOOTSTRAP_AUTH_DONE:
            auth->state = BOOTSTRAP_AUTH_DONE;
            return UCXPOOL_OK;
        case BOOTSTRAP_AUTH_DRAIN:
            return drain(auth);
        default:
            status = receive(auth);
        }
    }
    return status;
}

ucxpool_status_t bootstrap_auth_init(bootstrap_auth_t *auth, int fd,
                                     bool                    is_client,
                                     const bootstrap_self_t *self)
{
    bootstrap_auth_side_t *side;
    ucxpool_status_t       status;

    assert(self->blob_length <= BOOTSTRAP_BLOB_MAX);
    io_init(&auth->io, fd);
    auth->is_client         = is_client;
    auth->is_full           = false;
    auth->has_first_message = false;
    auth->self              = self;
    auth->status            = UCXPOOL_INPROGRESS;
    auth->reason[0]         = '\0';
    memset(&auth->client, 0, sizeof(auth->client));
    memset(&auth->listener, 0, sizeof(auth->listener));

    side              = our_side(auth);
    side->blob        = self->blob;
    side->blob_length = (uint32_t)self->blob_length;
    side->flags = self->secret != NULL ? BOOTSTRAP_MESSAGE_FLAG_SECRET : 0;
    status      = base_random(side->nonce, BOOTSTRAP_NONCE_SIZE);
    if (status != UCXPOOL_OK) {
        return fail(auth, status, "%s", ucxpool_error_detail());
    }
    if (is_client) {
        auth->state = BOOTSTRAP_AUTH_CHALLENGE;
        post_nonce(auth, BOOTSTRAP_MESSAGE_HELLO);
    } else {
        auth->state = BOOTSTRAP_AUTH_HELLO;
    }
    return UCXPOOL_OK;
}

void bootstrap_auth_cleanup(bootstrap_auth_t *auth)
{
    OPENSSL_cleanse(auth->io.in, sizeof(auth->io.in));
    OPENSSL_cleanse(auth->io.out, sizeof(auth->io.out));
    io_init(&auth->io, -1);
}

bool bootstrap_auth_wants_send(const bootstrap_auth_t *auth)
{
    return auth->io.out_offset < auth->io.out_length;
}

const void *bootstrap_auth_blob(const bootstrap_auth_t *auth, size_t *length_p)
{
    const bootstrap_auth_side_t *side =
        auth->is_client ? &auth->listener : &auth->client;

    *length_p = side->blob_length;
    return side->blob;
}

/* --- refusal without an exchange, and closing ----------------------------- */

void bootstrap_refuse_full(int fd, const char *text)
{
    uint8_t bytes[BOOTSTRAP_MESSAGE_MAX];
    size_t  length = pack_refuse(BOOTSTRAP_REFUSAL_FULL, text, bytes);

    (void)send(fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void bootstrap_close_notify(int fd, bootstrap_close_t reason)
{
    uint8_t byte = (uint8_t)reason;

    (void)send(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)shutdown(fd, SHUT_RDWR);
}
