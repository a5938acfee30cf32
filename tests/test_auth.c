/*
 * Authentication, byte by byte. Client and listener each have a connection to
 * the test, which collects what one side sends before it forwards the bytes to
 * the other.
 */
/* Before test.h, which defines a macro fail(). */
#include "bootstrap/auth.c"

#include "loopback.h"
#include "net_calls.h"
#include "test.h"

#include "base/log.h"

#include <ucxpool/ucxpool.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEADER BOOTSTRAP_MESSAGE_HEADER_SIZE

/* Offsets of fields in a header. */
#define AT_VERSION 4
#define AT_TYPE    6
#define AT_FLAGS   7
#define AT_LENGTH  8

/* Bytes of HELLO and of CHALLENGE. */
#define NONCE_MESSAGE (HEADER + BOOTSTRAP_NONCE_SIZE)

static char client_blob[]   = "blob of the client";
static char listener_blob[] = "blob of the listener, a longer one";

/* One side: its authentication, the test's end of its socket, and the bytes
 * that it has sent. */
typedef struct side {
    bootstrap_auth_t auth;
    bootstrap_self_t self;
    ucxpool_status_t status;
    int              fd;
    int              our_fd;
    size_t           num_sent;
    uint8_t          sent[4 * BOOTSTRAP_MESSAGE_MAX];
} side_t;

static side_t         client;
static side_t         listener;
static base_secret_t *secret;
static base_secret_t *other_secret;

static void begin_side(side_t *side, bool is_client)
{
    int fds[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds),
                     0);
    ck_assert_int_eq(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    side->fd       = fds[0];
    side->our_fd   = fds[1];
    side->num_sent = 0;
    side->status   = UCXPOOL_INPROGRESS;
    assert_ok(bootstrap_auth_init(&side->auth, fds[0], is_client, &side->self));
}

static void end(void)
{
    bootstrap_auth_cleanup(&client.auth);
    bootstrap_auth_cleanup(&listener.auth);
    close(client.fd);
    close(listener.fd);
    close(client.our_fd);
    close(listener.our_fd);
}

static void begin(void)
{
    begin_side(&client, true);
    begin_side(&listener, false);
    test_at_end(end);
}

static bootstrap_self_t self_of(const base_secret_t *key, void *blob,
                                size_t length)
{
    return (bootstrap_self_t){
        .secret = key, .blob = blob, .blob_length = length};
}

static void use(const base_secret_t *clients, const base_secret_t *listeners)
{
    client.self   = self_of(clients, client_blob, sizeof(client_blob));
    listener.self = self_of(listeners, listener_blob, sizeof(listener_blob));
}

static void setup(void)
{
    base_log_set_level(BASE_LOG_NONE);
    secret       = loopback_secret("0123456789abcdef0123456789abcdef\n");
    other_secret = loopback_secret("0123456789abcdef0123456789abcdeF\n");
    use(secret, secret);
}

static void teardown(void)
{
    net_call_reset();
    net_call_limit(0);
    base_secret_put(secret);
    base_secret_put(other_secret);
}

static void progress(side_t *side)
{
    side->status = bootstrap_auth_progress(&side->auth);
}

/* Collect the bytes that a side has sent since the last call; returns their
 * number. */
static size_t collect(side_t *side)
{
    ssize_t length = recv(side->our_fd, side->sent + side->num_sent,
                          sizeof(side->sent) - side->num_sent, MSG_DONTWAIT);

    if (length <= 0) {
        return 0;
    }
    side->num_sent += (size_t)length;
    return (size_t)length;
}

static void give(side_t *side, const void *bytes, size_t length)
{
    ck_assert_int_eq(send(side->our_fd, bytes, length, MSG_NOSIGNAL),
                     (ssize_t)length);
}

static void feed(side_t *side, const void *bytes, size_t length)
{
    give(side, bytes, length);
    progress(side);
}

