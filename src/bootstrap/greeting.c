#include <config.h>

#include "bootstrap/greeting.h"

#include "base/math.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <string.h>

static const uint8_t magic[4] = {'U', 'C', 'X', 'P'};

/* Bytes before the text of a REFUSE. */
#define REFUSE_FIXED_SIZE 4

/* Two labels, two nonces, flags, version, lengths and blobs: with room. */
#define SIGNED_MAX (128 + (2 * XFER_BLOB_MAX))

static uint8_t *put_le16(uint8_t *to, uint32_t value)
{
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
    return to + 2;
}

static uint8_t *put_le32(uint8_t *to, uint32_t value)
{
    return put_le16(put_le16(to, value & 0xffffu), value >> 16);
}

static uint8_t *put_bytes(uint8_t *to, const void *bytes, size_t length)
{
    if (length > 0) {
        memcpy(to, bytes, length);
    }
    return to + length;
}

static uint32_t get_le16(const uint8_t *from)
{
    return from[0] | ((uint32_t)from[1] << 8);
}

static uint32_t get_le32(const uint8_t *from)
{
    return get_le16(from) | (get_le16(from + 2) << 16);
}

void xfer_greeting_pack_header(const xfer_greeting_header_t *header,
                               uint8_t bytes_p[XFER_GREETING_HEADER_SIZE])
{
    uint8_t *to = put_bytes(bytes_p, magic, sizeof(magic));

    to    = put_le16(to, header->version);
    *to++ = header->type;
    *to++ = header->flags;
    put_le32(to, header->length);
}

bool xfer_greeting_unpack_header(const uint8_t bytes[XFER_GREETING_HEADER_SIZE],
                                 xfer_greeting_header_t *header_p)
{
    if (memcmp(bytes, magic, sizeof(magic)) != 0) {
        return false;
    }
    header_p->version = (uint16_t)get_le16(bytes + 4);
    header_p->type    = bytes[6];
    header_p->flags   = bytes[7];
    header_p->length  = get_le32(bytes + 8);
    return true;
}

bool xfer_greeting_length_fits(uint8_t type, uint32_t length)
{
    switch (type) {
    case XFER_GREETING_GREET:
    case XFER_GREETING_CHALLENGE:
        return length == XFER_NONCE_SIZE;
    case XFER_GREETING_CALLER_PROOF:
    case XFER_GREETING_ANSWER_PROOF:
        return (length >= XFER_MAC_SIZE) &&
               (length <= XFER_MAC_SIZE + XFER_BLOB_MAX);
    case XFER_GREETING_REFUSE:
        return (length >= REFUSE_FIXED_SIZE) &&
               (length <= REFUSE_FIXED_SIZE + XFER_REFUSE_TEXT_MAX);
    default:
        return false;
    }
}

size_t xfer_greeting_pack_refuse(xfer_refusal_t code, const char *text,
                                 uint8_t bytes_p[XFER_GREETING_MAX])
{
    size_t length = base_min(strlen(text), (size_t)XFER_REFUSE_TEXT_MAX);
    xfer_greeting_header_t header = {
        .version = XFER_GREETING_VERSION,
        .type    = XFER_GREETING_REFUSE,
        .length  = (uint32_t)(REFUSE_FIXED_SIZE + length),
    };
    uint8_t *to = bytes_p + XFER_GREETING_HEADER_SIZE;

    xfer_greeting_pack_header(&header, bytes_p);
    to = put_le32(to, (uint32_t)code);
    to = put_bytes(to, text, length);
    return (size_t)(to - bytes_p);
}

xfer_refusal_t
xfer_greeting_unpack_refuse(const uint8_t *bytes, uint32_t length,
                            char text_p[XFER_REFUSE_TEXT_MAX + 1])
{
    uint32_t code        = get_le32(bytes);
    size_t   text_length = length - REFUSE_FIXED_SIZE;

    assert(xfer_greeting_length_fits(XFER_GREETING_REFUSE, length));
    for (size_t i = 0; i < text_length; i++) {
        uint8_t c = bytes[REFUSE_FIXED_SIZE + i];

        text_p[i] = (c >= 0x20) && (c < 0x7f) ? (char)c : '?';
    }
    text_p[text_length] = '\0';
    return code <= XFER_REFUSAL_FORMAT ? (xfer_refusal_t)code
                                       : XFER_REFUSAL_OTHER;
}

ucxpool_status_t xfer_refusal_status(xfer_refusal_t code)
{
    switch (code) {
    case XFER_REFUSAL_VERSION:
    case XFER_REFUSAL_FORMAT:
        return UCXPOOL_ERR_PROTOCOL;
    case XFER_REFUSAL_SECRET:
        return UCXPOOL_ERR_PERMISSION;
    case XFER_REFUSAL_FULL:
        return UCXPOOL_ERR_LIMIT;
    case XFER_REFUSAL_OTHER:
        break;
    }
    return UCXPOOL_ERR_REFUSED;
}

static uint8_t *put_blob(uint8_t *to, const xfer_greeting_side_t *side)
{
    assert(side->blob_length <= XFER_BLOB_MAX);
    to = put_le32(to, side->blob_length);
    return put_bytes(to, side->blob, side->blob_length);
}

ucxpool_status_t xfer_greeting_prove(xfer_greeting_type_t        type,
                                     const xfer_secret_t        *secret,
                                     const xfer_greeting_side_t *caller,
                                     const xfer_greeting_side_t *listener,
                                     uint8_t mac_p[XFER_MAC_SIZE])
{
    static const char caller_label[]   = "ucxpool caller";
    static const char listener_label[] = "ucxpool listen";
    bool              is_caller        = type == XFER_GREETING_CALLER_PROOF;
    uint8_t           bytes[SIGNED_MAX];
    uint8_t          *to;

    static_assert(sizeof(caller_label) == sizeof(listener_label),
                  "the fields after the label stand at the same place");
    to    = put_bytes(bytes, is_caller ? caller_label : listener_label,
                      sizeof(caller_label));
    to    = put_le16(to, XFER_GREETING_VERSION);
    *to++ = caller->flags;
    *to++ = listener->flags;
    to    = put_bytes(to, caller->nonce, XFER_NONCE_SIZE);
    to    = put_bytes(to, listener->nonce, XFER_NONCE_SIZE);
    to    = put_blob(to, caller);
    if (!is_caller) {
        to = put_blob(to, listener);
    }
    return xfer_secret_sign(secret, bytes, (size_t)(to - bytes), mac_p);
}
