#include "heap_fixture.h"

#include "core/stats.h"

#include <ucxpool/status.h>

#include <check.h>

mem_vmm_t *vmm;
heap_t    *heap;

void start_with(bool has_streams, size_t limit, size_t stitch_size)
{
    heap_options_t options = {.limit       = limit,
                              .chunk_size  = 8 * MIB,
                              .alignment   = 256,
                              .stitch_size = stitch_size};

    vmm = vmm_double_create_host(has_streams);
    ck_assert_int_eq(heap_create(vmm, &options, &heap), UCXPOOL_OK);
}

void stop(void)
{
    ck_assert_int_eq(heap_check(heap), UCXPOOL_OK);
    heap_destroy(heap);
}

char *get(size_t size, void *stream)
{
    void *address = NULL;

    ck_assert_int_eq(heap_alloc(heap, size, stream, &address), UCXPOOL_OK);
    ck_assert_ptr_nonnull(address);
    return address;
}

void put(void *address, void *stream)
{
    ck_assert_int_eq(heap_free(heap, address, stream), UCXPOOL_OK);
}

heap_stats_t stats(void)
{
    heap_stats_t now;

    heap_stats(heap, &now);
    return now;
}
