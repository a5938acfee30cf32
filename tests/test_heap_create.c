/*
 * Creation of a heap succeeds or leaves nothing, whichever system call fails.
 * The same holds for the growth of a heap by an allocation.
 */
#include "calls.h"
#include "test.h"
#include "replace.h"
#include "heap/heap.h"

#include "core/stats.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

REPLACE(int, pthread_mutex_init, pthread_mutex_t *mutex,
        const pthread_mutexattr_t *attributes)
{
    return calls_is_due(CALLS_MUTEX_INIT)
               ? ENOMEM
               : __real_pthread_mutex_init(mutex, attributes);
}

static mem_vmm_t     *vmm;
static char           log_path[] = "/tmp/test_heap_create.XXXXXX";
static heap_options_t options    = {.limit       = 64 * MIB,
                                    .chunk_size  = 8 * MIB,
                                    .alignment   = 256,
                                    .stitch_size = 64 * MIB,
                                    .log_path    = log_path};

static void set_up(void)
{
    int fd = mkstemp(log_path);

    ck_assert_int_ge(fd, 0);
    close(fd);
    calls_reset();
    assert_ok(mem_vmm_create_host(&vmm));
}

static void tear_down(void)
{
    calls_reset();
    unlink(log_path);
}

TEST_SETTINGS(.setup = set_up, .teardown = tear_down);

TEST_EACH(failed_create_leaves_nothing, 4)
{
    static const calls_name_t names[] = {CALLS_CALLOC, CALLS_MUTEX_INIT,
                                         CALLS_MMAP, CALLS_FSTAT};

    unsigned num_fds = fds_count();
    size_t   size    = calls_mapped_size();
    heap_t  *heap    = NULL;
    unsigned n       = 0;

    for (;;) {
        ucxpool_status_t status;

        calls_fail(names[_i], ++n, ENOMEM);
        status = heap_create(vmm, &options, &heap);
        if (!calls_has_failed()) {
            assert_ok(status);
            break;
        }
        if (status == UCXPOOL_OK) {
            /* The log can work without its lock. */
            ck_assert_int_eq(names[_i], CALLS_MUTEX_INIT);
            heap_destroy(heap);
            assert_ok(mem_vmm_create_host(&vmm));
        }
        ck_assert_uint_eq(fds_count(), num_fds);
        ck_assert_uint_eq(calls_mapped_size(), size);
    }
    ck_assert_uint_gt(n, 1);
    calls_reset();
    heap_destroy(heap);
}

TEST_EACH(failed_allocation_changes_nothing, 3)
{
    static const size_t sizes[] = {1000, 300000, 20 * MIB};

    heap_stats_t stats;
    heap_t      *heap;
    void        *address;
    unsigned     n = 0;

    assert_ok(heap_create(vmm, &options, &heap));
    for (;;) {
        ucxpool_status_t status;

        calls_fail(CALLS_CALLOC, ++n, ENOMEM);
        status = heap_alloc(heap, sizes[_i], NULL, &address);
        if (!calls_has_failed()) {
            assert_ok(status);
            break;
        }
        calls_reset();
        ck_assert_int_ne(status, UCXPOOL_OK);
        assert_ok(heap_check(heap));
        heap_stats(heap, &stats);
        ck_assert_uint_eq(stats.num_live, 0);
        ck_assert_uint_eq(stats.free, stats.reserved);
    }
    ck_assert_uint_gt(n, 1);
    calls_reset();
    heap_destroy(heap);
}