/* A byte of one side's stream to change in transit; NULL: none. */
static side_t *changed_side;
static size_t  changed_offset;
static uint8_t changed_bits;

/* Forward what a side sent, in pieces. */
static bool relay(side_t *from, side_t *to, size_t piece)
{
    size_t offset = from->num_sent;
    size_t length = collect(from);

    if ((from == changed_side) && (changed_offset >= offset) &&
        (changed_offset < from->num_sent)) {
        from->sent[changed_offset] ^= changed_bits;
    }
    for (; offset < from->num_sent; offset += piece) {
        if (piece > from->num_sent - offset) {
            piece = from->num_sent - offset;
        }
        give(to, from->sent + offset, piece);
        progress(to);
    }
    return length > 0;
}

static void run_in_pieces(size_t piece)
{
    do {
        progress(&client);
        progress(&listener);
    } while (relay(&client, &listener, piece) ||
             relay(&listener, &client, piece));
}

static void run(void)
{
    run_in_pieces(BOOTSTRAP_MESSAGE_MAX);
}

/* Run with a byte that is changed in transit. */
static void run_changed(side_t *side, size_t offset, uint8_t bits)
{
    changed_side   = side;
    changed_offset = offset;
    changed_bits   = bits;
    run();
    changed_side = NULL;
}

/* The peer sends nothing more. */
static void end_of_stream(side_t *side)
{
    shutdown(side->our_fd, SHUT_WR);
    progress(side);
}

static void assert_reason(const side_t *side, ucxpool_status_t status,
                          const char *words)
{
    ck_assert_int_eq(side->status, status);
    assert_has(side->auth.reason, words);
}

static void assert_blob(const side_t *side, const void *expected, size_t length)
{
    size_t      found_length;
    const void *found = bootstrap_auth_blob(&side->auth, &found_length);

    ck_assert_uint_eq(found_length, length);
    if (length > 0) {
        ck_assert_mem_eq(found, expected, length);
    }
}

static void assert_met(void)
{
    ck_assert_msg(client.status == UCXPOOL_OK, "%s", client.auth.reason);
    ck_assert_msg(listener.status == UCXPOOL_OK, "%s", listener.auth.reason);
    assert_blob(&client, listener.self.blob, listener.self.blob_length);
    assert_blob(&listener, client.self.blob, client.self.blob_length);
}

static void meet(void)
{
    begin();
    run();
    assert_met();
}

/* The listener has rejected the client, and the client has read the reason. */
static void assert_refused(ucxpool_status_t status, const char *words)
{
    assert_reason(&client, status, words);
    /* The client closes its connection. */
    end_of_stream(&listener);
    assert_reason(&listener, status, words);
}

static size_t make_header(uint8_t *bytes, unsigned version, uint8_t type,
                          uint8_t flags, uint32_t length)
{
    const bootstrap_message_header_t header = {
        .version = (uint16_t)version,
        .type    = type,
        .flags   = flags,
        .length  = length,
    };

    pack_header(&header, bytes);
    return HEADER;
}

/* --- success ------------------------------------------------------------- */

/* Valgrind and the sanitizers make these tests slow. */
TEST_SETTINGS(.setup = setup, .teardown = teardown, .timeout = 120);

TEST(without_secrets_the_same_messages_are_exchanged)
{
    use(NULL, NULL);
    meet();
}

TEST(bytes_may_arrive_one_at_a_time)
{
    begin();
    run_in_pieces(1);
    assert_met();
}

TEST(send_and_recv_may_move_one_byte_at_a_time)
{
    net_call_limit(1);
    begin();
    run();
    net_call_limit(0);
    assert_met();
}

TEST(blobs_may_be_empty_or_of_the_largest_size)
{
    static const size_t lengths[] = {0, 1, BOOTSTRAP_BLOB_MAX};
    static uint8_t      bytes[BOOTSTRAP_BLOB_MAX];

    memset(bytes, 0xa5, sizeof(bytes));
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < 3; j++) {
            client.self   = self_of(secret, bytes, lengths[i]);
            listener.self = self_of(secret, bytes, lengths[j]);
            meet();
            test_end();
        }
    }
}

