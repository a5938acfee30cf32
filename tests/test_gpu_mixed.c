/*
 * Messages of pools on a GPU whose segments lie in memory of several kinds, and
 * segments in memory that is not allowed.
 */
#include "gpu.h"
#include "segments.h"
#include "slow.h"
#include "test.h"

#include "copy/list.h"
#include "core/stats.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TAG          UINT64_C(42)
#define ALL_BITS     UINT64_MAX
#define MAX_SEGMENTS ((size_t)40000)
#define AREA         ((size_t)4 << 20)
#define ALL_PLACES   ((1u << GPU_PLACES) - 1)
#define NUM_ROUNDS   (slow_is() ? 1u : 5u)
#define HOST_PLACES  (1u << GPU_PAGEABLE)
#define GPU_REACHES  (ALL_PLACES & ~HOST_PLACES)

/* Pools of one process cannot open each other's IPC handles, so the map wire
 * needs virtual memory here. Valgrind supports none (gpu_connect()), and the
 * last two would equal the first two. */
static const char *const kinds[] = {
    "CUDA_BACKING=vmm WIRE=ucx",
    "CUDA_BACKING=vmm WIRE=ucx FRAG_SIZE=64k INPLACE_MIN=1k",
    "CUDA_BACKING=alloc WIRE=ucx",
    "CUDA_BACKING=host WIRE=ucx",
    "CUDA_BACKING=vmm WIRE=map",
    "CUDA_BACKING=vmm WIRE=map FRAG_SIZE=64k INPLACE_MIN=1k",
    "CUDA_BACKING=vmm WIRE=map MAP_WAY=host",
};
#define NUM_KINDS (RUNNING_ON_VALGRIND ? 4 : 7)

/* Modes of the stand-in. */
static const char *const ways[] = {"", "run=n", "run=late",
                                   "memops=n,version=11040"};
#define NUM_WAYS ((int)(sizeof(ways) / sizeof(ways[0])))

/* On a real GPU there is one mode; under valgrind all modes are equal. */
static int num_ways(void)
{
    return (cuda_is_real() || RUNNING_ON_VALGRIND) ? 1 : NUM_WAYS;
}

static pair_t            pair;
static gpu_memory_t      source, target;
static ucxpool_segment_t from[MAX_SEGMENTS], to[MAX_SEGMENTS];

static void stop(void)
{
    gpu_memory_cleanup(&source);
    gpu_memory_cleanup(&target);
    gpu_disconnect(&pair);
    gpu_stop();
}

static void start(const char *configuration, const char *settings)
{
    gpu_start(configuration);
    gpu_connect(&pair, settings, settings);
    gpu_memory_init(&source, pair.a, AREA);
    gpu_memory_init(&target, pair.b, AREA);
    test_at_end(stop);
}

static void post_and_finish(size_t num_from, size_t num_to,
                            const ucxpool_request_params_t *params)
{
    ucxpool_request_t *send;
    ucxpool_request_t *recv;

    assert_ok(recv_segments(pair.b, pair.to_a, to, num_to, TAG, ALL_BITS,
                            params, &recv));
    assert_ok(send_segments(pair.to_b, from, num_from, TAG, params, &send));
    gpu_finish_both(&pair, send, recv);
}

/* One message. The receiver may have more room than the message needs. */
static void pass(size_t length, size_t room, unsigned from_places,
                 unsigned to_places, const ucxpool_request_params_t *params)
{
    size_t num_from = gpu_cut(&source, from_places, length, from, MAX_SEGMENTS);
    size_t num_to   = gpu_cut(&target, to_places, room, to, MAX_SEGMENTS);
    uint8_t *message = test_alloc(length + 1);

    gpu_fill(&source, from, num_from, message);
    gpu_poison(&target);
    post_and_finish(num_from, num_to, params);
    gpu_check(&target, to, num_to, message, length);
}

/* A message that fits its buffers. */
static size_t some_length(void)
{
    switch (rand() % 3) {
    case 0:
        return (size_t)rand() % 10000;
    case 1:
        return (size_t)rand() % 300000;
    default:
        return (size_t)rand() % 4000000;
    }
}

TEST_SETTINGS(.timeout = 200, .only_if = cuda_is_present);

