/* The functions that PyTorch, CuPy and RMM call: pools created on first use,
 * the sizes and streams that they pass, and the failures that they expect. */
#include "caught.h"
#include "framework/framework.h"
#include "gpu.h"
#include "test.h"

#include "core/stats.h"

#include <ucxpool/framework.h>
#include <ucxpool/heap.h>
#include <ucxpool/log.h>
#include <ucxpool/ucxpool.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB         ((size_t)1 << 20)
#define NUM_THREADS 4

static void start(void)
{
    setenv("UCXPOOL_LOG_LEVEL", "none", 1);
    setenv("UCXPOOL_HUGE_PAGES", "n", 1);
    setenv("UCXPOOL_CLOSE_TIMEOUT", "50ms", 1);
    setenv("UCXPOOL_MEMORY_LIMIT", "256m", 1);
    gpu_start("devices=2,memory=512m,run=n");
}

static ucxpool_t *pool_of(int device)
{
    ucxpool_t *pool = NULL;

    assert_ok(ucxpool_framework_pool(device, &pool));
    ck_assert_ptr_nonnull(pool);
    return pool;
}

static heap_stats_t stats_of(int device)
{
    heap_stats_t stats;

    core_heap_stats_get(pool_of(device), &stats);
    return stats;
}

static void require_nothing_live(int device)
{
    ck_assert_uint_eq(stats_of(device).num_live, 0);
    ck_assert_uint_eq(stats_of(device).live, 0);
}

TEST_SETTINGS(.setup = start, .only_if = cuda_is_present);

TEST(device_has_one_pool)
{
    ucxpool_t *first = pool_of(0);

    ck_assert_ptr_eq(pool_of(0), first);
    if (cuda_num_devices() > 1) {
        ck_assert_ptr_ne(pool_of(1), first);
    }
    ck_assert_ptr_ne(pool_of(UCXPOOL_FRAMEWORK_HOST), first);
}

TEST(invalid_device_is_an_error)
{
    int        wrong[] = {-2, 63, UCXPOOL_FRAMEWORK_MAX_DEVICES, 1000000};
    ucxpool_t *pool    = (ucxpool_t *)&wrong;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_error(ucxpool_framework_pool(wrong[i], &pool), INVALID_PARAM);
        ck_assert_ptr_eq(pool, (ucxpool_t *)&wrong);
        ck_assert_ptr_null(ucxpool_torch_alloc(1024, wrong[i], NULL));
        ck_assert_str_ne(ucxpool_error_detail(), "");
        ucxpool_torch_free(&wrong, 1024, wrong[i], NULL);
        ucxpool_cupy_free(NULL, &pool, wrong[i]);
    }
    assert_error(ucxpool_framework_set_pool(-2, NULL), INVALID_PARAM);
}

static void *ask(void *arg)
{
    return pool_of(0);
}

TEST(concurrent_first_uses_create_one_pool)
{
    pthread_t threads[NUM_THREADS];
    void     *pool;

    for (size_t i = 0; i < NUM_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask, NULL), 0);
    }
    for (size_t i = 0; i < NUM_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], &pool), 0);
        ck_assert_ptr_eq(pool, pool_of(0));
    }
}

TEST(invalid_setting_is_reported_and_can_be_corrected)
{
    setenv("UCXPOOL_BLOCK_SIZE", "much", 1);
    ck_assert_ptr_null(ucxpool_torch_alloc(1024, 0, NULL));
    assert_detail("BLOCK_SIZE");
    unsetenv("UCXPOOL_BLOCK_SIZE");
    ck_assert_ptr_nonnull(ucxpool_torch_alloc(1024, 0, NULL));
}

TEST(blocks_follow_the_environment)
{
    core_stats_t stats;

    setenv("UCXPOOL_COMM_SIZE", "16m", 1);
    setenv("UCXPOOL_BLOCK_SIZE", "4m", 1);
    core_stats_get(pool_of(0), &stats);
    ck_assert_uint_eq(stats.block_size, 4 * MIB);
    unsetenv("UCXPOOL_COMM_SIZE");
    unsetenv("UCXPOOL_BLOCK_SIZE");
    core_stats_get(pool_of(UCXPOOL_FRAMEWORK_HOST), &stats);
    ck_assert_uint_lt(stats.registered_bytes, 16 * MIB);
}