TEST(each_hello_has_a_new_nonce)
{
    uint8_t nonce[BOOTSTRAP_NONCE_SIZE];

    begin();
    memcpy(nonce, client.auth.client.nonce, sizeof(nonce));
    ck_assert_mem_ne(nonce, listener.auth.listener.nonce, sizeof(nonce));
    test_end();
    begin();
    ck_assert_mem_ne(nonce, client.auth.client.nonce, sizeof(nonce));
}

/* --- refusals and their reasons ------------------------------------------ */

TEST(client_with_a_wrong_secret_receives_only_the_reason)
{
    bootstrap_message_header_t header;

    use(other_secret, secret);
    begin();
    run();
    ck_assert_uint_gt(listener.num_sent, NONCE_MESSAGE + HEADER);
    ck_assert(unpack_header(listener.sent + NONCE_MESSAGE, &header));
    ck_assert_uint_eq(header.type, BOOTSTRAP_MESSAGE_REFUSE);
    ck_assert_uint_eq(listener.num_sent,
                      NONCE_MESSAGE + HEADER + header.length);
    assert_refused(UCXPOOL_ERR_PERMISSION, "the secrets differ");
}

TEST(client_sends_no_proof_to_a_listener_without_a_secret)
{
    use(secret, secret);
    begin();
    run_changed(&listener, AT_FLAGS, BOOTSTRAP_MESSAGE_FLAG_SECRET);
    assert_reason(&client, UCXPOOL_ERR_PERMISSION, "the listener has none");
    ck_assert_uint_eq(client.num_sent, NONCE_MESSAGE);
}

TEST(refusal_of_another_version_names_both_versions)
{
    begin();
    run_changed(&client, AT_VERSION, BOOTSTRAP_AUTH_VERSION ^ 2);
    assert_refused(UCXPOOL_ERR_PROTOCOL,
                   "the client uses protocol 2, the listener uses protocol 1");
}

TEST(longer_hello_of_another_version_gets_a_refusal)
{
    uint8_t bytes[HEADER + 500] = {0};

    begin();
    make_header(bytes, 3, BOOTSTRAP_MESSAGE_HELLO, 0, 500);
    feed(&listener, bytes, sizeof(bytes));
    ck_assert_int_eq(listener.status, UCXPOOL_INPROGRESS);
    collect(&listener);
    ck_assert_uint_eq(listener.sent[AT_TYPE], BOOTSTRAP_MESSAGE_REFUSE);
    end_of_stream(&listener);
    assert_reason(&listener, UCXPOOL_ERR_PROTOCOL, "uses protocol 3");
}

TEST(listener_of_another_version_is_reported)
{
    begin();
    run_changed(&listener, AT_VERSION, BOOTSTRAP_AUTH_VERSION ^ 2);
    assert_reason(&client, UCXPOOL_ERR_PROTOCOL,
                  "the listener uses protocol 2, the client uses protocol 1");
}

TEST(refusal_from_another_version_is_parsed)
{
    uint8_t bytes[BOOTSTRAP_MESSAGE_MAX];
    size_t  length =
        pack_refuse(BOOTSTRAP_REFUSAL_VERSION, "we speak 7 only", bytes);

    bytes[AT_VERSION] = 7;
    begin();
    feed(&client, bytes, length);
    assert_reason(&client, UCXPOOL_ERR_PROTOCOL, "we speak 7 only");
}

TEST(full_listener_sends_a_refusal)
{
    begin();
    listener.auth.is_full = true;
    run();
    assert_refused(UCXPOOL_ERR_LIMIT, "too many peers");
}

