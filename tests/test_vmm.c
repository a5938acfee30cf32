/* Virtual memory management of the host and of a GPU. */
#include "calls.h"
#include "cuda_fixture.h"
#include "test.h"
#include "replace.h"
#include "mem/cuda_device.h"
#include "mem/system.h"
#include "mem/vmm.h"

#include <ucxpool/ucxpool.h>

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE MEM_VMM_PAGE_SIZE

/* Arguments for the tests of both kinds of memory. */
enum { HOST, GPU, NUM_KINDS };

static mem_vmm_t         *vmm;
static mem_cuda_device_t *device; /* NULL: host memory */
static unsigned           num_fds;
static size_t             mapped_size;

/* Simulated memory size of the machine; 0: the real one. */
static size_t available;

REPLACE(void, mem_system_query, mem_system_t *system)
{
    __real_mem_system_query(system);
    if (available != 0) {
        system->available = available;
    }
}

REPLACE(int, pthread_mutex_init, pthread_mutex_t *mutex,
        const pthread_mutexattr_t *attributes)
{
    return calls_is_due(CALLS_MUTEX_INIT)
               ? errno
               : __real_pthread_mutex_init(mutex, attributes);
}

REPLACE(void *, malloc, size_t size)
{
    return calls_is_due(CALLS_MALLOC) ? NULL : __real_malloc(size);
}

static const mem_vmm_calls_t *calls(void)
{
    return vmm->calls;
}

static void device_open(const char *configuration)
{
    cuda_start(configuration);
    assert_ok(mem_cuda_device_open(0, &device));
}

static ucxpool_status_t create(int kind)
{
    return kind == HOST ? mem_vmm_create_host(&vmm)
                        : mem_vmm_create_cuda(device, &vmm);
}

static void open_vmm(int kind)
{
    num_fds     = fds_count();
    mapped_size = calls_mapped_size();
    if (kind == GPU) {
        device_open("");
    }
    assert_ok(create(kind));
    ck_assert_int_eq(vmm->is_host, kind == HOST);
}

static void device_close(void)
{
    mem_cuda_device_close(device);
    device = NULL;
    if (!cuda_is_real()) {
        ck_assert_uint_eq(stand_in.live(), 0);
    }
}

static void destroy(void)
{
    calls()->destroy(vmm);
    if (device != NULL) {
        device_close();
    }
}

/* Nothing is leaked. */
static void stop(void)
{
    bool is_real = (device != NULL) && cuda_is_real();

    destroy();
    if (!is_real) {
        ck_assert_uint_eq(fds_count(), num_fds);
        ck_assert_uint_eq(calls_mapped_size(), mapped_size);
    }
}

static void start(int kind)
{
    open_vmm(kind);
    test_at_end(stop);
}

static char *reserve(size_t num)
{
    void *address = NULL;

    assert_ok(calls()->reserve(vmm, num * PAGE, PAGE, &address));
    ck_assert_ptr_nonnull(address);
    return address;
}

static void release(char *address, size_t num)
{
    calls()->release(vmm, address, num * PAGE);
}

static mem_chunk_t chunk_create(size_t num)
{
    mem_chunk_t chunk = 0;

    assert_ok(calls()->chunk_create(vmm, num * PAGE, &chunk));
    ck_assert_uint_ne(chunk, 0);
    return chunk;
}

static void chunk_destroy(mem_chunk_t chunk, size_t num)
{
    calls()->chunk_destroy(vmm, chunk, num * PAGE);
}

static void map(char *address, mem_chunk_t chunk, size_t num)
{
    assert_ok(calls()->map(vmm, address, chunk, num * PAGE));
}

static void allow(char *address, size_t num)
{
    assert_ok(calls()->allow(vmm, address, num * PAGE));
}

static void unmap(char *address, size_t num)
{
    assert_ok(calls()->unmap(vmm, address, num * PAGE));
}

/* A chunk that is mapped at this address, and its end. */
static mem_chunk_t chunk_at(char *address, size_t num)
{
    mem_chunk_t chunk = chunk_create(num);

    map(address, chunk, num);
    allow(address, num);
    return chunk;
}