TEST(pool_set_by_the_caller_is_used)
{
    ucxpool_params_t params = {.field_mask  = UCXPOOL_PARAM_FIELD_MEMORY_KIND,
                               .memory_kind = UCXPOOL_MEMORY_HOST};
    const int        host   = UCXPOOL_FRAMEWORK_HOST;
    ucxpool_t       *pool;
    ucxpool_t       *other;
    void            *address;

    setenv("UCXPOOL_COMM_SIZE", "8m", 1);
    assert_ok(ucxpool_create(&params, &pool));
    assert_ok(ucxpool_create(&params, &other));
    assert_ok(ucxpool_framework_set_pool(host, pool));
    assert_ok(ucxpool_framework_set_pool(host, pool));
    ck_assert_ptr_eq(pool_of(host), pool);
    address = ucxpool_torch_alloc(5000, host, NULL);
    ck_assert_ptr_nonnull(address);
    ck_assert_uint_eq(stats_of(host).num_live, 1);

    assert_error(ucxpool_framework_set_pool(host, other), BUSY);
    ck_assert_ptr_eq(pool_of(host), pool);
    ucxpool_torch_free(address, 5000, host, NULL);
    require_nothing_live(host);
    assert_ok(ucxpool_framework_set_pool(host, NULL));
    assert_ok(ucxpool_framework_set_pool(host, other));
    ck_assert_ptr_eq(pool_of(host), other);
    assert_ok(ucxpool_framework_set_pool(host, NULL));
    ucxpool_destroy(pool);
    ucxpool_destroy(other);
    /* A second pool for the device is rejected. */
    ucxpool_torch_free(address, 5000, host, NULL);
}

/* Alloc and free functions of a framework, called the way it calls them. */
typedef struct framework {
    void *(*alloc)(size_t size, int device, void *stream);
    void (*free_it)(void *address, size_t size, int device, void *stream);
    bool throws; /* std::bad_alloc, if a C++ runtime is loaded */
} framework_t;

static void *torch_alloc(size_t size, int device, void *stream)
{
    return ucxpool_torch_alloc((ssize_t)size, device, stream);
}

static void torch_free(void *address, size_t size, int device, void *stream)
{
    ucxpool_torch_free(address, (ssize_t)size, device, stream);
}

static void *cupy_alloc(size_t size, int device, void *stream)
{
    return ucxpool_cupy_malloc(&stream, size, device);
}

static void cupy_free(void *address, size_t size, int device, void *stream)
{
    ucxpool_cupy_free(&stream, address, device);
}

static void *rmm_alloc(size_t size, int device, void *stream)
{
    return ucxpool_rmm_alloc(size, stream, pool_of(device));
}

static void rmm_free(void *address, size_t size, int device, void *stream)
{
    ucxpool_rmm_free(address, size, stream, pool_of(device));
}

static const framework_t frameworks[] = {{torch_alloc, torch_free, false},
                                         {cupy_alloc, cupy_free, false},
                                         {rmm_alloc, rmm_free, true}};
#define NUM_FRAMEWORKS (sizeof(frameworks) / sizeof(frameworks[0]))

TEST_EACH(allocations_are_aligned_and_on_their_device, NUM_FRAMEWORKS)
{
    const framework_t *is      = &frameworks[_i];
    const size_t       sizes[] = {1, 511, 513, 5000, 3 * MIB, 40 * MIB};
    const int          other   = cuda_num_devices() - 1;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        void *a = is->alloc(sizes[i], 0, NULL);
        void *b = is->alloc(sizes[i], other, NULL);

        ck_assert_msg((a != NULL) && (b != NULL), "%s", ucxpool_error_detail());
        ck_assert_uint_eq((uintptr_t)a % 512, 0);
        ck_assert_uint_eq((uintptr_t)b % 512, 0);
        gpu_write(a, sizes, 1);
        ck_assert_uint_eq(stats_of(0).num_live, other == 0 ? 2 : 1);
        is->free_it(a, sizes[i], 0, NULL);
        ck_assert_uint_eq(stats_of(other).num_live, 1);
        is->free_it(b, sizes[i], other, NULL);
        require_nothing_live(0);
        require_nothing_live(other);
    }
}

