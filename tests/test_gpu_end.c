/*
 * Transfers on a GPU that end early: canceled at every step of CPU and
 * GPU, or failed by the GPU. Once a request has ended, its memory belongs to
 * the caller, which uses it at once.
 */
#include "gpu.h"
#include "rounds.h"
#include "segments.h"
#include "test.h"

#include "core/stats.h"

#include <stdlib.h>
#include <string.h>

#define TAG        UINT64_C(0x77)
#define ALL_BITS   UINT64_MAX
#define LENGTH     ((size_t)300000)
#define PIECE      ((size_t)1000)
#define AFTERWARDS 0x55
#define HOUR_NS    UINT64_C(3600000000000)
#define SMALL \
    " BLOCK_SIZE=2m REGION_SIZE=2m COMM_SIZE=16m FRAG_SIZE=64k" \
    " DEPTH=2 INPLACE_MIN=4k"

static const char *const kinds[] = {
    "CUDA_BACKING=vmm WIRE=map" SMALL,
    "CUDA_BACKING=vmm WIRE=ucx" SMALL,
    "CUDA_BACKING=alloc WIRE=ucx" SMALL,
    "CUDA_BACKING=host WIRE=ucx" SMALL,
    "CUDA_BACKING=vmm WIRE=map MAP_WAY=host" SMALL,
};
#define NUM_KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

/* The action on a transfer, the side that takes it, and the memory of the
 * bytes. */
typedef struct plan {
    bool is_by_sender;
    bool is_comm;    /* the source; else device memory */
    bool is_host;    /* the target; else device memory */
    bool is_waiting; /* for a stream that is blocked */
} plan_t;

#define NUM_PLANS 16
/* Of these, the entries that do not wait. */
#define NUM_PLACES 8

static plan_t get_plan(int i)
{
    return (plan_t){(i & 1) != 0, (i & 2) != 0, (i & 4) != 0, (i & 8) != 0};
}

static pair_t   pair;
static uint8_t *source, *target;       /* addresses for the pools */
static uint8_t *in_source, *in_target; /* addresses for the test to write to */
static uint8_t *copy;
static ucxpool_segment_t  pieces[LENGTH / PIECE];
static ucxpool_request_t *sending, *receiving, *flushing;
static bool               send_ended, recv_ended;
static unsigned num_send_ends, num_recv_ends; /* counted by callbacks */

/* LeakSanitizer calls this at exit. The stand-in keeps memory that could not be
 * freed, as the driver does with a GPU that has failed. */
static bool has_gpu_failed;

__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
    return has_gpu_failed;
}

/* Does not use a stream, which could be blocked. */
static uint8_t *inside(uint8_t *address)
{
    uint8_t *bytes = stand_in.bytes((uintptr_t)address, LENGTH);

    return (bytes == NULL) ? address : bytes;
}

static void make_memory(const plan_t *plan)
{
    void *memory;

    if (plan->is_comm) {
        assert_ok(ucxpool_comm_alloc(pair.a, LENGTH, &memory));
        source = memory;
    } else {
        source = gpu_alloc(LENGTH);
    }
    target = plan->is_host ? malloc(LENGTH) : gpu_alloc(LENGTH);
    copy   = malloc(LENGTH);
    for (size_t i = 0; i < LENGTH / PIECE; i++) {
        pieces[i] = (ucxpool_segment_t){target + i * PIECE, PIECE};
    }
}

static void free_memory(const plan_t *plan)
{
    if (plan->is_comm) {
        ucxpool_comm_free(pair.a, source);
    } else {
        gpu_free(source);
    }
    if (plan->is_host) {
        free(target);
    } else {
        gpu_free(target);
    }
    free(copy);
}

static void start(const char *configuration, const char *settings,
                  const plan_t *plan)
{
    gpu_start(configuration);
    gpu_connect(&pair, settings, settings);
    make_memory(plan);
}

static void stop(const plan_t *plan)
{
    free_memory(plan);
    gpu_disconnect(&pair);
    gpu_stop();
}

/* The memory of a failed GPU cannot be freed. */
static void stop_failed(void)
{
    pair_cleanup(&pair);
    stand_in.configure("");
    free(copy);
    has_gpu_failed = true;
}