static void chunk_end(char *address, mem_chunk_t chunk, size_t num)
{
    unmap(address, num);
    chunk_destroy(chunk, num);
}

static void put(char *target, const void *source, size_t size)
{
    if (device == NULL) {
        memcpy(target, source, size);
    } else {
        cuda_write(device->context, target, source, size);
    }
}

static void get(void *target, const char *source, size_t size)
{
    if (device == NULL) {
        memcpy(target, source, size);
    } else {
        cuda_read(device->context, target, source, size);
    }
}

/* Write a unique number at the start and the end of each page. */
static void mark(char *address, size_t num, unsigned seed)
{
    for (size_t i = 0; i < num; i++, seed++) {
        put(address + i * PAGE, &seed, sizeof(seed));
        put(address + (i + 1) * PAGE - sizeof(seed), &seed, sizeof(seed));
    }
}

static void check_marks(const char *address, size_t num, unsigned seed)
{
    unsigned first = 0, last = 0;

    for (size_t i = 0; i < num; i++, seed++) {
        get(&first, address + i * PAGE, sizeof(first));
        get(&last, address + (i + 1) * PAGE - sizeof(last), sizeof(last));
        ck_assert_uint_eq(first, seed);
        ck_assert_uint_eq(last, seed);
    }
}

static uint64_t free_size(void)
{
    uint64_t total = 0, is_free = 0;

    assert_ok(calls()->sizes(vmm, &total, &is_free));
    ck_assert_uint_gt(total, 0);
    ck_assert_uint_le(is_free, total);
    return is_free;
}

static void teardown(void)
{
    calls_reset();
}

TEST_SETTINGS(.teardown = teardown, .only_if = cuda_is_present);

TEST_EACH(every_byte_of_a_chunk_can_be_written, NUM_KINDS)
{
    char *written = test_alloc(3 * PAGE),
         *is_read = test_alloc((size_t)3 * PAGE);
    char       *home;
    mem_chunk_t chunk;
    unsigned    seed = 5;

    start(_i);
    home  = reserve(3);
    chunk = chunk_at(home, 3);
    for (size_t i = 0; i < 3 * PAGE; i++) {
        seed       = seed * 1664525u + 1013904223u;
        written[i] = (char)(seed >> 24);
    }
    put(home, written, 3 * PAGE);
    get(is_read, home, 3 * PAGE);
    ck_assert_int_eq(memcmp(written, is_read, 3 * PAGE), 0);
    chunk_end(home, chunk, 3);
    release(home, 3);
    test_end();
}

TEST_EACH(two_mappings_of_a_chunk_show_the_same_bytes, NUM_KINDS)
{
    char       *home, *twin;
    mem_chunk_t chunk;

    start(_i);
    home  = reserve(2);
    twin  = reserve(2);
    chunk = chunk_at(home, 2);
    map(twin, chunk, 2);
    allow(twin, 2);
    mark(home, 2, 100);
    check_marks(twin, 2, 100);
    mark(twin, 2, 200);
    check_marks(home, 2, 200);
    /* One mapping is removed; the other stays. */
    unmap(home, 2);
    check_marks(twin, 2, 200);
    chunk_end(twin, chunk, 2);
    release(home, 2);
    release(twin, 2);
}

/* Chunks of several sizes, in another order than they were created, one of them
 * twice. */
TEST_EACH(chunks_are_stitched_in_any_order, NUM_KINDS)
{
    static const size_t sizes[] = {1, 4, 1, 2};
    static const size_t order[] = {3, 0, 1, 2, 0};
    mem_chunk_t         chunks[4];
    char               *places[4], *home, *stitched;
    size_t              at;

    start(_i);
    home     = reserve(8);
    stitched = reserve(9);
    at       = 0;
    for (size_t i = 0; i < 4; i++) {
        chunks[i] = chunk_create(sizes[i]);
        places[i] = home + at * PAGE;
        map(places[i], chunks[i], sizes[i]);
        at += sizes[i];
    }
    allow(home, 8);
    mark(home, 8, 1);
    at = 0;
    for (size_t i = 0; i < 5; i++) {
        map(stitched + at * PAGE, chunks[order[i]], sizes[order[i]]);
        at += sizes[order[i]];
    }
    allow(stitched, 9);
    check_marks(stitched, 2, 7);
    check_marks(stitched + 2 * PAGE, 1, 1);
    check_marks(stitched + 3 * PAGE, 4, 2);
    check_marks(stitched + 7 * PAGE, 1, 6);
    check_marks(stitched + 8 * PAGE, 1, 1);
    unmap(stitched, 9);
    unmap(home, 8);
    for (size_t i = 0; i < 4; i++) {
        chunk_destroy(chunks[i], sizes[i]);
    }
    release(stitched, 9);
    release(home, 8);
}

