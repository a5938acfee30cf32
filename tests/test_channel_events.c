/* Events: only channels and listeners that have something to report are
 * returned. */
#include "core/channel.h"
#include "fds.h"
#include "pair.h"
#include "rounds.h"
#include "test.h"
#include "two.h"
#include "xfer/state.h"

#include <poll.h>

#define TAG           UINT64_C(5)
#define ALL_BITS      UINT64_MAX
#define MILLISECOND   UINT64_C(1000000)
#define ONE_MINUTE_MS 60000
#define LONG_LENGTH   100000
#define MANY          200
#define MAX           16

static const char *const wires[] = {"WIRE=map SPIN=0us", "WIRE=ucx SPIN=0us"};
#define NUM_WIRES 2

static uint8_t bytes[LONG_LENGTH];

static pair_t pair;

static size_t get(ucxpool_t *pool, ucxpool_event_t *events, size_t max)
{
    size_t num = SIZE_MAX;

    memset(events, 0xff, max * sizeof(*events));
    assert_ok(ucxpool_event_get(pool, events, max, &num));
    ck_assert_uint_le(num, max);
    for (size_t i = 0; i < num; i++) {
        ck_assert_uint_eq(events[i].reserved[0] | events[i].reserved[1], 0);
    }
    return num;
}

static void check_none(ucxpool_t *pool)
{
    ucxpool_event_t events[MAX];

    ck_assert_uint_eq(get(pool, events, MAX), 0);
}

static void check_channel(const ucxpool_event_t   *event,
                          const ucxpool_channel_t *channel, unsigned kinds)
{
    ck_assert_ptr_eq(event->channel, channel);
    ck_assert_ptr_null(event->listener);
    ck_assert_uint_eq(event->kinds, kinds);
}

/* The single pending event. */
static void check_one(ucxpool_t *pool, const ucxpool_channel_t *channel,
                      unsigned kinds)
{
    ucxpool_event_t events[MAX];

    ck_assert_uint_eq(get(pool, events, MAX), 1);
    check_channel(&events[0], channel, kinds);
}

/* Connected, with no event pending. */
static void init(const char *settings)
{
    pair_begin(&pair, settings, settings);
    check_one(pair.a, pair.to_b, UCXPOOL_EVENT_STATE);
    check_one(pair.b, pair.to_a, UCXPOOL_EVENT_STATE);
}

static void send_bytes(ucxpool_channel_t *channel, size_t length)
{
    assert_ok(ucxpool_send_buffer(channel, bytes, length, TAG, NULL, NULL));
}

/* The channel has this many messages without a receive. */
#define until_waiting(_pair, _channel, _num) \
    pair_until(_pair, (_channel)->xfer->messages.num_unexpected == (_num))

static void receive(pair_t *pools, ucxpool_channel_t *channel, size_t length)
{
    ucxpool_request_t *recv;

    recv = pair_recv(channel->pool, channel, bytes, length, TAG);
    assert_ok(pair_finish(pools, recv));
}

/* Two pools with this many channels to each other. */
static void open_many(const char *settings, unsigned num,
                      ucxpool_channel_t **at_a, ucxpool_channel_t **at_b)
{
    pair_pools(&pair, settings, settings);
    for (unsigned i = 0; i < num; i++) {
        at_a[i] = pair_meet(pair.a, pair.b);
        at_b[i] = pair_meet(pair.b, pair.a);
        ucxpool_channel_set_user_ptr(at_b[i], &at_b[i]);
        pair_until(&pair, pair_is_open(at_a[i]) && pair_is_open(at_b[i]));
    }
}

/* Each of these has opened, and is reported once. */
static void check_opened(ucxpool_t *pool, ucxpool_channel_t *const *channels)
{
    static ucxpool_event_t events[MANY + 1];
    bool                   is_told[MANY] = {false};
    ptrdiff_t              index;

    ck_assert_uint_eq(get(pool, events, MANY + 1), MANY);
    for (size_t i = 0; i < MANY; i++) {
        index = (ucxpool_channel_t *const *)events[i].user_ptr - channels;
        check_channel(&events[i], channels[index], UCXPOOL_EVENT_STATE);
        ck_assert(!is_told[index]);
        is_told[index] = true;
    }
    check_none(pool);
}

