/* Several threads and several pools, used as the public header allows. */
#include "core/pool.h"
#include "pair.h"
#include "rounds.h"
#include "test.h"

#include "core/stats.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define ALL_BITS    UINT64_MAX
#define NUM_LANES   3
#define MILLISECOND UINT64_C(1000000)

static const char *const wires[] = {"WIRE=map", "WIRE=ucx"};
#define NUM_WIRES 2

static const size_t lengths[] = {1,     100,   4096,  17000,  0,
                                 60000, 16385, 70000, 200000, 65536};
#define NUM_LENGTHS (sizeof(lengths) / sizeof(lengths[0]))
#define MAX_LENGTH  200000

/* One thread's work: messages in one direction, each with its own content. */
typedef struct lane {
    ucxpool_t         *pool;
    ucxpool_channel_t *channel;
    uint64_t           tag;
    bool               sends;
    bool               has_comm; /* in communication buffers */
    unsigned           count;
} lane_t;

static void fill(uint8_t *bytes, size_t length, uint64_t tag, unsigned number)
{
    for (size_t i = 0; i < length; i++) {
        bytes[i] = (uint8_t)(tag * 31 + number * 17 + i * 7 + (i >> 8));
    }
}

static uint8_t *get_buffer(const lane_t *lane, size_t length)
{
    void *bytes = NULL;

    if (lane->has_comm && (length != 0) &&
        (ucxpool_comm_alloc(lane->pool, length, &bytes) == UCXPOOL_OK)) {
        return bytes;
    }
    return malloc(length + 1);
}

static void put_buffer(const lane_t *lane, uint8_t *bytes)
{
    mem_piece_t          where;
    block_comm_buffer_t *buffer;

    if (block_comm_find(lane->pool->memory.comm, bytes, 1, &where, &buffer)) {
        ucxpool_comm_free(lane->pool, bytes);
    } else {
        free(bytes);
    }
}

static void move_one(const lane_t *lane, unsigned number)
{
    size_t             length = lengths[number % NUM_LENGTHS];
    uint8_t           *bytes  = get_buffer(lane, length);
    uint8_t           *wanted = malloc(length + 1);
    ucxpool_request_t *request;

    fill(wanted, length, lane->tag, number);
    if (lane->sends) {
        memcpy(bytes, wanted, length);
        request = pair_send(lane->channel, bytes, length, lane->tag);
    } else {
        memset(bytes, 0xfe, length);
        request =
            pair_recv(lane->pool, lane->channel, bytes, length, lane->tag);
    }
    assert_ok(ucxpool_request_wait(request, UCXPOOL_FOREVER));
    if (memcmp(bytes, wanted, length) != 0) {
        ck_abort_msg("message %u of tag %d has other bytes", number,
                     (int)lane->tag);
    }
    ucxpool_request_release(request);
    put_buffer(lane, bytes);
    free(wanted);
}

static void *run_lane(void *arg)
{
    const lane_t *lane = arg;

    for (unsigned i = 0; i < lane->count; i++) {
        move_one(lane, i);
    }
    return NULL;
}

/* Run both ends of lanes to the end. */
static void run(lane_t *ends, unsigned num)
{
    for (unsigned i = 0; i < num; i++) {
        test_thread(run_lane, &ends[i]);
    }
    test_join(num);
}

/* Set up a lane from a to b, and the receiving end of it. */
static void set_ends(lane_t *ends, const pair_t *pair, unsigned number,
                     bool has_comm)
{
    for (unsigned i = 0; i < 2; i++) {
        ends[i] = (lane_t){
            .pool     = (i == 0) ? pair->a : pair->b,
            .channel  = (i == 0) ? pair->to_b : pair->to_a,
            .tag      = number + 1,
            .sends    = (i == number % 2),
            .has_comm = has_comm,
            .count    = rounds(60),
        };
    }
}

static pair_t pair;

TEST_SETTINGS(.timeout = 120);

