/* A UCX that never completes an operation. Requests end at their deadline, and
 * blocks wait in quarantine until the forced close of the endpoint has
 * completed the operation. The clock is simulated too. */
#include "core/pool.h"
#include "pair.h"
#include "test.h"
#include "replace.h"

#include "core/stats.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucp/api/ucp.h>

#define TAG      UINT64_C(0x57)
#define ALL_BITS UINT64_MAX
#define LENGTH   (512u * 1024u)
#define HOUR_NS  UINT64_C(3600000000000)
#define MS_NS    UINT64_C(1000000)
#define MAX_HELD 64u

/* An operation that UCX has begun and not completed. */
typedef struct held {
    ucp_send_nbx_callback_t         sent;
    ucp_am_recv_data_nbx_callback_t received;
    void                           *user_data;
    ucp_worker_h                    worker; /* of a receive */
    void                           *descriptor;
    bool                            is_over;
} held_t;

static held_t   held[MAX_HELD];
static unsigned num_held;
static bool     holds_sends;
static bool     holds_receives;
static bool     probes;       /* receive the message after it has been probed */
static bool     may_complete; /* a forced close completes the held operations */
static unsigned num_closes;
static uint64_t offset_ns; /* added to the clock */

static held_t *hold(void *user_data)
{
    held_t *one = &held[num_held++];

    ck_assert_uint_le(num_held, MAX_HELD);
    memset(one, 0, sizeof(*one));
    one->user_data = user_data;
    return one;
}

REPLACE(ucs_status_ptr_t, ucp_am_send_nbx, ucp_ep_h ep, unsigned id,
        const void *header, size_t header_length, const void *buffer,
        size_t count, const ucp_request_param_t *param)
{
    /* Hold only rendezvous sends, which carry the fragments. */
    if (holds_sends && (param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS) &&
        (param->flags & UCP_AM_SEND_FLAG_RNDV)) {
        held_t *one = hold(param->user_data);

        one->sent = param->cb.send;
        return one;
    }
    return __real_ucp_am_send_nbx(ep, id, header, header_length, buffer, count,
                                  param);
}

REPLACE(ucs_status_ptr_t, ucp_am_recv_data_nbx, ucp_worker_h worker,
        void *descriptor, void *buffer, size_t count,
        const ucp_request_param_t *param)
{
    if (holds_receives) {
        held_t *one = hold(param->user_data);

        one->received   = param->cb.recv_am;
        one->worker     = worker;
        one->descriptor = descriptor;
        return one;
    }
    return __real_ucp_am_recv_data_nbx(worker, descriptor, buffer, count,
                                       param);
}

static bool is_held(const void *request)
{
    return (request >= (const void *)held) &&
           (request < (const void *)(held + MAX_HELD));
}

REPLACE(void, ucp_request_free, void *request)
{
    if (!is_held(request)) {
        __real_ucp_request_free(request);
    }
}

REPLACE(ucs_status_ptr_t, ucp_ep_close_nbx, ucp_ep_h ep,
        const ucp_request_param_t *param)
{
    num_closes++;
    return __real_ucp_ep_close_nbx(ep, param);
}

/* The forced close completes the held operations, in a later progress call. */
REPLACE(unsigned, ucp_worker_progress, ucp_worker_h worker)
{
    for (unsigned i = 0; may_complete && (num_closes > 0) && (i < num_held);
         i++) {
        if (held[i].is_over) {
            continue;
        }
        held[i].is_over = true;
        if (held[i].sent != NULL) {
            held[i].sent(&held[i], UCS_ERR_CANCELED, held[i].user_data);
        } else {
            ucp_am_data_release(held[i].worker, held[i].descriptor);
            held[i].received(&held[i], UCS_ERR_CANCELED, 0, held[i].user_data);
        }
    }
    return __real_ucp_worker_progress(worker);
}

