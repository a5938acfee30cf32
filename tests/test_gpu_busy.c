/*
 * Transfers between pools on a GPU when not everything can be in flight:
 * fragments wait for receive blocks, and for running copies.
 */
#include "cuda_fixture.h"
#include "gpu.h"
#include "pair.h"
#include "segments.h"
#include "test.h"

#include <stdint.h>
#include <stdlib.h>

#define TAG      UINT64_C(42)
#define ALL_BITS UINT64_MAX

/* Many small fragments. */
#define MANY "CUDA_BACKING=vmm WIRE=map DEPTH=32 FRAG_SIZE=64k"

static pair_t pair;

/* No stream dependency. */
static const ucxpool_request_params_t ready = {
    .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_STREAM,
    .stream     = UCXPOOL_STREAM_READY,
};

/* Copies do not complete at once. */
static void start_late(void)
{
    gpu_start("run=late,memory=1g");
}

/* They complete when the test calls gpu_step(). */
static void start_stepped(void)
{
    gpu_start("run=n,memory=1g");
}

static void stop(void)
{
    gpu_disconnect(&pair);
    gpu_stop();
}

/* A's memory is contiguous; B's consists of pieces, the last one first. */
typedef struct message {
    size_t             num;
    size_t             length; /* of a piece */
    uint8_t           *bytes;
    uint8_t           *source;
    uint8_t           *target;
    ucxpool_segment_t *pieces;
    ucxpool_request_t *send;
    ucxpool_request_t *recv;
} message_t;

static void message_post(message_t *message, size_t num, size_t length)
{
    size_t size = num * length;

    message->num    = num;
    message->length = length;
    message->bytes  = malloc(size);
    message->source = gpu_alloc(size);
    message->target = gpu_alloc(size);
    message->pieces = calloc(num, sizeof(message->pieces[0]));
    pair_poison(message->bytes, size);
    gpu_write(message->target, message->bytes, size);
    pair_fill(message->bytes, size);
    gpu_write(message->source, message->bytes, size);
    for (size_t i = 0; i < num; i++) {
        message->pieces[i] = (ucxpool_segment_t){
            message->target + (num - 1 - i) * length, length};
    }
    assert_ok(recv_segments(pair.b, pair.to_a, message->pieces, num, TAG,
                            ALL_BITS, &ready, &message->recv));
    assert_ok(ucxpool_send_buffer(pair.to_b, message->source, size, TAG, &ready,
                                  &message->send));
}

static void message_finish(message_t *message)
{
    size_t   size   = message->num * message->length;
    uint8_t *result = test_alloc(size);

    gpu_finish_both(&pair, message->send, message->recv);
    gpu_read(result, message->target, size);
    for (size_t i = 0; i < message->num; i++) {
        ck_assert_mem_eq(message->bytes + i * message->length,
                         result + (message->num - 1 - i) * message->length,
                         message->length);
    }
    free(message->pieces);
    free(message->bytes);
    gpu_free(message->target);
    gpu_free(message->source);
}

TEST_SETTINGS(.setup = start_late, .teardown = stop, .timeout = 120,
              .only_if = cuda_is_present);

/* The receiver asks for these fragments again in each round before a byte
 * arrives. The sender must not take that for a peer that wastes its time. */
TEST(many_fragments_wait_for_few_receive_blocks)
{
    message_t message;

    gpu_connect(&pair, "CUDA_BACKING=alloc WIRE=ucx DEPTH=32",
                "CUDA_BACKING=alloc WIRE=ucx DEPTH=32");
    message_post(&message, 1, (size_t)40 << 20);
    message_finish(&message);
}

/* The receiver progresses rarely, and finds many completed copies and new
 * fragments; then often, while nothing completes. */
static void progress_by_fits(void)
{
    ucxpool_progress(pair.b);
    for (int i = 0; i < 100; i++) {
        gpu_step();
        ucxpool_progress(pair.a);
    }
    for (int i = 0; i < 100; i++) {
        ucxpool_progress(pair.b);
    }
}

TEST_SETTINGS(.setup = start_stepped, .teardown = stop, .timeout = 120,
              .only_if = cuda_is_present);

/* The same; and a fragment may get a free copy job before an earlier one. */
TEST(many_fragments_wait_for_few_copies)
{
    message_t message;

    gpu_connect(&pair, MANY, MANY);
    message_post(&message, 200000, 32);
    while (ucxpool_request_test(message.recv) == UCXPOOL_INPROGRESS) {
        progress_by_fits();
    }
    message_finish(&message);
}

static void progress_often(void)
{
    for (int i = 0; i < 200; i++) {
        pair_progress(&pair);
    }
}

/* The number of kernel launches for a message from B to A, while nothing in
 * flight completes. */
static unsigned launches_to_send_back(void)
{
    uint8_t           *memory   = gpu_alloc(200000);
    ucxpool_segment_t  pieces[] = {{memory, 30000}, {memory + 40000, 30000}};
    unsigned           before   = stand_in.count("cuLaunchKernel");
    unsigned           after;
    ucxpool_request_t *send;
    ucxpool_request_t *recv;

    assert_ok(ucxpool_recv_buffer(pair.a, pair.to_b, memory + 80000, 60016, TAG,
                                  ALL_BITS, &ready, &recv));
    assert_ok(send_segments(pair.to_a, pieces, 2, TAG, &ready, &send));
    progress_often();
    after = stand_in.count("cuLaunchKernel");
    gpu_finish_both(&pair, send, recv);
    gpu_free(memory);
    return after - before;
}

/* If scatters used all copy jobs, a peer would wait for its bytes. */
TEST(a_gather_finds_room_among_scatters)
{
    message_t message;

    gpu_connect(&pair, MANY, MANY);
    if (cuda_is_real()) {
        return;
    }
    message_post(&message, 100000, 32);
    /* More has been gathered then than can be scattered at a time. */
    progress_often();
    while (gpu_step()) {
    }
    progress_often();
    ck_assert_uint_eq(launches_to_send_back(), 1);
    message_finish(&message);
}
