/* Batches: many operations posted by one call. */
#include "pair.h"
#include "test.h"

#include "core/channel.h"

#include <string.h>

#define ALL_BITS UINT64_MAX
#define TAG      UINT64_C(7)
#define MAX_OPS  600u
#define LONG     100000u

static const char *const wires[] = {"WIRE=map", "WIRE=ucx"};
#define NUM_WIRES 2

static pair_t             pair;
static ucxpool_op_t       ops[MAX_OPS];
static ucxpool_request_t *requests[MAX_OPS];

static void begin(const char *settings)
{
    memset(requests, 0, sizeof(requests));
    pair_begin(&pair, settings, settings);
}

static ucxpool_op_t send_op(ucxpool_channel_t *channel, const void *address,
                            size_t length)
{
    return (ucxpool_op_t){
        .kind    = UCXPOOL_OP_SEND,
        .data    = ucxpool_source_buffer(address, length),
        .channel = channel,
        .tag     = TAG,
    };
}

static ucxpool_op_t recv_op(ucxpool_channel_t *channel, void *address,
                            size_t length)
{
    return (ucxpool_op_t){
        .kind    = UCXPOOL_OP_RECV,
        .data    = ucxpool_data_buffer(address, length),
        .channel = channel,
        .tag     = TAG,
        .mask    = ALL_BITS,
    };
}

static ucxpool_op_t window_op(ucxpool_op_kind_t        kind,
                              ucxpool_remote_window_t *remote,
                              const ucxpool_places_t *places, void *address,
                              size_t length)
{
    return (ucxpool_op_t){
        .kind   = kind,
        .data   = ucxpool_data_buffer(address, length),
        .remote = remote,
        .places = places,
    };
}

/* Post all operations, and keep their requests. */
static void post(ucxpool_t *pool, unsigned num)
{
    size_t num_posted;

    for (unsigned i = 0; i < num; i++) {
        ops[i].request_p = &requests[i];
    }
    assert_ok(ucxpool_post(pool, ops, sizeof(ops[0]), num, &num_posted));
    ck_assert_uint_eq(num_posted, num);
}

/* Require that the operation at this index is refused with this status. */
static void check_refused(unsigned num, unsigned index, ucxpool_status_t status)
{
    size_t num_posted = SIZE_MAX;

    ck_assert_int_eq(
        ucxpool_post(pair.a, ops, sizeof(ops[0]), num, &num_posted), status);
    ck_assert_uint_eq(num_posted, index);
    ck_assert_str_ne(ucxpool_error_detail(), "");
}

TEST_SETTINGS(.timeout = 60);

TEST_EACH(one_call_posts_operations_of_all_kinds, NUM_WIRES)
{
    static uint8_t           memory[2 * LONG], bytes[4][LONG], arrived[LONG];
    const ucxpool_place_t    first    = {0, LONG};
    const ucxpool_place_t    second   = {LONG, LONG};
    const ucxpool_places_t   places[] = {ucxpool_places(&first, 1),
                                         ucxpool_places(&second, 1)};
    ucxpool_window_t        *window;
    ucxpool_remote_window_t *remote;
    ucxpool_request_t       *there;

    begin(wires[_i]);
    pair_fill(memory, sizeof(memory));
    pair_fill(bytes, sizeof(bytes));
    assert_ok(
        ucxpool_window_create(pair.b, memory, sizeof(memory), NULL, &window));
    remote = pair_import(pair.to_b, window, PAIR_READ_AND_WRITE);
    ops[0] = window_op(UCXPOOL_OP_READ, remote, &places[0], bytes[0], LONG);
    ops[1] = recv_op(pair.to_b, bytes[1], LONG);
    ops[2] = window_op(UCXPOOL_OP_WRITE, remote, &places[1], bytes[2], LONG);
    ops[3] = send_op(pair.to_b, bytes[3], LONG);
    post(pair.a, 4);
    assert_ok(ucxpool_send_buffer(pair.to_a, bytes[3], LONG, TAG, NULL, NULL));
    there = pair_recv(pair.b, NULL, arrived, LONG, TAG);
    for (unsigned i = 0; i < 4; i++) {
        assert_ok(pair_finish(&pair, requests[i]));
    }
    assert_ok(pair_finish(&pair, there));
    ck_assert_mem_eq(bytes[0], memory, LONG);
    ck_assert_mem_eq(bytes[1], bytes[3], LONG);
    ck_assert_mem_eq(memory + LONG, bytes[2], LONG);
    ck_assert_mem_eq(arrived, bytes[3], LONG);
    ucxpool_remote_window_release(remote);
    pair_destroy_window(window);
}

