/*
 * Fuzz target: what a stranger may send before it has proved anything, in
 * either role. The first byte is made of the FLAGs below; a script follows, of
 * which each step begins with a byte that tells what the stranger does.
 */
#include "base/math.h"
#include "bootstrap/handshake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FLAG_CALLER 0x01 /* we are the caller */
#define FLAG_FULL   0x02 /* and have no room for one more peer */

typedef enum step {
    STEP_RAW,    /* send bytes: a byte for how many, then these */
    STEP_HEADER, /* send a header: type, flags, then 2 bytes for the length */
    STEP_NONCE,  /* send the message that is due first */
    STEP_PROOF,  /* prove itself, with a blob: as STEP_RAW */
    STEP_REFUSE, /* refuse: a byte for the code, then as STEP_RAW */
    STEP_READ,   /* read what has come */
    STEP_HANG_UP,
    NUM_STEPS
} step_t;

typedef struct stranger {
    const uint8_t   *data;
    size_t           size;
    int              fd;
    bool             has_proved;
    xfer_handshake_t handshake;
} stranger_t;

/* assert() that does not depend on NDEBUG. */
#define CHECK(_condition) \
    do { \
        if (!(_condition)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #_condition); \
            abort(); \
        } \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t take_byte(stranger_t *stranger)
{
    if (stranger->size == 0) {
        return 0;
    }
    stranger->size--;
    return *stranger->data++;
}

/* A byte for how many, then these. */
static const uint8_t *take_bytes(stranger_t *stranger, size_t *length_p)
{
    const uint8_t *bytes;

    *length_p = take_byte(stranger);
    *length_p = base_min(*length_p, stranger->size);
    bytes     = stranger->data;
    stranger->data += *length_p;
    stranger->size -= *length_p;
    return bytes;
}

/* What does not fit the socket is lost, as are bytes to who has hung up. */
static void send_bytes(stranger_t *stranger, const void *bytes, size_t length)
{
    ssize_t sent = send(stranger->fd, bytes, length, MSG_NOSIGNAL);

    (void)sent;
}

static void send_header(stranger_t *stranger, uint8_t type, uint8_t flags,
                        uint32_t length)
{
    const xfer_greeting_header_t header = {.version = XFER_GREETING_VERSION,
                                           .type    = type,
                                           .flags   = flags,
                                           .length  = length};
    uint8_t                      bytes[XFER_GREETING_HEADER_SIZE];

    xfer_greeting_pack_header(&header, bytes);
    send_bytes(stranger, bytes, sizeof(bytes));
}

static void send_nonce(stranger_t *stranger)
{
    const uint8_t nonce[XFER_NONCE_SIZE] = {1, 2, 3};

    send_header(stranger,
                stranger->handshake.is_caller ? XFER_GREETING_CHALLENGE
                                              : XFER_GREETING_GREET,
                0, sizeof(nonce));
    send_bytes(stranger, nonce, sizeof(nonce));
}

/* The stranger looks up what it has to sign. */
static void send_proof(stranger_t *stranger)
{
    bool                 is_caller = stranger->handshake.is_caller;
    xfer_greeting_type_t type =
        is_caller ? XFER_GREETING_ANSWER_PROOF : XFER_GREETING_CALLER_PROOF;
    xfer_greeting_side_t  caller   = stranger->handshake.caller;
    xfer_greeting_side_t  listener = stranger->handshake.listener;
    xfer_greeting_side_t *side     = is_caller ? &listener : &caller;
    uint8_t               mac[XFER_MAC_SIZE];
    size_t                length;

    side->blob        = take_bytes(stranger, &length);
    side->blob_length = (uint32_t)length;
    CHECK(xfer_greeting_prove(type, NULL, &caller, &listener, mac) ==
          UCXPOOL_OK);
    send_header(stranger, (uint8_t)type, 0, (uint32_t)(sizeof(mac) + length));
    send_bytes(stranger, mac, sizeof(mac));
    send_bytes(stranger, side->blob, length);
    stranger->has_proved = true;
}

static void send_refusal(stranger_t *stranger)
{
    uint8_t        code[4] = {take_byte(stranger), 0, 0, 0};
    size_t         length;
    const uint8_t *text = take_bytes(stranger, &length);

    send_header(stranger, XFER_GREETING_REFUSE, 0,
                (uint32_t)(sizeof(code) + length));
    send_bytes(stranger, code, sizeof(code));
    send_bytes(stranger, text, length);
}

static void read_all(stranger_t *stranger)
{
    uint8_t bytes[XFER_GREETING_MAX];

    while (recv(stranger->fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
    }
}

static void take_step(stranger_t *stranger)
{
    const uint8_t *bytes;
    size_t         length;
    uint8_t        type, flags;

    switch ((step_t)(take_byte(stranger) % NUM_STEPS)) {
    case STEP_RAW:
        bytes = take_bytes(stranger, &length);
        send_bytes(stranger, bytes, length);
        break;
    case STEP_HEADER:
        type   = take_byte(stranger);
        flags  = take_byte(stranger);
        length = take_byte(stranger);
        length += (size_t)take_byte(stranger) << 8;
        send_header(stranger, type, flags, (uint32_t)length);
        break;
    case STEP_NONCE:
        send_nonce(stranger);
        break;
    case STEP_PROOF:
        send_proof(stranger);
        break;
    case STEP_REFUSE:
        send_refusal(stranger);
        break;
    case STEP_READ:
        read_all(stranger);
        break;
    default:
        shutdown(stranger->fd, SHUT_WR);
    }
}

/* Whatever it ends with, the words are text and nobody is let in unproven. */
static void check_end(const stranger_t *stranger, ucxpool_status_t status)
{
    const xfer_handshake_t *handshake = &stranger->handshake;
    size_t                  length;
    const uint8_t          *blob;
    unsigned                sum = 0;

    if (status == UCXPOOL_INPROGRESS) {
        return;
    }
    if (status != UCXPOOL_OK) {
        CHECK(handshake->state == XFER_HANDSHAKE_FAILED);
        CHECK(strlen(handshake->reason) < sizeof(handshake->reason));
        for (const char *c = handshake->reason; *c != '\0'; c++) {
            CHECK((*c >= 0x20) && (*c < 0x7f));
        }
        return;
    }
    CHECK(stranger->has_proved);
    CHECK(handshake->is_caller || !handshake->is_full);
    CHECK(handshake->state == XFER_HANDSHAKE_DONE);
    blob = xfer_handshake_blob(handshake, &length);
    CHECK(length <= XFER_BLOB_MAX);
    for (size_t i = 0; i < length; i++) {
        sum += blob[i];
    }
    CHECK(sum <= 255 * length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t blob[100] = {9, 8, 7};
    const xfer_self_t    self = {.blob = blob, .blob_length = sizeof(blob)};
    static stranger_t    stranger;
    ucxpool_status_t     status;
    uint8_t              flags;
    int                  fds[2];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    stranger.data       = data;
    stranger.size       = size;
    stranger.fd         = fds[1];
    stranger.has_proved = false;
    flags               = take_byte(&stranger);
    CHECK(xfer_handshake_init(&stranger.handshake, fds[0],
                              (flags & FLAG_CALLER) != 0, &self) == UCXPOOL_OK);
    stranger.handshake.is_full = (flags & FLAG_FULL) != 0;
    do {
        status = xfer_handshake_progress(&stranger.handshake);
        if (stranger.size > 0) {
            take_step(&stranger);
        }
    } while ((stranger.size > 0) && (status == UCXPOOL_INPROGRESS));
    check_end(&stranger, xfer_handshake_progress(&stranger.handshake));
    xfer_handshake_cleanup(&stranger.handshake);
    close(fds[0]);
    close(fds[1]);
    return 0;
}