TEST_EACH(threads_have_a_pool_each, NUM_WIRES)
{
    pair_t pairs[NUM_LANES];
    lane_t lanes[2 * NUM_LANES];

    for (unsigned i = 0; i < NUM_LANES; i++) {
        pair_init(&pairs[i], wires[_i], wires[_i]);
        set_ends(&lanes[2 * i], &pairs[i], i, false);
    }
    run(lanes, 2 * NUM_LANES);
    for (unsigned i = 0; i < NUM_LANES; i++) {
        pair_check_blocks(&pairs[i]);
        pair_cleanup(&pairs[i]);
    }
}

TEST_EACH(threads_have_a_channel_each, NUM_WIRES)
{
    lane_t lanes[2 * NUM_LANES];

    pair_begin(&pair, wires[_i], wires[_i]);
    for (unsigned i = 0; i < NUM_LANES; i++) {
        set_ends(&lanes[2 * i], &pair, i, false);
        if (i != 0) {
            lanes[2 * i].channel     = pair_meet(pair.a, pair.b);
            lanes[2 * i + 1].channel = pair_meet(pair.b, pair.a);
        }
    }
    run(lanes, 2 * NUM_LANES);
    pair_check_blocks(&pair);
}

/* From the callers' memory, and from communication buffers. */
TEST_EACH(threads_share_a_channel, 2 * NUM_WIRES)
{
    const char *wire = wires[_i % NUM_WIRES];
    lane_t      lanes[2 * NUM_LANES];

    pair_begin(&pair, wire, wire);
    for (unsigned i = 0; i < NUM_LANES; i++) {
        set_ends(&lanes[2 * i], &pair, i, _i >= NUM_WIRES);
    }
    run(lanes, 2 * NUM_LANES);
    pair_check_blocks(&pair);
}

typedef struct taker {
    ucxpool_t *pool;
    bool       stop; /* atomic */
} taker_t;

/* Allocates, writes and releases blocks all the time. */
static void *take_blocks(void *arg)
{
    taker_t        *taker = arg;
    ucxpool_block_t blocks[3];
    core_stats_t    stats;

    while (!__atomic_load_n(&taker->stop, __ATOMIC_ACQUIRE)) {
        if (ucxpool_block_get_n(taker->pool, 3, blocks) == UCXPOOL_OK) {
            for (int i = 0; i < 3; i++) {
                memset(blocks[i].address, i, 64);
                ck_assert_uint_eq(*(uint8_t *)blocks[i].address, i);
                ucxpool_block_put(taker->pool, &blocks[i]);
            }
        }
        core_stats_get(taker->pool, &stats);
        ck_assert_uint_eq(stats.blocks[BLOCK_SHARE_SEND].total,
                          stats.blocks[BLOCK_SHARE_SEND].free +
                              stats.blocks[BLOCK_SHARE_SEND].held +
                              stats.blocks[BLOCK_SHARE_SEND].quarantined);
        sched_yield();
    }
    return NULL;
}

TEST_EACH(blocks_are_allocated_while_others_transfer, NUM_WIRES)
{
    lane_t  lanes[2];
    taker_t takers[2];

    pair_begin(&pair, wires[_i], wires[_i]);
    set_ends(lanes, &pair, 0, false);
    for (unsigned i = 0; i < 2; i++) {
        takers[i] = (taker_t){.pool = (i == 0) ? pair.a : pair.b};
        test_thread(take_blocks, &takers[i]);
    }
    run(lanes, 2);
    for (unsigned i = 0; i < 2; i++) {
        __atomic_store_n(&takers[i].stop, true, __ATOMIC_RELEASE);
    }
    test_join(2);
    pair_check_blocks(&pair);
}

/* Two players send one message back and forth, only from callbacks. Each
 * callback also posts and cancels a receive that matches nothing. */
typedef struct player {
    ucxpool_t         *pool;
    ucxpool_channel_t *channel;
    unsigned           hits; /* atomic */
    unsigned           last;
    unsigned           canceled; /* atomic */
    bool               is_over;  /* atomic */
    uint8_t            ball[70000];
    uint8_t            nothing;
} player_t;

static void post_receive(player_t *player);

static void free_sent(ucxpool_request_t *request, ucxpool_status_t status,
                      void *arg)
{
    assert_ok(status);
    ucxpool_request_release(request);
}