TEST_EACH(one_call_posts_to_several_channels, NUM_WIRES)
{
    ucxpool_t         *c;
    ucxpool_channel_t *to_c;
    ucxpool_channel_t *from_c;
    uint64_t           numbers[] = {1, 2};
    uint64_t           arrived[] = {0, 0};

    begin(wires[_i]);
    c      = pair_pool(wires[_i]);
    to_c   = pair_meet(pair.a, c);
    from_c = pair_meet(c, pair.a);
    ops[0] = send_op(to_c, &numbers[1], sizeof(numbers[1]));
    ops[1] = send_op(pair.to_b, &numbers[0], sizeof(numbers[0]));
    post(pair.a, 2);
    requests[2] = pair_recv(pair.b, pair.to_a, &arrived[0], 8, TAG);
    requests[3] = pair_recv(c, from_c, &arrived[1], 8, TAG);
    for (unsigned i = 0; i < 4; i++) {
        pair_until(&pair, (ucxpool_progress(c), pair_ended(requests[i])));
        assert_ok(pair_finish(&pair, requests[i]));
    }
    ck_assert_mem_eq(arrived, numbers, sizeof(numbers));
    ucxpool_channel_close(from_c);
    ucxpool_channel_close(to_c);
    pair_cleanup(&pair);
    ucxpool_destroy(c);
}

/* The operations before a refused one are posted, those after it are not. */
TEST_EACH(a_refused_operation_ends_the_batch, 2 * NUM_WIRES)
{
    const bool has_requests = _i >= NUM_WIRES;
    uint64_t   numbers[]    = {1, 2, 3};
    uint64_t   arrived      = 0;

    begin(wires[_i % NUM_WIRES]);
    for (unsigned i = 0; i < 3; i++) {
        ops[i]           = send_op(pair.to_b, &numbers[i], sizeof(numbers[i]));
        ops[i].request_p = has_requests ? &requests[i] : NULL;
    }
    ops[1].data = ucxpool_source_buffer(NULL, 8);
    check_refused(3, 1, UCXPOOL_ERR_INVALID_PARAM);
    ck_assert_ptr_null(requests[1]);
    ck_assert_ptr_null(requests[2]);
    assert_ok(ucxpool_send_buffer(pair.to_b, &numbers[2], 8, TAG, NULL, NULL));
    for (unsigned i = 0; i < 3; i += 2) {
        requests[1] = pair_recv(pair.b, NULL, &arrived, 8, TAG);
        assert_ok(pair_finish(&pair, requests[1]));
        ck_assert_uint_eq(arrived, numbers[i]);
    }
    if (has_requests) {
        assert_ok(pair_finish(&pair, requests[0]));
    }
}

/* --- operations that are refused ------------------------------------------ */

static void refuse_null_channel(void)
{
    ops[1].channel = NULL;
    check_refused(2, 1, UCXPOOL_ERR_INVALID_PARAM);
    assert_detail("channel is NULL");
}

static void refuse_foreign_channel(void)
{
    ops[1].channel = pair.to_a;
    check_refused(2, 1, UCXPOOL_ERR_INVALID_PARAM);
    ops[1] = recv_op(pair.to_a, &ops[1], 8);
    check_refused(2, 1, UCXPOOL_ERR_INVALID_PARAM);
    assert_detail("ucxpool_post()");
}