static void release_requests(void)
{
    ucxpool_request_release(sending);
    ucxpool_request_release(flushing);
    ucxpool_request_release(receiving);
}

static void count_end(ucxpool_request_t *request, ucxpool_status_t status,
                      void *num)
{
    (*(unsigned *)num)++;
}

static ucxpool_request_params_t params_of(const plan_t *plan, unsigned *num)
{
    return (ucxpool_request_params_t){
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_STREAM |
                      UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK,
        .stream       = plan->is_waiting ? NULL : UCXPOOL_STREAM_READY,
        .callback     = count_end,
        .callback_arg = num,
    };
}

static void post(const plan_t *plan)
{
    const ucxpool_request_params_t send = params_of(plan, &num_send_ends);
    const ucxpool_request_params_t recv = params_of(plan, &num_recv_ends);

    in_source = inside(source);
    in_target = inside(target);
    pair_fill(in_source, LENGTH);
    memcpy(copy, in_source, LENGTH);
    pair_poison(in_target, LENGTH);
    assert_ok(recv_segments(pair.b, pair.to_a, pieces, LENGTH / PIECE, TAG,
                            ALL_BITS, &recv, &receiving));
    assert_ok(
        ucxpool_send_buffer(pair.to_b, source, LENGTH, TAG, &send, &sending));
    assert_ok(ucxpool_channel_flush(pair.to_b, NULL, &flushing));
    send_ended    = false;
    recv_ended    = false;
    num_send_ends = 0;
    num_recv_ends = 0;
}

/* The memory of an ended request belongs to the caller, which reuses it at
 * once. */
static bool look(void)
{
    /* A flush fails at once if the channel ends. The send then still waits for
     * the GPU. */
    ck_assert((ucxpool_request_test(flushing) != UCXPOOL_OK) ||
              pair_ended(sending));
    if (!send_ended && pair_ended(sending)) {
        send_ended = true;
        memset(in_source, AFTERWARDS, LENGTH);
    }
    if (!recv_ended && pair_ended(receiving)) {
        recv_ended = true;
        if (ucxpool_request_test(receiving) == UCXPOOL_OK) {
            ck_assert(memcmp(in_target, copy, LENGTH) == 0);
        }
        memset(in_target, AFTERWARDS, LENGTH);
    }
    return send_ended && recv_ended;
}

static void check_is_afterwards(void)
{
    size_t i = 0;

    while ((i < LENGTH) && (in_target[i] == AFTERWARDS)) {
        i++;
    }
    ck_assert_uint_eq(i, LENGTH);
}

/* Progress the pools and the GPU in turn. */
static void take_steps(unsigned num)
{
    for (unsigned i = 0; i < num; i++) {
        if (i % 3 == 2) {
            gpu_step();
        } else {
            ucxpool_progress((i % 3 == 0) ? pair.a : pair.b);
        }
        look();
    }
}

static void settle(void)
{
    gpu_until(&pair, pair_is_settled(pair.a) && pair_is_settled(pair.b));
    assert_ok(ucxpool_check(pair.a));
    assert_ok(ucxpool_check(pair.b));
}

/* A small message sent later has arrived, and so has everything sent
 * before it. */
static void pass_marker(void)
{
    char               byte = 0;
    ucxpool_request_t *marker;

    marker = pair_recv(pair.b, pair.to_a, &byte, 1, 1);
    assert_ok(ucxpool_send_buffer(pair.to_b, "m", 1, 1, NULL, NULL));
    assert_ok(gpu_finish(&pair, marker));
    ck_assert_int_eq(byte, 'm');
}

/* One more message arrives intact. */
static void check_channel(const plan_t *plan)
{
    ck_assert(pair_is_open(pair.to_a) && pair_is_open(pair.to_b));
    pass_marker();
    post(plan);
    gpu_until(&pair, look());
    assert_ok(ucxpool_request_test(sending));
    assert_ok(ucxpool_request_test(receiving));
    release_requests();
}