TEST_EACH(segments_of_all_kinds_can_be_mixed, NUM_KINDS *num_ways())
{
    start(ways[_i / NUM_KINDS], kinds[_i % NUM_KINDS]);
    srand((unsigned)_i);
    for (unsigned i = 0; i < NUM_ROUNDS; i++) {
        size_t length = some_length();

        pass(length, length + (size_t)rand() % 5000, ALL_PLACES, ALL_PLACES,
             NULL);
    }
}

TEST_EACH(each_memory_kind_can_be_sent_to_each_other, NUM_KINDS)
{
    start("", kinds[_i]);
    srand((unsigned)_i);
    for (int i = 0; i < GPU_PLACES * GPU_PLACES; i++) {
        unsigned from_places = 1u << (i / GPU_PLACES);
        unsigned to_places   = 1u << (i % GPU_PLACES);

        pass(1 + (size_t)rand() % 9000, 9001, from_places, to_places, NULL);
        if (!slow_is()) {
            pass(700000, 700000, from_places, to_places, NULL);
        }
    }
}

/* Long enough for copies that bypass the cache. */
TEST_EACH(long_message_between_host_memory_arrives, NUM_KINDS)
{
    const size_t piece = 8191;
    const size_t num   = COPY_STREAM_TOTAL / piece + 1;
    uint8_t     *bytes = test_alloc(num * piece);
    uint8_t     *found = test_alloc(num * piece);

    ck_assert_uint_le(num, MAX_SEGMENTS);
    start("", kinds[_i]);
    pair_fill(bytes, num * piece);
    pair_poison(found, num * piece);
    for (size_t i = 0; i < num; i++) {
        from[i] = (ucxpool_segment_t){bytes + i * piece, piece};
        to[i]   = (ucxpool_segment_t){found + i * piece, piece};
    }
    post_and_finish(num, num, NULL);
    ck_assert(memcmp(found, bytes, num * piece) == 0);
}

TEST_EACH(declared_cuda_segments_are_not_queried, NUM_KINDS)
{
    const ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS |
                      UCXPOOL_REQUEST_PARAM_FIELD_STREAM,
        .segments_kind = UCXPOOL_SEGMENTS_CUDA,
        .stream        = UCXPOOL_STREAM_READY,
    };

    start("", kinds[_i]);
    srand((unsigned)_i);
    for (unsigned i = 0; i < NUM_ROUNDS; i++) {
        if (!cuda_is_real()) {
            stand_in.fail_call(NULL, 0, CUDA_SUCCESS);
        }
        pass(300000, 300000, GPU_REACHES, GPU_REACHES, &params);
        if (!cuda_is_real()) {
            ck_assert_uint_eq(stand_in.count("cuPointerGetAttributes"), 0);
            ck_assert_uint_gt(stand_in.count("cuLaunchKernel"), 0);
        }
    }
}

STAND_IN_TEST(list_in_one_allocation_needs_one_query)
{
    start("", kinds[0]);
    stand_in.fail_call(NULL, 0, CUDA_SUCCESS);
    pass(1000000, 1000000, 1u << GPU_DEVICE, 1u << GPU_DEVICE, NULL);
    ck_assert_uint_eq(stand_in.count("cuPointerGetAttributes"), 2);
}

/* Messages to and from a host pool: the direction, and the number of bytes. */
typedef struct crossing {
    bool   is_from_gpu;
    size_t length;
} crossing_t;

static const crossing_t crossings[] = {
    {false, 0},      {true, 0},      {false, 100},     {true, 100},
    {false, 4000},   {true, 4000},   {false, 3000000}, {true, 3000000},
    {false, 300000}, {true, 300000},
};
#define NUM_CROSSINGS (sizeof(crossings) / sizeof(crossings[0]))