TEST_EACH(addresses_are_reused_for_another_chunk, NUM_KINDS)
{
    mem_chunk_t a, b;
    char       *home;

    start(_i);
    home = reserve(4);
    b    = chunk_create(1);
    a    = chunk_at(home + PAGE, 2);
    mark(home + PAGE, 2, 10);
    unmap(home + PAGE, 2);
    map(home + 2 * PAGE, b, 1);
    map(home, a, 2);
    allow(home, 3);
    check_marks(home, 2, 10);
    mark(home + 2 * PAGE, 1, 20);
    check_marks(home, 2, 10);
    check_marks(home + 2 * PAGE, 1, 20);
    chunk_end(home, a, 2);
    chunk_end(home + 2 * PAGE, b, 1);
    release(home, 4);
}

TEST_EACH(a_range_starts_at_a_multiple_of_its_alignment, NUM_KINDS)
{
    static const size_t alignments[] = {PAGE, 16 * PAGE, 512 * PAGE};
    void               *ranges[3];

    start(_i);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(calls()->reserve(vmm, 3 * PAGE, alignments[i], &ranges[i]));
        ck_assert_uint_eq((uintptr_t)ranges[i] % alignments[i], 0);
    }
    for (size_t i = 0; i < 3; i++) {
        calls()->release(vmm, ranges[i], 3 * PAGE);
    }
}

TEST_EACH(a_large_range_costs_no_memory, NUM_KINDS)
{
    uint64_t before;
    char    *home;

    start(_i);
    before = free_size();
    home   = reserve((size_t)1 << 14);
    if (_i == GPU) {
        ck_assert_uint_eq(free_size(), before);
    }
    release(home, (size_t)1 << 14);
}

/* Repeat one call if it fails; the second time it must succeed. */
#define TRY(_call) \
    do { \
        if ((_call) != UCXPOOL_OK) { \
            num_failed++; \
            assert_ok(_call); \
        } \
    } while (0)

/* Uses every function. Returns how many calls failed. */
static unsigned use_all(void)
{
    const mem_vmm_calls_t *to         = calls();
    unsigned               num_failed = 0;
    mem_chunk_t            chunk = 0, other = 0;
    uint64_t               total, is_free;
    void                  *home = NULL, *twin = NULL;

    TRY(to->reserve(vmm, 3 * PAGE, PAGE, &home));
    TRY(to->reserve(vmm, 3 * PAGE, 4 * PAGE, &twin));
    TRY(to->chunk_create(vmm, 2 * PAGE, &chunk));
    TRY(to->chunk_create(vmm, PAGE, &other));
    TRY(to->map(vmm, home, chunk, 2 * PAGE));
    TRY(to->map(vmm, (char *)home + 2 * PAGE, other, PAGE));
    TRY(to->allow(vmm, home, 3 * PAGE));
    TRY(to->map(vmm, twin, other, PAGE));
    TRY(to->map(vmm, (char *)twin + PAGE, chunk, 2 * PAGE));
    TRY(to->allow(vmm, twin, 3 * PAGE));
    TRY(to->sizes(vmm, &total, &is_free));
    if (!vmm->is_host) {
        mem_fence_t *fence = NULL;

        TRY(to->fence_set(vmm, NULL, &fence));
        TRY(to->fence_wait(vmm, fence, NULL));
        TRY(to->fence_sync(vmm, fence));
        TRY(to->fence_is_reached(vmm, fence) ? UCXPOOL_OK : UCXPOOL_INPROGRESS);
        to->fence_put(vmm, fence);
    }
    TRY(to->unmap(vmm, home, 2 * PAGE));
    TRY(to->unmap(vmm, (char *)home + 2 * PAGE, PAGE));
    TRY(to->unmap(vmm, twin, 3 * PAGE));
    to->chunk_destroy(vmm, chunk, 2 * PAGE);
    to->chunk_destroy(vmm, other, PAGE);
    to->release(vmm, home, 3 * PAGE);
    to->release(vmm, twin, 3 * PAGE);
    return num_failed;
}