/* Pool b can sleep once the remaining handshake messages of its peer have
 * arrived. */
static void until_asleep(void)
{
    pair_until(&pair, (pair_arm(pair.b), !pair_is_readable(pair.b)));
}

TEST_SETTINGS(.timeout = 60);

TEST_EACH(only_the_channel_with_a_message_is_reported, NUM_WIRES)
{
    static ucxpool_channel_t *at_a[MANY];
    static ucxpool_channel_t *at_b[MANY];

    /* Two hundred channels and their rings need more than 1,024. */
    fds_limit(FDS_ALL);
    open_many(wires[_i], MANY, at_a, at_b);
    check_opened(pair.b, at_b);
    send_bytes(at_a[MANY / 2], 1);
    until_waiting(&pair, at_b[MANY / 2], 1);
    check_one(pair.b, at_b[MANY / 2], UCXPOOL_EVENT_MESSAGE);
    receive(&pair, at_b[MANY / 2], 1);
    check_none(pair.b);
}

TEST_EACH(message_event_repeats_until_all_are_taken, NUM_WIRES)
{
    init(wires[_i]);
    send_bytes(pair.to_b, 1);
    send_bytes(pair.to_b, 1);
    until_waiting(&pair, pair.to_a, 2);
    check_one(pair.b, pair.to_a, UCXPOOL_EVENT_MESSAGE);
    check_one(pair.b, pair.to_a, UCXPOOL_EVENT_MESSAGE);
    receive(&pair, pair.to_a, 1);
    check_one(pair.b, pair.to_a, UCXPOOL_EVENT_MESSAGE);
    receive(&pair, pair.to_a, 1);
    check_none(pair.b);
    check_none(pair.a);
}

TEST_EACH(message_with_a_posted_receive_has_no_event, NUM_WIRES)
{
    ucxpool_request_t *recv;

    init(wires[_i]);
    recv = pair_recv(pair.b, NULL, bytes, 1, TAG);
    send_bytes(pair.to_b, 1);
    assert_ok(pair_finish(&pair, recv));
    check_none(pair.b);
}

TEST_EACH(probed_message_has_no_event, NUM_WIRES)
{
    ucxpool_message_t *message;

    init(wires[_i]);
    send_bytes(pair.to_b, 1);
    until_waiting(&pair, pair.to_a, 1);
    assert_ok(ucxpool_probe(pair.b, NULL, TAG, ALL_BITS, &message));
    check_none(pair.b);
    ucxpool_message_refuse(message, NULL);
    check_none(pair.b);
}

TEST_EACH(canceled_message_has_no_event, NUM_WIRES)
{
    ucxpool_request_t *send;

    init(wires[_i]);
    send = pair_send(pair.to_b, bytes, LONG_LENGTH, TAG);
    until_waiting(&pair, pair.to_a, 1);
    check_one(pair.b, pair.to_a, UCXPOOL_EVENT_MESSAGE);
    ucxpool_request_cancel(send);
    assert_error(pair_finish(&pair, send), CANCELED);
    until_waiting(&pair, pair.to_a, 0);
    check_none(pair.b);
}

TEST_EACH(close_by_the_peer_is_reported_once, NUM_WIRES)
{
    init(wires[_i]);
    ucxpool_channel_close(pair.to_b);
    pair_until(&pair, pair_state(pair.to_a) == UCXPOOL_CHANNEL_CLOSED);
    check_one(pair.b, pair.to_a, UCXPOOL_EVENT_STATE);
    check_none(pair.b);
    check_none(pair.a);
}

TEST(failed_channel_keeps_complete_messages)
{
    init("LOG_LEVEL=none");
    send_bytes(pair.to_b, 1);
    send_bytes(pair.to_b, LONG_LENGTH);
    until_waiting(&pair, pair.to_a, 2);
    ucxpool_channel_fail(pair.to_a);
    pair_until(&pair, pair_state(pair.to_a) == UCXPOOL_CHANNEL_FAILED);
    check_one(pair.b, pair.to_a, UCXPOOL_EVENT_MESSAGE | UCXPOOL_EVENT_STATE);
    check_one(pair.b, pair.to_a, UCXPOOL_EVENT_MESSAGE);
    receive(&pair, pair.to_a, 1);
    check_none(pair.b);
}