static void cross(const crossing_t *crossing, uint8_t *device)
{
    size_t             length  = crossing->length;
    bool               is_from = crossing->is_from_gpu;
    uint8_t           *bytes   = test_alloc(length + 1);
    uint8_t           *host    = test_alloc(length + 1);
    ucxpool_request_t *send;
    ucxpool_request_t *recv;

    pair_fill(bytes, length + 1);
    pair_poison(host, length + 1);
    gpu_write(device, is_from ? bytes : host, length + 1);
    if (!is_from) {
        memcpy(host, bytes, length + 1);
    }
    send = pair_send(is_from ? pair.to_b : pair.to_a, is_from ? device : host,
                     length, TAG);
    recv = pair_recv(is_from ? pair.b : pair.a, NULL, is_from ? host : device,
                     length, TAG);
    gpu_finish_both(&pair, send, recv);
    if (!is_from) {
        gpu_read(host, device, length + 1);
    }
    ck_assert(memcmp(host, bytes, length) == 0);
    ck_assert_uint_eq(host[length], 0xfe);
}

TEST_EACH(host_pool_and_gpu_pool_use_map, 3 * num_ways())
{
    static const char *const backings[] = {
        "CUDA_BACKING=vmm", "CUDA_BACKING=alloc", "CUDA_BACKING=host"};
    uint8_t               *device;
    ucxpool_channel_attr_t attr;

    gpu_start(ways[_i / 3]);
    pair.a = pair_pool_on(0, backings[_i % 3]);
    pair.b = pair_pool("COMM_SIZE=4m");
    pair_connect(&pair);
    attr = pair_attr(pair.to_b);
    ck_assert_int_eq(attr.wire, UCXPOOL_WIRE_MAP);
    assert_has(attr.wire_reason, "host memory");
    attr = pair_attr(pair.to_a);
    ck_assert_int_eq(attr.wire, UCXPOOL_WIRE_MAP);
    device = gpu_alloc(3000001);
    for (size_t i = 0; i < NUM_CROSSINGS; i++) {
        cross(&crossings[i], device);
    }
    gpu_free(device);
    gpu_disconnect(&pair);
    gpu_stop();
}

/* The statuses that a send and a receive of these segments return at once. */
static void require_refusal(const ucxpool_segment_t *segments, size_t num,
                            ucxpool_status_t status, const char *words)
{
    ucxpool_request_t *request = NULL;

    ck_assert_int_eq(
        send_segments(pair.to_b, segments, num, TAG, NULL, &request), status);
    assert_detail(words);
    ck_assert_int_eq(recv_segments(pair.a, pair.to_b, segments, num, TAG,
                                   ALL_BITS, NULL, &request),
                     status);
    assert_detail(words);
    ck_assert_ptr_null(request);
}

/* A probed message still belongs to the caller if it could not be received
 * there. */
static void require_refusal_of_probed(const ucxpool_segment_t *segments,
                                      size_t num, ucxpool_status_t status)
{
    char               byte    = 'x';
    ucxpool_message_t *message = NULL;
    ucxpool_request_t *send;
    ucxpool_request_t *recv;

    send = pair_send(pair.to_a, "y", 1, TAG);
    gpu_until(&pair, ucxpool_probe(pair.a, NULL, TAG, ALL_BITS, &message) ==
                         UCXPOOL_OK);
    ck_assert_int_eq(message_recv_segments(message, segments, num, NULL, &recv),
                     status);
    assert_ok(message_recv_segments(message, &(ucxpool_segment_t){&byte, 1}, 1,
                                    NULL, &recv));
    gpu_finish_both(&pair, recv, send);
    ck_assert_int_eq(byte, 'y');
}

TEST_EACH(segments_on_another_gpu_are_rejected_with_its_number, NUM_KINDS)
{
    mem_cuda_device_t *other;
    CUdeviceptr        there;
    ucxpool_segment_t  both[2];

    gpu_start("devices=2");
    if (cuda_num_devices() < 2) {
        gpu_stop();
        return;
    }
    gpu_connect(&pair, kinds[_i], kinds[_i]);
    assert_ok(mem_cuda_device_open(1, &other));
    CUDA_MUST(other, cuMemAlloc, &there, 1000);
    both[0] = (ucxpool_segment_t){(void *)(uintptr_t)there, 1000};
    both[1] = (ucxpool_segment_t){gpu_alloc(1000), 1000};
    require_refusal(both, 1, UCXPOOL_ERR_UNSUPPORTED, "GPU 1");
    require_refusal(both, 2, UCXPOOL_ERR_UNSUPPORTED, "several GPUs");
    require_refusal_of_probed(both, 1, UCXPOOL_ERR_UNSUPPORTED);
    gpu_disconnect(&pair);
    gpu_free(both[1].address);
    CUDA_MUST(other, cuMemFree, there);
    mem_cuda_device_close(other);
    gpu_stop();
}

