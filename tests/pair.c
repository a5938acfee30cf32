#include "pair.h"
#include "slow.h"
#include "test.h"

#include "base/clock.h"
#include "base/math.h"
#include "core/pool.h"
#include "core/request.h"
#include "window/window.h"
#include "wire/wire.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From kernel 5.3; the number is the same on every architecture. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

#define TEN_SECONDS  UINT64_C(10000000000)
#define EXCHANGE_TAG UINT64_C(0x9a12)

/* The longest time between two readings of the clock that counts: on a busy
 * machine, a test may not run for longer than its patience. */
#define READING_NS UINT64_C(100000000)

static uint64_t now(void)
{
    static _Thread_local uint64_t clock;
    static _Thread_local uint64_t last;
    uint64_t                      time = base_clock_now();

    clock += (last == 0) ? time : base_min(time - last, READING_NS);
    last = time;
    return clock;
}

uint64_t pair_patience(void)
{
    const char *multiplier = getenv("CK_TIMEOUT_MULTIPLIER");

    return TEN_SECONDS *
           ((multiplier == NULL) ? 1 : (uint64_t)atoi(multiplier));
}

uint64_t pair_deadline(void)
{
    return now() + pair_patience();
}

bool pair_is_late(uint64_t deadline)
{
    /* The caller waits in a loop, often for another process or thread, which
     * may need this CPU to go on. */
    sched_yield();
    return now() > deadline;
}

static void modify(ucxpool_config_t *config, const char *settings)
{
    char  text[512];
    char *rest = text;
    char *pair;
    char *value;

    snprintf(text, sizeof(text), "%s", settings);
    while ((pair = strtok_r(rest, " ", &rest)) != NULL) {
        value    = strchr(pair, '=');
        *value++ = '\0';
        assert_ok(ucxpool_config_modify(config, pair, value));
    }
}

ucxpool_status_t pair_try_pool(const ucxpool_params_t *params,
                               const char *settings, ucxpool_t **pool_p)
{
    ucxpool_params_t  all = {.field_mask = 0};
    ucxpool_config_t *config;
    ucxpool_status_t  status;

    if (params != NULL) {
        all = *params;
    }
    assert_ok(ucxpool_config_read(&config));
    modify(config, settings);
    all.field_mask |= UCXPOOL_PARAM_FIELD_CONFIG;
    all.config = config;
    status     = ucxpool_create(&all, pool_p);
    ucxpool_config_release(config);
    return status;
}

static ucxpool_t *make_pool(const ucxpool_params_t *params,
                            const char *defaults, const char *settings)
{
    ucxpool_t *pool;
    char       text[512];

    snprintf(text, sizeof(text),
             "HUGE_PAGES=n LOG_LEVEL=error CLOSE_TIMEOUT=200ms %s %s", defaults,
             (settings == NULL) ? "" : settings);
    assert_ok(pair_try_pool(params, text, &pool));
    return pool;
}

ucxpool_t *pair_pool(const char *settings)
{
    return make_pool(NULL, "BLOCK_SIZE=64k REGION_SIZE=256k COMM_SIZE=1m",
                     settings);
}

ucxpool_t *pair_pool_on(int device, const char *settings)
{
    ucxpool_params_t params = {
        .field_mask =
            UCXPOOL_PARAM_FIELD_MEMORY_KIND | UCXPOOL_PARAM_FIELD_DEVICE,
        .memory_kind = UCXPOOL_MEMORY_CUDA,
        .device      = device,
    };

    return make_pool(&params, "BLOCK_SIZE=2m REGION_SIZE=2m COMM_SIZE=16m",
                     settings);
}

ucxpool_channel_t *pair_meet(ucxpool_t *from, ucxpool_t *to)
{
    ucxpool_channel_params_t params = {
        .field_mask = UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS,
    };
    ucxpool_channel_t *channel;
    void              *address;

    assert_ok(ucxpool_address_get(to, &address, &params.address_length));
    params.address = address;
    assert_ok(ucxpool_channel_create(from, &params, &channel));
    ucxpool_address_release(address);
    return channel;
}

ucxpool_listener_t *pair_listen(ucxpool_t *pool, const char *where)
{
    ucxpool_listener_t *listener;

    assert_ok(ucxpool_listener_create(pool, where, &listener));
    ck_assert_uint_ne(ucxpool_listener_port(listener), 0);
    return listener;
}