TEST(each_refusal_has_its_status)
{
    assert_error(refusal_status(BOOTSTRAP_REFUSAL_OTHER), REFUSED);
    assert_error(refusal_status(BOOTSTRAP_REFUSAL_VERSION), PROTOCOL);
    assert_error(refusal_status(BOOTSTRAP_REFUSAL_FORMAT), PROTOCOL);
    assert_error(refusal_status(BOOTSTRAP_REFUSAL_SECRET), PERMISSION);
    assert_error(refusal_status(BOOTSTRAP_REFUSAL_FULL), LIMIT);
}

TEST(peers_reason_is_made_printable)
{
    static const char evil[] = "\x1b[2J\n\xff\x7fok%s%n";
    uint8_t           bytes[BOOTSTRAP_MESSAGE_MAX];
    size_t            length;

    length = pack_refuse((bootstrap_refusal_t)99, evil, bytes);
    begin();
    feed(&client, bytes, length);
    assert_reason(&client, UCXPOOL_ERR_REFUSED, "?[2J???ok%s%n");
    for (const char *c = client.auth.reason; *c != '\0'; c++) {
        ck_assert((*c >= 0x20) && (*c < 0x7f));
    }
}

TEST(long_refusal_is_truncated)
{
    char    text[500];
    uint8_t bytes[BOOTSTRAP_MESSAGE_MAX];
    char    found[BOOTSTRAP_REFUSE_TEXT_MAX + 1];
    size_t  length;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    length                 = pack_refuse(BOOTSTRAP_REFUSAL_FULL, text, bytes);
    ck_assert_uint_eq(length, HEADER + 4 + BOOTSTRAP_REFUSE_TEXT_MAX);
    ck_assert_int_eq(
        unpack_refuse(bytes + HEADER, (uint32_t)(length - HEADER), found),
        BOOTSTRAP_REFUSAL_FULL);
    ck_assert_uint_eq(strlen(found), BOOTSTRAP_REFUSE_TEXT_MAX);
}

TEST(rejected_client_may_send_a_limited_amount)
{
    static uint8_t bytes[8192];
    size_t         given = 0;

    use(NULL, secret);
    begin();
    progress(&client);
    relay(&client, &listener, BOOTSTRAP_MESSAGE_MAX);
    while (listener.status == UCXPOOL_INPROGRESS) {
        ck_assert_uint_le(given, BOOTSTRAP_DRAIN_MAX);
        give(&listener, bytes, sizeof(bytes));
        given += sizeof(bytes);
        progress(&listener);
    }
    assert_reason(&listener, UCXPOOL_ERR_PERMISSION, "the client has none");
    ck_assert_uint_ge(given, BOOTSTRAP_DRAIN_MAX);
}

/* --- malformed messages -------------------------------------------------- */

/* Flip each bit of the byte in turn. */
TEST_EACH(any_changed_byte_is_detected, 8)
{
    size_t client_length =
        NONCE_MESSAGE + HEADER + BOOTSTRAP_MAC_SIZE + sizeof(client_blob);
    size_t listener_length =
        NONCE_MESSAGE + HEADER + BOOTSTRAP_MAC_SIZE + sizeof(listener_blob);
    uint8_t bit = (uint8_t)(1u << _i);

    for (size_t i = 0; i < client_length; i++) {
        begin();
        run_changed(&client, i, bit);
        ck_assert_uint_le(client.num_sent, client_length);
        ck_assert_int_ne(listener.status, UCXPOOL_OK);
        ck_assert_int_ne(client.status, UCXPOOL_OK);
        test_end();
    }
    for (size_t i = 0; i < listener_length; i++) {
        begin();
        run_changed(&listener, i, bit);
        ck_assert_uint_le(listener.num_sent, BOOTSTRAP_MESSAGE_MAX * 2);
        ck_assert_int_ne(client.status, UCXPOOL_OK);
        test_end();
    }
}

