/*
 * Pools that connect to each other at the same time, repeatedly, and a pool
 * that connects to itself.
 */
#include "core/channel.h"
#include "core/remote.h"
#include "pair.h"
#include "segments.h"
#include "test.h"

#define TAG      UINT64_C(0x3e)
#define ALL_BITS UINT64_MAX
#define LENGTH   300000u
#define NUM      6
#define ROUNDS   4

/* A channel that is closed after its deadline does not keep its endpoint. */
static const char *const wires[] = {"WIRE=ucx CLOSE_TIMEOUT=1000s",
                                    "WIRE=map CLOSE_TIMEOUT=1000s"};

#define NUM_WIRES ((int)(sizeof(wires) / sizeof(wires[0])))

static ucxpool_channel_t *call(ucxpool_t *pool, ucxpool_listener_t *listener)
{
    return pair_call(pool, "127.0.0.1", ucxpool_listener_port(listener));
}

/* Data sent at one end arrives at the other, and only there. */
static void check_way(pair_t *pair, ucxpool_t *target_pool,
                      ucxpool_channel_t *from, ucxpool_channel_t *to)
{
    static uint8_t     source[LENGTH];
    static uint8_t     target[LENGTH];
    ucxpool_message_t *message;
    ucxpool_request_t *send;
    ucxpool_request_t *recv;
    ucxpool_segment_t  segment = {target, LENGTH};

    pair_fill(source, LENGTH);
    pair_poison(target, LENGTH);
    send = pair_send(from, source, LENGTH, TAG);
    pair_until(pair, ucxpool_probe(target_pool, to, TAG, ALL_BITS, &message) ==
                         UCXPOOL_OK);
    assert_ok(message_recv_segments(message, &segment, 1, NULL, &recv));
    pair_finish_both(pair, recv, send);
    ck_assert_mem_eq(source, target, LENGTH);
}

/* Both members are the same pool. It is progressed twice, which is harmless. */
static void check_self(pair_t *pair)
{
    pair_until(pair, pair_is_open(pair->to_a) && pair_is_open(pair->to_b));
    for (int i = 0; i < 3; i++) {
        check_way(pair, pair->a, pair->to_a, pair->to_b);
        check_way(pair, pair->a, pair->to_b, pair->to_a);
    }
    ucxpool_channel_close(pair->to_a);
    pair_until(pair, pair_state(pair->to_b) == UCXPOOL_CHANNEL_CLOSED);
    ucxpool_channel_close(pair->to_b);
    pair_until(pair, pair->a->channels.count == 0);
}

static unsigned num_endpoints(const ucxpool_t *pool)
{
    const base_list_t *link  = pool->channels.endpoints.next;
    unsigned           count = 0;

    for (; link != &pool->channels.endpoints; link = link->next) {
        count++;
    }
    return count;
}

TEST_SETTINGS(.timeout = 60);

/* By address, and by listener. */
TEST_EACH(pool_connects_to_itself, 2 * NUM_WIRES)
{
    pair_t              pair     = {.a = pair_pool(wires[_i / 2])};
    unsigned            first    = 0;
    ucxpool_listener_t *listener = NULL;

    pair.b = pair.a;
    if (_i % 2 != 0) {
        listener = pair_listen(pair.a, "127.0.0.1:0");
    }
    for (int i = 0; i < ROUNDS; i++) {
        if (listener == NULL) {
            pair.to_a = pair_meet(pair.a, pair.a);
            pair.to_b = pair_meet(pair.a, pair.a);
        } else {
            pair.to_a = call(pair.a, listener);
            pair_until(&pair, ucxpool_listener_accept(
                                  listener, NULL, &pair.to_b) == UCXPOOL_OK);
        }
        check_self(&pair);
        first = (i == 0) ? num_endpoints(pair.a) : first;
    }
    ck_assert_uint_eq(num_endpoints(pair.a), first);
    ck_assert_uint_eq(ucxpool_check(pair.a), UCXPOOL_OK);
    ucxpool_destroy(pair.a);
}

/* Channels in both directions, created at the same time. */
static void call_each_other(pair_t *pair, ucxpool_listener_t *at_a,
                            ucxpool_listener_t *at_b)
{
    ucxpool_channel_t *called[2 * NUM];
    ucxpool_channel_t *taken[2 * NUM];
    unsigned           num_a = 0, num_b = 0;

    for (unsigned i = 0; i < NUM; i++) {
        called[i]       = call(pair->a, at_b);
        called[NUM + i] = call(pair->b, at_a);
    }
    pair_until(pair,
               (num_b += ucxpool_listener_accept(at_b, NULL, &taken[num_b]) ==
                         UCXPOOL_OK) == NUM);
    pair_until(pair, (num_a += ucxpool_listener_accept(at_a, NULL,
                                                       &taken[NUM + num_a]) ==
                               UCXPOOL_OK) == NUM);
    for (unsigned i = 0; i < 2 * NUM; i++) {
        pair_until(pair, pair_is_open(called[i]) && pair_is_open(taken[i]));
    }
    for (unsigned i = 0; i < NUM; i++) {
        ucxpool_channel_close(called[i]);
        ucxpool_channel_close(called[NUM + i]);
    }
    for (unsigned i = 0; i < 2 * NUM; i++) {
        pair_until(pair, pair_state(taken[i]) == UCXPOOL_CHANNEL_CLOSED);
        ucxpool_channel_close(taken[i]);
    }
    pair_until(pair, (pair->a->channels.count == 0) &&
                         (pair->b->channels.count == 0));
}

TEST_EACH(simultaneous_connects_in_both_directions_succeed, NUM_WIRES)
{
    pair_t pair = {.a = pair_pool(wires[_i]), .b = pair_pool(wires[_i])};
    ucxpool_listener_t *at_a  = pair_listen(pair.a, "127.0.0.1:0");
    ucxpool_listener_t *at_b  = pair_listen(pair.b, "127.0.0.1:0");
    unsigned            first = 0;

    for (int i = 0; i < ROUNDS; i++) {
        call_each_other(&pair, at_a, at_b);
        first = (i == 0) ? num_endpoints(pair.a) : first;
    }
    /* On `ucx`, later rounds reuse the endpoints of the first. */
    ck_assert_uint_eq(num_endpoints(pair.a), first);
    ck_assert_uint_eq(first != 0, _i == 0);
    ck_assert_uint_eq(pair.a->stats.channels_failed, 0);
    ck_assert_uint_eq(pair.b->stats.channels_failed, 0);
    ucxpool_destroy(pair.a);
    ucxpool_destroy(pair.b);
}

/* One end is closed before the other has received its HELLO; the other end must
 * be closed, too. */
TEST_EACH(channel_closed_at_once_closes_the_other_end, 2 * NUM_WIRES)
{
    const char         *wire      = wires[_i / 2];
    const bool          is_caller = _i % 2 != 0;
    pair_t              pair     = {.a = pair_pool(wire), .b = pair_pool(wire)};
    ucxpool_listener_t *listener = pair_listen(pair.a, "127.0.0.1:0");

    pair.to_a = call(pair.b, listener);
    if (is_caller) {
        pair_until(&pair, pair.to_a->conn.remote != NULL);
        ucxpool_channel_close(pair.to_a);
    }
    pair_accept(&pair, listener);
    if (!is_caller) {
        ucxpool_channel_close(pair.to_b);
    }
    pair_until(&pair, pair_state(is_caller ? pair.to_b : pair.to_a) ==
                          UCXPOOL_CHANNEL_CLOSED);
    pair_cleanup(&pair);
}