TEST(a_failed_system_call_can_be_retried)
{
    static const calls_name_t names[] = {CALLS_MMAP, CALLS_FALLOCATE};
    unsigned                  n, num;

    start(HOST);
    for (size_t i = 0; i < 2; i++) {
        for (n = 1;; n++) {
            calls_fail(names[i], n, ENOMEM);
            num = use_all();
            if (!calls_has_failed()) {
                break;
            }
            ck_assert_uint_le(num, 1);
        }
        ck_assert_uint_ge(n, 5);
        calls_reset();
        ck_assert_uint_eq(use_all(), 0);
    }
}

STAND_IN_TEST(a_failed_driver_call_can_be_retried)
{
    static const char *const names[] = {NULL, "cuMemUnmap", "cuCtxPushCurrent"};
    unsigned                 n, num;

    start(GPU);
    for (size_t i = 0; i < 3; i++) {
        for (n = 1;; n++) {
            stand_in.fail_call(names[i], n, CUDA_ERROR_UNKNOWN);
            num = use_all();
            if (!stand_in.has_failed()) {
                break;
            }
            ck_assert_uint_le(num, 1);
        }
        ck_assert_uint_ge(n, 3);
        stand_in.fail_call(NULL, 0, 0);
        ck_assert_uint_eq(use_all(), 0);
    }
}

TEST_EACH(a_failed_creation_leaks_nothing, NUM_KINDS)
{
    static const calls_name_t     names[]   = {CALLS_CALLOC, CALLS_MUTEX_INIT,
                                               CALLS_MEMFD_CREATE, CALLS_FTRUNCATE};
    static const ucxpool_status_t results[] = {
        UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO, UCXPOOL_ERR_IO, UCXPOOL_ERR_IO};

    num_fds = fds_count();
    if (_i == GPU) {
        device_open("");
    }
    for (size_t i = 0; i < (_i == GPU ? 2 : 4); i++) {
        vmm = NULL;
        calls_fail(names[i], 1, EMFILE);
        ck_assert_int_eq(create(_i), results[i]);
        calls_reset();
        ck_assert_ptr_null(vmm);
        if (_i == HOST) {
            ck_assert_uint_eq(fds_count(), num_fds);
        }
    }
    assert_ok(create(_i));
    calls()->destroy(vmm);
    if (_i == GPU) {
        device_close();
    }
}

/* --- host memory ---------------------------------------------------------- */

/* The file of all chunks. */
static struct stat file(void)
{
    char           name[64], path[64], target[128];
    struct dirent *entry;
    struct stat    is  = {.st_size = -1};
    DIR           *dir = opendir("/proc/self/fd");
    ssize_t        length;

    ck_assert_ptr_nonnull(dir);
    snprintf(name, sizeof(name), "/memfd:ucxpool:%d:heap", (int)getpid());
    while ((entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof(path), "/proc/self/fd/%.16s", entry->d_name);
        length = readlink(path, target, sizeof(target) - 1);
        if (length > 0) {
            target[length] = '\0';
            if (strncmp(target, name, strlen(name)) == 0) {
                ck_assert_int_eq(stat(path, &is), 0);
            }
        }
    }
    closedir(dir);
    ck_assert_int_ge(is.st_size, 0);
    return is;
}

static size_t held(void)
{
    return (size_t)file().st_blocks * 512;
}

TEST(the_memory_of_a_destroyed_chunk_returns_to_the_system)
{
    mem_chunk_t a, b;
    char       *home;

    start(HOST);
    home = reserve(3);
    a    = chunk_at(home, 2);
    b    = chunk_at(home + 2 * PAGE, 1);
    mark(home, 3, 1);
    chunk_end(home, a, 2);
    ck_assert_uint_eq(held(), PAGE);
    check_marks(home + 2 * PAGE, 1, 3);
    chunk_end(home + 2 * PAGE, b, 1);
    ck_assert_uint_eq(held(), 0);
    release(home, 3);
}

