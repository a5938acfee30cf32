/* Markers in callers' streams. */
#include "cuda_fixture.h"
#include "test.h"
#include "mem/cuda_stream.h"

#include <ucxpool/ucxpool.h>

#include <stdint.h>
#include <string.h>

#define NUM_MARKERS 3u

/* Work that blocks until the test releases it, with and without stream memory
 * operations. */
static const char *const ways[] = {"run=n", "run=n,memops=n,version=11040",
                                   "run=n,without=cuStreamWriteValue32"};
#define NUM_WAYS ((int)(sizeof(ways) / sizeof(ways[0])))

static mem_cuda_device_t  *device;
static mem_cuda_markers_t *markers;
static CUdeviceptr         memory;

static void stop(void)
{
    mem_cuda_markers_destroy(markers);
    CUDA_MUST(device, cuMemFree, memory);
    mem_cuda_device_close(device);
    if (!cuda_is_real()) {
        ck_assert_uint_eq(stand_in.live(), 0);
    }
}

static void start(const char *configuration)
{
    cuda_start(configuration);
    assert_ok(mem_cuda_device_open(0, &device));
    assert_ok(mem_cuda_markers_create(device, NUM_MARKERS, &markers));
    CUDA_MUST(device, cuMemAlloc, &memory, 4096);
    test_at_end(stop);
}

static CUstream stream_create(void)
{
    CUstream stream;

    CUDA_MUST(device, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    return stream;
}

static void stream_destroy(CUstream stream)
{
    CUDA_MUST(device, cuStreamDestroy, stream);
}

/* An operation in a stream. */
static void post_work(CUstream stream)
{
    CUDA_MUST(device, cuMemsetD32Async, memory, 7, 1, stream);
}

static mem_cuda_marker_t *set(CUstream stream)
{
    mem_cuda_marker_t *marker = NULL;

    assert_ok(mem_cuda_marker_set(markers, stream, &marker));
    ck_assert_ptr_nonnull(marker);
    return marker;
}

/* Run all operations in all streams. */
static void let_all_work(void)
{
    CUDA_MUST(device, cuCtxSynchronize);
}

static void put(mem_cuda_marker_t *marker)
{
    ck_assert(mem_cuda_marker_is_reached(marker));
    mem_cuda_marker_put(markers, marker);
}

TEST_SETTINGS(.only_if = cuda_is_present);

/* In a stream, and in the legacy stream, which waits for a blocking stream. */
TEST_EACH(marker_is_reached_after_the_work_before_it, 2 * NUM_WAYS)
{
    const bool         is_legacy = _i % 2 != 0;
    mem_cuda_marker_t *marker;
    CUstream           stream;

    start(ways[_i / 2]);
    CUDA_MUST(device, cuStreamCreate, &stream,
              is_legacy ? 0 : CU_STREAM_NON_BLOCKING);
    for (int round = 0; round < 5; round++) {
        post_work(stream);
        marker = set(is_legacy ? NULL : stream);
        ck_assert(cuda_is_real() || !mem_cuda_marker_is_reached(marker));
        if (!cuda_is_real()) {
            ck_assert_uint_eq(stand_in.step(1), 1); /* the work */
            ck_assert(!mem_cuda_marker_is_reached(marker));
            ck_assert_uint_eq(stand_in.step(1), 1); /* the marker */
            ck_assert(mem_cuda_marker_is_reached(marker));
        }
        let_all_work();
        put(marker);
    }
    stream_destroy(stream);
}

TEST(blocked_stream_delays_only_its_own_marker)
{
    uint32_t          *gate;
    mem_cuda_marker_t *still, *others;
    CUstream           standing, going;
    void              *pinned;

    start("");
    if (!device->has_mem_ops) {
        test_end();
        return;
    }
    standing = stream_create();
    going    = stream_create();
    CUDA_MUST(device, cuMemHostAlloc, &pinned, sizeof(*gate),
              CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    gate  = pinned;
    *gate = 0;
    CUDA_MUST(device, cuStreamWaitValue32, standing,
              (CUdeviceptr)(uintptr_t)pinned, 1, CU_STREAM_WAIT_VALUE_EQ);
    still = set(standing);
    for (int i = 0; i < 10; i++) {
        others = set(going);
        CUDA_MUST(device, cuStreamSynchronize, going);
        put(others);
        ck_assert(!mem_cuda_marker_is_reached(still));
    }
    __atomic_store_n(gate, 1, __ATOMIC_RELEASE);
    let_all_work();
    put(still);
    CUDA_MUST(device, cuMemFreeHost, pinned);
    stream_destroy(standing);
    stream_destroy(going);
}

TEST_EACH(set_fails_when_all_markers_are_in_use, NUM_WAYS)
{
    mem_cuda_marker_t *all[NUM_MARKERS];
    mem_cuda_marker_t *more = NULL;

    start(ways[_i]);
    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < NUM_MARKERS; i++) {
            all[i] = set(NULL);
            for (unsigned j = 0; j < i; j++) {
                ck_assert_ptr_ne(all[i], all[j]);
            }
        }
        assert_error(mem_cuda_marker_set(markers, NULL, &more), LIMIT);
        ck_assert_ptr_null(more);
        assert_detail("UCXPOOL_STREAM_READY");
        let_all_work();
        for (unsigned i = 0; i < NUM_MARKERS; i++) {
            put(all[i]);
        }
    }
}