TEST(foreign_protocol_is_reported)
{
    static const char *const garbage[] = {
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        "SSH-2.0-OpenSSH_9.2p1\r\n",
    };

    for (size_t i = 0; i < 3; i++) {
        begin();
        feed(&listener, garbage[i], strlen(garbage[i]));
        assert_reason(&listener, UCXPOOL_ERR_PROTOCOL, "not a pool");
        feed(&client, garbage[i], strlen(garbage[i]));
        assert_reason(&client, UCXPOOL_ERR_PROTOCOL, "not a pool");
        test_end();
    }
}

TEST(peer_closing_at_any_byte_is_reported_lost)
{
    size_t total = 0;

    begin();
    run();
    total = client.num_sent;
    test_end();
    for (size_t cut = 0; cut < total; cut++) {
        begin();
        progress(&client);
        collect(&client);
        feed(&listener, client.sent, cut < NONCE_MESSAGE ? cut : NONCE_MESSAGE);
        if (cut >= NONCE_MESSAGE) {
            relay(&listener, &client, BOOTSTRAP_MESSAGE_MAX);
            collect(&client);
            give(&listener, client.sent + NONCE_MESSAGE, cut - NONCE_MESSAGE);
        }
        end_of_stream(&listener);
        assert_reason(&listener, UCXPOOL_ERR_PEER_LOST,
                      "closed the connection");
        test_end();
    }
}

TEST(wrong_length_is_rejected_before_the_body_is_read)
{
    static const struct {
        side_t  *reader;
        uint8_t  type;
        uint32_t length;
    } cases[] = {
        {&listener, BOOTSTRAP_MESSAGE_HELLO, 0},
        {&listener, BOOTSTRAP_MESSAGE_HELLO, BOOTSTRAP_NONCE_SIZE - 1},
        {&listener, BOOTSTRAP_MESSAGE_HELLO, BOOTSTRAP_NONCE_SIZE + 1},
        {&listener, BOOTSTRAP_MESSAGE_HELLO, UINT32_MAX},
        {&listener, BOOTSTRAP_MESSAGE_CLIENT_PROOF, BOOTSTRAP_MAC_SIZE - 1},
        {&listener, BOOTSTRAP_MESSAGE_CLIENT_PROOF,
         BOOTSTRAP_MAC_SIZE + BOOTSTRAP_BLOB_MAX + 1},
        {&listener, BOOTSTRAP_MESSAGE_CLIENT_PROOF, UINT32_MAX},
        {&client, BOOTSTRAP_MESSAGE_CHALLENGE, 0},
        {&client, BOOTSTRAP_MESSAGE_CHALLENGE, UINT32_MAX},
        {&client, BOOTSTRAP_MESSAGE_REFUSE, 3},
        {&client, BOOTSTRAP_MESSAGE_REFUSE, 4 + BOOTSTRAP_REFUSE_TEXT_MAX + 1},
        {&client, BOOTSTRAP_MESSAGE_REFUSE, UINT32_MAX},
    };
    uint8_t bytes[HEADER];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        side_t *reader = cases[i].reader;

        begin();
        if (cases[i].type == BOOTSTRAP_MESSAGE_CLIENT_PROOF) {
            progress(&client);
            relay(&client, &listener, BOOTSTRAP_MESSAGE_MAX);
        }
        make_header(bytes, BOOTSTRAP_AUTH_VERSION, cases[i].type,
                    BOOTSTRAP_MESSAGE_FLAG_SECRET, cases[i].length);
        feed(reader, bytes, sizeof(bytes));
        if (reader == &listener) {
            ck_assert_int_eq(listener.auth.state, BOOTSTRAP_AUTH_DRAIN);
            end_of_stream(&listener);
        }
        assert_reason(reader, UCXPOOL_ERR_PROTOCOL, "invalid length");
        test_end();
    }
}

TEST(unknown_type_is_rejected_at_any_length)
{
    for (unsigned type = 0; type < 256; type++) {
        if ((type < BOOTSTRAP_MESSAGE_HELLO) ||
            (type > BOOTSTRAP_MESSAGE_REFUSE)) {
            ck_assert(!length_fits((uint8_t)type, 32));
        }
    }
}