/* An allocation that is alone in a block starts at the block. */
TEST_EACH(neighbours_are_aligned, NUM_FRAMEWORKS)
{
    const framework_t *is = &frameworks[_i];
    void              *a  = is->alloc(1, 0, NULL);
    void              *b  = is->alloc(1, 0, NULL);

    ck_assert_msg((a != NULL) && (b != NULL), "%s", ucxpool_error_detail());
    ck_assert_uint_eq((uintptr_t)a % 512, 0);
    ck_assert_uint_eq((uintptr_t)b % 512, 0);
    is->free_it(a, 1, 0, NULL);
    is->free_it(b, 1, 0, NULL);
    require_nothing_live(0);
}

TEST_EACH(zero_bytes_give_null_which_can_be_freed, NUM_FRAMEWORKS)
{
    const framework_t *is = &frameworks[_i];

    ck_assert_ptr_null(is->alloc(0, 0, NULL));
    is->free_it(NULL, 0, 0, NULL);
    ck_assert_ptr_null(ucxpool_torch_alloc_or_throw(0, 0, NULL));
    ck_assert_ptr_null(ucxpool_cupy_malloc(NULL, 0, 0));
    ucxpool_cupy_free(NULL, NULL, 0);
    ucxpool_torch_record_stream(NULL, NULL);
}

TEST_EACH(both_handles_of_the_default_stream_are_equal, NUM_FRAMEWORKS)
{
    const framework_t *is      = &frameworks[_i];
    void              *address = is->alloc(3 * MIB, 0, CU_STREAM_LEGACY);

    is->free_it(address, 3 * MIB, 0, NULL);
    ck_assert_ptr_eq(is->alloc(3 * MIB, 0, NULL), address);
    is->free_it(address, 3 * MIB, 0, CU_STREAM_LEGACY);
    ck_assert_ptr_eq(is->alloc(3 * MIB, 0, CU_STREAM_LEGACY), address);
    is->free_it(address, 3 * MIB, 0, CU_STREAM_LEGACY);
}

/* A driver may have loaded the C++ runtime. Then an exception is thrown instead
 * of returning NULL; test_framework_throw.sh tests that. */
static bool has_cxx_library(void)
{
    return dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD) != NULL;
}

TEST_EACH(out_of_memory_returns_null_with_a_detail, NUM_FRAMEWORKS)
{
    const framework_t *is   = &frameworks[_i];
    void              *most = is->alloc(128 * MIB, 0, NULL);

    ck_assert_ptr_nonnull(most);
    if (!is->throws || !has_cxx_library()) {
        ck_assert_ptr_null(is->alloc(1024 * MIB, 0, NULL));
        ck_assert_str_ne(ucxpool_error_detail(), "");
    }
    ck_assert_uint_eq(stats_of(0).num_live, 1);
    is->free_it(most, 128 * MIB, 0, NULL);
    most = is->alloc(128 * MIB, 0, NULL);
    ck_assert_ptr_nonnull(most);
    is->free_it(most, 128 * MIB, 0, NULL);
}

TEST(negative_size_is_an_error)
{
    ck_assert_ptr_null(ucxpool_torch_alloc(-1, 0, NULL));
    assert_detail("-1");
}

static bool is_failure_logged(void)
{
    bool is_logged;

    caught_begin();
    ck_assert_ptr_null(ucxpool_torch_alloc(1024 * (ssize_t)MIB, 0, NULL));
    is_logged = *caught_text() != '\0';
    caught_end();
    return is_logged;
}

