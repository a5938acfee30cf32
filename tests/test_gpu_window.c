/*
 * Windows between pools on GPUs in two processes: the child owns, the parent
 * reads and writes.
 */
#include "test.h"
#include "two_gpu.h"

#include "base/config.h"
#include "base/math.h"
#include "forbid.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE ((size_t)6 << 20)
#define MAX  ((size_t)4000)

#define REGION ((size_t)2 << 20)

/* With VIRTUAL, the window begins in the middle of an allocation. PRIVATE has
 * no file handles, and POOL is from a memory pool of the driver. */
typedef enum where {
    ON_GPU,
    PINNED,
    PAGEABLE,
    VIRTUAL,
    PRIVATE,
    HEAP,
    POOL
} where_t;

static const struct {
    const char   *settings;
    where_t       window; /* the owner's memory */
    where_t       ours;   /* the importer's */
    ucxpool_way_t way;
    bool          is_forbidden; /* to take descriptors: peers request them */
} kinds[] = {
    {"CUDA_BACKING=alloc WIRE=map", ON_GPU, ON_GPU, UCXPOOL_WAY_CUDA, false},
    {"CUDA_BACKING=vmm WIRE=map", ON_GPU, ON_GPU, UCXPOOL_WAY_CUDA, false},
    {"CUDA_BACKING=alloc WIRE=map", ON_GPU, PINNED, UCXPOOL_WAY_CUDA, false},
    {"CUDA_BACKING=alloc WIRE=map", ON_GPU, PAGEABLE, UCXPOOL_WAY_CUDA, false},
    {"CUDA_BACKING=alloc WIRE=map", VIRTUAL, ON_GPU, UCXPOOL_WAY_CUDA, false},
    {"CUDA_BACKING=vmm WIRE=map", VIRTUAL, VIRTUAL, UCXPOOL_WAY_CUDA, false},
    {"CUDA_BACKING=vmm WIRE=map", HEAP, ON_GPU, UCXPOOL_WAY_CUDA, false},
    {"CUDA_BACKING=vmm WIRE=map", VIRTUAL, ON_GPU, UCXPOOL_WAY_CUDA, true},
    {"CUDA_BACKING=alloc WIRE=map", POOL, ON_GPU, UCXPOOL_WAY_MESSAGES, false},
    {"CUDA_BACKING=vmm WIRE=map", POOL, POOL, UCXPOOL_WAY_MESSAGES, false},
    {"CUDA_BACKING=alloc WIRE=ucx", POOL, ON_GPU, UCXPOOL_WAY_MESSAGES, false},
    {"CUDA_BACKING=vmm WIRE=map", PRIVATE, ON_GPU, UCXPOOL_WAY_MESSAGES, false},
    {"CUDA_BACKING=vmm WIRE=ucx", VIRTUAL, ON_GPU, UCXPOOL_WAY_MESSAGES, false},
    {"CUDA_BACKING=alloc WIRE=map", PINNED, ON_GPU, UCXPOOL_WAY_MESSAGES,
     false},
    {"CUDA_BACKING=alloc WIRE=map", PAGEABLE, ON_GPU, UCXPOOL_WAY_MESSAGES,
     false},
    {"CUDA_BACKING=alloc WIRE=map MAP_WAY=host", ON_GPU, ON_GPU,
     UCXPOOL_WAY_MESSAGES, false},
    {"CUDA_BACKING=alloc WIRE=map WINDOW_WAY=messages", ON_GPU, ON_GPU,
     UCXPOOL_WAY_MESSAGES, false},
    {"CUDA_BACKING=alloc WIRE=ucx", ON_GPU, ON_GPU, UCXPOOL_WAY_MESSAGES,
     false},
};
#define NUM_KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

static two_t                    two;
static ucxpool_window_t        *window;
static ucxpool_remote_window_t *remote;

static mem_regions_t range;

static uint8_t *virtual_get(size_t size)
{
    unsigned num = (unsigned)((size + REGION / 2 + REGION - 1) / REGION);

    two_ok(mem_regions_init(&range, &mem_kind_cuda_vmm, gpu->ordinal, num,
                            REGION, BASE_SWITCH_NO));
    return (uint8_t *)range.address + REGION / 2;
}

