/* The test double of virtual memory must detect every violation of the
 * contract. */
#include "test.h"
#include "vmm_double.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define PAGE MEM_VMM_PAGE_SIZE

static mem_vmm_t *vmm;
static char      *home;     /* a range of eight pages */
static char       names[2]; /* their addresses stand for streams */

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

TEST_SETTINGS(.setup = setup);

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
