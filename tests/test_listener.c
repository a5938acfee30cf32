/* Listeners: which clients are accepted, and protection from strangers. */
#include "core/channel.h"
#include "core/remote.h"
#include "loopback.h"
#include "pair.h"
#include "test.h"

#include "core/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAG UINT64_C(11)

static char dir[] = "/tmp/test_listener_XXXXXX";
static char secret_a[64];
static char secret_b[64];

static void write_secret(char *path, const char *name, const char *text)
{
    int fd;

    snprintf(path, 64, "%s/%s", dir, name);
    fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void setup(void)
{
    /* Tests may share a process, so the name may have been used before. */
    memset(strrchr(dir, '_') + 1, 'X', 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    write_secret(secret_a, "a", "a secret of sufficient length, and random");
    write_secret(secret_b, "b", "another secret of sufficient length, really");
}

static void teardown(void)
{
    unlink(secret_a);
    unlink(secret_b);
    rmdir(dir);
}

/* Settings with a secret; without one if it is NULL. */
static ucxpool_t *pool_with(const char *secret, const char *settings)
{
    char text[256];

    snprintf(text, sizeof(text), "%s%s %s",
             (secret == NULL) ? "LOG_LEVEL=error" : "SECRET_FILE=",
             (secret == NULL) ? "" : secret, settings);
    return pair_pool(text);
}

static pair_t              pair;
static ucxpool_listener_t *listener; /* of pool a */
static uint16_t            port;

/* Create two pools with a secret, of which a listens. */
static void begin_on(const char *where, const char *secret,
                     const char *settings_a, const char *settings_b)
{
    pair.a = pool_with(secret, settings_a);
    pair.b = pool_with(secret, settings_b);
    pair_keep(&pair);
    listener = pair_listen(pair.a, where);
    port     = ucxpool_listener_port(listener);
}

static void begin(const char *secret, const char *settings_a,
                  const char *settings_b)
{
    begin_on("127.0.0.1:0", secret, settings_a, settings_b);
}

/* Connect b to a. */
static void meet(const char *host)
{
    pair_meet_at(&pair, listener, host);
}

static const struct {
    const char *listen;
    const char *connect;
    const char *wire;
} ways[] = {
    {"127.0.0.1:0", "127.0.0.1", "WIRE=map"},
    {"127.0.0.1:0", "127.0.0.1", "WIRE=ucx"},
    {"127.0.0.1:0", "localhost", "WIRE=auto"},
    {"[::1]:0", "[::1]", "WIRE=map"},
    {"[::1]:0", "[::1]", "WIRE=ucx"},
};
#define NUM_WAYS ((int)(sizeof(ways) / sizeof(ways[0])))

static void meet_by(int way, const char *secret)
{
    begin_on(ways[way].listen, secret, ways[way].wire, ways[way].wire);
    meet(ways[way].connect);
}

static void pass(const char *secret, int way)
{
    meet_by(way, secret);
    pair_exchange(&pair, 100);
    pair_exchange(&pair, 200000);
    ucxpool_listener_destroy(listener);
    pair_exchange(&pair, 200000);
    pair_check_blocks(&pair);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown, .timeout = 60);

TEST_EACH(client_without_a_secret_is_accepted_if_none_is_set, NUM_WAYS)
{
    pass(NULL, _i);
}

TEST_EACH(client_with_the_secret_is_accepted, NUM_WAYS)
{
    pass(secret_a, _i);
}

/* Each end's local address is the other end's peer address. */
TEST_EACH(both_ends_report_both_addresses, NUM_WAYS)
{
    char                   where[64];
    ucxpool_channel_attr_t caller;
    ucxpool_channel_attr_t taken;

    meet_by(_i, NULL);
    caller = pair_attr(pair.to_a);
    taken  = pair_attr(pair.to_b);
    snprintf(where, sizeof(where), "%s:%u",
             (ways[_i].listen[0] == '[') ? "[::1]" : "127.0.0.1", port);
    ck_assert_str_eq(caller.remote_address, where);
    ck_assert_str_eq(taken.local_address, where);
    ck_assert_str_eq(caller.local_address, taken.remote_address);
    ck_assert_str_ne(caller.local_address, where);
}

static void check_named(ucxpool_channel_t *channel, void *user_ptr)
{
    static const char      long_name[] = "0123456789012345678901234567890123";
    ucxpool_channel_attr_t attr        = pair_attr(channel);

    ck_assert_ptr_null(attr.user_ptr);
    ucxpool_channel_set_name(channel, "the first worker");
    ucxpool_channel_set_user_ptr(channel, user_ptr);
    attr = pair_attr(channel);
    ck_assert_str_eq(attr.name, "the first worker");
    ck_assert_ptr_eq(attr.user_ptr, user_ptr);
    ucxpool_channel_set_name(channel, long_name);
    ck_assert_str_eq(attr.name, "the first worker"); /* a copy */
    attr = pair_attr(channel);
    ck_assert_uint_eq(strlen(attr.name), 31);
    ck_assert_int_eq(strncmp(attr.name, long_name, 31), 0);
    ucxpool_channel_set_name(channel, "");
    attr = pair_attr(channel);
    ck_assert_int_eq(strncmp(attr.name, "channel-", 8), 0);
}

static void check_has(const ucxpool_channel_t        *channel,
                      const ucxpool_channel_params_t *params)
{
    ucxpool_channel_attr_t attr = pair_attr(channel);

    ck_assert_str_eq(attr.name, params->name);
    ck_assert_ptr_eq(attr.user_ptr, params->user_ptr);
}

TEST(connect_and_accept_apply_the_channel_parameters)
{
    ucxpool_channel_params_t params = {.field_mask =
                                           UCXPOOL_CHANNEL_PARAM_FIELD_NAME |
                                           UCXPOOL_CHANNEL_PARAM_FIELD_USER_PTR,
                                       .user_ptr = &params};
    char                     where[64];

    begin(NULL, "", "");
    snprintf(where, sizeof(where), "127.0.0.1:%u", port);
    params.name = "the caller";
    assert_ok(ucxpool_channel_connect(pair.b, where, &params, &pair.to_a));
    check_has(pair.to_a, &params);
    params.name = "taken";
    pair_until(&pair, ucxpool_listener_accept(listener, &params, &pair.to_b) ==
                          UCXPOOL_OK);
    check_has(pair.to_b, &params);
}

TEST(connect_and_accept_reject_an_address_or_endpoint)
{
    const uint64_t           own[]  = {UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS,
                                       UCXPOOL_CHANNEL_PARAM_FIELD_EP};
    ucxpool_channel_params_t params = {.field_mask = 0};
    ucxpool_channel_t       *none   = NULL;

    begin(NULL, "", "");
    pair_call_a(&pair, listener, "127.0.0.1");
    pair_until(&pair, pair.to_a->wireup.client == NULL);
    for (int i = 0; i < 2; i++) {
        params.field_mask = own[i];
        assert_error(
            ucxpool_channel_connect(pair.b, "127.0.0.1:1", &params, &none),
            INVALID_PARAM);
        assert_error_detail(ucxpool_listener_accept(listener, &params, &none),
                            INVALID_PARAM, "must not");
    }
    ck_assert_ptr_null(none);
    assert_ok(ucxpool_listener_accept(listener, NULL, &pair.to_b));
    pair_until(&pair, pair_is_open(pair.to_a) && pair_is_open(pair.to_b));
}

TEST(connect_and_accept_set_a_name_and_a_pointer)
{
    begin(NULL, "", "");
    meet("127.0.0.1");
    check_named(pair.to_a, &pair.a);
    check_named(pair.to_b, &pair.b);
}

TEST(channel_errors_begin_with_the_channel_name)
{
    ucxpool_t         *pool    = pool_with(NULL, "");
    ucxpool_channel_t *channel = pair_meet(pool, pool);

    ucxpool_channel_set_name(channel, "the second worker");
    ck_assert_int_eq(ucxpool_channel_wait(channel, 0), UCXPOOL_INPROGRESS);
    ucxpool_channel_fail(channel);
    assert_error(ucxpool_channel_wait(channel, UCXPOOL_FOREVER), PEER_LOST);
    ck_assert_int_eq(strncmp(ucxpool_error_detail(), "the second worker: ", 19),
                     0);
    ucxpool_destroy(pool);
}

TEST(a_channel_has_no_addresses_before_it_is_connected)
{
    ucxpool_channel_attr_t attr;

    begin(NULL, "", "");
    pair_call_a(&pair, listener, "127.0.0.1");
    attr = pair_attr(pair.to_a);
    ck_assert_str_eq(attr.local_address, "");
    ck_assert_str_eq(attr.remote_address, "");
}

TEST(channel_by_address_reports_no_socket_addresses)
{
    ucxpool_channel_attr_t attr;

    pair_begin(&pair, NULL, NULL);
    attr = pair_attr(pair.to_a);
    ck_assert_int_eq(attr.state, UCXPOOL_CHANNEL_OPEN);
    ck_assert_str_eq(attr.local_address, "");
    ck_assert_str_eq(attr.remote_address, "");
}

static const struct {
    const char *server;
    const char *client;
    const char *reason;
} strangers[] = {{secret_a, secret_b, "the secrets differ"},
                 {secret_a, NULL, "the client has none"},
                 {NULL, secret_a, "the listener has none"}};
#define NUM_STRANGERS 3

TEST_EACH(client_with_a_wrong_secret_is_rejected, NUM_STRANGERS)
{
    ucxpool_channel_t     *none;
    ucxpool_channel_attr_t attr;

    pair.a = pool_with(strangers[_i].server, "LOG_LEVEL=none");
    pair.b = pool_with(strangers[_i].client, "LOG_LEVEL=none");
    pair_keep(&pair);
    listener = pair_listen(pair.a, "127.0.0.1:0");
    pair_call_a(&pair, listener, "127.0.0.1");
    pair_until(&pair, pair_state(pair.to_a) != UCXPOOL_CHANNEL_CONNECTING);
    attr = pair_attr(pair.to_a);
    ck_assert_int_eq(attr.state, UCXPOOL_CHANNEL_FAILED);
    assert_error(attr.status, PERMISSION);
    assert_has(attr.reason, strangers[_i].reason);
    ck_assert_int_eq(strncmp(attr.remote_address, "127.0.0.1:", 10), 0);
    pair_until(&pair, pair_stats(pair.a).handshakes_refused == 1);
    ck_assert_int_eq(ucxpool_listener_accept(listener, NULL, &none),
                     UCXPOOL_INPROGRESS);
}

TEST(non_loopback_addresses_need_a_secret)
{
    static const char *const wide[] = {"0.0.0.0:0", "[::]:0", ":0"};
    /* The message shows a numeric address once. */
    static const char *const told[] = {"on 0.0.0.0:0 without",
                                       "on [::]:0 without", "on :0 ("};
    ucxpool_t               *pool   = pool_with(NULL, "LOG_LEVEL=none");

    for (int i = 0; i < 3; i++) {
        assert_error_detail(ucxpool_listener_create(pool, wide[i], &listener),
                            PERMISSION, "LISTEN_WITHOUT_SECRET=y");
        assert_detail(told[i]);
    }
    ucxpool_destroy(pool);
    begin_on(":0", NULL, "LISTEN_WITHOUT_SECRET=y", "");
    meet("127.0.0.1");
    pair_exchange(&pair, 1000);
    test_end();
    begin_on("0.0.0.0:0", secret_a, "", "");
    meet("127.0.0.1");
}

/* A pool with the settings, which are released. */
static ucxpool_t *pool_of(ucxpool_config_t *config)
{
    ucxpool_params_t params = {.field_mask = UCXPOOL_PARAM_FIELD_CONFIG,
                               .config     = config};
    ucxpool_t       *pool;

    assert_ok(ucxpool_config_modify(config, "COMM_SIZE", "1m"));
    assert_ok(ucxpool_create(&params, &pool));
    ucxpool_config_release(config);
    return pool;
}

TEST(secret_may_come_from_memory)
{
    const char        secret[] = "a secret of sufficient length, and random";
    ucxpool_config_t *config;

    assert_ok(ucxpool_config_read(&config));
    assert_ok(ucxpool_config_modify(config, "SECRET_FILE", "/none"));
    assert_error(ucxpool_config_set_secret(config, "too short", 9),
                 INVALID_PARAM);
    assert_error(ucxpool_config_set_secret(config, secret, SIZE_MAX / 2),
                 INVALID_PARAM);
    assert_ok(ucxpool_config_set_secret(config, secret, strlen(secret)));
    pair.a = pool_of(config);
    pair.b = pool_with(secret_a, "");
    pair_keep(&pair);
    listener = pair_listen(pair.a, ":0");
    meet("127.0.0.1");
    pair_exchange(&pair, 1000);
}

TEST(cleared_secret_from_memory_is_not_used)
{
    ucxpool_config_t *config;
    ucxpool_t        *pool;

    assert_ok(ucxpool_config_read(&config));
    assert_ok(ucxpool_config_set_secret(config, secret_a, 30));
    assert_ok(ucxpool_config_set_secret(config, NULL, 0));
    pool = pool_of(config);
    assert_error(ucxpool_listener_create(pool, "0.0.0.0:0", &listener),
                 PERMISSION);
    ucxpool_destroy(pool);
}

TEST(accept_queue_has_the_length_of_the_setting)
{
    ucxpool_channel_t *channels[3];
    ucxpool_channel_t *accepted;
    unsigned           num_in = 0;

    begin(NULL, "ACCEPT_QUEUE=2", "LOG_LEVEL=none HANDSHAKE_TIMEOUT=1h");
    for (int i = 0; i < 3; i++) {
        channels[i] = pair_call(pair.b, "127.0.0.1", port);
    }
    pair_until(&pair, pair_stats(pair.a).handshakes_refused >= 1);
    for (int i = 0; i < 3; i++) {
        num_in += channels[i]->wireup.client == NULL;
    }
    ck_assert_uint_eq(num_in, 2);
    for (int i = 0; i < 3; i++) {
        pair_until(&pair, ucxpool_listener_accept(listener, NULL, &accepted) ==
                              UCXPOOL_OK);
    }
    pair_until(&pair, pair_is_open(channels[0]) && pair_is_open(channels[1]) &&
                          pair_is_open(channels[2]));
}

TEST(secret_file_readable_by_others_is_rejected)
{
    ucxpool_t         *pool = pool_with(secret_a, "LOG_LEVEL=none");
    ucxpool_channel_t *channel;

    ck_assert_int_eq(chmod(secret_a, 0644), 0);
    assert_error(ucxpool_listener_create(pool, "127.0.0.1:0", &listener),
                 PERMISSION);
    assert_error(ucxpool_channel_connect(pool, "127.0.0.1:1", NULL, &channel),
                 PERMISSION);
    ck_assert_int_eq(unlink(secret_a), 0);
    assert_error(ucxpool_channel_connect(pool, "127.0.0.1:1", NULL, &channel),
                 PERMISSION);
    ucxpool_destroy(pool);
}

TEST(invalid_address_is_rejected)
{
    static const char *const texts[] = {
        "",           ":",           "127.0.0.1",
        "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536",
        "[::1",       "300.0.0.1:1"};
    ucxpool_t         *pool = pool_with(NULL, "LOG_LEVEL=none");
    ucxpool_channel_t *channel;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_error(ucxpool_listener_create(pool, texts[i], &listener),
                     INVALID_PARAM);
        assert_error(ucxpool_channel_connect(pool, texts[i], NULL, &channel),
                     INVALID_PARAM);
    }
    ucxpool_destroy(pool);
}

TEST(port_in_use_is_reported_with_its_number)
{
    char                where[32];
    ucxpool_t          *pool = pool_with(NULL, "LOG_LEVEL=none");
    ucxpool_listener_t *second;

    listener = pair_listen(pool, "127.0.0.1:0");
    snprintf(where, sizeof(where), "127.0.0.1:%u",
             ucxpool_listener_port(listener));
    assert_error_detail(ucxpool_listener_create(pool, where, &second),
                        ADDRESS_IN_USE, where);
    ucxpool_listener_destroy(listener);
    ucxpool_listener_destroy(NULL);
    listener = pair_listen(pool, where);
    ucxpool_destroy(pool);
}

TEST(closed_port_fails_the_channel_with_a_reason)
{
    ucxpool_t             *pool = pool_with(NULL, "LOG_LEVEL=none");
    ucxpool_channel_t     *channel;
    ucxpool_channel_attr_t attr;

    listener = pair_listen(pool, "127.0.0.1:0");
    port     = ucxpool_listener_port(listener);
    ucxpool_listener_destroy(listener);
    channel = pair_call(pool, "127.0.0.1", port);
    assert_error(ucxpool_channel_wait(channel, UCXPOOL_FOREVER), PEER_LOST);
    attr = pair_attr(channel);
    ck_assert_int_eq(attr.state, UCXPOOL_CHANNEL_FAILED);
    assert_has(attr.reason, "127.0.0.1");
    ucxpool_channel_close(channel);
    ucxpool_destroy(pool);
}

TEST(many_clients_are_accepted)
{
    enum { POOLS = 3, EACH = 5 };
    pair_t             pairs[POOLS];
    ucxpool_channel_t *to[POOLS][EACH];
    ucxpool_channel_t *from[POOLS * EACH + 1];
    ucxpool_t         *server   = pool_with(secret_a, "");
    unsigned           count    = 0;
    unsigned           num_open = 0;
    uint64_t           until    = pair_deadline();

    listener = pair_listen(server, "127.0.0.1:0");
    port     = ucxpool_listener_port(listener);
    for (int i = 0; i < POOLS; i++) {
        pairs[i].a = server;
        pairs[i].b = pool_with(secret_a, "");
        for (int j = 0; j < EACH; j++) {
            to[i][j] = pair_call(pairs[i].b, "127.0.0.1", port);
        }
    }
    while (num_open < 2 * POOLS * EACH) {
        num_open = 0;
        for (int i = 0; i < POOLS; i++) {
            pair_progress(&pairs[i]);
            for (int j = 0; j < EACH; j++) {
                num_open += pair_is_open(to[i][j]);
            }
        }
        while (ucxpool_listener_accept(listener, NULL, &from[count]) ==
               UCXPOOL_OK) {
            count++;
        }
        for (unsigned i = 0; i < count; i++) {
            num_open += pair_is_open(from[i]);
        }
        ck_assert(!pair_is_late(until));
    }
    for (int i = 0; i < POOLS; i++) {
        ucxpool_destroy(pairs[i].b);
    }
    ucxpool_destroy(server);
}

/* Otherwise a server would keep a record of each client it ever had. */
TEST(record_of_a_disconnected_client_is_freed)
{
    pair.a   = pool_with(NULL, "");
    listener = pair_listen(pair.a, "127.0.0.1:0");
    for (int i = 0; i < 3; i++) {
        pair.b = pool_with(NULL, "");
        meet("127.0.0.1");
        ucxpool_channel_close(pair.to_b);
        ucxpool_destroy(pair.b);
    }
    while (!base_list_is_empty(&pair.a->channels.remotes)) {
        assert_ok(ucxpool_wait(pair.a, UCXPOOL_FOREVER));
    }
    ucxpool_destroy(pair.a);
}

/* A connection that sends nothing. */
static int stay_silent(const ucxpool_listener_t *at)
{
    int fd = loopback_connect(ucxpool_listener_port(at));

    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

TEST(silent_strangers_do_not_block_clients)
{
    enum { COUNT = 300 };
    int    fds[COUNT];
    pair_t more;

    begin(secret_a, "LOG_LEVEL=none", "");
    meet("127.0.0.1");
    for (int i = 0; i < COUNT; i++) {
        fds[i] = stay_silent(listener);
        pair_progress(&pair);
        if (i % 30 == 0) {
            pair_exchange(&pair, 100000);
        }
    }
    pair_exchange(&pair, 200000);
    more.a = pair.a;
    more.b = pool_with(secret_a, "");
    pair_meet_at(&more, listener, "127.0.0.1");
    pair_exchange(&more, 200000);
    pair_exchange(&pair, 200000);
    for (int i = 0; i < COUNT; i++) {
        close(fds[i]);
    }
    ucxpool_destroy(more.b);
}

/* Has the other end closed the connection? Discards received bytes. */
static bool is_hung_up(int fd)
{
    char    bytes[256];
    ssize_t length;

    do {
        length = read(fd, bytes, sizeof(bytes));
    } while (length > 0);
    return (length == 0) || (errno != EAGAIN);
}

TEST(oldest_of_too_many_strangers_is_disconnected)
{
    int first;
    int second;

    begin(NULL, "LOG_LEVEL=none MAX_HALF_OPEN=1 HANDSHAKE_TIMEOUT=1h", "");
    first  = stay_silent(listener);
    second = stay_silent(listener);
    pair_until(&pair, is_hung_up(first));
    ck_assert(!is_hung_up(second));
    close(first);
    close(second);
}

/* The first stranger connects to the listener with a limit of an hour. */
TEST(silent_stranger_is_disconnected_after_the_setting)
{
    ucxpool_listener_t *quick;
    int                 fd_a;
    int                 fd_b;

    begin(NULL, "LOG_LEVEL=none HANDSHAKE_TIMEOUT=1h",
          "LOG_LEVEL=none HANDSHAKE_TIMEOUT=20ms");
    quick = pair_listen(pair.b, "127.0.0.1:0");
    fd_a  = stay_silent(listener);
    assert_ok(ucxpool_wait(pair.a, UCXPOOL_FOREVER));
    fd_b = stay_silent(quick);
    pair_until(&pair, is_hung_up(fd_b));
    ck_assert(!is_hung_up(fd_a));
    close(fd_a);
    close(fd_b);
}

/* Listens, and does not answer callers. */
static int listen_silently(uint16_t *port_p)
{
    int fd = loopback_bind(port_p);

    ck_assert_int_eq(listen(fd, 2), 0);
    return fd;
}

TEST(caller_waits_for_an_answer_as_long_as_the_setting)
{
    ucxpool_channel_t *patient;
    ucxpool_channel_t *quick;
    uint16_t           silent;
    int                fd = listen_silently(&silent);

    pair_pools(&pair, "LOG_LEVEL=none HANDSHAKE_TIMEOUT=1h",
               "LOG_LEVEL=none HANDSHAKE_TIMEOUT=20ms");
    patient = pair_call(pair.a, "127.0.0.1", silent);
    quick   = pair_call(pair.b, "127.0.0.1", silent);
    pair_until(&pair, pair_state(quick) == UCXPOOL_CHANNEL_FAILED);
    ck_assert_int_eq(pair_attr(quick).status, UCXPOOL_ERR_TIMED_OUT);
    ck_assert_int_eq(pair_state(patient), UCXPOOL_CHANNEL_CONNECTING);
    close(fd);
}

TEST(full_accept_queue_fails_the_channel_with_a_reason)
{
    ucxpool_channel_t     *callers[2];
    ucxpool_channel_attr_t attr;

    begin(secret_a, "LOG_LEVEL=none ACCEPT_QUEUE=1",
          "LOG_LEVEL=none HANDSHAKE_TIMEOUT=5s");
    for (int i = 0; i < 2; i++) {
        callers[i] = pair_call(pair.b, "127.0.0.1", port);
    }
    /* The second client retries until its timeout, which may be in an
     * attempt. */
    pair_until(&pair, (ucxpool_wait(pair.b, 10000000),
                       (pair_state(callers[0]) == UCXPOOL_CHANNEL_FAILED) ||
                           (pair_state(callers[1]) == UCXPOOL_CHANNEL_FAILED)));
    if (pair_state(callers[1]) != UCXPOOL_CHANNEL_FAILED) {
        callers[1] = callers[0];
    }
    attr = pair_attr(callers[1]);
    ck_assert((attr.status == UCXPOOL_ERR_LIMIT) ||
              (attr.status == UCXPOOL_ERR_TIMED_OUT));
    assert_has(attr.reason, "too many peers are waiting");
}

/* --- by address --------------------------------------------------------- */

static ucxpool_channel_t *connect_to(ucxpool_t *from, ucxpool_t *to,
                                     size_t wrong_byte)
{
    ucxpool_channel_params_t params = {
        .field_mask = UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS,
    };
    ucxpool_channel_t *channel;
    void              *address;

    assert_ok(ucxpool_address_get(to, &address, &params.address_length));
    if (wrong_byte != 0) {
        ((uint8_t *)address)[wrong_byte] ^= 1;
        core_blob_set_turn(address, CORE_BLOB_NO_TURN); /* and the checksum */
    }
    params.address = address;
    assert_ok(ucxpool_channel_create(from, &params, &channel));
    ucxpool_address_release(address);
    return channel;
}

TEST(hello_with_a_wrong_key_is_rejected)
{
    pair_pools(&pair, "LOG_LEVEL=none", "LOG_LEVEL=none");
    pair.to_a = connect_to(pair.b, pair.a, offsetof(core_blob_t, key) + 3);
    pair.to_b = connect_to(pair.a, pair.b, 0);
    pair_until(&pair, pair_stats(pair.a).handshakes_refused == 1);
    for (int i = 0; i < 1000; i++) {
        pair_progress(&pair);
    }
    ck_assert_int_eq(pair_state(pair.to_a), UCXPOOL_CHANNEL_CONNECTING);
    ck_assert_int_eq(pair_state(pair.to_b), UCXPOOL_CHANNEL_CONNECTING);
    ck_assert_int_eq(ucxpool_channel_wait(pair.to_a, 1000000),
                     UCXPOOL_INPROGRESS);
}

TEST_EACH(channels_can_be_closed_and_created_again, 2)
{
    static const char *const wires[] = {"WIRE=map", "WIRE=ucx"};

    pair_begin(&pair, wires[_i], wires[_i]);
    for (int i = 0; i < 5; i++) {
        pair_exchange(&pair, 50000);
        ucxpool_channel_close(pair.to_a);
        if (i % 2 == 0) {
            pair_until(&pair, pair_state(pair.to_b) == UCXPOOL_CHANNEL_CLOSED);
        }
        pair.to_a = connect_to(pair.b, pair.a, 0);
        for (int j = 0; j < 100; j++) {
            pair_progress(&pair);
        }
        ucxpool_channel_close(pair.to_b);
        pair.to_b = connect_to(pair.a, pair.b, 0);
        pair_until(&pair, pair_is_open(pair.to_a) && pair_is_open(pair.to_b));
    }
}

TEST(half_open_pools_can_be_destroyed)
{
    uint8_t byte = 0;

    for (int i = 0; i < 30; i++) {
        begin(secret_a, "LOG_LEVEL=none", "LOG_LEVEL=none");
        pair_call_a(&pair, listener, "127.0.0.1");
        assert_ok(ucxpool_send_buffer(pair.to_a, &byte, 1, TAG, NULL, NULL));
        /* One side only, so the channels stay half open. */
        for (int j = 0; j < 50; j++) {
            ucxpool_progress((i % 4 < 2) ? pair.a : pair.b);
        }
        if (i % 3 == 0) {
            ucxpool_listener_destroy(listener);
        }
        if (i % 2 == 0) {
            ucxpool_destroy(pair.b);
            pair.b = NULL;
        }
        test_end();
    }
}