TEST(message_out_of_order_is_rejected)
{
    uint8_t bytes[HEADER];

    for (unsigned type = 0; type < 256; type++) {
        make_header(bytes, BOOTSTRAP_AUTH_VERSION, (uint8_t)type, 0, 32);
        begin();
        if (type != BOOTSTRAP_MESSAGE_HELLO) {
            give(&listener, bytes, sizeof(bytes));
            end_of_stream(&listener);
            assert_reason(&listener, UCXPOOL_ERR_PROTOCOL,
                          "instead of message");
        }
        if ((type != BOOTSTRAP_MESSAGE_CHALLENGE) &&
            (type != BOOTSTRAP_MESSAGE_REFUSE)) {
            feed(&client, bytes, sizeof(bytes));
            assert_reason(&client, UCXPOOL_ERR_PROTOCOL, "instead of message");
        }
        test_end();
    }
}

/* --- attacks ---------------------------------------------------------------
 */

TEST(replayed_proof_is_rejected)
{
    static uint8_t recorded[sizeof(client.sent)];
    size_t         length;

    meet();
    length = client.num_sent;
    memcpy(recorded, client.sent, length);
    test_end();

    begin();
    feed(&listener, recorded, length);
    end_of_stream(&listener);
    assert_reason(&listener, UCXPOOL_ERR_PERMISSION, "the secrets differ");
}

TEST(reflected_proof_is_rejected)
{
    size_t proof_length;

    /* A listener without the secret returns the client's own messages under the
     * message types that the client expects. */
    begin();
    progress(&client);
    collect(&client);
    client.sent[AT_TYPE] = BOOTSTRAP_MESSAGE_CHALLENGE;
    feed(&client, client.sent, NONCE_MESSAGE);
    proof_length = collect(&client);
    ck_assert_uint_eq(proof_length,
                      HEADER + BOOTSTRAP_MAC_SIZE + sizeof(client_blob));
    client.sent[NONCE_MESSAGE + AT_TYPE] = BOOTSTRAP_MESSAGE_LISTENER_PROOF;
    feed(&client, client.sent + NONCE_MESSAGE, proof_length);
    assert_reason(&client, UCXPOOL_ERR_PERMISSION, "the secrets differ");
}

TEST(client_rejects_a_listener_without_the_secret)
{
    uint8_t bytes[HEADER + BOOTSTRAP_MAC_SIZE] = {0};

    begin();
    progress(&client);
    make_header(bytes, BOOTSTRAP_AUTH_VERSION, BOOTSTRAP_MESSAGE_CHALLENGE,
                BOOTSTRAP_MESSAGE_FLAG_SECRET, BOOTSTRAP_NONCE_SIZE);
    give(&client, bytes, NONCE_MESSAGE);
    make_header(bytes, BOOTSTRAP_AUTH_VERSION, BOOTSTRAP_MESSAGE_LISTENER_PROOF,
                BOOTSTRAP_MESSAGE_FLAG_SECRET, BOOTSTRAP_MAC_SIZE);
    feed(&client, bytes, sizeof(bytes));
    assert_reason(&client, UCXPOOL_ERR_PERMISSION, "the secrets differ");
}

/* --- system errors ------------------------------------------------------- */

TEST(init_fails_without_random_numbers)
{
    begin();
    net_call_fail(NET_CALL_RAND_BYTES, 1, 0);
    assert_error(
        bootstrap_auth_init(&client.auth, client.fd, true, &client.self), IO);
    assert_ok(bootstrap_auth_init(&client.auth, client.fd, true, &client.self));
}

