#include "heap_fixture.h"
#include "test.h"

mem_vmm_t *vmm;
heap_t    *heap;

void start_with(bool has_streams, size_t limit, size_t stitch_size)
{
    heap_options_t options = {.limit       = limit,
                              .chunk_size  = 8 * MIB,
                              .alignment   = 256,
                              .stitch_size = stitch_size};

    vmm = vmm_double_create_host(has_streams);
    assert_ok(heap_create(vmm, &options, &heap));
}

void stop(void)
{
    assert_ok(heap_check(heap));
    heap_destroy(heap);
}

char *get(size_t size, void *stream)
{
    void *address = NULL;

    assert_ok(heap_alloc(heap, size, stream, &address));
    ck_assert_ptr_nonnull(address);
    return address;
}

void put(void *address, void *stream)
{
    assert_ok(heap_free(heap, address, stream));
}

heap_stats_t stats(void)
{
    heap_stats_t now;

    heap_stats(heap, &now);
    return now;
}