static void note_canceled(ucxpool_request_t *request, ucxpool_status_t status,
                          void *arg)
{
    player_t *player = arg;

    ck_assert_int_eq(status, UCXPOOL_ERR_CANCELED);
    ucxpool_request_release(request);
    __atomic_add_fetch(&player->canceled, 1, __ATOMIC_RELAXED);
}

static void post_and_cancel(player_t *player)
{
    ucxpool_request_params_t params = {
        .field_mask   = UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK,
        .callback     = note_canceled,
        .callback_arg = player,
    };
    ucxpool_request_t *request;

    assert_ok(ucxpool_recv_buffer(player->pool, player->channel,
                                  &player->nothing, 1, 99, ALL_BITS, &params,
                                  &request));
    ucxpool_request_cancel(request);
}

static void hit(player_t *player, size_t length, uint64_t number)
{
    ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK,
        .callback   = free_sent,
    };
    ucxpool_request_t *request;

    fill(player->ball, length, 1, (unsigned)number);
    assert_ok(ucxpool_send_buffer(player->channel, player->ball, length, 1,
                                  &params, &request));
    (void)request;
}

static void received(ucxpool_request_t *request, ucxpool_status_t status,
                     void *arg)
{
    player_t                    *player = arg;
    static _Thread_local uint8_t wanted[sizeof(player->ball)];
    ucxpool_request_attr_t       attr;
    unsigned number = __atomic_load_n(&player->hits, __ATOMIC_ACQUIRE);

    assert_ok(status);
    ucxpool_request_query(request, &attr, sizeof(attr));
    ucxpool_request_release(request);
    fill(wanted, attr.length, 1, number);
    ck_assert(memcmp(wanted, player->ball, attr.length) == 0);
    post_and_cancel(player);
    if (number + 1 < player->last) {
        post_receive(player);
    }
    /* Count before the answer arrives, when another thread continues the
     * count. */
    __atomic_store_n(&player->hits, number + 1, __ATOMIC_RELEASE);
    hit(player, attr.length, number);
}

static void post_receive(player_t *player)
{
    ucxpool_request_params_t params = {
        .field_mask   = UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK,
        .callback     = received,
        .callback_arg = player,
    };
    ucxpool_request_t *request;

    assert_ok(ucxpool_recv_buffer(player->pool, player->channel, player->ball,
                                  sizeof(player->ball), 1, ALL_BITS, &params,
                                  &request));
    (void)request;
}

static void *drive(void *arg)
{
    player_t *player = arg;

    while (!__atomic_load_n(&player->is_over, __ATOMIC_ACQUIRE)) {
        ucxpool_wait(player->pool, MILLISECOND);
    }
    return NULL;
}

TEST_EACH(callbacks_post_cancel_and_free, NUM_WIRES)
{
    static player_t    player;
    static uint8_t     service[sizeof(player.ball)];
    ucxpool_request_t *send;
    ucxpool_request_t *recv;

    pair_begin(&pair, wires[_i], wires[_i]);
    player.pool    = pair.b;
    player.channel = pair.to_a;
    player.last    = rounds(100);
    post_receive(&player);
    for (unsigned i = 0; i < 4; i++) {
        test_thread(drive, &player);
    }
    for (unsigned i = 0; i < player.last; i++) {
        size_t length = (i % 2 == 0) ? 500 : sizeof(service);

        fill(service, length, 1, i);
        send = pair_send(pair.to_b, service, length, 1);
        assert_ok(ucxpool_request_wait(send, UCXPOOL_FOREVER));
        ucxpool_request_release(send);
        memset(service, 0xfe, sizeof(service));
        recv = pair_recv(pair.a, NULL, service, sizeof(service), 1);
        assert_ok(ucxpool_request_wait(recv, UCXPOOL_FOREVER));
        ucxpool_request_release(recv);
    }
    __atomic_store_n(&player.is_over, true, __ATOMIC_RELEASE);
    test_join(4);
    ck_assert_uint_eq(player.hits, player.last);
    ck_assert_uint_eq(player.canceled, player.last);
    pair_check_blocks(&pair);
}

/* A thread that waits for a request, and the result. */
typedef struct waiter {
    ucxpool_t         *pool;
    ucxpool_request_t *request;
    ucxpool_status_t   status;
} waiter_t;