TEST(repeated_failure_is_logged_once)
{
    setenv("UCXPOOL_LOG_LEVEL", "warn", 1);
    (void)pool_of(0);
    ck_assert(is_failure_logged());
    ck_assert(!is_failure_logged());
    ck_assert_str_ne(ucxpool_error_detail(), "");
}

/* A program must do this before it destroys a stream. */
static void end(CUstream stream)
{
    assert_ok(ucxpool_heap_stream_end(pool_of(0), stream));
    gpu_stream_destroy(stream);
}

TEST(cupy_stream_is_read_at_each_call)
{
    CUstream   a = gpu_stream(CU_STREAM_NON_BLOCKING);
    CUstream   b = gpu_stream(CU_STREAM_NON_BLOCKING);
    gpu_gate_t gate;
    void      *stream = a;
    void      *first;
    void      *second;

    gpu_gate_init(&gate);
    first = ucxpool_cupy_malloc(&stream, 3 * MIB, 0);
    gpu_gate_wait(&gate, a);
    ucxpool_cupy_free(&stream, first, 0);
    stream = b;
    second = ucxpool_cupy_malloc(&stream, 3 * MIB, 0);
    ck_assert_ptr_nonnull(second);
    ck_assert_ptr_ne(second, first);
    stream = a;
    ck_assert_ptr_eq(ucxpool_cupy_malloc(&stream, 3 * MIB, 0), first);
    gpu_gate_open(&gate);
    ucxpool_cupy_free(&stream, first, 0);
    stream = b;
    ucxpool_cupy_free(&stream, second, 0);
    require_nothing_live(0);
    end(a);
    end(b);
    gpu_gate_cleanup(&gate);
}

static bool has_ended(CUstream stream)
{
    CUresult result;

    while (gpu_step()) {
    }
    assert_ok(mem_cuda_device_enter(gpu));
    result = gpu->driver->cuStreamQuery(stream);
    mem_cuda_device_leave(gpu);
    return result == CUDA_SUCCESS;
}

/* Free memory of stream a while stream b, which uses it, is blocked. Then
 * allocate as much for a: does the allocation return the same memory? */
static bool is_reused_early(CUstream a, CUstream b, bool is_told)
{
    const ssize_t size = 3 * (ssize_t)MIB;
    gpu_gate_t    gate;
    void         *first = ucxpool_torch_alloc(size, 0, a);
    void         *second;
    bool          is_early;

    gpu_gate_init(&gate);
    if (is_told) {
        ucxpool_torch_record_stream(first, b);
        ucxpool_torch_record_stream(first, b);
    }
    gpu_gate_wait(&gate, b);
    ucxpool_torch_free(first, size, 0, a);
    require_nothing_live(0);
    second = ucxpool_torch_alloc(size, 0, a);
    ck_assert_ptr_nonnull(second);
    is_early = (second == first) && has_ended(a);
    gpu_gate_open(&gate);
    gpu_stream_wait(b);
    gpu_stream_wait(a);
    ucxpool_torch_free(second, size, 0, a);
    require_nothing_live(0);
    gpu_gate_cleanup(&gate);
    return is_early;
}

TEST(memory_used_by_another_stream_waits_for_it)
{
    CUstream a = gpu_stream(CU_STREAM_NON_BLOCKING);
    CUstream b = gpu_stream(CU_STREAM_NON_BLOCKING);

    /* Prove that the check can fail. */
    ck_assert(is_reused_early(a, b, false));
    ck_assert(!is_reused_early(a, b, true));
    /* The record is dropped with the memory. */
    ck_assert(is_reused_early(a, b, false));
    end(a);
    end(b);
}

/* Each driver call fails once while memory that another stream uses is freed.
 * It must be freed all the same. The first calls are made only once in a
 * process. */