REPLACE(int, clock_gettime, clockid_t clock, struct timespec *now)
{
    int      result = __real_clock_gettime(clock, now);
    uint64_t ns     = (uint64_t)now->tv_nsec + offset_ns % 1000000000u;

    now->tv_sec += (time_t)(offset_ns / 1000000000u + ns / 1000000000u);
    now->tv_nsec = (long)(ns % 1000000000u);
    return result;
}

static void setup(void)
{
    num_held       = 0;
    holds_sends    = false;
    holds_receives = false;
    may_complete   = false;
    num_closes     = 0;
    offset_ns      = 0;
}

/* Progress until nothing is left to do. */
static void settle(pair_t *pair)
{
    for (int i = 0; i < 300; i++) {
        pair_progress(pair);
        assert_ok(ucxpool_check(pair->a));
        assert_ok(ucxpool_check(pair->b));
    }
}

static block_stats_t share(ucxpool_t *pool, block_share_t which)
{
    return pair_stats(pool).blocks[which];
}

/* A message whose send or receive UCX does not complete. The request under test
 * has a deadline of one hour. */
typedef struct stuck {
    pair_t             pair;
    uint8_t           *source;
    uint8_t           *target;
    ucxpool_request_t *send;
    ucxpool_request_t *recv;
} stuck_t;

static void receive(stuck_t *stuck, const ucxpool_request_params_t *params)
{
    ucxpool_data_t     data = ucxpool_data_buffer(stuck->target, LENGTH);
    ucxpool_message_t *message;

    if (!probes) {
        assert_ok(ucxpool_recv(stuck->pair.b, stuck->pair.to_a, &data, TAG,
                               ALL_BITS, params, &stuck->recv));
        return;
    }
    pair_until(&stuck->pair, ucxpool_probe(stuck->pair.b, stuck->pair.to_a, TAG,
                                           ALL_BITS, &message) == UCXPOOL_OK);
    assert_ok(ucxpool_message_recv(message, &data, params, &stuck->recv));
}

static void stuck_init(stuck_t *stuck, const char *settings, bool at_receiver,
                       bool in_place)
{
    ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT,
        .timeout_ns = HOUR_NS,
    };

    pair_init(&stuck->pair, settings, settings);
    /* As if there were a network card, unless UCX may use any memory. */
    stuck->pair.a->needs_registration = !in_place;
    stuck->pair.b->needs_registration = !in_place;
    stuck->source                     = malloc(LENGTH);
    stuck->target                     = malloc(LENGTH);
    pair_fill(stuck->source, LENGTH);
    holds_sends    = !at_receiver;
    holds_receives = at_receiver;
    assert_ok(ucxpool_send_buffer(stuck->pair.to_b, stuck->source, LENGTH, TAG,
                                  at_receiver ? NULL : &params, &stuck->send));
    receive(stuck, at_receiver ? &params : NULL);
    pair_until(&stuck->pair, num_held > 0);
    settle(&stuck->pair);
}

static void stuck_cleanup(stuck_t *stuck)
{
    holds_sends    = false;
    holds_receives = false;
    pair_until(&stuck->pair,
               pair_ended(stuck->send) && pair_ended(stuck->recv));
    ucxpool_request_release(stuck->send);
    ucxpool_request_release(stuck->recv);
    pair_until(&stuck->pair,
               pair_is_whole(stuck->pair.a) && pair_is_whole(stuck->pair.b));
    settle(&stuck->pair);
    for (unsigned i = 0; i < num_held; i++) {
        ck_assert(held[i].is_over);
    }
    pair_cleanup(&stuck->pair);
    free(stuck->source);
    free(stuck->target);
    /* Check reads the clock, too. */
    offset_ns = 0;
}

/* Nothing has happened a minute before the deadline. The first round after it
 * ends the request. */
static void pass_deadline(stuck_t *stuck, ucxpool_t *pool,
                          const ucxpool_request_t *request)
{
    offset_ns += HOUR_NS - 60000 * MS_NS;
    settle(&stuck->pair);
    ck_assert_int_eq(ucxpool_request_test(request), UCXPOOL_INPROGRESS);
    offset_ns += 60000 * MS_NS;
    ucxpool_progress(pool);
}

