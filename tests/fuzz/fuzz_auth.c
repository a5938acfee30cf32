/*
 * Fuzz target: what a stranger may send before it is authenticated, in either
 * role. The first byte contains the FLAGs below. A script follows. Each of its
 * steps begins with a byte that selects the stranger's action.
 */
#include <config.h>

#include "fuzz.h"

#include "base/math.h"
#include "bootstrap/auth.c"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FLAG_CALLER 0x01 /* we are the client */
#define FLAG_FULL   0x02 /* and have no room for another peer */

typedef enum step {
    STEP_RAW,    /* send bytes: a byte for the count, then the bytes */
    STEP_HEADER, /* send a header: type, flags, then 2 bytes for the length */
    STEP_NONCE,  /* send the message that is expected first */
    STEP_PROOF,  /* authenticate, with a blob in the form of STEP_RAW */
    STEP_REFUSE, /* refuse: a byte for the code, then as for STEP_RAW */
    STEP_READ,   /* read everything that has arrived */
    STEP_HANG_UP,
    NUM_STEPS
} step_t;

typedef struct stranger {
    const uint8_t   *data;
    size_t           size;
    int              fd;
    bool             has_proved;
    bootstrap_auth_t auth;
} stranger_t;

static uint8_t take_byte(stranger_t *stranger)
{
    if (stranger->size == 0) {
        return 0;
    }
    stranger->size--;
    return *stranger->data++;
}

/* A byte for the count, then the bytes. */
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

/* Bytes that do not fit in the socket, or go to a closed one, are lost. */
static void send_bytes(stranger_t *stranger, const void *bytes, size_t length)
{
    ssize_t sent = send(stranger->fd, bytes, length, MSG_NOSIGNAL);

    (void)sent;
}

static void send_header(stranger_t *stranger, uint8_t type, uint8_t flags,
                        uint32_t length)
{
    const bootstrap_message_header_t header = {.version =
                                                   BOOTSTRAP_AUTH_VERSION,
                                               .type   = type,
                                               .flags  = flags,
                                               .length = length};
    uint8_t                          bytes[BOOTSTRAP_MESSAGE_HEADER_SIZE];

    pack_header(&header, bytes);
    send_bytes(stranger, bytes, sizeof(bytes));
}

static void send_nonce(stranger_t *stranger)
{
    const uint8_t nonce[BOOTSTRAP_NONCE_SIZE] = {1, 2, 3};

    send_header(stranger,
                stranger->auth.is_client ? BOOTSTRAP_MESSAGE_CHALLENGE
                                         : BOOTSTRAP_MESSAGE_HELLO,
                0, sizeof(nonce));
    send_bytes(stranger, nonce, sizeof(nonce));
}

/* The stranger reads the data to sign from the connection under test. */
static void send_proof(stranger_t *stranger)
{
    bool                     is_client = stranger->auth.is_client;
    bootstrap_message_type_t type = is_client ? BOOTSTRAP_MESSAGE_LISTENER_PROOF
                                              : BOOTSTRAP_MESSAGE_CLIENT_PROOF;
    bootstrap_auth_side_t    client   = stranger->auth.client;
    bootstrap_auth_side_t    listener = stranger->auth.listener;
    bootstrap_auth_side_t   *side     = is_client ? &listener : &client;
    uint8_t                  mac[BOOTSTRAP_MAC_SIZE];
    size_t                   length;

    side->blob        = take_bytes(stranger, &length);
    side->blob_length = (uint32_t)length;
    CHECK(prove(type, NULL, &client, &listener, mac) == UCXPOOL_OK);
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

    send_header(stranger, BOOTSTRAP_MESSAGE_REFUSE, 0,
                (uint32_t)(sizeof(code) + length));
    send_bytes(stranger, code, sizeof(code));
    send_bytes(stranger, text, length);
}

static void read_all(stranger_t *stranger)
{
    uint8_t bytes[BOOTSTRAP_MESSAGE_MAX];

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

static char told[512];

const char *fuzz_told(void)
{
    return told;
}

static void tell(const stranger_t *stranger, ucxpool_status_t status)
{
    snprintf(told, sizeof(told), "%s, %zu bytes left: %s",
             ucxpool_status_string(status), stranger->size,
             stranger->auth.reason);
}

/* For every result, the message is text, and no peer is accepted without
 * proof. */
static void check_end(const stranger_t *stranger, ucxpool_status_t status)
{
    const bootstrap_auth_t *auth = &stranger->auth;
    size_t                  length;
    const uint8_t          *blob;
    unsigned                sum = 0;

    if (status == UCXPOOL_INPROGRESS) {
        return;
    }
    if (status != UCXPOOL_OK) {
        CHECK(auth->state == BOOTSTRAP_AUTH_FAILED);
        CHECK(strlen(auth->reason) < sizeof(auth->reason));
        for (const char *c = auth->reason; *c != '\0'; c++) {
            CHECK((*c >= 0x20) && (*c < 0x7f));
        }
        return;
    }
    CHECK(stranger->has_proved);
    CHECK(auth->is_client || !auth->is_full);
    CHECK(auth->state == BOOTSTRAP_AUTH_DONE);
    blob = bootstrap_auth_blob(auth, &length);
    CHECK(length <= BOOTSTRAP_BLOB_MAX);
    for (size_t i = 0; i < length; i++) {
        sum += blob[i];
    }
    CHECK(sum <= 255 * length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t         blob[100] = {9, 8, 7};
    const bootstrap_self_t self = {.blob = blob, .blob_length = sizeof(blob)};
    static stranger_t      stranger;
    ucxpool_status_t       status;
    uint8_t                flags;
    int                    fds[2];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    stranger.data       = data;
    stranger.size       = size;
    stranger.fd         = fds[1];
    stranger.has_proved = false;
    flags               = take_byte(&stranger);
    CHECK(bootstrap_auth_init(&stranger.auth, fds[0],
                              (flags & FLAG_CALLER) != 0, &self) == UCXPOOL_OK);
    stranger.auth.is_full = (flags & FLAG_FULL) != 0;
    do {
        status = bootstrap_auth_progress(&stranger.auth);
        if (stranger.size > 0) {
            take_step(&stranger);
        }
    } while ((stranger.size > 0) && (status == UCXPOOL_INPROGRESS));
    status = bootstrap_auth_progress(&stranger.auth);
    tell(&stranger, status);
    check_end(&stranger, status);
    bootstrap_auth_cleanup(&stranger.auth);
    close(fds[0]);
    close(fds[1]);
    return 0;
}