STAND_IN_TEST(driver_failure_does_not_prevent_a_free)
{
    static const struct {
        const char *name;
        unsigned    n;
    } calls[] = {
        {"cuDevicePrimaryCtxRetain", 1},
        {"cuStreamCreate", 1},
        {"cuEventCreate", 1},
        {"cuCtxPushCurrent", 1},
        {"cuEventRecord", 1},
        {"cuEventRecord", 2},
        {"cuStreamWaitEvent", 1},
        {"cuStreamWaitEvent", 2},
        {"cuCtxPushCurrent", 1},
    };
    const ssize_t size = 3 * (ssize_t)MIB;
    CUstream      a    = gpu_stream(CU_STREAM_NON_BLOCKING);
    CUstream      b    = gpu_stream(CU_STREAM_NON_BLOCKING);

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        void *address = ucxpool_torch_alloc(size, 0, a);

        ck_assert_ptr_nonnull(address);
        ucxpool_torch_record_stream(address, b);
        stand_in.fail_call(calls[i].name, calls[i].n, CUDA_ERROR_OUT_OF_MEMORY);
        ucxpool_torch_free(address, size, 0, a);
        ck_assert_msg(stand_in.has_failed(), "%s", calls[i].name);
        stand_in.fail_call(NULL, 0, CUDA_SUCCESS);
        require_nothing_live(0);
    }
    ck_assert(!is_reused_early(a, b, true));
    end(a);
    end(b);
}

TEST(uses_of_foreign_memory_are_not_recorded)
{
    framework_use_t *use;
    int              stranger;

    ucxpool_torch_record_stream(&stranger, NULL);
    ck_assert(framework_uses_take(&stranger, &use));
    ck_assert_ptr_null(use);
}

TEST(use_is_recorded_once_per_stream)
{
    framework_use_t *use;
    char             area[8 * 256];

    for (size_t i = 0; i < sizeof(area); i += 256) {
        for (uintptr_t stream = 0; stream < 40; stream++) {
            framework_uses_add(&area[i], (void *)(stream % 10));
        }
    }
    for (size_t i = 0; i < sizeof(area); i += 256) {
        ck_assert(framework_uses_take(&area[i], &use));
        ck_assert_ptr_nonnull(use);
        ck_assert_uint_eq(use->num_streams, 10);
        free(use);
        ck_assert(framework_uses_take(&area[i], &use));
        ck_assert_ptr_null(use);
    }
}

TEST(empty_cache_returns_memory)
{
    void *address = ucxpool_torch_alloc(64 * (ssize_t)MIB, 0, NULL);

    ucxpool_torch_free(address, 64 * (ssize_t)MIB, 0, NULL);
    ck_assert_uint_gt(stats_of(0).reserved, 0);
    ucxpool_torch_empty_cache();
    ck_assert_uint_eq(stats_of(0).reserved, 0);
}

static int in_child(void *parents)
{
    const int host = UCXPOOL_FRAMEWORK_HOST;
    void     *address;

    ucxpool_torch_free(parents, 5000, host, NULL);
    ucxpool_cupy_free(NULL, parents, host);
    ucxpool_torch_record_stream(parents, NULL);
    ucxpool_torch_empty_cache();
    address = ucxpool_torch_alloc(5000, host, NULL);
    if (address == NULL) {
        return 1;
    }
    memset(address, 1, 5000);
    ucxpool_torch_free(address, 5000, host, NULL);
    return 0;
}

/* The driver does not survive a fork. */
STAND_IN_TEST(child_does_not_free_its_parents_memory)
{
    const int host    = UCXPOOL_FRAMEWORK_HOST;
    void     *address = ucxpool_torch_alloc(5000, host, NULL);
    pid_t     child;

    ck_assert_ptr_nonnull(address);
    memset(address, 7, 5000);
    child = fork();
    if (child == 0) {
        _exit(in_child(address));
    }
    ck_assert_int_eq(test_exit_of(child), 0);
    ck_assert_uint_eq(stats_of(host).num_live, 1);
    ck_assert_int_eq(((char *)address)[4999], 7);
    ucxpool_torch_free(address, 5000, host, NULL);
    require_nothing_live(host);
}

/* A child forked while this thread creates a pool. cuInit() may fork, too. */
static int  forked_status = -1;
static bool wants_fork;