/* Returns whether the transfer was still in flight when the test ended it. */
static bool cancel_after(const plan_t *plan, unsigned num_steps)
{
    ucxpool_status_t sent, received;

    post(plan);
    take_steps(num_steps);
    ucxpool_request_cancel(plan->is_by_sender ? sending : receiving);
    for (unsigned i = 0; (i < 60) && !look(); i++) {
        take_steps(3);
    }
    if (!look()) {
        /* The message had not met its receive yet. */
        ucxpool_request_cancel(plan->is_by_sender ? receiving : sending);
    }
    gpu_until(&pair, look());
    sent     = ucxpool_request_test(sending);
    received = ucxpool_request_test(receiving);
    release_requests();
    if (received != UCXPOOL_OK) {
        ck_assert_int_ne(sent, UCXPOOL_OK);
    }
    settle();
    check_is_afterwards();
    return sent != UCXPOOL_OK;
}

TEST_SETTINGS(.timeout = 200, .only_if = cuda_is_stand_in);

TEST_EACH(cancel_at_any_step_keeps_memory_and_blocks_intact,
          NUM_KINDS *NUM_PLANS)
{
    const plan_t plan      = get_plan(_i % NUM_PLANS);
    unsigned     num_steps = 0;

    start("run=n", kinds[_i / NUM_PLANS], &plan);
    while (cancel_after(&plan, num_steps)) {
        if (num_steps % 8 == 0) {
            check_channel(&plan);
        }
        num_steps += rounds_are_few() ? 17 : 1 + (unsigned)rand() % 9;
    }
    ck_assert_uint_gt(num_steps, 10);
    stop(&plan);
}

/* How a channel ends during a transfer. */
typedef enum end { END_CLOSE, END_DESTROY, NUM_ENDS } end_t;

static void end_channel(const plan_t *plan, end_t end)
{
    ucxpool_t **pool = plan->is_by_sender ? &pair.a : &pair.b;

    if (end == END_DESTROY) {
        ucxpool_destroy(*pool);
        *pool = NULL;
        ck_assert_uint_eq(plan->is_by_sender ? num_send_ends : num_recv_ends,
                          1);
        return;
    }
    ucxpool_channel_close(plan->is_by_sender ? pair.to_b : pair.to_a);
}

/* Requests of a destroyed pool are freed with it. */
static bool is_over(void)
{
    if (pair.a == NULL) {
        return pair_ended(receiving);
    }
    if (pair.b == NULL) {
        return pair_ended(sending);
    }
    return look();
}

static bool is_whole(ucxpool_t *pool)
{
    return (pool == NULL) || pair_is_settled(pool);
}

static void free_requests(void)
{
    if (pair.a != NULL) {
        ucxpool_request_release(sending);
        ucxpool_request_release(flushing);
    }
    if (pair.b != NULL) {
        ucxpool_request_release(receiving);
    }
}

/* Returns whether anything was still in flight. */
static bool end_after(int i, end_t end, unsigned num_steps)
{
    plan_t plan = get_plan(i % NUM_PLACES);
    bool   was_under_way;

    plan.is_waiting = num_steps % 2 != 0;
    /* Comm memory is freed with its pool, so the test must not write to it. */
    plan.is_comm &= (end != END_DESTROY) || !plan.is_by_sender;
    start("run=n", kinds[i / NUM_PLACES], &plan);
    post(&plan);
    take_steps(num_steps);
    was_under_way = !look();
    end_channel(&plan, end);
    gpu_until(&pair, is_over());
    /* The GPU writes nothing there later. */
    if ((pair.a != NULL) && (pair.b != NULL)) {
        look();
    } else {
        memset(in_target, AFTERWARDS, LENGTH);
    }
    free_requests();
    gpu_until(&pair, is_whole(pair.a) && is_whole(pair.b));
    while (gpu_step()) {
    }
    check_is_afterwards();
    free_memory(&plan);
    if (pair.a != NULL) {
        assert_ok(ucxpool_check(pair.a));
    }
    if (pair.b != NULL) {
        assert_ok(ucxpool_check(pair.b));
    }
    pair_cleanup(&pair);
    gpu_stop();
    return was_under_way;
}

TEST_EACH(channel_end_at_any_step_leaks_nothing,
          NUM_KINDS *NUM_PLACES *NUM_ENDS)
{
    const end_t end = (end_t)(_i % NUM_ENDS);

    const unsigned stride = rounds_are_few() ? 90 : 32;

    for (unsigned n = (unsigned)_i; end_after(_i / NUM_ENDS, end, n);
         n += stride) {
    }
}

