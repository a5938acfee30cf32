/*
 * Messages of pools on a GPU, made of files, of memory of several kinds, or of
 * both.
 */
#include "files.h"
#include "gpu.h"
#include "segments.h"
#include "slow.h"
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG        UINT64_C(42)
#define ALL_BITS   UINT64_MAX
#define MAX_RANGES ((size_t)40000)
#define AREA       ((size_t)4 << 20)
#define FILE_SIZE  ((size_t)2 << 20)
#define LONG       ((size_t)1900000) /* many copies */

#define ALL_PLACES  ((1u << GPU_PLACES) - 1)
#define HOST_PLACES (1u << GPU_PAGEABLE)
#define GPU_REACHES (ALL_PLACES & ~HOST_PLACES)

/* See test_gpu_mixed.c. */
static const char *const kinds[] = {
    "CUDA_BACKING=vmm WIRE=ucx",
    "CUDA_BACKING=alloc WIRE=ucx",
    "CUDA_BACKING=host WIRE=ucx FRAG_SIZE=64k INPLACE_MIN=1k",
    "CUDA_BACKING=vmm WIRE=map",
    "CUDA_BACKING=vmm WIRE=map FRAG_SIZE=64k INPLACE_MIN=1k",
};
#define NUM_KINDS (RUNNING_ON_VALGRIND ? 3 : 5)

static const ucxpool_request_params_t told = {
    .field_mask    = UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS,
    .segments_kind = UCXPOOL_SEGMENTS_CUDA,
};

static pair_t            pair;
static file_t            file;
static gpu_memory_t      source, target;
static ucxpool_segment_t from[MAX_RANGES], to[MAX_RANGES];
static ucxpool_range_t   ranges[2 * MAX_RANGES];

static void stop(void)
{
    gpu_memory_cleanup(&source);
    gpu_memory_cleanup(&target);
    gpu_disconnect(&pair);
    gpu_stop();
    file_cleanup(&file);
}

static void start(const char *configuration, const char *settings)
{
    srand(11);
    reads_reset();
    file_init(&file, FILE_SIZE);
    gpu_start(configuration);
    gpu_connect(&pair, settings, settings);
    gpu_memory_init(&source, pair.a, AREA);
    gpu_memory_init(&target, pair.b, AREA);
    test_at_end(stop);
}

static ucxpool_request_t *post_send(size_t                          num,
                                    const ucxpool_request_params_t *params)
{
    ucxpool_request_t *send;

    assert_ok(send_ranges(pair.to_b, ranges, num, TAG, params, &send));
    return send;
}

static ucxpool_request_t *post_recv(size_t num)
{
    ucxpool_request_t *recv;

    assert_ok(
        recv_segments(pair.b, pair.to_a, to, num, TAG, ALL_BITS, NULL, &recv));
    return recv;
}

/* The ranges, which contain this message, arrive in memory of all kinds. */
static void exchange(size_t num, const uint8_t *message, size_t length,
                     const ucxpool_request_params_t *params)
{
    size_t num_to = gpu_cut(&target, ALL_PLACES, length, to, MAX_RANGES);
    ucxpool_request_t *recv, *send;

    gpu_poison(&target);
    recv = post_recv(num_to);
    send = post_send(num, params);
    gpu_finish_both(&pair, send, recv);
    gpu_check(&target, to, num_to, message, length);
}

static void exchange_host(uint8_t *memory, size_t memory_size, size_t length)
{
    size_t num =
        file_cut(&file, memory, memory_size, length, ranges, MAX_RANGES);
    uint8_t *message = file_message(&file, ranges, num, &length);

    exchange(num, message, length, NULL);
    free(message);
}

TEST_SETTINGS(.timeout = 120, .only_if = cuda_is_present);

TEST_EACH(files_and_host_memory_arrive, NUM_KINDS)
{
    uint8_t *memory = test_alloc(LONG);

    start("", kinds[_i]);
    pair_fill(memory, LONG);
    for (size_t length = 1; length < LONG; length = length * 7 + 1) {
        exchange_host(NULL, 0, length);
        exchange_host(memory, LONG, length);
    }
}

TEST_EACH(one_long_range_arrives, NUM_KINDS)
{
    start("", kinds[_i]);
    ranges[0] = ucxpool_range_file(file.fd, 1, LONG, NULL);
    exchange(1, file.bytes + 1, LONG, NULL);
    ck_assert_uint_eq(reads_size(), LONG);
}

/* Inserts a range of the file after each segment in these places, with the same
 * bytes. */
