/*
 * The heap under random work: several streams on memory that tracks its users
 * (vmm_double.h), sizes from one byte to many chunks, limits that are reached,
 * and calls that fail. Live allocations keep their bytes.
 */
#include "heap/heap.h"
#include "rounds.h"
#include "test.h"
#include "vmm_double.h"

#include "core/stats.h"

#include <string.h>

#define MIB         ((uint64_t)1 << 20)
#define MAX_LIVE    300
#define NUM_STREAMS 4

typedef struct live {
    char    *address;
    size_t   size;
    uint64_t pattern;
    void    *stream; /* that may use the memory */
} live_t;

typedef struct world {
    mem_vmm_t *vmm;
    heap_t    *heap;
    live_t     live[MAX_LIVE];
    unsigned   num_live;
    uint64_t   live_size;
    uint64_t   state;
    uint64_t   patterns;
} world_t;

static uint64_t draw(world_t *world, uint64_t below)
{
    world->state ^= world->state << 13;
    world->state ^= world->state >> 7;
    world->state ^= world->state << 17;
    return (world->state >> 11) % below;
}

static void *stream_of(uint64_t number)
{
    return (void *)(uintptr_t)(number * 16);
}

static void start(world_t *world, bool has_streams, uint64_t limit,
                  uint64_t seed)
{
    heap_options_t options = {.limit       = limit,
                              .chunk_size  = 8 * MIB,
                              .alignment   = 256,
                              .stitch_size = 2 * limit};

    memset(world, 0, sizeof(*world));
    world->state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    world->vmm   = vmm_double_create_host(has_streams);
    assert_ok(heap_create(world->vmm, &options, &world->heap));
}

/* The first and the last bytes, and one in each 64 KiB. */
static void fill(const live_t *live)
{
    for (size_t at = 0; at < live->size; at += 65536) {
        live->address[at] = (char)(live->pattern + at / 65536);
    }
    live->address[live->size - 1] = (char)live->pattern;
}

static void verify(const live_t *live)
{
    for (size_t at = 0; at + 1 < live->size; at += 65536) {
        ck_assert_int_eq(live->address[at], (char)(live->pattern + at / 65536));
    }
    ck_assert_int_eq(live->address[live->size - 1], (char)live->pattern);
}

/* Few allocations are large, but they have most of the bytes. */
static size_t draw_size(world_t *world)
{
    switch (draw(world, 4)) {
    case 0:
        return 1 + draw(world, 4096);
    case 1:
        return 1 + draw(world, 512 << 10);
    case 2:
        return 1 + draw(world, 6 * MIB);
    default:
        return 1 + draw(world, 40 * MIB);
    }
}

static void post(world_t *world, const live_t *live)
{
    if (!world->vmm->is_host) {
        vmm_double_post(world->vmm, live->stream, live->address, live->size,
                        NULL, NULL);
    }
}

static void add(world_t *world, void *stream)
{
    live_t          *live = &world->live[world->num_live];
    void            *address;
    ucxpool_status_t status;

    live->size    = draw_size(world);
    live->stream  = stream;
    live->pattern = ++world->patterns;
    status        = heap_alloc(world->heap, live->size, stream, &address);
    if (status != UCXPOOL_OK) {
        return;
    }
    ck_assert_uint_eq((uintptr_t)address % 256, 0);
    live->address = address;
    world->num_live++;
    world->live_size += live->size;
    post(world, live);
    if (world->vmm->is_host) {
        fill(live);
    }
}

static void drop(world_t *world)
{
    unsigned number = (unsigned)draw(world, world->num_live);
    live_t  *live   = &world->live[number];

    if (world->vmm->is_host) {
        verify(live);
    }
    post(world, live);
    assert_ok(heap_free(world->heap, live->address, live->stream));
    world->live_size -= live->size;
    *live = world->live[--world->num_live];
}

static void check(world_t *world)
{
    heap_stats_t stats;

    assert_ok(heap_check(world->heap));
    heap_stats(world->heap, &stats);
    ck_assert_uint_eq(stats.asked, world->live_size);
    ck_assert_uint_eq(stats.num_live, world->num_live);
    ck_assert_uint_eq(stats.reserved, vmm_double_held(world->vmm));
    ck_assert_uint_eq(stats.mapped, vmm_double_mapped(world->vmm));
    ck_assert_uint_eq(stats.mappings, vmm_double_num_mappings(world->vmm));
    ck_assert_uint_le(stats.reserved, stats.limit);
    assert_ok(heap_check(world->heap));
}

static void step(world_t *world)
{
    void *stream = stream_of(draw(world, NUM_STREAMS));

    if ((world->num_live == MAX_LIVE) ||
        ((world->num_live > 0) && (draw(world, 100) < 47))) {
        drop(world);
    } else {
        add(world, stream);
    }
    if (!world->vmm->is_host && (draw(world, 3) == 0)) {
        vmm_double_run(world->vmm, stream_of(draw(world, NUM_STREAMS)),
                       (unsigned)draw(world, 8));
    }
    if (draw(world, 100) == 0) {
        /* Live allocations are freed later, in a new stream with the same
         * handle. */
        assert_ok(
            heap_stream_end(world->heap, stream_of(draw(world, NUM_STREAMS))));
    }
    if (draw(world, 400) == 0) {
        assert_ok(heap_trim(world->heap, draw(world, 64 * MIB), NULL));
    }
}

static void finish(world_t *world)
{
    check(world);
    while (world->num_live > 0) {
        drop(world);
    }
    check(world);
    assert_ok(heap_trim(world->heap, 0, NULL));
    ck_assert_uint_eq(vmm_double_held(world->vmm), 0);
    heap_destroy(world->heap);
}

TEST_SETTINGS(.timeout = 120);

static void run_steps(bool has_streams, uint64_t seed)
{
    world_t *world = test_alloc(sizeof(*world));

    start(world, has_streams, 192 * MIB, seed);
    for (unsigned i = 0; i < rounds(3000); i++) {
        step(world);
        if (i % 100 == 0) {
            check(world);
        }
    }
    finish(world);
}

TEST_EACH(live_allocations_keep_their_bytes, 4)
{
    run_steps(false, (uint64_t)_i + 1);
}

TEST_EACH(streams_never_use_the_same_bytes_at_the_same_time, 4)
{
    run_steps(true, (uint64_t)_i + 100);
}

TEST_EACH(failed_call_loses_no_memory, 4)
{
    world_t *world = test_alloc(sizeof(*world));

    start(world, true, 128 * MIB, (uint64_t)_i + 200);
    for (unsigned i = 0; i < rounds(3000); i++) {
        if (i % 5 == 0) {
            vmm_double_fail(world->vmm, VMM_LAST, (unsigned)draw(world, 20) + 1,
                            (i % 2 == 0) ? UCXPOOL_ERR_NO_MEMORY
                                         : UCXPOOL_ERR_IO);
        }
        if (draw(world, 100) < 50) {
            add(world, stream_of(draw(world, NUM_STREAMS)));
        } else if (world->num_live > 0) {
            drop(world);
        }
        if (world->num_live == MAX_LIVE) {
            drop(world);
        }
        if (draw(world, 100) == 0) {
            (void)heap_trim(world->heap, draw(world, 64 * MIB), NULL);
        }
        if (i % 50 == 0) {
            check(world);
        }
    }
    vmm_double_fail(world->vmm, VMM_LAST, 0, UCXPOOL_OK);
    finish(world);
}