static const ucxpool_request_params_t within_an_hour = {
    .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT,
    .timeout_ns = HOUR_NS,
};

TEST_EACH(deadline_expires_while_waiting_for_a_stream, NUM_KINDS * 2)
{
    const plan_t plan         = {.is_waiting = true};
    bool         is_by_sender = (_i & 1) != 0;

    start("run=n", kinds[_i / 2], &plan);
    in_source = inside(source);
    in_target = inside(target);
    pair_poison(in_target, LENGTH);
    assert_ok(
        ucxpool_recv_buffer(pair.b, pair.to_a, target, LENGTH, TAG, ALL_BITS,
                            is_by_sender ? NULL : &within_an_hour, &receiving));
    assert_ok(ucxpool_send_buffer(pair.to_b, source, LENGTH, TAG,
                                  is_by_sender ? &within_an_hour : NULL,
                                  &sending));
    send_ended = recv_ended = true; /* not checked */
    /* The GPU makes no progress. */
    for (int i = 0; i < 1000; i++) {
        pair_progress(&pair);
    }
    pair_expire(is_by_sender ? sending : receiving);
    pair_until(&pair, pair_ended(sending) && pair_ended(receiving));
    assert_error(ucxpool_request_test(is_by_sender ? sending : receiving),
                 TIMED_OUT);
    ck_assert_int_ne(ucxpool_request_test(is_by_sender ? receiving : sending),
                     UCXPOOL_OK);
    ucxpool_request_release(sending);
    ucxpool_request_release(receiving);
    memset(in_target, AFTERWARDS, LENGTH);
    while (gpu_step()) {
        pair_progress(&pair);
    }
    settle();
    check_is_afterwards();
    check_channel(&plan);
    stop(&plan);
}

static const char *const calls[] = {"cuLaunchKernel", "cuMemcpyAsync",
                                    "cuStreamWriteValue32", "cuCtxPushCurrent",
                                    "cuPointerGetAttributes"};
#define NUM_CALLS ((int)(sizeof(calls) / sizeof(calls[0])))

static bool has_detail(const ucxpool_request_t *request)
{
    ucxpool_request_attr_t attr = pair_request_attr(request);

    return (attr.status == UCXPOOL_ERR_IO) && (attr.detail[0] != '\0');
}

/* Both requests, unless the post itself failed. */
static bool pass_with_failure(const char *name, unsigned n, bool *failed_p)
{
    const ucxpool_segment_t whole = {target, LENGTH};
    ucxpool_status_t        status;
    bool                    has_failed;

    in_source = inside(source);
    in_target = inside(target);
    sending   = NULL;
    pair_fill(in_source, LENGTH);
    memcpy(copy, in_source, LENGTH);
    stand_in.fail_call(name, n, CUDA_ERROR_LAUNCH_FAILED);
    status = recv_segments(pair.b, pair.to_a, &whole, 1, TAG, ALL_BITS, NULL,
                           &receiving);
    if (status == UCXPOOL_OK) {
        status =
            ucxpool_send_buffer(pair.to_b, source, LENGTH, TAG, NULL, &sending);
        if (status != UCXPOOL_OK) {
            ucxpool_request_cancel(receiving);
            ucxpool_request_release(receiving);
        }
    }
    if (status != UCXPOOL_OK) {
        ck_assert_int_eq(status, UCXPOOL_ERR_IO);
        ck_assert(stand_in.has_failed());
        *failed_p = true;
        return false;
    }
    gpu_until(&pair, pair_ended(sending) && pair_ended(receiving));
    has_failed = stand_in.has_failed() != 0;
    *failed_p  = has_failed;
    if (ucxpool_request_test(receiving) == UCXPOOL_OK) {
        ck_assert(memcmp(in_target, copy, LENGTH) == 0);
        assert_ok(ucxpool_request_test(sending));
    } else {
        ck_assert(has_failed);
        ck_assert(has_detail(sending) || has_detail(receiving));
        ck_assert_int_ne(ucxpool_request_test(sending), UCXPOOL_OK);
    }
    ucxpool_request_release(sending);
    ucxpool_request_release(receiving);
    return true;
}