static void exchange_mixed(unsigned places, size_t length,
                           const ucxpool_request_params_t *params)
{
    size_t   num  = gpu_cut(&source, places, length, from, MAX_RANGES);
    uint8_t *held = test_alloc(length + 1);
    uint8_t *message;
    size_t   at = 0;
    size_t   all, n;

    gpu_fill(&source, from, num, held);
    message = test_alloc(length + num * 300 + 1);
    all     = 0;
    for (size_t i = 0; i < num; i++) {
        ranges[2 * i] = ucxpool_range_memory(from[i].address, from[i].length);
        if (from[i].length != 0) {
            memcpy(message + all, held + at, from[i].length);
        }
        at += from[i].length;
        all += from[i].length;
        n                 = (size_t)rand() % 300;
        ranges[2 * i + 1] = ucxpool_range_file(
            file.fd, (int64_t)(i * 37 % (FILE_SIZE - 300)), n, NULL);
        memcpy(message + all, file.bytes + ranges[2 * i + 1].at.offset, n);
        all += n;
    }
    exchange(2 * num, message, all, params);
}

TEST_EACH(files_mix_with_memory_of_all_kinds, NUM_KINDS)
{
    start((_i % 2 == 0) ? "" : "run=late", kinds[_i]);
    for (size_t length = 1; length < 700000; length = length * 9 + 1) {
        exchange_mixed(ALL_PLACES, length, NULL);
        exchange_mixed(HOST_PLACES, length, NULL);
        exchange_mixed(GPU_REACHES, length, NULL);
        exchange_mixed(GPU_REACHES, length, &told);
    }
}

TEST_EACH(unmapped_memory_is_rejected, NUM_KINDS)
{
    ucxpool_request_t *send;

    start("", kinds[_i]);
    ranges[0] = ucxpool_range_file(file.fd, 0, 10, NULL);
    ranges[1] = ucxpool_range_memory((void *)(uintptr_t)4096, 10);
    assert_error_detail(send_ranges(pair.to_b, ranges, 2, TAG, NULL, &send),
                        INVALID_PARAM, "segment 1");
}

static void truncate_file(void)
{
    ck_assert_int_eq(ftruncate(file.fd, LONG / 2), 0);
}

/* The send fails with the file's error, and both pools are as before. */
static void check_fails(size_t num_ranges, const char *words)
{
    size_t num_to = gpu_cut(&target, GPU_REACHES, AREA, to, MAX_RANGES);
    ucxpool_request_t     *recv = post_recv(num_to);
    ucxpool_request_t     *send = post_send(num_ranges, NULL);
    ucxpool_request_attr_t attr;

    gpu_until(&pair, pair_ended(send));
    ucxpool_request_query(send, &attr, sizeof(attr));
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_IO);
    assert_has(attr.detail, words);
    ucxpool_request_release(send);
    assert_error(gpu_finish(&pair, recv), CANCELED);
    reads_reset();
    ranges[2 * MAX_RANGES - 1] = ranges[0];
    ranges[0] = ucxpool_range_file(file.fd, 5, LONG / 2 - 5, NULL);
    exchange(1, file.bytes + 5, LONG / 2 - 5, NULL);
    ranges[0] = ranges[2 * MAX_RANGES - 1];
}

TEST_EACH(truncated_file_fails_its_send, NUM_KINDS)
{
    start((_i % 2 == 0) ? "run=late" : "", kinds[_i]);
    ranges[0] = ucxpool_range_file(file.fd, 0, LONG, NULL);
    reads_before(2, truncate_file);
    check_fails(1, "is too short: no data at offset 950000");
}

TEST_EACH(any_failed_read_fails_its_send, NUM_KINDS)
{
    size_t num;

    start((_i % 2 == 0) ? "run=late" : "", kinds[_i]);
    for (unsigned n = 1; n <= 8; n += 2) {
        num = gpu_cut(&source, ALL_PLACES, 200000, from, MAX_RANGES);
        for (size_t i = 0; i < num; i++) {
            ranges[2 * i] =
                ucxpool_range_memory(from[i].address, from[i].length);
            ranges[2 * i + 1] = ucxpool_range_file(
                file.fd, (int64_t)(i * 31), 1 + (size_t)rand() % 30, "a file");
        }
        ck_assert_uint_gt(num, n);
        reads_fail(n, EIO);
        check_fails(2 * num, "cannot read a file");
    }
}

static bool is_reading(void)
{
    return reads_count() >= 2;
}

TEST_EACH(send_can_be_canceled_while_it_reads, NUM_KINDS)
{
    size_t             num_to;
    ucxpool_request_t *recv, *send;

    start("run=n", kinds[_i]);
    ranges[0] = ucxpool_range_file(file.fd, 0, LONG, NULL);
    num_to    = gpu_cut(&target, GPU_REACHES, LONG, to, MAX_RANGES);
    recv      = post_recv(num_to);
    send      = post_send(1, NULL);
    gpu_until(&pair, is_reading());
    ucxpool_request_cancel(send);
    assert_error(gpu_finish(&pair, send), CANCELED);
    assert_error(gpu_finish(&pair, recv), CANCELED);
    exchange(1, file.bytes, LONG, NULL);
}