/* One allocation, which the driver does not export. */
static uint8_t *private_get(size_t size)
{
    const mem_cuda_driver_t *driver = gpu->driver;
    CUmemAllocationProp      prop   = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUmemAccessDesc desc = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle  = 0;
    CUdeviceptr                  address = 0;

    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id   = gpu->device;
    desc.location      = prop.location;
    two_ok(mem_cuda_device_enter(gpu));
    two_check(driver->cuMemAddressReserve(&address, size, 0, 0, 0) ==
              CUDA_SUCCESS);
    two_check(driver->cuMemCreate(&handle, size, &prop, 0) == CUDA_SUCCESS);
    two_check(driver->cuMemMap(address, size, 0, handle, 0) == CUDA_SUCCESS);
    two_check(driver->cuMemRelease(handle) == CUDA_SUCCESS);
    two_check(driver->cuMemSetAccess(address, size, &desc, 1) == CUDA_SUCCESS);
    mem_cuda_device_leave(gpu);
    return (uint8_t *)(uintptr_t)address;
}

static void private_put(uint8_t *memory, size_t size)
{
    const CUdeviceptr address = (CUdeviceptr)(uintptr_t)memory;

    two_ok(mem_cuda_device_enter(gpu));
    two_check(gpu->driver->cuMemUnmap(address, size) == CUDA_SUCCESS);
    two_check(gpu->driver->cuMemAddressFree(address, size) == CUDA_SUCCESS);
    mem_cuda_device_leave(gpu);
}

static uint8_t *heap_get(size_t size)
{
    void *memory;

    two_ok(ucxpool_heap_alloc(two.pool, size, NULL, &memory));
    return memory;
}

static uint8_t *get_memory(where_t where, size_t size)
{
    switch (where) {
    case ON_GPU:
        return gpu_alloc(size);
    case PINNED:
        return gpu_pinned(size);
    case VIRTUAL:
        return virtual_get(size);
    case PRIVATE:
        return private_get(size);
    case HEAP:
        return heap_get(size);
    case POOL:
        return gpu_mempool_alloc(size);
    default:
        return malloc(size);
    }
}

static void free_memory(where_t where, uint8_t *memory, size_t size)
{
    switch (where) {
    case ON_GPU:
        gpu_free(memory);
        break;
    case PINNED:
        gpu_pinned_free(memory);
        break;
    case VIRTUAL:
        mem_regions_cleanup(&range);
        break;
    case PRIVATE:
        private_put(memory, size);
        break;
    case HEAP:
        two_ok(ucxpool_heap_free(two.pool, memory, NULL));
        break;
    case POOL:
        gpu_mempool_free(memory);
        break;
    default:
        free(memory);
        break;
    }
}

static bool is_on_host(where_t where)
{
    return (where == PINNED) || (where == PAGEABLE);
}

static void put(where_t where, uint8_t *target, const uint8_t *bytes,
                size_t size)
{
    if (is_on_host(where)) {
        memcpy(target, bytes, size);
    } else {
        gpu_write(target, bytes, size);
    }
}

static void get(where_t where, uint8_t *bytes, const uint8_t *source,
                size_t size)
{
    if (is_on_host(where)) {
        memcpy(bytes, source, size);
    } else {
        gpu_read(bytes, source, size);
    }
}

/* --- the owner ------------------------------------------------------------ */

static void own(int kind)
{
    where_t  where  = kinds[kind].window;
    uint8_t *memory = get_memory(where, SIZE);
    uint8_t *bytes  = test_alloc(SIZE);

    pair_fill_with(bytes, SIZE, 1);
    put(where, memory, bytes, SIZE);
    two_ok(ucxpool_window_create(two.pool, memory, SIZE, NULL, &window));
    two_export(&two, window);
    two_hear(&two);
    /* The importer has written the expected content. */
    two_recv(&two, bytes, SIZE);
    pair_destroy_window(window);
    for (size_t i = 0; i < SIZE; i += SIZE / 2) {
        static uint8_t half[SIZE / 2];

        get(where, half, memory + i, SIZE / 2);
        two_check(memcmp(half, bytes + i, SIZE / 2) == 0);
    }
    free_memory(where, memory, SIZE);
}

/* --- the importer --------------------------------------------------------- */

