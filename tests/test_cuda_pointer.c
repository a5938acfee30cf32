/* How the CUDA driver classifies addresses. */
#include "base/config.h"
#include "copy/engine.h"
#include "cuda_fixture.h"
#include "test.h"
#include "mem/cuda_device.h"
#include "mem/readable.h"
#include "mem/region.h"

#include <ucxpool/ucxpool.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NUM_REGIONS 2u
#define REGION_SIZE ((size_t)2 << 20)

static const mem_cuda_driver_t *driver;
static mem_regions_t            allocated, virtual, pinned, second;
static char                    *pageable;

static void init(mem_regions_t *regions, const mem_kind_t *kind, int device)
{
    assert_ok(mem_regions_init(regions, kind, device, NUM_REGIONS, REGION_SIZE,
                               BASE_SWITCH_NO));
}

static void setup(void)
{
    cuda_start("devices=2");
    assert_ok(mem_cuda_driver_get(&driver));
    init(&allocated, &mem_kind_cuda_alloc, 0);
    init(&virtual, &mem_kind_cuda_vmm, 0);
    init(&pinned, &mem_kind_cuda_host, 0);
    if (cuda_num_devices() > 1) {
        init(&second, &mem_kind_cuda_alloc, 1);
    }
    pageable = calloc(1, REGION_SIZE);
}

static void teardown(void)
{
    mem_regions_cleanup(&allocated);
    mem_regions_cleanup(&virtual);
    mem_regions_cleanup(&pinned);
    mem_regions_cleanup(&second);
    free(pageable);
}

static uint64_t address_in(const void *memory, size_t offset)
{
    return (uint64_t)(uintptr_t)memory + offset;
}

static copy_pointer_t query(const void *memory, size_t offset)
{
    copy_pointer_t pointer;
    uint64_t       address = address_in(memory, offset);

    assert_ok(copy_pointer_query(driver, address, &pointer));
    if (pointer.size != 0) {
        ck_assert_uint_lt(address - pointer.start, pointer.size);
    }
    return pointer;
}

TEST_SETTINGS(.setup = setup, .teardown = teardown, .only_if = cuda_is_present);

TEST(gpu_memory_is_recognized)
{
    copy_pointer_t pointer = query(allocated.address, 12345);

    ck_assert_int_eq(pointer.place, COPY_MEMTYPE_DEVICE);
    ck_assert_int_eq(pointer.device, 0);
    ck_assert_uint_eq(pointer.start, (uintptr_t)allocated.address);
    ck_assert_uint_ge(pointer.size, NUM_REGIONS * REGION_SIZE);

    pointer = query(virtual.address, REGION_SIZE + 5);
    ck_assert_int_eq(pointer.place, COPY_MEMTYPE_DEVICE);
    ck_assert_int_eq(pointer.device, 0);
    ck_assert_uint_eq(pointer.start, (uintptr_t) virtual.address);
    ck_assert_uint_eq(pointer.size, NUM_REGIONS * REGION_SIZE);
}

TEST(pinned_memory_is_recognized)
{
    copy_pointer_t pointer = query(pinned.address, REGION_SIZE + 1);

    ck_assert_int_eq(pointer.place, COPY_MEMTYPE_PINNED);
    ck_assert_int_eq(pointer.device, -1);
}

TEST(other_memory_is_pageable)
{
    copy_pointer_t pointer = query(pageable, 77);

    ck_assert_int_eq(pointer.place, COPY_MEMTYPE_PAGEABLE);
    ck_assert_int_eq(pointer.device, -1);
    ck_assert_int_eq(query(NULL, 0).place, COPY_MEMTYPE_PAGEABLE);
}

TEST(freed_memory_is_pageable)
{
    void *address = allocated.address;

    mem_regions_cleanup(&allocated);
    ck_assert_int_eq(query(address, 0).place, COPY_MEMTYPE_PAGEABLE);
}

static ucxpool_status_t find_types(const copy_segment_t *segments, size_t num,
                                   copy_memtypes_t *found_p)
{
    copy_memory_t memory =
        copy_memory_of_segments((const ucxpool_segment_t *)segments, num);

    return copy_memtypes_query(driver, &memory, found_p);
}

static copy_memtypes_t types_of(const copy_segment_t *segments, size_t num)
{
    copy_memtypes_t found;

    memset(&found, 0xff, sizeof(found));
    assert_ok(find_types(segments, num, &found));
    return found;
}

TEST(segments_of_one_allocation_need_one_query)
{
    enum { NUM = 1000 };
    copy_segment_t  segments[NUM];
    copy_memtypes_t found;

    for (size_t i = 0; i < NUM; i++) {
        segments[i] = (copy_segment_t){
            address_in(allocated.address, (i * 397 % NUM) * 4096), 4096};
    }
    found = types_of(segments, NUM);
    ck_assert_uint_eq(found.types, COPY_MEMTYPE_DEVICE);
    ck_assert_int_eq(found.device, 0);
    ck_assert_uint_eq(found.num_questions, 1);
}