static void refuse_ended_channel(void)
{
    ucxpool_channel_close(pair.to_a);
    pair_until(&pair, pair_state(pair.to_b) != UCXPOOL_CHANNEL_OPEN);
    check_refused(2, 0, UCXPOOL_ERR_CLOSED);
}

static void refuse_null_window(void)
{
    ops[1] = window_op(UCXPOOL_OP_READ, NULL, NULL, NULL, 0);
    check_refused(2, 1, UCXPOOL_ERR_INVALID_PARAM);
    assert_detail("remote is NULL");
}

static void refuse_foreign_window(void)
{
    static uint8_t           memory[64];
    ucxpool_places_t         places = ucxpool_places(NULL, 0);
    ucxpool_window_t        *window;
    ucxpool_remote_window_t *remote;

    assert_ok(
        ucxpool_window_create(pair.a, memory, sizeof(memory), NULL, &window));
    remote = pair_import(pair.to_a, window, PAIR_READ_AND_WRITE);
    ops[1] = window_op(UCXPOOL_OP_WRITE, remote, NULL, NULL, 0);
    check_refused(2, 1, UCXPOOL_ERR_INVALID_PARAM);
    assert_detail("places is NULL");
    ops[1].places = &places;
    check_refused(2, 1, UCXPOOL_ERR_INVALID_PARAM);
    assert_detail("the remote window belongs to pool");
    ucxpool_remote_window_release(remote);
    pair_destroy_window(window);
}

static void refuse_source_of_receive(void)
{
    ops[1]                = recv_op(pair.to_b, NULL, 0);
    ops[1].data.is_source = 1;
    check_refused(2, 1, UCXPOOL_ERR_INVALID_PARAM);
}

static void refuse_unknown_kind(void)
{
    ops[1].kind = (ucxpool_op_kind_t)0;
    check_refused(2, 1, UCXPOOL_ERR_UNSUPPORTED);
}

static void refuse_unknown_field(void)
{
    ops[1].reserved = 1;
    check_refused(2, 1, UCXPOOL_ERR_UNSUPPORTED);
}

static void refuse_huge_length(void)
{
    static uint8_t byte;

    for (size_t length = SIZE_MAX - 20; length != 0; length++) {
        ops[1] = send_op(pair.to_b, &byte, length);
        check_refused(2, 1, UCXPOOL_ERR_INVALID_PARAM);
    }
}

static void (*const refusals[])(void) = {
    refuse_null_channel,  refuse_foreign_channel,   refuse_ended_channel,
    refuse_null_window,   refuse_foreign_window,    refuse_unknown_kind,
    refuse_unknown_field, refuse_source_of_receive, refuse_huge_length,
};
#define NUM_REFUSALS (int)(sizeof(refusals) / sizeof(refusals[0]))

TEST_EACH(an_invalid_operation_is_refused, NUM_REFUSALS)
{
    static uint64_t number;

    begin(wires[0]);
    ops[0] = send_op(pair.to_b, &number, sizeof(number));
    ops[1] = ops[0];
    refusals[_i]();
}

/* --- the array ------------------------------------------------------------ */

TEST(an_empty_batch_posts_nothing)
{
    size_t num_posted = 1;

    begin(wires[0]);
    assert_ok(ucxpool_post(pair.a, NULL, sizeof(ops[0]), 0, &num_posted));
    ck_assert_uint_eq(num_posted, 0);
}

TEST(no_operation_is_posted_after_an_error_in_the_arguments)
{
    size_t num_posted = 1;

    begin(wires[0]);
    assert_error(ucxpool_post(NULL, ops, sizeof(ops[0]), 1, &num_posted),
                 INVALID_PARAM);
    ck_assert_uint_eq(num_posted, 0);
    num_posted = 1;
    assert_error(ucxpool_post(pair.a, NULL, sizeof(ops[0]), 1, &num_posted),
                 INVALID_PARAM);
    ck_assert_uint_eq(num_posted, 0);
}

/* The operation of a program that was built with a newer header. */
typedef struct newer_op {
    ucxpool_op_t op;
    uint64_t     appended;
} newer_op_t;