TEST(a_new_chunk_is_zeroed)
{
    mem_chunk_t chunk;
    char       *home;

    start(HOST);
    home = reserve(1);
    for (int i = 0; i < 3; i++) {
        chunk = chunk_at(home, 1);
        check_marks(home, 1, 0);
        mark(home, 1, 7);
        chunk_end(home, chunk, 1);
    }
    release(home, 1);
}

TEST(the_file_stays_as_short_as_possible)
{
    mem_chunk_t chunks[8], kept;

    start(HOST);
    kept = chunk_create(1);
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < 8; i++) {
            chunks[i] = chunk_create(1 + i % 2);
            ck_assert_uint_ne(chunks[i], kept);
        }
        for (size_t i = 8; i > 0; i--) {
            chunk_destroy(chunks[i - 1], 1 + (i - 1) % 2);
        }
    }
    ck_assert_uint_le((size_t)file().st_size, 13 * PAGE);
    chunk_destroy(kept, 1);
}

/* Fail each step of filling it. */
TEST_EACH(a_partly_filled_chunk_leaks_nothing, 2)
{
    mem_chunk_t chunk = 0;
    unsigned    n;

    start(HOST);
    for (n = 1;; n++) {
        calls_fail(CALLS_FALLOCATE, n, _i == 0 ? ENOSPC : EIO);
        if (calls()->chunk_create(vmm, 8 * PAGE, &chunk) == UCXPOOL_OK) {
            break;
        }
        assert_detail("cannot allocate 16777216 bytes for the heap");
        ck_assert_uint_eq(chunk, 0);
        calls_reset();
        ck_assert_uint_eq(held(), 0);
    }
    calls_reset();
    ck_assert_uint_ge(n, 3);
    ck_assert_uint_eq(held(), 8 * PAGE);
    chunk_destroy(chunk, 8);
}

TEST(a_signal_during_allocation_or_release_has_no_effect)
{
    mem_chunk_t chunk;

    start(HOST);
    calls_fail(CALLS_FALLOCATE, 2, EINTR);
    chunk = chunk_create(8);
    ck_assert(calls_has_failed());
    calls_fail(CALLS_FALLOCATE, 1, EINTR);
    chunk_destroy(chunk, 8);
    ck_assert(calls_has_failed());
    ck_assert_uint_eq(held(), 0);
}

TEST(memory_that_cannot_be_released_is_reused)
{
    mem_chunk_t chunk, again;

    start(HOST);
    chunk = chunk_create(2);
    calls_fail(CALLS_FALLOCATE, 1, EIO);
    chunk_destroy(chunk, 2);
    calls_reset();
    ck_assert_uint_eq(held(), 2 * PAGE);
    again = chunk_create(2);
    ck_assert_uint_eq(again, chunk);
    ck_assert_uint_eq(held(), 2 * PAGE);
    chunk_destroy(again, 2);
    ck_assert_uint_eq(held(), 0);
}

TEST(more_memory_than_the_machine_has_is_refused_at_once)
{
    mem_chunk_t chunk = 0;
    uint64_t    total, is_free;

    start(HOST);
    available = 3 * PAGE;
    calls_fail(CALLS_FALLOCATE, 0, 0);
    assert_error(calls()->chunk_create(vmm, 4 * PAGE, &chunk), NO_MEMORY);
    ck_assert_uint_eq(calls_count(CALLS_FALLOCATE), 0);
    assert_detail("6291456 are available");
    assert_ok(calls()->sizes(vmm, &total, &is_free));
    ck_assert_uint_eq(is_free, 3 * PAGE);
    /* The size of the machine's memory is unknown. */
    available = SIZE_MAX;
    ck_assert_uint_gt(free_size(), 4 * PAGE);
    chunk = chunk_create(4);
    chunk_destroy(chunk, 4);
}