static ucxpool_place_t   places[MAX];
static ucxpool_segment_t segments[MAX * 3];

/* Places in random order, of at most `longest` bytes. */
static size_t make_places(size_t num, size_t longest)
{
    size_t room   = SIZE / num;
    size_t length = 0;

    for (size_t i = 0; i < num; i++) {
        size_t slot = (i * 7919) % num;

        places[i].length = 1 + (size_t)rand() % base_min(longest, room - 1);
        places[i].offset =
            slot * room + (size_t)rand() % (room - places[i].length);
        length += places[i].length;
    }
    return length;
}

/* All of it in one piece, or split differently from the places. */
static size_t cut(uint8_t *memory, size_t length, size_t longest)
{
    size_t num = 0;

    while (length != 0) {
        size_t part = 1 + (size_t)rand() % longest;

        part            = base_min(part, length);
        part            = (num + 1 == MAX * 3) ? length : part;
        segments[num++] = (ucxpool_segment_t){memory, part};
        memory += part;
        length -= part;
    }
    return num;
}

static void operate(bool is_write, size_t num_places, size_t num_segments)
{
    ucxpool_places_t   list = ucxpool_places(places, num_places);
    ucxpool_data_t     data = ucxpool_data_segments(segments, num_segments);
    ucxpool_request_t *request;

    two_ok(
        is_write
            ? ucxpool_remote_window_write(remote, &list, &data, NULL, &request)
            : ucxpool_remote_window_read(remote, &list, &data, NULL, &request));
    two_ok(ucxpool_request_wait(request, UCXPOOL_FOREVER));
    ucxpool_request_release(request);
}

/* Over the `ucx` wire, a UCX with CUDA may access the GPU directly. */
static bool is_expected(int kind, ucxpool_way_t way)
{
    return (way == kinds[kind].way) ||
           ((way == UCXPOOL_WAY_RMA) &&
            (strstr(kinds[kind].settings, "WIRE=ucx") != NULL));
}

static void import(int kind)
{
    ucxpool_remote_window_attr_t attr;

    remote = two_import(&two);
    attr   = two_import_ended(&two, remote);
    two_ok(attr.status);
    ck_assert_msg(is_expected(kind, attr.way), "way %d: %s", attr.way,
                  attr.way_reason);
}

/* Read places and compare; write others, and record the expected content. */
static void read_and_write(where_t where, uint8_t *memory, uint8_t *right,
                           size_t num, size_t longest, unsigned seed)
{
    uint8_t *bytes    = test_alloc(SIZE);
    size_t   length   = make_places(num, longest);
    size_t   num_cuts = cut(memory, length, longest * 2);
    size_t   at       = 0;

    operate(false, num, num_cuts);
    get(where, bytes, memory, length);
    for (size_t i = 0; i < num; i++) {
        two_check(memcmp(bytes + at, right + places[i].offset,
                         places[i].length) == 0);
        at += places[i].length;
    }
    pair_fill_with(bytes, length, seed);
    put(where, memory, bytes, length);
    operate(true, num, num_cuts);
    at = 0;
    for (size_t i = 0; i < num; i++) {
        memcpy(right + places[i].offset, bytes + at, places[i].length);
        at += places[i].length;
    }
}

/* --- pieces of one length ------------------------------------------------- */

/* So many that a GPU reads the lists directly. */
#define NUM_EVEN ((size_t)4500)

typedef struct even {
    where_t   where; /* the lists */
    void    **pieces;
    uint64_t *offsets;
    size_t    length;
} even_t;

static void make_even(even_t *even, where_t where, uint8_t *memory,
                      size_t length)
{
    even->where   = where;
    even->length  = length;
    even->pieces  = (void **)(void *)get_memory(where, NUM_EVEN * 8);
    even->offsets = (uint64_t *)(void *)get_memory(where, NUM_EVEN * 8);
    for (size_t i = 0; i < NUM_EVEN; i++) {
        even->pieces[i]  = memory + (i * 7) % NUM_EVEN * length;
        even->offsets[i] = (i * 13) % NUM_EVEN * (SIZE / NUM_EVEN) + i % 3;
    }
}

