/* The test double of virtual memory must detect every violation of the
 * contract. */
#include <config.h>

#include "test.h"
#include "vmm_double.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define PAGE MEM_VMM_PAGE_SIZE

static mem_vmm_t *vmm;
static char      *home;     /* a range of eight pages */
static char       names[4]; /* their addresses stand for streams */

#define STREAM(_i) ((void *)&names[_i])

static char *reserve(size_t num)
{
    void *address = NULL;

    assert_ok(vmm->calls->reserve(vmm, num * PAGE, PAGE, &address));
    return address;
}

static void finish(void)
{
    vmm->calls->release(vmm, home, 8 * PAGE);
    vmm->calls->destroy(vmm);
}

static void setup(void)
{
    vmm  = vmm_double_create_host(true);
    home = reserve(8);
    test_at_end(finish);
}

static mem_chunk_t chunk_create(size_t num)
{
    mem_chunk_t chunk = 0;

    assert_ok(vmm->calls->chunk_create(vmm, num * PAGE, &chunk));
    return chunk;
}

static void map(char *address, mem_chunk_t chunk, size_t num)
{
    assert_ok(vmm->calls->map(vmm, address, chunk, num * PAGE));
}

static void allow(char *address, size_t num)
{
    assert_ok(vmm->calls->allow(vmm, address, num * PAGE));
}

static void unmap(char *address, size_t num)
{
    assert_ok(vmm->calls->unmap(vmm, address, num * PAGE));
}

static mem_chunk_t made(size_t page, size_t num)
{
    mem_chunk_t chunk = chunk_create(num);

    map(home + page * PAGE, chunk, num);
    allow(home + page * PAGE, num);
    return chunk;
}

static void gone(size_t page, mem_chunk_t chunk, size_t num)
{
    unmap(home + page * PAGE, num);
    vmm->calls->chunk_destroy(vmm, chunk, num * PAGE);
}

static mem_fence_t *fence_set(void *stream)
{
    mem_fence_t *fence = NULL;

    assert_ok(vmm->calls->fence_set(vmm, stream, &fence));
    return fence;
}

static bool is_reached(mem_fence_t *fence)
{
    return vmm->calls->fence_is_reached(vmm, fence);
}

TEST_SETTINGS(.setup = setup);

TEST(use_within_the_contract_passes)
{
    mem_chunk_t a = made(0, 2), b = made(2, 1);

    memset(home, 1, 3 * PAGE);
    map(home + 3 * PAGE, b, 1);
    map(home + 4 * PAGE, a, 2);
    allow(home + 3 * PAGE, 3);
    home[PAGE] = 'x';
    ck_assert_int_eq(home[5 * PAGE], 'x');
    ck_assert(vmm_double_is_same(vmm, home + PAGE + 7, home + 5 * PAGE + 7));
    ck_assert(!vmm_double_is_same(vmm, home + PAGE + 7, home + 5 * PAGE + 8));
    ck_assert_uint_eq(vmm_double_held(vmm), 3 * PAGE);
    ck_assert_uint_eq(vmm_double_mapped(vmm), 6 * PAGE);
    ck_assert_uint_eq(vmm_double_num_chunks(vmm), 2);
    ck_assert_uint_eq(vmm_double_num_mappings(vmm), 4);
    unmap(home + 3 * PAGE, 3);
    gone(0, a, 2);
    gone(2, b, 1);
    ck_assert_uint_eq(vmm_double_held(vmm), 0);
}

/* Each violation aborts the process. If it is not detected, the process exits
 * before finish(), which would abort because of what the test left. */
#define VIOLATION(_name, ...) \
    TEST_WITH(_name, .end = 1, .signal = SIGABRT) \
    { \
        (__VA_ARGS__); \
        _exit(0); \
    } \
    struct test

static void destroy(mem_chunk_t chunk, size_t num)
{
    vmm->calls->chunk_destroy(vmm, chunk, num * PAGE);
}

static void release(size_t num)
{
    vmm->calls->release(vmm, home, num * PAGE);
}

/* Use memory in a stream. */
static void use(int stream, char *address, size_t size)
{
    vmm_double_post(vmm, STREAM(stream), address, size, NULL, NULL);
}

static mem_chunk_t  kept;
static mem_fence_t *early;
static void        *nowhere;

VIOLATION(map_of_no_chunk, map(home, 77, 1));
VIOLATION(map_of_a_part, map(home, chunk_create(2), 1));
VIOLATION(map_of_a_destroyed_chunk, kept = made(0, 1), gone(0, kept, 1),
          map(home, kept, 1));
VIOLATION(map_outside, map(home + 7 * PAGE, chunk_create(2), 2));
VIOLATION(map_unaligned, map(home + 4096, chunk_create(1), 1));
VIOLATION(map_onto_a_mapping, made(2, 2),
          map(home + 3 * PAGE, chunk_create(1), 1));
VIOLATION(map_around_a_mapping, made(2, 1),
          map(home + PAGE, chunk_create(3), 3));
VIOLATION(destroy_of_a_mapped_chunk, destroy(made(0, 1), 1));
VIOLATION(destroy_twice, kept = chunk_create(1), destroy(kept, 1),
          destroy(kept, 1));