TEST(a_file_size_limit_is_reported_and_raises_no_signal)
{
    struct rlimit limit = {.rlim_cur = 3 * PAGE, .rlim_max = RLIM_INFINITY};
    mem_chunk_t   chunk = 0;

    start(HOST);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 3 * PAGE;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_error_detail(calls()->chunk_create(vmm, 4 * PAGE, &chunk), NO_MEMORY,
                        "ulimit -f");
    chunk = chunk_create(3);
    chunk_destroy(chunk, 3);
}

TEST(the_error_for_a_failed_mapping_gives_advice)
{
    mem_chunk_t chunk;
    char       *home;
    void       *none = NULL;

    start(HOST);
    calls_fail(CALLS_MMAP, 1, ENOMEM);
    assert_error(calls()->reserve(vmm, PAGE, PAGE, &none), NO_MEMORY);
    ck_assert_ptr_null(none);
    assert_detail("ulimit -v");
    home  = reserve(1);
    chunk = chunk_create(1);
    calls_fail(CALLS_MMAP, 1, ENOMEM);
    assert_error_detail(calls()->map(vmm, home, chunk, PAGE), NO_MEMORY,
                        "vm.max_map_count");
    calls_fail(CALLS_MMAP, 1, EACCES);
    assert_error(calls()->map(vmm, home, chunk, PAGE), PERMISSION);
    chunk_destroy(chunk, 1);
    release(home, 1);
}

TEST(addresses_stay_reserved_when_a_chunk_is_unmapped)
{
    mem_chunk_t chunk;
    char       *home;

    start(HOST);
    home  = reserve(1);
    chunk = chunk_create(1);
    map(home, chunk, 1);
    unmap(home, 1);
    ck_assert_uint_eq(calls_mapped_size(), mapped_size + PAGE);
    chunk_destroy(chunk, 1);
    release(home, 1);
}

/* --- GPU memory ----------------------------------------------------------- */

TEST(destroying_a_chunk_releases_its_gpu_memory)
{
    mem_chunk_t chunk;
    uint64_t    before;

    start(GPU);
    before = free_size();
    chunk  = chunk_create(16);
    ck_assert_uint_le(free_size(), before - 16 * PAGE);
    chunk_destroy(chunk, 16);
    ck_assert_uint_eq(free_size(), before);
}

TEST(more_than_the_gpus_memory_is_out_of_memory)
{
    mem_chunk_t chunk = 0;

    start(GPU);
    assert_error(calls()->chunk_create(
                     vmm, free_size() / PAGE * PAGE + 64 * PAGE, &chunk),
                 NO_MEMORY);
    ck_assert_uint_eq(chunk, 0);
    assert_detail("for the heap of GPU 0");
    chunk_destroy(chunk_create(1), 1);
}

STAND_IN_TEST_EACH(a_gpu_without_virtual_memory_is_unsupported, 3)
{
    static const char *const poor[] = {"vmm=n", "without=cuMemMap", "grain=4m"};

    device_open(poor[_i]);
    assert_error_detail(create(GPU), UNSUPPORTED,
                        (_i == 2) ? "cannot have a heap: its granularity"
                                  : "which a heap needs");
    device_close();
}

STAND_IN_TEST(an_unknown_granularity_is_an_error)
{
    device_open("");
    stand_in.fail_call("cuMemGetAllocationGranularity", 1, CUDA_ERROR_UNKNOWN);
    assert_error(create(GPU), IO);
    device_close();
}

STAND_IN_TEST_EACH(unsupported_handle_types_are_not_requested, 5)
{
    static const char *const poor[] = {"gdr=n", "posix=n", "fabric=try",
                                       "fabric=y", "grain=64k"};
    mem_chunk_t              chunk;

    device_open(poor[_i]);
    assert_ok(create(GPU));
    chunk = chunk_create(1);
    ck_assert_uint_eq(stand_in.count("cuMemCreate"), 1);
    chunk_destroy(chunk, 1);
    destroy();
}