static void free_even(const even_t *even)
{
    free_memory(even->where, (uint8_t *)even->pieces, NUM_EVEN * 8);
    free_memory(even->where, (uint8_t *)even->offsets, NUM_EVEN * 8);
}

static ucxpool_status_t operate_even(const even_t *even, bool is_write,
                                     char *detail, size_t detail_size)
{
    const ucxpool_request_params_t params = {
        .field_mask    = UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS,
        .segments_kind = UCXPOOL_SEGMENTS_CUDA,
    };
    ucxpool_places_t list =
        ucxpool_places_even(even->offsets, NUM_EVEN, even->length);
    ucxpool_data_t data =
        ucxpool_data_pieces(even->pieces, NUM_EVEN, even->length);
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    two_ok(is_write ? ucxpool_remote_window_write(remote, &list, &data, &params,
                                                  &request)
                    : ucxpool_remote_window_read(remote, &list, &data, &params,
                                                 &request));
    status = ucxpool_request_wait(request, UCXPOOL_FOREVER);
    snprintf(detail, detail_size, "%s", ucxpool_error_detail());
    ucxpool_request_release(request);
    return status;
}

static void read_and_write_even(where_t lists, uint8_t *memory, uint8_t *right,
                                size_t length, unsigned seed)
{
    const size_t size  = NUM_EVEN * length;
    uint8_t     *bytes = test_alloc(size);
    char         detail[200];
    even_t       even;

    make_even(&even, lists, memory, length);
    two_ok(operate_even(&even, false, detail, sizeof(detail)));
    get(ON_GPU, bytes, memory, size);
    for (size_t i = 0; i < NUM_EVEN; i++) {
        two_check(memcmp(bytes + ((uint8_t *)even.pieces[i] - memory),
                         right + even.offsets[i], length) == 0);
    }
    pair_fill_with(bytes, size, seed);
    put(ON_GPU, memory, bytes, size);
    two_ok(operate_even(&even, true, detail, sizeof(detail)));
    for (size_t i = 0; i < NUM_EVEN; i++) {
        memcpy(right + even.offsets[i],
               bytes + ((uint8_t *)even.pieces[i] - memory), length);
    }
    free_even(&even);
}

/* A piece without an address that was not inspected when it was posted; the
 * error names its number. A read writes only to our own memory. */
static void miss_a_piece(where_t lists, uint8_t *memory)
{
    char   detail[200];
    even_t even;

    make_even(&even, lists, memory, 1000);
    even.pieces[NUM_EVEN - 5] = NULL;
    two_check(operate_even(&even, false, detail, sizeof(detail)) ==
              UCXPOOL_ERR_INVALID_PARAM);
    ck_assert_str_eq(detail, "piece 4495 has no address; set its address");
    free_even(&even);
}

/* The same for a place outside the window: the last one inside, the first one
 * outside, and distant ones. */
static void miss_a_place(uint8_t *memory)
{
    const uint64_t beyond[] = {SIZE - 999, SIZE, UINT64_MAX, 1ull << 63};
    char           detail[200];
    even_t         even;

    make_even(&even, PINNED, memory, 1000);
    even.offsets[NUM_EVEN - 7] = SIZE - 1000;
    two_ok(operate_even(&even, false, detail, sizeof(detail)));
    for (unsigned i = 0; i < 4; i++) {
        even.offsets[NUM_EVEN - 7] = beyond[i];
        two_check(operate_even(&even, false, detail, sizeof(detail)) ==
                  UCXPOOL_ERR_INVALID_PARAM);
        ck_assert_str_eq(detail, "place 4493 is beyond the end of the window");
    }
    free_even(&even);
}

/* And if the CPU reads the list, it is rejected at once. */
static void be_refused(uint8_t *memory)
{
    const ucxpool_request_params_t params = {
        .field_mask    = UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS,
        .segments_kind = UCXPOOL_SEGMENTS_CUDA,
    };
    ucxpool_places_t list;
    ucxpool_data_t   data;
    even_t           even;

    make_even(&even, PAGEABLE, memory, 1000);
    even.offsets[NUM_EVEN - 7] = SIZE - 999;
    list = ucxpool_places_even(even.offsets, NUM_EVEN, 1000);
    data = ucxpool_data_pieces(even.pieces, NUM_EVEN, 1000);
    two_check(ucxpool_remote_window_write(remote, &list, &data, &params,
                                          NULL) == UCXPOOL_ERR_INVALID_PARAM);
    free_even(&even);
    make_even(&even, PINNED, memory, SIZE + 1);
    list = ucxpool_places_even(even.offsets, NUM_EVEN, SIZE + 1);
    data = ucxpool_data_pieces(even.pieces, NUM_EVEN, SIZE + 1);
    two_check(ucxpool_remote_window_write(remote, &list, &data, &params,
                                          NULL) == UCXPOOL_ERR_INVALID_PARAM);
    free_even(&even);
}