static void *wait_for_request(void *arg)
{
    waiter_t *waiter = arg;

    waiter->status = ucxpool_request_wait(waiter->request, UCXPOOL_FOREVER);
    return NULL;
}

/* As a program with an event loop waits: for any event. */
static void *wait_for_anything(void *arg)
{
    waiter_t *waiter = arg;

    do {
        waiter->status = ucxpool_wait(waiter->pool, UCXPOOL_FOREVER);
    } while ((waiter->status == UCXPOOL_OK) &&
             (ucxpool_request_test(waiter->request) == UCXPOOL_INPROGRESS));
    return NULL;
}

static bool is_asleep(ucxpool_t *pool)
{
    bool asleep;

    core_lock(pool);
    asleep = pool->wakeup.is_armed;
    core_unlock(pool);
    return asleep;
}

/* Start a thread that sleeps in that function, for a receive of pool a. */
static void start_waiter_in(waiter_t *waiter, uint64_t tag,
                            void *(*wait)(void *))
{
    static uint8_t byte;

    waiter->request = pair_recv(pair.a, NULL, &byte, 1, tag);
    waiter->pool    = pair.a;
    test_thread(wait, waiter);
    while (!is_asleep(pair.a)) {
        sched_yield();
    }
}

static void start_waiter(waiter_t *waiter, uint64_t tag)
{
    start_waiter_in(waiter, tag, wait_for_request);
}

/* Waiters must be ended in reverse order of their start. */
static void end_waiter(waiter_t *waiter, ucxpool_status_t status)
{
    test_join(1);
    ck_assert_int_eq(waiter->status, status);
    ucxpool_request_release(waiter->request);
}

TEST_EACH(a_sleeper_wakes_when_another_thread_completes_its_request, NUM_WIRES)
{
    static uint8_t byte;
    waiter_t       waiter;

    pair_begin(&pair, wires[_i], wires[_i]);
    for (unsigned i = 0; i < rounds(100); i++) {
        start_waiter(&waiter, 1);
        assert_ok(ucxpool_send_buffer(pair.to_b, &byte, 1, 99, NULL, NULL));
        assert_ok(ucxpool_send_buffer(pair.to_a, &byte, 1, 1, NULL, NULL));
        pair_until(&pair, pair_ended(waiter.request));
        end_waiter(&waiter, UCXPOOL_OK);
    }
}

TEST_EACH(a_sleeper_wakes_when_another_thread_cancels_its_request, NUM_WIRES)
{
    waiter_t waiter;

    pair_begin(&pair, wires[_i], wires[_i]);
    for (unsigned i = 0; i < rounds(20); i++) {
        start_waiter(&waiter, 1);
        ucxpool_request_cancel(waiter.request);
        end_waiter(&waiter, UCXPOOL_ERR_CANCELED);
    }
}

/* Afterwards the pool is idle, and only the sleeper uses it. */
static void end_all(ucxpool_request_t *request, bool by_cancel)
{
    static uint8_t byte;

    core_lock(pair.a);
    if (by_cancel) {
        ucxpool_request_cancel(request);
    } else {
        assert_ok(ucxpool_send_buffer(pair.to_a, &byte, 1, 1, NULL, NULL));
        pair_until(&pair, pair_ended(request));
    }
    while (ucxpool_progress(pair.a) != 0) {
    }
    core_unlock(pair.a);
}

TEST_EACH(a_wait_for_anything_returns_when_another_thread_ends_a_request,
          NUM_WIRES)
{
    waiter_t waiter;

    pair_begin(&pair, wires[_i], wires[_i]);
    for (unsigned i = 0; i < rounds(40); i++) {
        bool by_cancel = (i % 2 != 0);

        start_waiter_in(&waiter, 1, wait_for_anything);
        end_all(waiter.request, by_cancel);
        ck_assert_int_eq(ucxpool_request_test(waiter.request),
                         by_cancel ? UCXPOOL_ERR_CANCELED : UCXPOOL_OK);
        end_waiter(&waiter, UCXPOOL_OK);
    }
}

/* Objects that one thread queries while another changes them. */
#define NUM_QUERIED 4