TEST(consecutive_changes_are_reported_together)
{
    pair_begin(&pair, "LOG_LEVEL=none", "LOG_LEVEL=none");
    ucxpool_channel_fail(pair.to_a);
    pair_until(&pair, pair_state(pair.to_a) == UCXPOOL_CHANNEL_FAILED);
    check_one(pair.b, pair.to_a, UCXPOOL_EVENT_STATE);
    check_none(pair.b);
}

TEST_EACH(released_channel_has_no_event, NUM_WIRES)
{
    init(wires[_i]);
    send_bytes(pair.to_b, 1);
    until_waiting(&pair, pair.to_a, 1);
    ucxpool_channel_close(pair.to_a);
    check_none(pair.b);
    pair_until(&pair, pair_state(pair.to_b) == UCXPOOL_CHANNEL_CLOSED);
    check_one(pair.a, pair.to_b, UCXPOOL_EVENT_STATE);
    check_none(pair.b);
}

TEST_EACH(ended_and_released_channel_has_no_event, NUM_WIRES)
{
    init(wires[_i]);
    ucxpool_channel_close(pair.to_b);
    pair_until(&pair, pair_state(pair.to_a) == UCXPOOL_CHANNEL_CLOSED);
    ucxpool_channel_close(pair.to_a);
    check_none(pair.b);
}

TEST_EACH(draining_channel_has_no_event, NUM_WIRES)
{
    init(wires[_i]);
    send_bytes(pair.to_b, 1);
    until_waiting(&pair, pair.to_a, 1);
    send_bytes(pair.to_a, LONG_LENGTH);
    ucxpool_channel_close(pair.to_a);
    check_none(pair.b);
    until_waiting(&pair, pair.to_b, 1);
    receive(&pair, pair.to_b, LONG_LENGTH);
    pair_until(&pair, pair_state(pair.to_b) == UCXPOOL_CHANNEL_CLOSED);
    check_none(pair.b);
}

static size_t num_kinds(ucxpool_t *pool, unsigned kind)
{
    ucxpool_event_t events[MAX];
    size_t          num   = get(pool, events, MAX);
    size_t          count = 0;

    for (size_t i = 0; i < num; i++) {
        count += (events[i].kinds & kind) != 0;
    }
    return count;
}

static void check_caller(ucxpool_t *pool, const ucxpool_listener_t *listener)
{
    ucxpool_event_t events[MAX];

    ck_assert_uint_eq(get(pool, events, MAX), 1);
    ck_assert_ptr_eq(events[0].listener, listener);
    ck_assert_ptr_null(events[0].channel);
    ck_assert_ptr_null(events[0].user_ptr);
    ck_assert_uint_eq(events[0].kinds, UCXPOOL_EVENT_CALLER);
}

TEST(listener_event_repeats_until_all_are_accepted)
{
    pair_t              pools    = {.a = pair_pool(NULL), .b = pair_pool(NULL)};
    ucxpool_listener_t *listener = pair_listen(pools.a, "127.0.0.1:0");
    uint16_t            port     = ucxpool_listener_port(listener);
    ucxpool_channel_t  *callers[2];
    ucxpool_channel_t  *taken[2];

    check_none(pools.a);
    for (int i = 0; i < 2; i++) {
        callers[i] = pair_call(pools.b, "127.0.0.1", port);
        pair_until(&pools, callers[i]->wireup.client == NULL);
    }
    check_caller(pools.a, listener);
    check_caller(pools.a, listener);
    for (int i = 0; i < 2; i++) {
        check_caller(pools.a, listener);
        assert_ok(ucxpool_listener_accept(listener, NULL, &taken[i]));
    }
    check_none(pools.a);
    pair_until(&pools, pair_is_open(taken[0]) && pair_is_open(taken[1]));
    ck_assert_uint_eq(num_kinds(pools.a, UCXPOOL_EVENT_STATE), 2);
    pair_cleanup(&pools);
}