VIOLATION(destroy_of_another_size, destroy(chunk_create(2), 1));
VIOLATION(unmap_of_a_part, made(0, 2), unmap(home, 1));
VIOLATION(unmap_of_more, made(0, 2), unmap(home, 3));
VIOLATION(unmap_of_a_gap, made(0, 1), made(2, 1), unmap(home, 3));
VIOLATION(unmap_of_nothing, unmap(home, 1));
VIOLATION(allow_of_nothing, allow(home, 1));
VIOLATION(release_of_a_mapped_range, made(7, 1), release(8));
VIOLATION(release_of_a_part, release(7));
VIOLATION(chunk_of_partial_pages,
          vmm->calls->chunk_create(vmm, PAGE / 2, &kept));
VIOLATION(range_of_partial_pages,
          vmm->calls->reserve(vmm, PAGE + 4096, PAGE, &nowhere));
VIOLATION(alignment_of_no_power,
          vmm->calls->reserve(vmm, PAGE, 3 * PAGE, &nowhere));
VIOLATION(a_range_left, vmm->calls->destroy(vmm));
VIOLATION(a_chunk_left, chunk_create(1), finish());
VIOLATION(a_fence_left, fence_set(NULL), finish());
VIOLATION(use_of_nothing, use(0, home, 1));
VIOLATION(use_beyond_the_end, made(0, 1), use(0, home + PAGE - 1, 2));
VIOLATION(use_without_access, map(home, chunk_create(1), 1), use(0, home, 1));
VIOLATION(use_in_two_streams, made(0, 1), use(0, home, 10),
          use(1, home + 9, 1));
/* The work happens to be done, but no call has confirmed it. */
VIOLATION(use_after_an_unobserved_use, made(0, 1), use(0, home, 10),
          vmm_double_run_all(vmm), use(1, home, 10));
VIOLATION(use_through_two_mappings, map(home + PAGE, made(0, 1), 1),
          allow(home + PAGE, 1), use(0, home, 10), use(1, home + PAGE, 10));
/* The fence precedes the second use. */
VIOLATION(use_behind_a_fence_that_is_too_early, made(0, 1), use(0, home, 10),
          early = fence_set(STREAM(0)), use(0, home, 10),
          vmm->calls->fence_wait(vmm, early, STREAM(1)), use(1, home, 10));
VIOLATION(unmap_of_a_range_in_use, made(0, 1), use(0, home, 10),
          unmap(home, 1));

TEST_WITH(memory_without_permission_cannot_be_accessed, .end = 1,
          .signal = SIGSEGV)
{
    map(home, chunk_create(1), 1);
    /* A sanitizer would handle the signal. */
    signal(SIGSEGV, SIG_DFL);
    *(volatile char *)home = 1;
}

TEST_WITH(host_memory_has_no_fences, .end = 1, .signal = SIGABRT)
{
    mem_vmm_t   *host = vmm_double_create_host(false);
    mem_fence_t *fence;

    ck_assert(host->is_host);
    host->calls->fence_set(host, NULL, &fence);
}

TEST(a_stopped_stream_runs_only_after_it_is_started)
{
    mem_chunk_t  chunk = made(0, 1);
    mem_fence_t *fence;

    ck_assert(!vmm->is_host);
    use(0, home, 10);
    use(0, home, 10);
    fence = fence_set(STREAM(0));
    ck_assert_uint_eq(vmm_double_num_fences(vmm), 1);
    ck_assert(!is_reached(fence));
    ck_assert_uint_eq(vmm_double_run(vmm, STREAM(0), 1), 1);
    ck_assert(!is_reached(fence));
    ck_assert_uint_eq(vmm_double_run(vmm, STREAM(0), 5), 1);
    ck_assert(is_reached(fence));
    /* The end has been observed, so another stream may use it. */
    use(1, home, 10);
    vmm_double_sync(vmm, STREAM(1));
    vmm->calls->fence_put(vmm, fence);
    gone(0, chunk, 1);
}

static void note(void *arg)
{
    char **end = arg;

    *(*end)++ = 'x';
}

TEST(work_is_done_in_stream_order)
{
    mem_chunk_t chunk   = made(0, 1);
    char        text[3] = "";
    char       *end     = text;

    vmm_double_post(vmm, STREAM(0), home, 10, note, &end);
    vmm_double_post(vmm, STREAM(0), home, 10, note, &end);
    ck_assert_str_eq(text, "");
    ck_assert_uint_eq(vmm_double_run(vmm, STREAM(0), 1), 1);
    ck_assert_str_eq(text, "x");
    vmm_double_sync(vmm, STREAM(0));
    ck_assert_str_eq(text, "xx");
    gone(0, chunk, 1);
}

