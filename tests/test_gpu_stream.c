/* Ordering between transfers of a pool on a GPU and its callers' streams. */
#include "gpu.h"
#include "segments.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#define TAG      UINT64_C(42)
#define ALL_BITS UINT64_MAX
#define LARGE    ((size_t)3 << 20)
/* Rounds of progress in which a transfer completes unless it waits. */
#define ROUNDS 300
/* The number of markers of the engine. */
#define NUM_MARKS 4096u

static const char *const kinds[] = {
    "CUDA_BACKING=vmm WIRE=map",
    "CUDA_BACKING=alloc WIRE=ucx",
    "CUDA_BACKING=vmm WIRE=ucx",
    "CUDA_BACKING=host WIRE=ucx",
};
#define NUM_KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

/* A context on a real GPU takes a second each, so only the first two run
 * there. */
#define NUM_REAL_KINDS 2

/* A short message and a long one over each wire. */
static const size_t sizes[] = {100, LARGE};
#define NUM_CASES (2 * NUM_KINDS)
#define NUM_BOTH  (cuda_is_real() ? 2 * NUM_REAL_KINDS : NUM_CASES)

static pair_t     pair;
static gpu_gate_t gate;
static CUstream   stream;
static uint8_t   *bytes, *found;   /* host */
static uint8_t   *source, *target; /* device */
static uint8_t   *staged;          /* pinned */
static size_t     size;

static const char *settings;

static void stop(void)
{
    gpu_disconnect(&pair);
    gpu_gate_cleanup(&gate);
    gpu_stream_destroy(stream);
    gpu_pinned_free(staged);
    gpu_free(source);
    gpu_free(target);
    free(bytes);
    free(found);
    gpu_stop();
}

static void start(const char *configuration, int i, unsigned flags)
{
    settings = kinds[i / 2];
    size     = sizes[i % 2];
    gpu_start(configuration);
    gpu_connect(&pair, settings, settings);
    stream = gpu_stream(flags);
    bytes  = malloc(size);
    found  = malloc(size);
    source = gpu_alloc(size);
    target = gpu_alloc(size);
    staged = gpu_pinned(size);
    gpu_gate_init(&gate);
    pair_fill(bytes, size);
    pair_poison(found, size);
    pair_poison(staged, size);
    gpu_write(source, found, size);
    gpu_write(target, found, size);
    test_at_end(stop);
}

static ucxpool_request_params_t params_of(void *value)
{
    return (ucxpool_request_params_t){
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_STREAM, .stream = value};
}

static ucxpool_request_t *post_send(const void *memory, uint64_t tag,
                                    const ucxpool_request_params_t *params)
{
    ucxpool_request_t *send;

    assert_ok(ucxpool_send_buffer(pair.to_b, memory, size, tag, params, &send));
    return send;
}

static ucxpool_request_t *post_recv(void *memory, uint64_t tag,
                                    const ucxpool_request_params_t *params)
{
    ucxpool_request_t *recv;

    assert_ok(ucxpool_recv_buffer(pair.b, pair.to_a, memory, size, tag,
                                  ALL_BITS, params, &recv));
    return recv;
}

static void go_round(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        pair_progress(&pair);
        gpu_step();
    }
}

static void finish(ucxpool_request_t *request)
{
    assert_ok(gpu_finish(&pair, request));
}

static void require_arrived(void)
{
    gpu_read(found, target, size);
    ck_assert(memcmp(found, bytes, size) == 0);
}

TEST_SETTINGS(.timeout = 120, .only_if = cuda_is_present);

/* Neither has ended before the gate opens, and both end afterwards. */
static void require_wait(ucxpool_request_t *send, ucxpool_request_t *recv,
                         bool send_waits)
{
    go_round();
    ck_assert(!send_waits || !pair_ended(send));
    ck_assert(!pair_ended(recv));
    gpu_gate_open(&gate);
    finish(send);
    finish(recv);
    require_arrived();
}

/* A copy behind the gate writes the bytes that are sent. */
static void check_send(int i, unsigned flags, bool has_stream)
{
    ucxpool_request_params_t params;
    ucxpool_request_t       *send, *recv;

    start("", i, flags);
    params = params_of(stream);
    memcpy(staged, bytes, size);
    gpu_gate_wait(&gate, stream);
    gpu_copy(stream, source, staged, size);
    recv = post_recv(target, TAG, NULL);
    send = post_send(source, TAG, has_stream ? &params : NULL);
    require_wait(send, recv, true);
}