TEST(pieces_are_classified_like_segments)
{
    void *const     pieces[] = {(char *)allocated.address + 5, pinned.address,
                                (char *)pinned.address + REGION_SIZE,
                                (char *)allocated.address + REGION_SIZE, NULL};
    copy_memory_t   memory   = copy_memory_of_pieces(pieces, 4, 100);
    copy_memtypes_t found;

    assert_ok(copy_memtypes_query(driver, &memory, &found));
    ck_assert_uint_eq(found.types, COPY_MEMTYPE_PINNED | COPY_MEMTYPE_DEVICE);
    ck_assert_int_eq(found.device, 0);
    ck_assert_uint_eq(found.num_questions, 2);
    memory.num = 5;
    assert_error(copy_memtypes_query(driver, &memory, &found), INVALID_PARAM);
    memory.length = 0;
    assert_ok(copy_memtypes_query(driver, &memory, &found));
    ck_assert_uint_eq(found.types, 0);
}

TEST(mixed_list_reports_every_kind)
{
    const copy_segment_t segments[] = {
        {address_in(pinned.address, 10), 100},
        {address_in(virtual.address, 0), 2 * REGION_SIZE},
        {0, 0},
        {address_in(pageable, 0), 50},
        {address_in(allocated.address, 1), 1},
    };
    copy_memtypes_t found = types_of(segments, 5);

    ck_assert_uint_eq(found.types, COPY_MEMTYPE_PINNED | COPY_MEMTYPE_DEVICE |
                                       COPY_MEMTYPE_PAGEABLE);
    ck_assert_int_eq(found.device, 0);
    found = types_of(segments, 1);
    ck_assert_uint_eq(found.types, COPY_MEMTYPE_PINNED);
    ck_assert_int_eq(found.device, -1);
    found = types_of(segments + 2, 1);
    ck_assert_uint_eq(found.types, 0);
    ck_assert_uint_eq(found.num_questions, 0);
    found = types_of(NULL, 0);
    ck_assert_uint_eq(found.types, 0);
}

/* One query if the kernel reports mappings, otherwise one for each segment. */
TEST(many_segments_of_one_mapping_need_few_queries)
{
    enum { NUM = 300, LENGTH = 4096 };
    char *memory = mmap(NULL, (NUM + 2) * LENGTH, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    copy_segment_t  segments[NUM];
    copy_memtypes_t found;
    mem_span_t      mapping;

    ck_assert_ptr_ne(memory, MAP_FAILED);
    /* Another mapping directly after this one. */
    ck_assert_int_eq(mprotect(memory + (NUM + 1) * LENGTH, LENGTH, PROT_NONE),
                     0);
    for (size_t i = 0; i < NUM; i++) {
        segments[i] = (copy_segment_t){
            address_in(memory, (i * 397 % NUM) * LENGTH), LENGTH};
    }
    found = types_of(segments, NUM);
    ck_assert_uint_eq(found.types, COPY_MEMTYPE_PAGEABLE);
    ck_assert_int_eq(found.device, -1);
    ck_assert_uint_eq(found.num_questions,
                      mem_find_anonymous((uintptr_t)memory, &mapping) ? 16
                                                                      : NUM);
    segments[NUM - 1].length = (NUM + 1) * LENGTH;
    assert_error_detail(find_types(segments, NUM, &found), INVALID_PARAM,
                        "segment 299 (");
    segments[NUM - 1] =
        (copy_segment_t){address_in(allocated.address, 0), LENGTH};
    ck_assert_uint_eq(types_of(segments, NUM).types,
                      COPY_MEMTYPE_PAGEABLE | COPY_MEMTYPE_DEVICE);
    munmap(memory, (NUM + 2) * LENGTH);
}

TEST(segment_beyond_its_allocation_is_detected)
{
    const copy_segment_t segment = {
        address_in(allocated.address, NUM_REGIONS * REGION_SIZE - 1),
        (uint64_t)1 << 40};

    copy_memtypes_t found;

    assert_error_detail(find_types(&segment, 1, &found), INVALID_PARAM,
                        "segment 0");
}

TEST(two_gpus_are_distinguished)
{
    const copy_segment_t segments[] = {
        {address_in(allocated.address, 0), 1},
        {address_in(second.address, 0), 1},
    };

    if (cuda_num_devices() < 2) {
        return;
    }
    ck_assert_int_eq(types_of(segments, 2).device, -2);
    ck_assert_int_eq(types_of(segments + 1, 1).device, 1);
}

STAND_IN_TEST(driver_error_is_reported)
{
    const copy_segment_t segments[] = {
        {address_in(allocated.address, 0), 1},
        {address_in(pinned.address, 0), 1},
    };
    copy_memtypes_t found;

    for (unsigned n = 1; n <= 2; n++) {
        stand_in.fail_call("cuPointerGetAttributes", n, CUDA_ERROR_UNKNOWN);
        assert_error(find_types(segments, 2, &found), IO);
    }
    ck_assert_uint_eq(types_of(segments, 2).num_questions, 2);
}