TEST(a_chunk_can_be_exported_as_a_file)
{
    mem_chunk_t chunk;
    int         fd = -1;

    start(GPU);
    chunk = chunk_create(1);
    if (device->has_posix_handles) {
        ck_assert_int_eq(
            device->driver->cuMemExportToShareableHandle(
                &fd, chunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
        close(fd);
    }
    chunk_destroy(chunk, 1);
}

TEST(the_callers_context_is_not_changed)
{
    CUcontext now = NULL;

    start(GPU);
    ck_assert_uint_eq(use_all(), 0);
    ck_assert_int_eq(device->driver->cuCtxGetCurrent(&now), CUDA_SUCCESS);
    ck_assert_ptr_null(now);
}

/* Other code in the process resets the device. */
STAND_IN_TEST(calls_fail_without_crashing_after_the_context_is_lost)
{
    mem_chunk_t  chunk = 0;
    mem_fence_t *fence, *put;
    void        *home = NULL;
    uint64_t     total, is_free;
    char        *range;

    open_vmm(GPU);
    range = reserve(1);
    chunk = chunk_create(1);
    assert_ok(calls()->fence_set(vmm, NULL, &put));
    assert_ok(calls()->fence_set(vmm, NULL, &fence));
    calls()->fence_put(vmm, put);
    stand_in.reset_context(0);
    assert_error(calls()->reserve(vmm, PAGE, PAGE, &home), IO);
    assert_error(calls()->map(vmm, range, chunk, PAGE), IO);
    assert_error(calls()->allow(vmm, range, PAGE), IO);
    assert_error(calls()->unmap(vmm, range, PAGE), IO);
    assert_error(calls()->fence_set(vmm, NULL, &put), IO);
    assert_error(calls()->fence_wait(vmm, fence, NULL), IO);
    assert_error(calls()->fence_sync(vmm, fence), IO);
    ck_assert(!calls()->fence_is_reached(vmm, fence));
    assert_error(calls()->sizes(vmm, &total, &is_free), IO);
    calls()->fence_put(vmm, fence);
    chunk_destroy(chunk, 1);
    release(range, 1);
    calls()->destroy(vmm);
    mem_cuda_device_close(device);
}

/* Fences. Operations wait until the test allows them to run. */

static CUdeviceptr memory;

static void stop_still(void)
{
    CUDA_MUST(device, cuCtxSynchronize);
    CUDA_MUST(device, cuMemFree, memory);
    destroy();
}

static void start_still(void)
{
    device_open("run=n");
    assert_ok(create(GPU));
    CUDA_MUST(device, cuMemAlloc, &memory, 4096);
    test_at_end(stop_still);
}

static CUstream stream_create(void)
{
    CUstream stream = NULL;

    CUDA_MUST(device, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    return stream;
}

static void post_work(CUstream stream)
{
    CUDA_MUST(device, cuMemsetD32Async, memory, 7, 1, stream);
}

static mem_fence_t *fence_set(CUstream stream)
{
    mem_fence_t *fence = NULL;

    assert_ok(calls()->fence_set(vmm, stream, &fence));
    ck_assert_ptr_nonnull(fence);
    return fence;
}

static bool is_reached(mem_fence_t *fence)
{
    return calls()->fence_is_reached(vmm, fence);
}

static void step(unsigned num)
{
    if (!cuda_is_real()) {
        ck_assert_uint_eq(stand_in.step(num), num);
    }
}

TEST_EACH(a_fence_is_reached_after_the_work_before_it, 2)
{
    mem_fence_t *fence;
    CUstream     stream = NULL;

    start_still();
    if (_i == 1) {
        stream = stream_create();
    }
    for (int round = 0; round < 3; round++) {
        post_work(stream);
        fence = fence_set(stream);
        post_work(stream);
        ck_assert(cuda_is_real() || !is_reached(fence));
        step(1); /* runs the work */
        ck_assert(cuda_is_real() || !is_reached(fence));
        step(1); /* reaches the fence */
        ck_assert(cuda_is_real() || is_reached(fence));
        step(1);
        assert_ok(calls()->fence_sync(vmm, fence));
        ck_assert(is_reached(fence));
        calls()->fence_put(vmm, fence);
    }
    if (_i == 1) {
        CUDA_MUST(device, cuStreamDestroy, stream);
    }
}

/* The fence may be released and set elsewhere before the waiting stream reaches
 * its wait. */
TEST(a_waiting_stream_runs_after_the_other)
{
    mem_fence_t *fence, *other, *behind;
    CUstream     a, b;

    start_still();
    a = stream_create();
    b = stream_create();
    post_work(a);
    fence = fence_set(a);
    assert_ok(calls()->fence_wait(vmm, fence, b));
    behind = fence_set(b);
    calls()->fence_put(vmm, fence);
    post_work(a);
    other = fence_set(a);
    ck_assert_ptr_eq(other, fence);
    ck_assert(cuda_is_real() || !is_reached(behind));
    step(1); /* runs the work of a */
    ck_assert(cuda_is_real() || !is_reached(behind));
    step(1); /* reaches the first fence */
    step(2); /* b no longer waits */
    ck_assert(cuda_is_real() || (is_reached(behind) && !is_reached(other)));
    assert_ok(calls()->fence_sync(vmm, other));
    assert_ok(calls()->fence_sync(vmm, behind));
    calls()->fence_put(vmm, other);
    calls()->fence_put(vmm, behind);
    CUDA_MUST(device, cuStreamDestroy, a);
    CUDA_MUST(device, cuStreamDestroy, b);
}

TEST(fences_are_reused)
{
    mem_fence_t *fences[5];

    start_still();
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < 5; i++) {
            fences[i] = fence_set(NULL);
            for (size_t j = 0; j < i; j++) {
                ck_assert_ptr_ne(fences[i], fences[j]);
            }
        }
        for (size_t i = 0; i < 5; i++) {
            calls()->fence_put(vmm, fences[i]);
        }
    }
    if (!cuda_is_real()) {
        ck_assert_uint_eq(stand_in.count("cuEventCreate"), 5);
        ck_assert_uint_eq(stand_in.count("cuEventRecord"), 20);
    }
}

STAND_IN_TEST(a_fence_that_cannot_be_set_is_released)
{
    mem_fence_t *fence = NULL;

    start(GPU);
    calls_fail(CALLS_MALLOC, 1, ENOMEM);
    assert_error(calls()->fence_set(vmm, NULL, &fence), NO_MEMORY);
    calls_reset();
    stand_in.fail_call("cuEventCreate", 1, CUDA_ERROR_UNKNOWN);
    assert_error(calls()->fence_set(vmm, NULL, &fence), IO);
    stand_in.fail_call("cuEventRecord", 1, CUDA_ERROR_UNKNOWN);
    assert_error(calls()->fence_set(vmm, NULL, &fence), IO);
    ck_assert_ptr_null(fence);
    calls()->fence_put(vmm, fence_set(NULL));
}

/* Several threads. */

typedef struct worker {
    unsigned seed;
    bool     has_fences;
} worker_t;

static void *work(void *arg)
{
    worker_t    *worker = arg;
    char        *range  = reserve(8);
    char        *twin   = range + 4 * PAGE;
    mem_fence_t *fence;

    for (unsigned round = 0; round < 10; round++) {
        size_t      num   = 1 + (worker->seed + round) % 4;
        unsigned    seed  = worker->seed * 1000 + round * 10;
        mem_chunk_t chunk = chunk_at(range, num);

        map(twin, chunk, num);
        allow(twin, num);
        mark(range, num, seed);
        if (worker->has_fences) {
            assert_ok(calls()->fence_set(vmm, NULL, &fence));
            assert_ok(calls()->fence_sync(vmm, fence));
            ck_assert(is_reached(fence));
            calls()->fence_put(vmm, fence);
        }
        check_marks(twin, num, seed);
        unmap(twin, num);
        chunk_end(range, chunk, num);
    }
    release(range, 8);
    return NULL;
}

TEST_EACH(threads_do_not_disturb_each_other, NUM_KINDS)
{
    worker_t workers[4];

    open_vmm(_i);
    for (unsigned i = 0; i < 4; i++) {
        workers[i].seed       = i + 1;
        workers[i].has_fences = _i == GPU;
        test_thread(work, &workers[i]);
    }
    test_join(4);
    if (_i == HOST) {
        ck_assert_uint_eq(held(), 0);
    }
    /* A thread's stack may use addresses that were reserved before. */
    destroy();
}