/* Gates are words that streams wait for. For a driver without stream waits, a
 * stand-in that is stepped by hand shows the same. */
TEST_EACH(send_reads_after_its_stream_gets_there, NUM_BOTH)
{
    check_send(_i, CU_STREAM_NON_BLOCKING, true);
}

/* The legacy stream waits for blocking streams. */
TEST_EACH(without_a_stream_the_legacy_stream_is_used, NUM_BOTH)
{
    check_send(_i, 0, false);
}

/* A copy behind the gate reads the bytes that a receive overwrites. */
static void read_target(void)
{
    memset(staged, 1, size);
    gpu_gate_wait(&gate, stream);
    gpu_copy(stream, staged, target, size);
}

TEST_EACH(receive_writes_after_its_stream_gets_there, NUM_BOTH)
{
    ucxpool_request_params_t params;
    ucxpool_request_t       *send;

    start("", _i, CU_STREAM_NON_BLOCKING);
    params = params_of(stream);
    gpu_write(source, bytes, size);
    read_target();
    send = post_send(source, TAG, NULL);
    require_wait(send, post_recv(target, TAG, &params), false);
    /* The stream has read the old bytes first. */
    ck_assert(pair_is_all(staged, size, 0xfe));
}

TEST_EACH(receive_of_an_arrived_message_waits_for_its_stream, NUM_BOTH)
{
    ucxpool_request_params_t params;
    ucxpool_message_t       *message = NULL;
    ucxpool_request_t       *send, *recv;

    start("", _i, CU_STREAM_NON_BLOCKING);
    params = params_of(stream);
    send   = post_send(bytes, TAG, NULL); /* host memory: eager if short */
    gpu_until(&pair, ucxpool_probe(pair.b, NULL, TAG, ALL_BITS, &message) ==
                         UCXPOOL_OK);
    read_target();
    assert_ok(message_recv_segments(message, &(ucxpool_segment_t){target, size},
                                    1, &params, &recv));
    require_wait(send, recv, false);
    ck_assert(pair_is_all(staged, size, 0xfe));
}

TEST_EACH(ready_memory_waits_for_no_stream, NUM_BOTH)
{
    const ucxpool_request_params_t ready = params_of(UCXPOOL_STREAM_READY);
    ucxpool_request_t             *send, *recv;

    start("", _i, 0);
    gpu_write(source, bytes, size);
    gpu_gate_wait(&gate, stream); /* and the legacy stream waits for it */
    recv = post_recv(target, TAG, &ready);
    send = post_send(source, TAG, &ready);
    finish(send);
    finish(recv);
    gpu_gate_open(&gate);
    require_arrived();
}

TEST_EACH(blocked_stream_delays_no_other_transfer, NUM_BOTH)
{
    const ucxpool_request_params_t ready = params_of(UCXPOOL_STREAM_READY);
    ucxpool_request_params_t       params, others;
    ucxpool_request_t             *held_send, *held_recv, *send, *recv, *second;
    CUstream                       other;
    uint8_t                       *second_target;

    start("", _i, CU_STREAM_NON_BLOCKING);
    other         = gpu_stream(CU_STREAM_NON_BLOCKING);
    second_target = gpu_alloc(size);
    params        = params_of(stream);
    others        = params_of(other);
    gpu_write(source, bytes, size);
    gpu_gate_wait(&gate, stream);
    held_recv = post_recv(second_target, TAG, &params);
    held_send = post_send(source, TAG, &params);
    second = post_send(source, TAG + 2, &ready); /* no receive is posted yet */
    for (int i = 0; i < 5; i++) {
        recv = post_recv(target, TAG + 1, &others);
        send = post_send(source, TAG + 1, &others);
        finish(send);
        finish(recv);
        ck_assert(!pair_ended(held_send));
        ck_assert(!pair_ended(held_recv));
    }
    recv = post_recv(target, TAG + 2, &ready);
    finish(second);
    finish(recv);
    gpu_gate_open(&gate);
    finish(held_send);
    finish(held_recv);
    require_arrived();
    gpu_free(second_target);
    gpu_stream_destroy(other);
}