typedef struct queried {
    pair_t                   pairs[NUM_QUERIED];
    ucxpool_window_t        *windows[NUM_QUERIED];
    ucxpool_remote_window_t *remotes[NUM_QUERIED];
    ucxpool_request_t       *requests[NUM_QUERIED];
    bool                     is_over;    /* atomic */
    unsigned                 num_rounds; /* queries of all objects; atomic */
    size_t                   length;     /* of all strings together */
} queried_t;

static uint8_t queried_byte;

static size_t text_length(const char *text, size_t size)
{
    size_t length = strnlen(text, size);

    ck_assert_uint_lt(length, size);
    return length;
}

static size_t query_one(const queried_t *queried, unsigned number)
{
    ucxpool_channel_attr_t channel = pair_attr(queried->pairs[number].to_b);
    ucxpool_window_attr_t  window  = pair_window_attr(queried->windows[number]);
    ucxpool_remote_window_attr_t remote =
        pair_remote_attr(queried->remotes[number]);
    ucxpool_request_attr_t request =
        pair_request_attr(queried->requests[number]);

    return text_length(channel.reason, sizeof(channel.reason)) +
           text_length(channel.wire_reason, sizeof(channel.wire_reason)) +
           text_length(channel.name, sizeof(channel.name)) +
           text_length(channel.local_address, sizeof(channel.local_address)) +
           text_length(channel.remote_address, sizeof(channel.remote_address)) +
           text_length(window.name, sizeof(window.name)) +
           text_length(window.not_registered, sizeof(window.not_registered)) +
           text_length(remote.reason, sizeof(remote.reason)) +
           text_length(remote.way_reason, sizeof(remote.way_reason)) +
           text_length(request.detail, sizeof(request.detail)) +
           ((request.metadata_length != 0) ? *(const uint8_t *)request.metadata
                                           : 0);
}