ucxpool_channel_t *pair_call(ucxpool_t *pool, const char *host, uint16_t port)
{
    char               where[64];
    ucxpool_channel_t *channel;

    snprintf(where, sizeof(where), "%s:%u", host, port);
    assert_ok(ucxpool_channel_connect(pool, where, NULL, &channel));
    return channel;
}

void pair_call_a(pair_t *pair, const ucxpool_listener_t *listener,
                 const char *host)
{
    pair->to_a = pair_call(pair->b, host, ucxpool_listener_port(listener));
}

void pair_accept(pair_t *pair, ucxpool_listener_t *listener)
{
    pair_until(pair, ucxpool_listener_accept(listener, NULL, &pair->to_b) ==
                         UCXPOOL_OK);
}

void pair_meet_at(pair_t *pair, ucxpool_listener_t *listener, const char *host)
{
    pair_call_a(pair, listener, host);
    pair_accept(pair, listener);
    pair_until(pair, pair_is_open(pair->to_a) && pair_is_open(pair->to_b));
}

ucxpool_channel_attr_t pair_attr(const ucxpool_channel_t *channel)
{
    ucxpool_channel_attr_t attr;

    ucxpool_channel_query(channel, &attr, sizeof(attr));
    return attr;
}

ucxpool_channel_state_t pair_state(const ucxpool_channel_t *channel)
{
    return pair_attr(channel).state;
}

bool pair_is_open(const ucxpool_channel_t *channel)
{
    return pair_state(channel) == UCXPOOL_CHANNEL_OPEN;
}

core_stats_t pair_stats(ucxpool_t *pool)
{
    core_stats_t stats;

    core_stats_get(pool, &stats);
    return stats;
}

uint64_t pair_sent_bytes(ucxpool_t *pool)
{
    core_stats_t stats = pair_stats(pool);
    uint64_t     bytes = 0;

    for (int i = 0; i < CORE_MODE_LAST; i++) {
        bytes += stats.counts.sent[i].bytes;
    }
    return bytes;
}

static bool is_connecting(const ucxpool_channel_t *channel)
{
    return pair_state(channel) == UCXPOOL_CHANNEL_CONNECTING;
}

void pair_init(pair_t *pair, const char *settings_a, const char *settings_b)
{
    pair->a = pair_pool(settings_a);
    pair_join(pair, settings_b);
}

void pair_join(pair_t *pair, const char *settings_b)
{
    pair->b = pair_pool(settings_b);
    pair_connect(pair);
}

void pair_connect(pair_t *pair)
{
    pair->to_b = pair_meet(pair->a, pair->b);
    pair->to_a = pair_meet(pair->b, pair->a);
    pair_until(pair, !is_connecting(pair->to_b) && !is_connecting(pair->to_a));
}

/* The pair that is cleaned up at the end of the test; NULL: none. */
static pair_t *kept;

void pair_cleanup(pair_t *pair)
{
    kept = (kept == pair) ? NULL : kept;
    ucxpool_destroy(pair->a);
    ucxpool_destroy(pair->b);
}

static void cleanup_kept(void)
{
    if (kept != NULL) {
        pair_cleanup(kept);
    }
}

void pair_keep(pair_t *pair)
{
    if (kept == NULL) {
        test_at_end(cleanup_kept);
    }
    kept = pair;
}

void pair_pools(pair_t *pair, const char *settings_a, const char *settings_b)
{
    pair->a = pair_pool(settings_a);
    pair->b = pair_pool(settings_b);
    pair_keep(pair);
}

void pair_begin(pair_t *pair, const char *settings_a, const char *settings_b)
{
    pair_pools(pair, settings_a, settings_b);
    pair_connect(pair);
}

void pair_destroy_window(ucxpool_window_t *window)
{
    uint64_t *timeout_ns = &window->pool->config.close_timeout_ns;
    uint64_t  before     = *timeout_ns;

    *timeout_ns = UCXPOOL_FOREVER;
    ucxpool_window_destroy(window);
    *timeout_ns = before;
}

void pair_progress(pair_t *pair)
{
    if (pair->a != NULL) {
        ucxpool_progress(pair->a);
    }
    if (pair->b != NULL) {
        ucxpool_progress(pair->b);
    }
}

ucxpool_request_attr_t pair_request_attr(const ucxpool_request_t *request)
{
    ucxpool_request_attr_t attr;

    ucxpool_request_query(request, &attr, sizeof(attr));
    return attr;
}

bool pair_ended(const ucxpool_request_t *request)
{
    return ucxpool_request_test(request) != UCXPOOL_INPROGRESS;
}