/* The reads or writes are counted for this way alone, with the same number for
 * the pool, its channel and the histogram. Over RMA, operations with short
 * pieces would be counted as messages. */
static void check_counts(int kind, const char *verb, const char *operation)
{
    static const char *const ways[] = {
        [UCXPOOL_WAY_MESSAGES] = "messages", [UCXPOOL_WAY_PROCESS] = "process",
        [UCXPOOL_WAY_CUDA] = "cuda",         [UCXPOOL_WAY_MAPPED] = "mapped",
        [UCXPOOL_WAY_RMA] = "rma",
    };
    /* The GPU copies no pageable memory. */
    const ucxpool_way_t way =
        (kinds[kind].ours == PAGEABLE) ? UCXPOOL_WAY_MESSAGES : kinds[kind].way;
    uint64_t num = 0;
    char     name[64];

    for (int i = UCXPOOL_WAY_MESSAGES; i <= UCXPOOL_WAY_RMA; i++) {
        uint64_t count;

        snprintf(name, sizeof(name), "%s_%s_operations", verb, ways[i]);
        count = two_count(&two, name);
        two_check((count != 0) == (i == (int)way));
        two_check(two_count_of_channel(&two, name) == count);
        num += count;
    }
    snprintf(name, sizeof(name), "%s_%s_%s", operation,
             strstr(kinds[kind].settings, "WIRE=ucx") ? "ucx" : "map",
             ways[way]);
    two_check(two_count_of_histogram(&two, name) == num);
}

static void use(int kind)
{
    where_t                      where  = kinds[kind].ours;
    uint8_t                     *memory = get_memory(where, SIZE);
    uint8_t                     *right  = test_alloc(SIZE);
    ucxpool_remote_window_attr_t attr;

    import(kind);
    pair_fill_with(right, SIZE, 1);
    read_and_write(where, memory, right, 1, SIZE - 1, 2);
    read_and_write(where, memory, right, 3, 1 << 20, 3);
    read_and_write(where, memory, right, 100, 50000, 4);
    read_and_write(where, memory, right, MAX, 256, 5);
    read_and_write(where, memory, right, MAX, 1500, 6);
    if (where == ON_GPU) {
        read_and_write_even(PINNED, memory, right, 1111, 7);
        read_and_write_even(PINNED, memory, right, 16, 8);
        read_and_write_even(PAGEABLE, memory, right, 1200, 9);
    }
    ucxpool_remote_window_query(remote, &attr, sizeof(attr));
    if (attr.way == kinds[kind].way) {
        check_counts(kind, "read", "read");
        check_counts(kind, "written", "write");
    }
    if ((where == ON_GPU) && (kinds[kind].way == UCXPOOL_WAY_CUDA)) {
        miss_a_piece(PINNED, memory);
        miss_a_piece(PAGEABLE, memory);
        miss_a_place(memory);
        be_refused(memory);
    }
    ucxpool_remote_window_release(remote);
    two_say(&two);
    two_send(&two, right, SIZE);
    /* The owner waits for our message that the window was released. */
    two_hear(&two);
    free_memory(where, memory, SIZE);
}

TEST_SETTINGS(.timeout = 120, .only_if = cuda_is_present);

TEST_EACH(every_byte_can_be_read_and_written, NUM_KINDS)
{
    srand((unsigned)_i + 1);
    if (kinds[_i].is_forbidden) {
        forbid_taking(EPERM, true);
    }
    two_gpu_start(&two, kinds[_i].settings);
    if (two.is_child) {
        own(_i);
        two_say(&two);
    } else {
        use(_i);
    }
    two_gpu_stop(&two);
}