TEST_EACH(failed_call_ends_only_its_request, NUM_KINDS *NUM_CALLS * 2)
{
    const char  *name = calls[_i % NUM_CALLS];
    const plan_t plan = get_plan((_i / NUM_CALLS % 2) * 2);
    bool         has_failed;
    unsigned     n = 0;

    start("", kinds[_i / NUM_CALLS / 2], &plan);
    do {
        (void)pass_with_failure(name, ++n, &has_failed);
        stand_in.fail_call(NULL, 0, CUDA_SUCCESS);
        settle();
        check_channel(&plan);
    } while (has_failed && (n < 60));
    stop(&plan);
}

TEST_EACH(a_gpu_that_has_failed_ends_all_requests, NUM_KINDS * 2)
{
    const ucxpool_request_params_t reckless = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS |
                      UCXPOOL_REQUEST_PARAM_FIELD_STREAM,
        .segments_kind = UCXPOOL_SEGMENTS_CUDA,
        .stream        = UCXPOOL_STREAM_READY,
    };
    const plan_t             plan = {.is_waiting = (_i & 1) != 0};
    static ucxpool_segment_t bad_pieces[LENGTH / PIECE];
    ucxpool_request_t       *bad;
    uint8_t                 *freed;

    start("run=n", kinds[_i / 2], &plan);
    freed = gpu_alloc(LENGTH);
    gpu_free(freed);
    post(&plan);
    /* In pieces, since a single piece uses a copy, which the driver rejects. */
    for (size_t i = 0; i < LENGTH / PIECE; i++) {
        bad_pieces[i] = (ucxpool_segment_t){freed + i * PIECE, PIECE - 1};
    }
    assert_ok(send_segments(pair.to_b, bad_pieces, LENGTH / PIECE, TAG + 1,
                            &reckless, &bad));
    assert_ok(ucxpool_recv_buffer(pair.b, pair.to_a, target, LENGTH, TAG + 1,
                                  ALL_BITS, &reckless, NULL));
    gpu_until(&pair, pair_ended(bad));
    ck_assert(has_detail(bad));
    gpu_until(&pair, pair_ended(sending) && pair_ended(receiving));
    release_requests();
    ucxpool_request_release(bad);
    stop_failed();
}

TEST_EACH(failed_gpu_reaches_no_marker, NUM_KINDS)
{
    const plan_t             plan   = {.is_waiting = true};
    ucxpool_request_params_t params = {.field_mask =
                                           UCXPOOL_REQUEST_PARAM_FIELD_STREAM};
    CUcontext                context;
    gpu_gate_t               gate;
    CUstream                 stream;

    start("", kinds[_i], &plan);
    stream        = gpu_stream(CU_STREAM_NON_BLOCKING);
    params.stream = stream;
    gpu_gate_init(&gate);
    gpu_gate_wait(&gate, stream);
    assert_ok(ucxpool_recv_buffer(pair.b, pair.to_a, target, LENGTH, TAG,
                                  ALL_BITS, &params, &receiving));
    assert_ok(
        ucxpool_send_buffer(pair.to_b, source, LENGTH, TAG, &params, &sending));
    /* Another operation of the process faults and corrupts the context. */
    assert_ok(mem_cuda_device_enter(gpu));
    context = gpu->context;
    (void)gpu->driver->cuMemsetD32Async(0x1000, 1, 1, CU_STREAM_PER_THREAD);
    ck_assert_int_ne(gpu->driver->cuStreamQuery(CU_STREAM_PER_THREAD),
                     CUDA_SUCCESS);
    (void)gpu->driver->cuCtxPopCurrent(&context);
    pair_until(&pair, pair_ended(sending) && pair_ended(receiving));
    ck_assert(has_detail(sending) || has_detail(receiving));
    ck_assert_int_ne(ucxpool_request_test(sending), UCXPOOL_OK);
    ck_assert_int_ne(ucxpool_request_test(receiving), UCXPOOL_OK);
    ucxpool_request_release(sending);
    ucxpool_request_release(receiving);
    gpu_gate_open(&gate);
    stop_failed();
}