ucxpool_status_t pair_end_of(const ucxpool_request_t *request)
{
    ucxpool_request_attr_t attr = pair_request_attr(request);

    if ((attr.status < UCXPOOL_OK) == (attr.detail[0] == '\0')) {
        ck_abort_msg("a request ended with \"%s\" and the detail \"%s\"",
                     ucxpool_status_string(attr.status), attr.detail);
    }
    return attr.status;
}

void pair_expire(ucxpool_request_t *request)
{
    ck_assert_uint_ne(request->deadline, BASE_CLOCK_FOREVER);
    request->deadline                     = base_clock_now();
    request->pool->requests.next_deadline = request->deadline;
}

ucxpool_status_t pair_finish(pair_t *pair, ucxpool_request_t *request)
{
    ucxpool_status_t status;

    pair_until(pair, pair_ended(request));
    status = pair_end_of(request);
    ucxpool_request_release(request);
    return status;
}

void pair_finish_both(pair_t *pair, ucxpool_request_t *one,
                      ucxpool_request_t *other)
{
    assert_ok(pair_finish(pair, one));
    assert_ok(pair_finish(pair, other));
}

void pair_finish_error(pair_t *pair, ucxpool_request_t *request,
                       ucxpool_status_t error, const char *detail)
{
    pair_until(pair, pair_ended(request));
    ck_assert_str_eq(pair_request_attr(request).detail, detail);
    ck_assert_int_eq(pair_finish(pair, request), error);
}

ucxpool_remote_window_t *pair_import(ucxpool_channel_t *channel,
                                     ucxpool_window_t *window, unsigned access)
{
    uint8_t                  blob[UCXPOOL_WINDOW_BLOB_SIZE];
    ucxpool_remote_window_t *remote;

    assert_ok(ucxpool_window_export(window, access, blob));
    assert_ok(
        ucxpool_remote_window_import(channel, blob, sizeof(blob), &remote));
    return remote;
}

ucxpool_request_t *pair_access(ucxpool_remote_window_t *remote, bool is_write,
                               uint64_t offset, void *bytes, size_t length)
{
    ucxpool_place_t    place  = {offset, length};
    ucxpool_places_t   places = ucxpool_places(&place, 1);
    ucxpool_data_t     data   = ucxpool_data_buffer(bytes, length);
    ucxpool_request_t *request;

    assert_ok(is_write ? ucxpool_remote_window_write(remote, &places, &data,
                                                     NULL, &request)
                       : ucxpool_remote_window_read(remote, &places, &data,
                                                    NULL, &request));
    return request;
}

ucxpool_window_attr_t pair_window_attr(const ucxpool_window_t *window)
{
    ucxpool_window_attr_t attr;

    ucxpool_window_query(window, &attr, sizeof(attr));
    return attr;
}

ucxpool_remote_window_attr_t pair_remote_attr(const ucxpool_remote_window_t *of)
{
    ucxpool_remote_window_attr_t attr;

    ucxpool_remote_window_query(of, &attr, sizeof(attr));
    return attr;
}

bool pair_is_mapped(const pair_t *pair)
{
    return pair_attr(pair->to_b).wire == UCXPOOL_WIRE_MAP;
}