static void check_state_of(ucxpool_t *pool, const ucxpool_channel_t *channel,
                           const void *user_ptr)
{
    ucxpool_event_t events[MAX];

    ck_assert_uint_eq(get(pool, events, MAX), 1);
    ck_assert_ptr_eq(events[0].channel, channel);
    ck_assert_ptr_eq(events[0].user_ptr, user_ptr);
    ck_assert_uint_eq(events[0].kinds, UCXPOOL_EVENT_STATE);
}

/* Required where another thread collects the events. */
TEST(first_event_has_the_channels_user_pointer)
{
    pair_t              pools    = {.a = pair_pool(NULL), .b = pair_pool(NULL)};
    ucxpool_listener_t *listener = pair_listen(pools.a, "127.0.0.1:0");
    ucxpool_channel_params_t params = {
        .field_mask = UCXPOOL_CHANNEL_PARAM_FIELD_USER_PTR};
    char where[64];

    check_none(pools.a);
    check_none(pools.b);
    snprintf(where, sizeof(where), "127.0.0.1:%u",
             ucxpool_listener_port(listener));
    params.user_ptr = &pools.to_a;
    assert_ok(ucxpool_channel_connect(pools.b, where, &params, &pools.to_a));
    params.user_ptr = &pools.to_b;
    pair_until(&pools, ucxpool_listener_accept(listener, &params,
                                               &pools.to_b) == UCXPOOL_OK);
    pair_until(&pools, pair_is_open(pools.to_a) && pair_is_open(pools.to_b));
    check_state_of(pools.b, pools.to_a, &pools.to_a);
    check_state_of(pools.a, pools.to_b, &pools.to_b);
    pair_cleanup(&pools);
}

TEST(destroyed_listener_has_no_event)
{
    pair_t              pools    = {.a = pair_pool("LOG_LEVEL=none"),
                                    .b = pair_pool("LOG_LEVEL=none")};
    ucxpool_listener_t *listener = pair_listen(pools.a, "127.0.0.1:0");

    pools.to_a =
        pair_call(pools.b, "127.0.0.1", ucxpool_listener_port(listener));
    pair_until(&pools, pools.to_a->wireup.client == NULL);
    ucxpool_listener_destroy(listener);
    check_none(pools.a);
    pair_cleanup(&pools);
}

TEST_EACH(short_array_returns_all_events_in_turn, NUM_WIRES)
{
    enum { NUM = 3 };
    ucxpool_channel_t *at_a[NUM];
    ucxpool_channel_t *at_b[NUM];
    ucxpool_event_t    event;

    open_many(wires[_i], NUM, at_a, at_b);
    ck_assert_uint_eq(num_kinds(pair.b, UCXPOOL_EVENT_STATE), NUM);
    for (int i = 0; i < NUM; i++) {
        send_bytes(at_a[i], 1);
        until_waiting(&pair, at_b[i], 1);
    }
    for (int i = 0; i < 2 * NUM; i++) {
        ck_assert_uint_eq(get(pair.b, &event, 1), 1);
        check_channel(&event, at_b[i % NUM], UCXPOOL_EVENT_MESSAGE);
    }
    ck_assert_uint_eq(get(pair.b, &event, 0), 0);
    receive(&pair, at_b[0], 1);
    ck_assert_uint_eq(get(pair.b, &event, 1), 1);
    check_channel(&event, at_b[1], UCXPOOL_EVENT_MESSAGE);
}

TEST_EACH(pending_event_keeps_the_descriptor_readable, NUM_WIRES)
{
    init(wires[_i]);
    until_asleep();
    ucxpool_progress(pair.b);
    send_bytes(pair.to_b, 1);
    until_waiting(&pair, pair.to_a, 1);
    for (int i = 0; i < 3; i++) {
        pair_arm(pair.b);
        ck_assert(pair_is_readable(pair.b));
        assert_ok(ucxpool_wait(pair.b, UCXPOOL_FOREVER));
        check_one(pair.b, pair.to_a, UCXPOOL_EVENT_MESSAGE);
    }
    receive(&pair, pair.to_a, 1);
    until_asleep();
    pair_until(&pair, ucxpool_wait(pair.b, MILLISECOND) == UCXPOOL_INPROGRESS);
}

TEST_EACH(without_event_get_a_message_wakes_nothing, NUM_WIRES)
{
    pair_begin(&pair, wires[_i], wires[_i]);
    send_bytes(pair.to_b, 1);
    until_waiting(&pair, pair.to_a, 1);
    until_asleep();
    pair_until(&pair, ucxpool_wait(pair.b, MILLISECOND) == UCXPOOL_INPROGRESS);
}