static void *query_all(void *arg)
{
    queried_t *queried = arg;

    while (!__atomic_load_n(&queried->is_over, __ATOMIC_ACQUIRE)) {
        for (unsigned i = 0; i < NUM_QUERIED; i++) {
            queried->length += query_one(queried, i);
        }
        __atomic_add_fetch(&queried->num_rounds, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* Create a channel, a window and its import, and requests, all between the same
 * two pools. */
static void make_queried(queried_t *queried, unsigned number)
{
    pair_t *ends = &queried->pairs[number];

    assert_ok(ucxpool_window_create(ends->b, &queried_byte, 1, NULL,
                                    &queried->windows[number]));
    queried->remotes[number] =
        pair_import(ends->to_b, queried->windows[number], UCXPOOL_WINDOW_READ);
    queried->requests[number] = pair_recv(ends->a, ends->to_b, NULL, 0, 1);
}

/* The peer closes every second channel, after sending a message. */
static void change_queried(queried_t *queried, unsigned number)
{
    const ucxpool_request_params_t params = {
        .field_mask      = UCXPOOL_REQUEST_PARAM_FIELD_METADATA,
        .metadata        = "there",
        .metadata_length = 5,
    };
    pair_t *ends = &queried->pairs[number];

    pair_until(ends, pair_remote_attr(queried->remotes[number]).status !=
                         UCXPOOL_INPROGRESS);
    ucxpool_channel_set_name(ends->to_b, "another name");
    if (number % 2 == 0) {
        ucxpool_channel_fail(ends->to_b);
    } else {
        assert_ok(ucxpool_send_buffer(ends->to_a, NULL, 0, 1, &params, NULL));
        pair_until(ends, pair_ended(queried->requests[number]));
        ucxpool_channel_abort(ends->to_a);
    }
    pair_until(ends, pair_state(ends->to_b) > UCXPOOL_CHANNEL_OPEN);
}

/* ThreadSanitizer detects a string that is written while it is read. */
TEST_EACH(queries_return_copies_while_channels_fail, NUM_WIRES)
{
    static queried_t queried;

    pair_init(&queried.pairs[0], wires[_i], wires[_i]);
    for (unsigned i = 0; i < NUM_QUERIED; i++) {
        queried.pairs[i].a = queried.pairs[0].a;
        queried.pairs[i].b = queried.pairs[0].b;
        if (i != 0) {
            pair_connect(&queried.pairs[i]);
        }
        make_queried(&queried, i);
    }
    test_thread(query_all, &queried);
    for (unsigned i = 0; i < NUM_QUERIED; i++) {
        unsigned seen = __atomic_load_n(&queried.num_rounds, __ATOMIC_RELAXED);

        while (__atomic_load_n(&queried.num_rounds, __ATOMIC_RELAXED) == seen) {
            sched_yield();
        }
        change_queried(&queried, i);
    }
    __atomic_store_n(&queried.is_over, true, __ATOMIC_RELEASE);
    test_join(1);
    ck_assert_uint_gt(queried.length, 0);
    for (unsigned i = 0; i < NUM_QUERIED; i++) {
        ucxpool_request_release(queried.requests[i]);
        ucxpool_remote_window_release(queried.remotes[i]);
    }
    pair_cleanup(&queried.pairs[0]);
}

/* A callback that blocks until the test lets it return. */
typedef struct gate {
    ucxpool_t *pool;
    bool       is_entered; /* atomic */
    bool       is_open;    /* atomic */
    bool       is_left;
} gate_t;

static void pass_gate(ucxpool_request_t *request, ucxpool_status_t status,
                      void *arg)
{
    gate_t *gate = arg;

    assert_ok(ucxpool_request_test(request));
    __atomic_store_n(&gate->is_entered, true, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&gate->is_open, __ATOMIC_ACQUIRE)) {
        sched_yield();
    }
    gate->is_left = true;
}

static void *progress_into_gate(void *arg)
{
    gate_t *gate = arg;

    while (!__atomic_load_n(&gate->is_entered, __ATOMIC_ACQUIRE)) {
        ucxpool_progress(gate->pool);
    }
    return NULL;
}

static ucxpool_request_t *post_to_gate(gate_t *gate)
{
    const ucxpool_request_params_t params = {
        .field_mask   = UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK,
        .callback     = pass_gate,
        .callback_arg = gate,
    };
    static uint8_t     byte;
    ucxpool_request_t *request;

    assert_ok(ucxpool_send_buffer(pair.to_b, &byte, 1, 1, &params, &request));
    return request;
}

/* One thread is in the callback. Another sleeps until the request has ended. */
TEST_EACH(a_wait_ends_after_a_callback_in_another_thread, NUM_WIRES)
{
    waiter_t waiter;

    pair_begin(&pair, wires[_i], wires[_i]);
    waiter.pool = pair.a;
    for (unsigned i = 0; i < rounds(20); i++) {
        gate_t *gate = calloc(1, sizeof(*gate));

        gate->pool     = pair.a;
        waiter.request = post_to_gate(gate);
        test_thread(progress_into_gate, gate);
        while (!__atomic_load_n(&gate->is_entered, __ATOMIC_ACQUIRE)) {
            sched_yield();
        }
        ck_assert_int_eq(ucxpool_request_test(waiter.request),
                         UCXPOOL_INPROGRESS);
        test_thread(wait_for_request, &waiter);
        while (!is_asleep(pair.a)) {
            sched_yield();
        }
        __atomic_store_n(&gate->is_open, true, __ATOMIC_RELEASE);
        end_waiter(&waiter, UCXPOOL_OK);
        ck_assert(gate->is_left);
        test_join(1);
        free(gate);
    }
}

/* Two threads sleep. Whichever wakes up first must wake the other one for its
 * request. */
TEST_EACH(both_of_two_sleepers_are_woken, NUM_WIRES)
{
    static uint8_t byte;
    waiter_t       waiters[2];

    pair_begin(&pair, wires[_i], wires[_i]);
    for (unsigned i = 0; i < rounds(100); i++) {
        start_waiter(&waiters[0], 1);
        start_waiter(&waiters[1], 2);
        for (uint64_t tag = 1; tag <= 2; tag++) {
            assert_ok(ucxpool_send_buffer(
                pair.to_a, &byte, 1, (i % 2 == 0) ? tag : 3 - tag, NULL, NULL));
        }
        pair_until(&((pair_t){NULL, pair.b, NULL, NULL}),
                   pair_ended(waiters[0].request) &&
                       pair_ended(waiters[1].request));
        end_waiter(&waiters[1], UCXPOOL_OK);
        end_waiter(&waiters[0], UCXPOOL_OK);
    }
}