bool pair_has_pidfd(void)
{
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

static uint64_t next_word(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return *state & UINT64_C(0x7f7f7f7f7f7f7f7f);
}

/* Under valgrind, some tests spend most of their time here. So the sequence is
 * a simple one, and memcpy() in the loop has a constant length. */
void pair_fill_with(void *bytes, size_t length, unsigned seed)
{
    uint8_t *at    = bytes;
    uint64_t state = (seed + UINT64_C(1)) * UINT64_C(0xd1342543de82ef95);
    uint64_t word;

    for (; length >= sizeof(word); length -= sizeof(word)) {
        word = next_word(&state);
        memcpy(at, &word, sizeof(word));
        at += sizeof(word);
    }
    word = next_word(&state);
    memcpy(at, &word, length);
}

void pair_fill(void *bytes, size_t length)
{
    pair_fill_with(bytes, length, (unsigned)rand());
}

void pair_fill_of(void *bytes, size_t length, bool childs, unsigned round)
{
    pair_fill_with(bytes, length, 2 * round + (childs ? 1 : 0));
}

bool pair_is_all(const void *bytes, size_t length, uint8_t byte)
{
    uint8_t word[8];
    size_t  first = base_min(length, sizeof(word));

    memset(word, byte, sizeof(word));
    /* Valgrind compares words if both addresses are equally aligned. */
    return (memcmp(bytes, word, first) == 0) &&
           (memcmp(bytes, (const uint8_t *)bytes + first, length - first) == 0);
}

void pair_poison(void *bytes, size_t length)
{
    memset(bytes, 0xfe, length);
}

ucxpool_request_t *pair_send(ucxpool_channel_t *channel, const void *bytes,
                             size_t length, uint64_t tag)
{
    ucxpool_request_t *send;

    assert_ok(ucxpool_send_buffer(channel, bytes, length, tag, NULL, &send));
    return send;
}

ucxpool_message_t *pair_probe(pair_t *pair, uint64_t tag)
{
    ucxpool_message_t *message;

    pair_until(pair, ucxpool_probe(pair->b, NULL, tag, UINT64_MAX, &message) ==
                         UCXPOOL_OK);
    return message;
}

ucxpool_request_t *pair_recv(ucxpool_t *pool, ucxpool_channel_t *channel,
                             void *bytes, size_t length, uint64_t tag)
{
    ucxpool_request_t *recv;

    assert_ok(ucxpool_recv_buffer(pool, channel, bytes, length, tag, UINT64_MAX,
                                  NULL, &recv));
    return recv;
}

void pair_exchange(pair_t *pair, size_t length)
{
    uint8_t           *source = malloc(length + 1);
    uint8_t           *target = malloc(length + 1);
    ucxpool_request_t *send;
    ucxpool_request_t *recv;

    pair_fill(source, length);
    pair_poison(target, length + 1);
    recv = pair_recv(pair->b, pair->to_a, target, length, EXCHANGE_TAG);
    send = pair_send(pair->to_b, source, length, EXCHANGE_TAG);
    assert_ok(pair_finish(pair, send));
    assert_ok(pair_finish(pair, recv));
    ck_assert_mem_eq(source, target, length);
    ck_assert_int_eq(target[length], 0xfe);
    free(source);
    free(target);
}

void pair_send_from(ucxpool_t *pool)
{
    pair_t pair = {.a = pool};

    pair_join(&pair, NULL);
    pair_exchange(&pair, (size_t)1 << 20);
    ucxpool_channel_close(pair.to_b);
    ucxpool_destroy(pair.b);
}

void pair_warm_up(void)
{
    static bool is_warm;
    pair_t      pair;

    if (is_warm || (RUNNING_ON_VALGRIND == 0) || (getenv("CK_FORK") != NULL)) {
        return;
    }
    is_warm = true;
    pair_init(&pair, "WIRE=map", "WIRE=map");
    pair_exchange(&pair, (size_t)1 << 20);
    pair_cleanup(&pair);
}

bool pair_is_settled(ucxpool_t *pool)
{
    core_stats_t   stats = pair_stats(pool);
    block_stats_t *share = stats.blocks;

    return (share[BLOCK_SHARE_SEND].free == share[BLOCK_SHARE_SEND].total) &&
           (share[BLOCK_SHARE_RECV].free == share[BLOCK_SHARE_RECV].total) &&
           (share[BLOCK_SHARE_USER].quarantined == 0);
}

bool pair_is_whole(ucxpool_t *pool)
{
    core_stats_t stats;

    core_stats_get(pool, &stats);
    for (int i = 0; i < BLOCK_SHARE_LAST; i++) {
        /* Mailboxes that were lent to channels stay in use. */
        uint64_t lent =
            (i == BLOCK_SHARE_RECV) && (pool->wire->mail.num_lent != 0);

        if (stats.blocks[i].free + lent != stats.blocks[i].total) {
            return false;
        }
    }
    return true;
}

void pair_check_blocks(pair_t *pair)
{
    pair_until(pair, pair_is_whole(pair->a) && pair_is_whole(pair->b));
    assert_ok(ucxpool_check(pair->a));
    assert_ok(ucxpool_check(pair->b));
}

static void arm_once(ucxpool_t *pool)
{
    uint64_t         deadline = pair_deadline();
    ucxpool_status_t status;

    while ((status = ucxpool_arm(pool)) == UCXPOOL_ERR_BUSY) {
        ucxpool_progress(pool);
        ck_assert_msg(!pair_is_late(deadline), "it never sleeps");
    }
    assert_ok(status);
}

void pair_arm(ucxpool_t *pool)
{
    arm_once(pool);
    ucxpool_progress(pool);
    arm_once(pool);
}

bool pair_is_readable(ucxpool_t *pool)
{
    struct pollfd event = {.events = POLLIN};

    assert_ok(ucxpool_event_fd(pool, &event.fd));
    return poll(&event, 1, 0) == 1;
}