TEST(operations_of_other_sizes_are_read_if_their_fields_are_known)
{
    static uint64_t number;
    newer_op_t      newer[2] = {{.appended = 0}};
    size_t          num_posted;

    begin(wires[0]);
    newer[0].op = send_op(pair.to_b, &number, sizeof(number));
    newer[1].op = newer[0].op;
    assert_ok(
        ucxpool_post(pair.a, &newer[0].op, sizeof(newer[0]), 2, &num_posted));
    ck_assert_uint_eq(num_posted, 2);
    newer[1].appended = 1;
    assert_error(
        ucxpool_post(pair.a, &newer[0].op, sizeof(newer[0]), 2, &num_posted),
        UNSUPPORTED);
    ck_assert_uint_eq(num_posted, 1);
    assert_error(ucxpool_post(pair.a, ops, sizeof(ops[0]) - 8, 1, &num_posted),
                 INVALID_PARAM);
    assert_error(ucxpool_post(pair.a, ops, sizeof(ops[0]) + 1, 1, &num_posted),
                 INVALID_PARAM);
    ck_assert_uint_eq(num_posted, 0);
}

/* --- order ---------------------------------------------------------------- */

static const size_t lengths[] = {8, 4000};

/* More messages than there are credits, and more bytes than the ring holds. */
TEST_EACH(a_long_batch_arrives_in_order, 2 * NUM_WIRES)
{
    static uint8_t sources[MAX_OPS][4000], targets[MAX_OPS][4000];
    const size_t   length = lengths[_i / NUM_WIRES];

    begin(wires[_i % NUM_WIRES]);
    pair_fill(sources, sizeof(sources));
    for (unsigned i = 0; i < MAX_OPS; i++) {
        ops[i] = send_op(pair.to_b, sources[i], length);
    }
    post(pair.a, MAX_OPS);
    for (unsigned i = 0; i < MAX_OPS; i++) {
        ucxpool_request_release(requests[i]);
        ops[i] = recv_op(NULL, targets[i], length);
    }
    post(pair.b, MAX_OPS);
    for (unsigned i = 0; i < MAX_OPS; i++) {
        assert_ok(pair_finish(&pair, requests[i]));
        ck_assert_mem_eq(targets[i], sources[i], length);
    }
}

/* The lengths of consecutive sends without requests. Sends of the same length
 * share an entry of the ring. */
static size_t some_length(unsigned index)
{
    static const size_t of[] = {8, 8, 8, 8, 9, 1, 1, 0, 500, 500, 4000};

    return of[index / 3 % (sizeof(of) / sizeof(of[0]))];
}

/* More messages than there are credits. One send has a request. */
TEST_EACH(sends_of_a_batch_arrive_as_single_messages, NUM_WIRES)
{
    static uint8_t       sources[MAX_OPS][4000], target[4000];
    ucxpool_completion_t end;
    size_t               num;

    begin(wires[_i]);
    pair_fill(sources, sizeof(sources));
    for (unsigned i = 0; i < MAX_OPS; i++) {
        ops[i]     = send_op(pair.to_b, sources[i], some_length(i));
        ops[i].tag = i;
    }
    ops[5].request_p = &requests[0];
    assert_ok(ucxpool_post(pair.a, ops, sizeof(ops[0]), MAX_OPS, &num));
    ck_assert_uint_eq(num, MAX_OPS);
    for (unsigned i = 0; i < MAX_OPS; i++) {
        ucxpool_request_params_t params = {
            .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION};

        assert_ok(ucxpool_recv_buffer(pair.b, NULL, target, sizeof(target), 0,
                                      0, &params, NULL));
        do {
            pair_progress(&pair);
            assert_ok(ucxpool_completion_get(pair.b, &end, 1, &num));
        } while (num == 0);
        ck_assert_uint_eq(end.tag, i);
        ck_assert_uint_eq(end.length, some_length(i));
        ck_assert_mem_eq(target, sources[i], some_length(i));
    }
    assert_ok(pair_finish(&pair, requests[0]));
}

