/*
 * Transfers between pools on a GPU, over both wires: device memory of any cut,
 * host memory, and both in one message.
 */
#include <config.h>

#include "cuda_fixture.h"
#include "gpu.h"
#include "pair.h"

#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TAG      UINT64_C(42)
#define ALL_BITS UINT64_MAX

/* Pools of one process cannot open each other's IPC handles: there the map wire
 * wants virtual memory. */
static const char *const kinds[] = {
    "CUDA_BACKING=vmm WIRE=map",
    "CUDA_BACKING=vmm WIRE=ucx",
    "CUDA_BACKING=alloc WIRE=ucx",
    "CUDA_BACKING=host WIRE=ucx",
};
#define NUM_KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

static pair_t pair;

static void start(void)
{
    gpu_start("");
}

/* Copies take their time. */
static void start_late(void)
{
    gpu_start("run=late,memory=1g");
}

static void connect_pair(const char *settings)
{
    gpu_connect(&pair, settings, settings);
}

static void exchange(const ucxpool_segment_t *source, size_t num_sources,
                     const ucxpool_segment_t *target, size_t num_targets)
{
    ucxpool_request_t *send;
    ucxpool_request_t *recv;

    ck_assert_msg(ucxpool_recv_buffers(pair.b, pair.to_a, target, num_targets,
                                       TAG, ALL_BITS, NULL,
                                       &recv) == UCXPOOL_OK,
                  "%s", ucxpool_error_detail());
    ck_assert_msg(ucxpool_send_buffers(pair.to_b, source, num_sources, TAG,
                                       NULL, &send) == UCXPOOL_OK,
                  "%s", ucxpool_error_detail());
    ck_assert_int_eq(pair_finish(&pair, send), UCXPOOL_OK);
    ck_assert_int_eq(pair_finish(&pair, recv), UCXPOOL_OK);
}

static void end_pair(void)
{
    pair_check_blocks(&pair);
    pair_cleanup(&pair);
}

/* Memory here and on the GPU, source and target, of the same size. */
typedef struct twins {
    size_t   size;
    uint8_t *bytes, *result;  /* host: what was sent, what has come */
    uint8_t *source, *target; /* device                             */
} twins_t;

static void twins_init(twins_t *twins, size_t size)
{
    twins->size   = size;
    twins->bytes  = malloc(size + 1);
    twins->result = malloc(size + 1);
    twins->source = gpu_alloc(size + 1);
    twins->target = gpu_alloc(size + 1);
    pair_fill(twins->bytes, size);
    pair_poison(twins->result, size + 1);
    cuda_write(gpu->context, twins->source, twins->bytes, size);
    cuda_write(gpu->context, twins->target, twins->result, size + 1);
}

static void twins_read(twins_t *twins)
{
    cuda_read(gpu->context, twins->result, twins->target, twins->size + 1);
}

static void twins_cleanup(twins_t *twins)
{
    gpu_free(twins->source);
    gpu_free(twins->target);
    free(twins->bytes);
    free(twins->result);
}

START_TEST(one_buffer_of_any_size_arrives)
{
    static const size_t sizes[] = {0,       1,       63,      4096,   4097,
                                   65535,   65536,   2097152, 2097153,
                                   5000000, 9000000};
    twins_t twins;

    connect_pair(kinds[_i]);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        twins_init(&twins, sizes[i]);
        exchange(&(ucxpool_segment_t){twins.source, sizes[i]}, 1,
                 &(ucxpool_segment_t){twins.target, sizes[i]}, 1);
        twins_read(&twins);
        ck_assert_mem_eq(twins.bytes, twins.result, sizes[i]);
        ck_assert_uint_eq(twins.result[sizes[i]], 0xfe);
        twins_cleanup(&twins);
    }
    end_pair();
}
END_TEST

/* Cut `length` bytes into random pieces, zero-length ones among them. */
static size_t cut(uint8_t *bytes, size_t length, ucxpool_segment_t *segments,
                  size_t max)
{
    size_t count = 0;
    size_t at    = 0;
    size_t n;

    while ((at < length) && (count < max - 1)) {
        n = (size_t)rand() % 9000;
        n = (rand() % 8 == 0) ? 0 : (n < length - at) ? n : length - at;
        segments[count++] = (ucxpool_segment_t){bytes + at, n};
        at += n;
    }
    segments[count++] = (ucxpool_segment_t){bytes + at, length - at};
    return count;
}

START_TEST(any_cut_meets_any_other)
{
    static ucxpool_segment_t from[2000], to[2000];
    twins_t                  twins;
    size_t                   num_from, num_to;

    srand(7);
    connect_pair(kinds[_i]);
    for (unsigned round = 0; round < 8; round++) {
        twins_init(&twins, 1 + (size_t)rand() % 5000000);
        num_from = cut(twins.source, twins.size, from, 2000);
        num_to   = cut(twins.target, twins.size, to, 2000);
        exchange(from, num_from, to,
                 num_to);
        twins_read(&twins);
        ck_assert_mem_eq(twins.bytes, twins.result, twins.size);
        twins_cleanup(&twins);
    }
    end_pair();
}
END_TEST

/* They are asked again in each round, before a byte is in its place: that must
 * not look as if the peer had us walk through the message for nothing. */
START_TEST(many_fragments_wait_for_few_receive_blocks)
{
    twins_t twins;

    connect_pair("CUDA_BACKING=alloc WIRE=ucx DEPTH=32");
    twins_init(&twins, (size_t)40 << 20);
    exchange(&(ucxpool_segment_t){twins.source, twins.size}, 1,
             &(ucxpool_segment_t){twins.target, twins.size}, 1);
    twins_read(&twins);
    ck_assert_mem_eq(twins.bytes, twins.result, twins.size);
    twins_cleanup(&twins);
    end_pair();
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("gpu_transfer");
    TCase *tcase = tcase_create("stand-in or real");
    TCase *late  = tcase_create("late");

    tcase_add_checked_fixture(tcase, start, gpu_stop);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, one_buffer_of_any_size_arrives, 0, NUM_KINDS);
    tcase_add_loop_test(tcase, any_cut_meets_any_other, 0, NUM_KINDS);
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(late, start_late, gpu_stop);
    tcase_set_timeout(late, 120);
    tcase_add_test(late, many_fragments_wait_for_few_receive_blocks);
    suite_add_tcase(suite, late);
    return suite;
}

int main(void)
{
    return cuda_main(suite());
}