/* A server that only handles events works this way. */
static void sleep_until_message(two_t *two)
{
    struct pollfd   fd = {.events = POLLIN};
    ucxpool_event_t event;
    size_t          num;

    two_ok(ucxpool_event_fd(two->pool, &fd.fd));
    for (;;) {
        two_ok(ucxpool_event_get(two->pool, &event, 1, &num));
        if ((num == 1) && (event.kinds & UCXPOOL_EVENT_MESSAGE)) {
            two_check(event.channel == two->channel);
            break;
        }
        while (ucxpool_arm(two->pool) == UCXPOOL_ERR_BUSY) {
            ucxpool_progress(two->pool);
        }
        two_check(poll(&fd, 1, ONE_MINUTE_MS) == 1);
        ucxpool_progress(two->pool);
    }
}

static void take_message(two_t *two)
{
    ucxpool_request_t *recv;

    sleep_until_message(two);
    two_ok(ucxpool_recv_buffer(two->pool, two->channel, bytes, 1, TAG, ALL_BITS,
                               NULL, &recv));
    two_ok(ucxpool_request_wait(recv, UCXPOOL_FOREVER));
    ucxpool_request_release(recv);
}

TEST_EACH(event_loop_misses_no_message, NUM_WIRES)
{
    two_t two;

    two_init(&two, wires[_i]);
    for (unsigned i = 0; i < rounds(2000); i++) {
        if (two.is_child) {
            take_message(&two);
        }
        two_ok(ucxpool_send_buffer(two.channel, bytes, 1, TAG, NULL, NULL));
        if (!two.is_child) {
            take_message(&two);
        }
    }
    two_cleanup(&two);
}

typedef struct waiter {
    ucxpool_t      *pool;
    bool            is_done; /* atomic */
    size_t          num;
    ucxpool_event_t event;
} waiter_t;

static void *wait_for_one(void *arg)
{
    waiter_t *waiter = arg;

    while (waiter->num == 0) {
        if ((ucxpool_wait(waiter->pool, UCXPOOL_FOREVER) != UCXPOOL_OK) ||
            (ucxpool_event_get(waiter->pool, &waiter->event, 1, &waiter->num) !=
             UCXPOOL_OK)) {
            break;
        }
    }
    __atomic_store_n(&waiter->is_done, true, __ATOMIC_RELEASE);
    return NULL;
}

TEST_EACH(progress_by_another_thread_wakes_the_waiter, NUM_WIRES)
{
    init(wires[_i]);
    for (int i = 0; i < 20; i++) {
        waiter_t waiter = {.pool = pair.b};

        test_thread(wait_for_one, &waiter);
        send_bytes(pair.to_b, 1);
        pair_until(&pair, __atomic_load_n(&waiter.is_done, __ATOMIC_ACQUIRE));
        test_join(1);
        ck_assert_uint_eq(waiter.num, 1);
        check_channel(&waiter.event, pair.to_a, UCXPOOL_EVENT_MESSAGE);
        receive(&pair, pair.to_a, 1);
    }
}

static void *count_events(void *arg)
{
    waiter_t *waiter = arg;
    size_t    num    = 1;

    while (num != 0) {
        if (ucxpool_event_get(waiter->pool, &waiter->event, 1, &num) !=
            UCXPOOL_OK) {
            break;
        }
        waiter->num += num;
    }
    return NULL;
}

TEST(each_change_is_reported_to_one_thread)
{
    enum { NUM = 16, THREADS = 3 };
    ucxpool_channel_t *at_a[NUM];
    ucxpool_channel_t *at_b[NUM];
    waiter_t           waiters[THREADS];
    size_t             num = 0;

    open_many(NULL, NUM, at_a, at_b);
    for (int i = 0; i < THREADS; i++) {
        waiters[i] = (waiter_t){.pool = pair.b};
        test_thread(count_events, &waiters[i]);
    }
    test_join(THREADS);
    for (int i = 0; i < THREADS; i++) {
        num += waiters[i].num;
    }
    ck_assert_uint_eq(num, NUM);
}