TEST(failing_send_or_recv_ends_that_side)
{
    static const struct {
        net_call_t       call;
        int              error;
        ucxpool_status_t status;
    } cases[] = {
        {NET_CALL_SEND, ENOBUFS, UCXPOOL_ERR_IO},
        {NET_CALL_SEND, EPIPE, UCXPOOL_ERR_PEER_LOST},
        {NET_CALL_RECV, ENOMEM, UCXPOOL_ERR_IO},
        {NET_CALL_RECV, ECONNRESET, UCXPOOL_ERR_PEER_LOST},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin();
        net_call_fail(cases[i].call, 1, cases[i].error);
        progress(&client);
        ck_assert(net_call_reset());
        assert_reason(&client, cases[i].status, strerror(cases[i].error));
        progress(&client);
        ck_assert_int_eq(client.status, cases[i].status);
        test_end();
    }
}

TEST(interrupted_or_unready_call_is_retried)
{
    static const net_call_t calls[]  = {NET_CALL_SEND, NET_CALL_RECV};
    static const int        errors[] = {EINTR, EAGAIN};

    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < 2; j++) {
            begin();
            net_call_fail(calls[i], 1, errors[j]);
            progress(&client);
            ck_assert(net_call_reset());
            ck_assert_int_eq(client.status, UCXPOOL_INPROGRESS);
            run();
            assert_met();
            test_end();
        }
    }
}

TEST(failing_signature_ends_the_authentication)
{
    unsigned n;

    for (n = 1;; n++) {
        begin();
        net_call_fail(NET_CALL_HMAC, n, 0);
        run();
        if (!net_call_reset()) {
            assert_met();
            test_end();
            break;
        }
        ck_assert((client.status == UCXPOOL_ERR_IO) ||
                  (listener.status == UCXPOOL_ERR_IO));
        test_end();
    }
    /* Two proofs, each computed once and verified once. */
    ck_assert_uint_eq(n, 5);
}

TEST(closed_peer_raises_no_sigpipe)
{
    begin();
    shutdown(client.our_fd, SHUT_RDWR);
    progress(&client);
    assert_reason(&client, UCXPOOL_ERR_PEER_LOST, "Broken pipe");
}

/* The signed bytes of docs/reference/protocol.md, assembled by hand. */
TEST(the_proofs_are_as_documented)
{
    static const uint8_t  middle[] = {BOOTSTRAP_AUTH_VERSION, 0, 1, 1};
    bootstrap_auth_side_t sides[2] = {
        {.flags = 1, .blob = "abc", .blob_length = 3},
        {.flags = 1, .blob = "de", .blob_length = 2},
    };
    uint8_t bytes[128];
    uint8_t expected[BOOTSTRAP_MAC_SIZE];
    uint8_t mac[BOOTSTRAP_MAC_SIZE];
    size_t  length = 15 + sizeof(middle) + (2 * BOOTSTRAP_NONCE_SIZE) + 4 + 3;

    memset(sides[0].nonce, 0x11, BOOTSTRAP_NONCE_SIZE);
    memset(sides[1].nonce, 0x22, BOOTSTRAP_NONCE_SIZE);
    memcpy(bytes, "ucxpool caller", 15);
    memcpy(bytes + 15, middle, sizeof(middle));
    memset(bytes + 19, 0x11, BOOTSTRAP_NONCE_SIZE);
    memset(bytes + 51, 0x22, BOOTSTRAP_NONCE_SIZE);
    memcpy(bytes + 83, "\3\0\0\0abc\2\0\0\0de", 13);

    assert_ok(sign(secret, bytes, length, expected));
    assert_ok(prove(BOOTSTRAP_MESSAGE_CLIENT_PROOF, secret, &sides[0],
                    &sides[1], mac));
    ck_assert_mem_eq(mac, expected, sizeof(mac));

    memcpy(bytes, "ucxpool listen", 15);
    assert_ok(sign(secret, bytes, length + 6, expected));
    assert_ok(prove(BOOTSTRAP_MESSAGE_LISTENER_PROOF, secret, &sides[0],
                    &sides[1], mac));
    ck_assert_mem_eq(mac, expected, sizeof(mac));
}