/* Blocks in quarantine are released when the forced close has completed, and
 * not before. */
static void check_quarantine(stuck_t *stuck, ucxpool_t *pool,
                             ucxpool_channel_t *channel, block_share_t which)
{
    uint64_t num = share(pool, which).quarantined;

    ck_assert_uint_ge(num, 1);
    ck_assert_uint_eq(share(pool, which).held, 0);
    settle(&stuck->pair);
    ck_assert_uint_eq(share(pool, which).quarantined, num);
    ck_assert_uint_eq(num_closes, 0);
    ucxpool_channel_close(channel);
    pair_until(&stuck->pair, num_closes > 0);
    settle(&stuck->pair);
    ck_assert_uint_eq(share(pool, which).quarantined, num);
    may_complete = true;
    ucxpool_progress(pool);
    ck_assert_uint_eq(share(pool, which).quarantined, 0);
    ck_assert_uint_eq(share(pool, which).free, share(pool, which).total);
}

TEST_SETTINGS(.setup = setup, .timeout = 60);

TEST(a_stuck_packed_send_ends_at_its_deadline)
{
    stuck_t stuck;

    stuck_init(&stuck, "WIRE=ucx FRAG_SIZE=64k INPLACE_MIN=inf", false, false);
    pass_deadline(&stuck, stuck.pair.a, stuck.send);
    assert_error(ucxpool_request_test(stuck.send), TIMED_OUT);
    check_quarantine(&stuck, stuck.pair.a, stuck.pair.to_b, BLOCK_SHARE_SEND);
    stuck_cleanup(&stuck);
}

TEST_EACH(a_stuck_receive_in_blocks_ends_at_its_deadline, 2)
{
    stuck_t stuck;

    probes = _i != 0;
    stuck_init(&stuck, "WIRE=ucx FRAG_SIZE=64k INPLACE_MIN=inf", true, false);
    pass_deadline(&stuck, stuck.pair.b, stuck.recv);
    assert_error(ucxpool_request_test(stuck.recv), TIMED_OUT);
    /* The target belongs to the caller again. */
    memset(stuck.target, 9, LENGTH);
    check_quarantine(&stuck, stuck.pair.b, stuck.pair.to_a, BLOCK_SHARE_RECV);
    for (unsigned i = 0; i < LENGTH; i++) {
        ck_assert_int_eq(stuck.target[i], 9);
    }
    stuck_cleanup(&stuck);
}

/* UCX uses the caller's memory until the forced close has completed. The close
 * begins shortly after the deadline. */
TEST_EACH(a_stuck_in_place_request_ends_with_its_channel, 2)
{
    bool               at_receiver = _i == 1;
    stuck_t            stuck;
    ucxpool_request_t *request;
    ucxpool_channel_t *channel;
    ucxpool_t         *pool;

    stuck_init(&stuck, "WIRE=ucx FRAG_SIZE=64k INPLACE_MIN=4k", at_receiver,
               true);
    request = at_receiver ? stuck.recv : stuck.send;
    channel = at_receiver ? stuck.pair.to_a : stuck.pair.to_b;
    pool    = at_receiver ? stuck.pair.b : stuck.pair.a;
    pass_deadline(&stuck, pool, request);
    settle(&stuck.pair);
    ck_assert_int_eq(ucxpool_request_test(request), UCXPOOL_INPROGRESS);
    ck_assert_int_eq(pair_state(channel), UCXPOOL_CHANNEL_OPEN);
    offset_ns += pool->drain_ns;
    ucxpool_progress(pool);
    ck_assert_int_eq(pair_state(channel), UCXPOOL_CHANNEL_FAILED);
    pair_until(&stuck.pair, num_closes > 0);
    settle(&stuck.pair);
    ck_assert_int_eq(ucxpool_request_test(request), UCXPOOL_INPROGRESS);
    may_complete = true;
    pair_until(&stuck.pair, pair_ended(request));
    assert_error(ucxpool_request_test(request), TIMED_OUT);
    stuck_cleanup(&stuck);
}