TEST_EACH(reused_marker_ignores_earlier_work, NUM_WAYS)
{
    mem_cuda_marker_t *first, *second;

    start(ways[_i]);
    first = set(NULL);
    let_all_work();
    put(first);
    second = set(NULL);
    ck_assert(cuda_is_real() || !mem_cuda_marker_is_reached(second));
    let_all_work();
    put(second);
}

STAND_IN_TEST_EACH(marker_is_free_after_a_failed_set, NUM_WAYS)
{
    static const char *const names[] = {"cuStreamWriteValue32",
                                        "cuMemsetD32Async", "cuMemsetD32Async"};
    mem_cuda_marker_t       *all[NUM_MARKERS];
    mem_cuda_marker_t       *marker = NULL;

    start(ways[_i]);
    for (unsigned n = 1; n <= NUM_MARKERS + 1; n++) {
        stand_in.fail_call(names[_i], 1, CUDA_ERROR_INVALID_HANDLE);
        assert_error(mem_cuda_marker_set(markers, NULL, &marker), IO);
        ck_assert_ptr_null(marker);
        assert_detail("stream");
    }
    stand_in.fail_call("cuCtxPushCurrent", 1, CUDA_ERROR_INVALID_CONTEXT);
    assert_error(mem_cuda_marker_set(markers, NULL, &marker), IO);
    stand_in.fail_call(NULL, 0, CUDA_SUCCESS);
    for (unsigned i = 0; i < NUM_MARKERS; i++) {
        all[i] = set(NULL);
    }
    let_all_work();
    for (unsigned i = 0; i < NUM_MARKERS; i++) {
        put(all[i]);
    }
}

STAND_IN_TEST_EACH(set_and_poll_make_no_other_driver_calls, 2)
{
    mem_cuda_marker_t *marker;

    start(_i == 0 ? "" : "memops=n,version=11040");
    stand_in.fail_call(NULL, 0, CUDA_SUCCESS);
    for (int i = 0; i < 20; i++) {
        marker = set(NULL);
        put(marker);
    }
    ck_assert_uint_eq(
        stand_in.count(_i == 0 ? "cuStreamWriteValue32" : "cuMemsetD32Async"),
        20);
    ck_assert_uint_eq(stand_in.count("cuCtxPushCurrent"), 20);
    ck_assert_uint_eq(stand_in.count("cuCtxPopCurrent"), 20);
    ck_assert_uint_eq(stand_in.count(NULL), 60);
}

STAND_IN_TEST(failed_create_leaves_no_markers)
{
    mem_cuda_markers_t *others = NULL;
    ucxpool_status_t    status;
    unsigned            live;
    unsigned            n = 0;

    start("");
    live = stand_in.live();
    do {
        stand_in.fail_call(NULL, ++n, CUDA_ERROR_OUT_OF_MEMORY);
        status = mem_cuda_markers_create(device, 5, &others);
        if (status != UCXPOOL_OK) {
            ck_assert(stand_in.has_failed());
            ck_assert_int_eq(status, UCXPOOL_ERR_NO_MEMORY);
            ck_assert_ptr_null(others);
            ck_assert_str_ne(ucxpool_error_detail(), "");
            ck_assert_uint_eq(stand_in.live(), live);
        }
        /* If cuCtxPopCurrent() fails, a context stays current. */
    } while ((status != UCXPOOL_OK) && (n < 10));
    stand_in.fail_call(NULL, 0, CUDA_SUCCESS);
    assert_ok(status);
    ck_assert_uint_gt(n, 2);
    mem_cuda_markers_destroy(others);
    ck_assert_uint_eq(stand_in.live(), live);
    mem_cuda_markers_destroy(NULL);
}

TEST_EACH(cleanup_waits_for_pending_markers, NUM_WAYS)
{
    CUstream stream;

    start(ways[_i]);
    stream = stream_create();
    for (unsigned i = 0; i < NUM_MARKERS; i++) {
        post_work(stream);
        (void)set(stream);
    }
    mem_cuda_markers_destroy(markers);
    markers = NULL;
    if (!cuda_is_real()) {
        ck_assert_uint_eq(stand_in.step(1), 0); /* all is done */
    }
    stream_destroy(stream);
}