TEST(a_waiting_stream_continues_after_the_other)
{
    mem_chunk_t  chunk = made(0, 1);
    mem_fence_t *fence, *behind;

    use(0, home, 10);
    fence = fence_set(STREAM(0));
    assert_ok(vmm->calls->fence_wait(vmm, fence, STREAM(1)));
    vmm->calls->fence_put(vmm, fence);
    use(1, home, 10);
    behind = fence_set(STREAM(1));
    ck_assert_uint_eq(vmm_double_run(vmm, STREAM(1), 9), 0);
    ck_assert_uint_eq(vmm_double_run(vmm, STREAM(0), 9), 1);
    ck_assert(!is_reached(behind));
    ck_assert_uint_eq(vmm_double_run(vmm, STREAM(1), 9), 2);
    ck_assert(is_reached(behind));
    vmm->calls->fence_put(vmm, behind);
    gone(0, chunk, 1);
}

/* Work after a fence in the second stream also follows the work that this
 * stream waited for. */
TEST(order_is_transitive_across_streams)
{
    mem_chunk_t  chunk = made(0, 1);
    mem_fence_t *fence;

    use(0, home, 10);
    for (int i = 1; i < 4; i++) {
        fence = fence_set(STREAM(i - 1));
        assert_ok(vmm->calls->fence_wait(vmm, fence, STREAM(i)));
        vmm->calls->fence_put(vmm, fence);
    }
    use(3, home, 10);
    fence = fence_set(STREAM(3));
    assert_ok(vmm->calls->fence_sync(vmm, fence));
    ck_assert(is_reached(fence));
    vmm->calls->fence_put(vmm, fence);
    gone(0, chunk, 1);
}

TEST(streams_that_use_different_bytes_do_not_conflict)
{
    mem_chunk_t chunk = made(0, 2);

    for (int i = 0; i < 100; i++) {
        use(0, home, PAGE);
        use(1, home + PAGE, PAGE);
    }
    vmm_double_run_all(vmm);
    vmm_double_sync(vmm, STREAM(0));
    vmm_double_sync(vmm, STREAM(1));
    gone(0, chunk, 2);
}

/* Calls every function once. Returns the status of the one that failed. */
static ucxpool_status_t call_all(void)
{
    const mem_vmm_calls_t *calls = vmm->calls;
    mem_chunk_t            chunk;
    mem_fence_t           *fence;
    uint64_t               total, free_size;
    void                  *address;
    ucxpool_status_t       status, other;

    status = calls->reserve(vmm, PAGE, PAGE, &address);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = calls->chunk_create(vmm, PAGE, &chunk);
    if (status != UCXPOOL_OK) {
        goto err_release;
    }
    status = calls->map(vmm, address, chunk, PAGE);
    if (status != UCXPOOL_OK) {
        goto err_destroy;
    }
    status = calls->allow(vmm, address, PAGE);
    other  = calls->fence_set(vmm, NULL, &fence);
    if (other == UCXPOOL_OK) {
        if (!calls->fence_is_reached(vmm, fence)) {
            status = UCXPOOL_INPROGRESS;
        }
        other = calls->fence_wait(vmm, fence, STREAM(0));
        if (other == UCXPOOL_OK) {
            other = calls->fence_sync(vmm, fence);
        }
        calls->fence_put(vmm, fence);
    }
    status = status == UCXPOOL_OK ? other : status;
    other  = calls->sizes(vmm, &total, &free_size);
    status = status == UCXPOOL_OK ? other : status;
    while (calls->unmap(vmm, address, PAGE) != UCXPOOL_OK) {
        status = UCXPOOL_ERR_IO;
    }
err_destroy:
    calls->chunk_destroy(vmm, chunk, PAGE);
err_release:
    calls->release(vmm, address, PAGE);
    return status;
}

TEST(every_call_that_can_fail_fails_on_request)
{
    for (unsigned n = 1; n <= VMM_CAN_FAIL; n++) {
        vmm_double_fail(vmm, VMM_LAST, n, UCXPOOL_ERR_IO);
        ck_assert_int_ne(call_all(), UCXPOOL_OK);
        ck_assert(vmm_double_has_failed(vmm));
        ck_assert_uint_eq(vmm_double_num_chunks(vmm), 0);
    }
    for (vmm_call_t call = 0; call < VMM_CAN_FAIL; call++) {
        vmm_double_fail(vmm, call, 1, UCXPOOL_ERR_IO);
        ck_assert_int_ne(call_all(), UCXPOOL_OK);
        ck_assert_uint_ge(vmm_double_count(vmm, call), 1);
    }
    vmm_double_fail(vmm, VMM_LAST, 0, UCXPOOL_OK);
    assert_ok(call_all());
    ck_assert(!vmm_double_has_failed(vmm));
    ck_assert_uint_eq(vmm_double_count(vmm, VMM_LAST), VMM_LAST);
}

TEST(memory_is_limited_to_the_requested_size)
{
    mem_chunk_t chunk, none;
    uint64_t    total, free_size;

    vmm_double_limit(vmm, 3 * PAGE);
    chunk = chunk_create(2);
    assert_ok(vmm->calls->sizes(vmm, &total, &free_size));
    ck_assert_uint_eq(total, 3 * PAGE);
    ck_assert_uint_eq(free_size, PAGE);
    assert_error(vmm->calls->chunk_create(vmm, 2 * PAGE, &none), NO_MEMORY);
    destroy(chunk, 2);
    chunk = chunk_create(3);
    destroy(chunk, 3);
}