TEST_EACH(host_segments_wait_for_no_stream, NUM_BOTH)
{
    ucxpool_request_params_t params;
    ucxpool_request_t       *send, *recv;

    start("", _i, CU_STREAM_NON_BLOCKING);
    params = params_of(stream);
    gpu_gate_wait(&gate, stream);
    recv = post_recv(found, TAG, &params);
    send = post_send(bytes, TAG, &params);
    finish(send);
    finish(recv);
    ck_assert(memcmp(found, bytes, size) == 0);
    gpu_gate_open(&gate);
}

/* A blocked stream of the real driver queues about 1,000 operations; one more
 * call blocks. */
STAND_IN_TEST_EACH(requests_waiting_for_streams_are_limited_by_markers, 2)
{
    static ucxpool_request_t *recvs[NUM_MARKS];
    ucxpool_request_params_t  params;
    ucxpool_request_t        *more = NULL;

    start("", _i, CU_STREAM_NON_BLOCKING);
    params = params_of(stream);
    gpu_gate_wait(&gate, stream);
    for (unsigned i = 0; i < NUM_MARKS; i++) {
        recvs[i] = post_recv(target, TAG + i, &params);
    }
    assert_error_detail(ucxpool_recv_buffer(pair.b, pair.to_a, target, size,
                                            TAG, ALL_BITS, &params, &more),
                        LIMIT, "UCXPOOL_STREAM_READY");
    ck_assert_ptr_null(more);
    for (unsigned i = 0; i < NUM_MARKS; i++) {
        ucxpool_request_cancel(recvs[i]);
        assert_error(ucxpool_request_test(recvs[i]), CANCELED);
        ucxpool_request_release(recvs[i]);
    }
    gpu_gate_open(&gate);
    gpu_stream_wait(stream);
    go_round();
    more = post_recv(target, TAG, &params);
    gpu_write(source, bytes, size);
    finish(post_send(source, TAG, NULL));
    finish(more);
    require_arrived();
}

/* One operation in a stream after another. If streams cannot write words,
 * copies write them. */
STAND_IN_TEST_EACH(stream_operations_and_transfers_are_ordered, 2 * NUM_CASES)
{
    static const char *const ways[] = {"run=n", "run=n,memops=n,version=11040"};
    ucxpool_request_params_t params;
    ucxpool_request_t       *send, *recv;

    start(ways[_i / NUM_CASES], _i % NUM_CASES, CU_STREAM_NON_BLOCKING);
    params = params_of(stream);
    memcpy(staged, bytes, size);
    gpu_copy(stream, source, staged, size);
    recv = post_recv(target, TAG, &params);
    send = post_send(source, TAG, &params);
    for (int i = 0; i < ROUNDS; i++) {
        pair_progress(&pair); /* and the GPU does nothing */
    }
    ck_assert(!pair_ended(send));
    ck_assert(!pair_ended(recv));
    /* The copy, and two markers. */
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(stand_in.step(1), 1);
        for (int j = 0; j < ROUNDS; j++) {
            pair_progress(&pair);
        }
        ck_assert(!pair_ended(send));
        ck_assert(!pair_ended(recv));
    }
    finish(send);
    finish(recv);
    require_arrived();
}

STAND_IN_TEST_EACH(failed_marker_is_an_error_at_once, 2 * NUM_CASES)
{
    static const char *const names[] = {"cuStreamWriteValue32",
                                        "cuMemsetD32Async"};
    ucxpool_request_params_t params;
    ucxpool_request_t       *request = NULL;
    int                      way     = _i / NUM_CASES;

    start(way == 0 ? "" : "memops=n,version=11040", _i % NUM_CASES,
          CU_STREAM_NON_BLOCKING);
    params = params_of(stream);
    stand_in.fail_call(names[way], 1, CUDA_ERROR_INVALID_HANDLE);
    assert_error_detail(
        ucxpool_send_buffer(pair.to_b, source, size, TAG, &params, &request),
        IO, "stream");
    stand_in.fail_call(names[way], 1, CUDA_ERROR_INVALID_HANDLE);
    assert_error(ucxpool_recv_buffer(pair.b, pair.to_a, target, size, TAG,
                                     ALL_BITS, &params, &request),
                 IO);
    ck_assert_ptr_null(request);
    gpu_write(source, bytes, size);
    request = post_recv(target, TAG, &params);
    finish(post_send(source, TAG, &params));
    finish(request);
    require_arrived();
}