static void fork_once(ucxpool_log_level_t level, const char *message, void *arg)
{
    const int host = UCXPOOL_FRAMEWORK_HOST;
    pid_t     child;

    if (!wants_fork) {
        return;
    }
    wants_fork = false;
    child      = fork();
    if (child == 0) {
        _exit(ucxpool_torch_alloc(5000, host, NULL) == NULL ? 1 : 0);
    }
    forked_status = test_exit_of(child);
}

STAND_IN_TEST(process_can_fork_while_a_pool_is_created)
{
    setenv("UCXPOOL_LOG_LEVEL", "trace", 1);
    assert_ok(ucxpool_log_set_handler(fork_once, NULL));
    wants_fork = true;
    (void)pool_of(UCXPOOL_FRAMEWORK_HOST);
    ck_assert(!wants_fork);
    ck_assert_int_eq(forked_status, 0);
    assert_ok(ucxpool_log_set_handler(NULL, NULL));
}

/* Even with its copy of the parent's heap: threads that the child does not have
 * may hold the heap's locks. */
STAND_IN_TEST(child_does_not_free_to_an_explicit_pool)
{
    ucxpool_t *pool    = pool_of(UCXPOOL_FRAMEWORK_HOST);
    void      *address = ucxpool_rmm_alloc(5000, NULL, pool);
    size_t     size;
    pid_t      child;

    ck_assert_ptr_nonnull(address);
    child = fork();
    if (child == 0) {
        ucxpool_rmm_free(address, 5000, NULL, pool);
        _exit(ucxpool_heap_usable_size(pool, address, &size) == UCXPOOL_OK ? 0
                                                                           : 1);
    }
    ck_assert_int_eq(test_exit_of(child), 0);
    ucxpool_rmm_free(address, 5000, NULL, pool);
    require_nothing_live(UCXPOOL_FRAMEWORK_HOST);
}

static void *churn(void *arg)
{
    unsigned seed      = (unsigned)(uintptr_t)arg;
    void    *kept[16]  = {NULL};
    size_t   sizes[16] = {0};
    void    *stream    = arg;

    for (unsigned round = 0; round < 500; round++) {
        size_t i = (size_t)rand_r(&seed) % 16;

        frameworks[round % NUM_FRAMEWORKS].free_it(
            kept[i], sizes[i], UCXPOOL_FRAMEWORK_HOST, stream);
        sizes[i] = 1 + (size_t)rand_r(&seed) % 100000;
        kept[i]  = frameworks[(round / 3) % NUM_FRAMEWORKS].alloc(
             sizes[i], UCXPOOL_FRAMEWORK_HOST, stream);
        ck_assert_ptr_nonnull(kept[i]);
        memset(kept[i], (int)i, sizes[i]);
        if (round % 5 == 0) {
            ucxpool_torch_record_stream(kept[i], NULL);
        }
    }
    for (size_t i = 0; i < 16; i++) {
        ucxpool_torch_free(kept[i], (ssize_t)sizes[i], UCXPOOL_FRAMEWORK_HOST,
                           stream);
    }
    return NULL;
}

TEST(threads_allocate_concurrently)
{
    for (size_t i = 0; i < NUM_THREADS; i++) {
        test_thread(churn, (void *)(uintptr_t)(16 * (i + 1)));
    }
    test_join(NUM_THREADS);
    require_nothing_live(UCXPOOL_FRAMEWORK_HOST);
}

static void *late;

/* Frameworks free memory at process exit, after everything else. */
static void free_late(void)
{
    ucxpool_torch_free(late, 5000, UCXPOOL_FRAMEWORK_HOST, NULL);
}

STAND_IN_TEST(memory_can_be_freed_at_process_exit)
{
    pid_t child = fork();

    if (child == 0) {
        atexit(free_late);
        late = ucxpool_torch_alloc(5000, UCXPOOL_FRAMEWORK_HOST, NULL);
        exit(late == NULL ? 1 : 0);
    }
    ck_assert_int_eq(test_exit_of(child), 0);
}