TEST_EACH(unmapped_memory_is_rejected, NUM_KINDS)
{
    ucxpool_segment_t segments[3];
    char              good[100];
    void             *page;

    gpu_start("");
    gpu_connect(&pair, kinds[_i], kinds[_i]);
    segments[0] = (ucxpool_segment_t){good, sizeof(good)};
    segments[1] = (ucxpool_segment_t){good, 0};
    /* GPU memory that was freed. */
    segments[2] = (ucxpool_segment_t){gpu_alloc(100000), 100000};
    gpu_free(segments[2].address);
    require_refusal(&segments[2], 1, UCXPOOL_ERR_INVALID_PARAM, "segment 0");
    require_refusal(segments, 3, UCXPOOL_ERR_INVALID_PARAM, "segment 2");
    require_refusal_of_probed(segments, 3, UCXPOOL_ERR_INVALID_PARAM);
    /* Host memory that was unmapped. */
    page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0);
    segments[2] = (ucxpool_segment_t){page, 8192};
    munmap((char *)page + 4096, 4096);
    require_refusal(segments, 3, UCXPOOL_ERR_INVALID_PARAM, "segment 2");
    munmap(page, 4096);
    /* An address that was never mapped. */
    segments[2] = (ucxpool_segment_t){(void *)(uintptr_t)0x10, 100};
    require_refusal(segments, 3, UCXPOOL_ERR_INVALID_PARAM, "segment 2");
    gpu_disconnect(&pair);
    gpu_stop();
}

/* Twenty messages in sequence. */
static void pass_twenty(size_t num_from, size_t num_to)
{
    ucxpool_request_t *send, *recv;

    for (int i = 0; i < 20; i++) {
        assert_ok(recv_segments(pair.b, pair.to_a, to, num_to, TAG, ALL_BITS,
                                NULL, &recv));
        assert_ok(send_segments(pair.to_b, from, num_from, TAG, NULL, &send));
        pair_finish_both(&pair, send, recv);
    }
}

static uint64_t num_allocations(void)
{
    return pair_stats(pair.b).allocations;
}

/* Resources of a fragment are kept for the next. The number of fragments in
 * flight depends on timing, so it may take some rounds until all have enough.
 * If each message allocated something, this would never end. */
static void pass_until_nothing_is_taken(size_t num_from, size_t num_to)
{
    unsigned num_rounds = 0;
    uint64_t before;

    do {
        ck_assert_uint_lt(num_rounds++, 10);
        before = num_allocations();
        pass_twenty(num_from, num_to);
    } while (num_allocations() != before);
}

STAND_IN_TEST_EACH(more_messages_allocate_nothing_new_from_the_driver,
                   NUM_KINDS)
{
    static const char *const calls[] = {
        "cuMemAlloc",   "cuMemCreate",       "cuMemHostAlloc",
        "cuEventQuery", "cuEventCreate",     "cuStreamCreate",
        "cuMemFree",    "cuStreamQuery",     "cuStreamSynchronize",
        "cuMemMap",     "cuMemHostRegister", "cuModuleLoadData"};
    core_stats_t before, after;
    size_t       num_from, num_to;

    start("", kinds[_i]);
    num_from = gpu_cut(&source, GPU_REACHES, 3000000, from, MAX_SEGMENTS);
    num_to   = gpu_cut(&target, GPU_REACHES, 3000000, to, MAX_SEGMENTS);
    pass_twenty(num_from, num_to);
    stand_in.fail_call(NULL, 0, CUDA_SUCCESS);
    core_stats_get(pair.b, &before);
    if (strstr(kinds[_i], "BACKING=host") == NULL) {
        pass_until_nothing_is_taken(num_from, num_to);
    } else {
        /* Host memory that UCX delivers has to be copied. */
        pass_twenty(num_from, num_to);
    }
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        unsigned count = stand_in.count(calls[i]);

        ck_assert_msg(count == 0, "%s: %u calls", calls[i], count);
    }
    core_stats_get(pair.b, &after);
    ck_assert_uint_eq(after.registrations, before.registrations);
    ck_assert_uint_eq(after.registrations_after_start, 0);
}