TEST(sends_of_the_same_length_share_an_entry_of_the_ring)
{
    const core_ring_t *ring;
    uint64_t           number = 1;
    uint64_t           head;
    size_t             num;

    begin(wires[0]);
    ring = &pair.to_b->ring;
    for (unsigned i = 0; i < 100; i++) {
        ops[i] = send_op(pair.to_b, &number, sizeof(number));
    }
    for (unsigned round = 0; round < 2; round++) {
        head = ring->head;
        assert_ok(ucxpool_post(pair.a, ops, sizeof(ops[0]), 100, &num));
        for (unsigned i = 0; i < 100; i++) {
            requests[0] = pair_recv(pair.b, NULL, &number, 8, TAG);
            assert_ok(pair_finish(&pair, requests[0]));
        }
    }
    /* The latency of some messages of the first round is measured. */
    ck_assert_uint_le(ring->head - head, 100 * 64 / 2);
}

/* --- ends ----------------------------------------------------------------- */

static unsigned num_calls;

static void called(ucxpool_request_t *request, ucxpool_status_t status,
                   void *arg)
{
    assert_ok(status);
    num_calls++;
}

TEST_EACH(ends_are_reported_as_for_single_posts, NUM_WIRES)
{
    static uint64_t          number;
    ucxpool_completion_t     completion;
    ucxpool_request_params_t calls = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK,
        .callback   = called,
    };
    ucxpool_request_params_t completes = {
        .field_mask     = UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION,
        .completion_ptr = &number,
    };
    size_t num;

    begin(wires[_i]);
    num_calls     = 0;
    ops[0]        = send_op(pair.to_b, &number, sizeof(number));
    ops[1]        = ops[0];
    ops[0].params = &calls;
    ops[1].params = &completes;
    ops[2]        = ops[1];
    assert_ok(ucxpool_post(pair.a, ops, sizeof(ops[0]), 3, &num));
    ck_assert_uint_eq(num_calls, 0);
    for (size_t total = 0; total < 2; total += num) {
        pair_progress(&pair);
        assert_ok(ucxpool_completion_get(pair.a, &completion, 1, &num));
        ck_assert((num == 0) || (completion.completion_ptr == &number));
    }
    pair_until(&pair, num_calls == 1);
}

/* `rung` is the value of the peer's `sleeping` for which the last doorbell was
 * sent. */
TEST_WITH(a_sleeping_peer_is_woken_once, .end = 1, .only_if = pair_has_pidfd)
{
    static uint64_t number;
    core_ring_t    *ring;
    uint32_t        rung;
    size_t          num;

    begin(wires[0]);
    ring = &pair.to_b->ring;
    pair_arm(pair.b);
    ck_assert(!pair_is_readable(pair.b));
    rung = ring->rung;
    for (unsigned i = 0; i < 8; i++) {
        ops[i] = send_op(pair.to_b, &number, sizeof(number));
    }
    assert_ok(ucxpool_post(pair.a, ops, sizeof(ops[0]), 8, &num));
    ck_assert(pair_is_readable(pair.b));
    ck_assert_uint_ne(ring->rung, rung);
    ck_assert_uint_eq(ring->rung, ring->theirs->sleeping);
    rung = ring->rung;
    assert_ok(ucxpool_post(pair.a, ops, sizeof(ops[0]), 8, &num));
    ck_assert_uint_eq(ring->rung, rung);
}

/* A refused operation does not keep the others from waking the peer. */
TEST_WITH(a_peer_is_woken_after_a_refused_operation, .end = 1,
          .only_if = pair_has_pidfd)
{
    static uint64_t number;

    begin(wires[0]);
    pair_arm(pair.b);
    ops[0]         = send_op(pair.to_b, &number, sizeof(number));
    ops[1]         = ops[0];
    ops[1].channel = NULL;
    check_refused(2, 1, UCXPOOL_ERR_INVALID_PARAM);
    ck_assert(pair_is_readable(pair.b));
}
