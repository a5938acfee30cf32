#include "gpu.h"

#include "base/config.h"
#include "slow.h"
#include "test.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

mem_cuda_device_t *gpu;

/* Regions of a range: several, since one would be a single allocation. */
#define REGION_SIZE ((size_t)2 << 20)

/* Around a call of a function that the library does not use. */
static void enter(void)
{
    assert_ok(mem_cuda_device_enter(gpu));
}

static void leave(CUresult result)
{
    mem_cuda_device_leave(gpu);
    ck_assert_int_eq(result, CUDA_SUCCESS);
}

void gpu_start(const char *configuration)
{
    cuda_start(configuration);
    assert_ok(mem_cuda_device_open(0, &gpu));
}

void gpu_stop(void)
{
    mem_cuda_device_close(gpu);
    gpu = NULL;
    if (!cuda_is_real()) {
        ck_assert_uint_eq(stand_in.live(), 0);
    }
}

bool gpu_step(void)
{
    return !cuda_is_real() && (stand_in.step(1) != 0);
}

ucxpool_status_t gpu_finish(pair_t *pair, ucxpool_request_t *request)
{
    gpu_until(pair, pair_ended(request));
    return pair_finish(pair, request);
}

void gpu_finish_both(pair_t *pair, ucxpool_request_t *one,
                     ucxpool_request_t *other)
{
    assert_ok(gpu_finish(pair, one));
    assert_ok(gpu_finish(pair, other));
}

/* Valgrind does not support pidfd_open(), which a peer needs to take virtual
 * memory. */
static const char *possible(const char *settings, char *text, size_t size)
{
    char *wire;

    if ((settings == NULL) || (RUNNING_ON_VALGRIND == 0)) {
        return settings;
    }
    snprintf(text, size, "%s", settings);
    wire = strstr(text, "WIRE=map");
    if (wire != NULL) {
        memcpy(wire, "WIRE=ucx", strlen("WIRE=ucx"));
    }
    return text;
}

void gpu_connect(pair_t *pair, const char *settings_a, const char *settings_b)
{
    char text[400];

    pair->a = pair_pool_on(0, possible(settings_a, text, sizeof(text)));
    pair->b = pair_pool_on(0, possible(settings_b, text, sizeof(text)));
    pair_connect(pair);
}

void gpu_disconnect(pair_t *pair)
{
    gpu_until(pair, pair_is_whole(pair->a) && pair_is_whole(pair->b));
    pair_check_blocks(pair);
    pair_cleanup(pair);
}

void *gpu_alloc(size_t size)
{
    CUdeviceptr address = 0;

    CUDA_MUST(gpu, cuMemAlloc, &address, size);
    return (void *)(uintptr_t)address;
}

void gpu_free(void *address)
{
    CUDA_MUST(gpu, cuMemFree, (CUdeviceptr)(uintptr_t)address);
}

void *gpu_pinned(size_t size)
{
    void *address = NULL;

    CUDA_MUST(gpu, cuMemHostAlloc, &address, size,
              CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    return address;
}

void gpu_pinned_free(void *address)
{
    CUDA_MUST(gpu, cuMemFreeHost, address);
}

void gpu_write(const void *target, const void *source, size_t size)
{
    cuda_write(gpu->context, target, source, size);
}

void gpu_read(void *target, const void *source, size_t size)
{
    cuda_read(gpu->context, target, source, size);
}

void gpu_copy(CUstream stream, void *target, const void *source, size_t size)
{
    CUDA_MUST(gpu, cuMemcpyAsync, (CUdeviceptr)(uintptr_t)target,
              (CUdeviceptr)(uintptr_t)source, size, stream);
}

CUstream gpu_stream(unsigned flags)
{
    CUstream stream = NULL;

    CUDA_MUST(gpu, cuStreamCreate, &stream, flags);
    return stream;
}

void gpu_stream_destroy(CUstream stream)
{
    CUDA_MUST(gpu, cuStreamDestroy, stream);
}

void gpu_stream_wait(CUstream stream)
{
    CUDA_MUST(gpu, cuStreamSynchronize, stream);
}

void gpu_gate_init(gpu_gate_t *gate)
{
    gate->word  = gpu_pinned(sizeof(*gate->word));
    *gate->word = 0;
}

void gpu_gate_cleanup(gpu_gate_t *gate)
{
    gpu_pinned_free(gate->word);
}

void gpu_gate_wait(const gpu_gate_t *gate, CUstream stream)
{
    CUDA_MUST(gpu, cuStreamWaitValue32, stream,
              (CUdeviceptr)(uintptr_t)gate->word, 1, CU_STREAM_WAIT_VALUE_EQ);
}

void gpu_gate_open(gpu_gate_t *gate)
{
    __atomic_store_n(gate->word, 1, __ATOMIC_RELEASE);
    gpu_step();
}

/* A function that is not in the library's table, since the library does not
 * need it. */
static void find_function(const char *name, void *function_p)
{
    void *library = dlopen(cuda_is_real() ? "libcuda.so.1" : CUDA_STAND_IN_PATH,
                           RTLD_NOW | RTLD_LOCAL);
    void *symbol;

    ck_assert_ptr_nonnull(library);
    symbol = dlsym(library, name);
    ck_assert_ptr_nonnull(symbol);
    memcpy(function_p, &symbol, sizeof(symbol));
}

typedef struct mempool_props {
    int            allocation_type;
    int            handle_types;
    CUmemLocation  location;
    void          *security_attributes;
    size_t         max_size;
    unsigned short usage;
    unsigned char  reserved[54];
} mempool_props_t;

typedef struct CUmemPoolHandle_st *CUmemoryPool;

static CUmemoryPool mempool;

void *gpu_mempool_alloc(size_t size)
{
    const mempool_props_t props = {
        .allocation_type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location        = {CU_MEM_LOCATION_TYPE_DEVICE, gpu->device},
    };
    CUresult (*create)(CUmemoryPool *, const mempool_props_t *);
    CUresult (*alloc)(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
    CUdeviceptr address = 0;

    find_function("cuMemPoolCreate", &create);
    find_function("cuMemAllocFromPoolAsync", &alloc);
    enter();
    leave(create(&mempool, &props));
    enter();
    leave(alloc(&address, size, mempool, NULL));
    gpu_stream_wait(NULL);
    return (void *)(uintptr_t)address;
}

void gpu_mempool_free(void *address)
{
    CUresult (*put)(CUdeviceptr, CUstream);
    CUresult (*destroy)(CUmemoryPool);

    find_function("cuMemFreeAsync", &put);
    find_function("cuMemPoolDestroy", &destroy);
    enter();
    leave(put((CUdeviceptr)(uintptr_t)address, NULL));
    gpu_stream_wait(NULL);
    enter();
    leave(destroy(mempool));
}

static void *managed_alloc(size_t size)
{
    CUresult (*alloc)(CUdeviceptr *, size_t, unsigned);
    CUdeviceptr address = 0;

    find_function("cuMemAllocManaged", &alloc);
    enter();
    leave(alloc(&address, size, 1));
    return (void *)(uintptr_t)address;
}

static void range_init(gpu_memory_t *memory)
{
    unsigned num = (unsigned)((memory->size + REGION_SIZE - 1) / REGION_SIZE);

    if (gpu->has_vmm) {
        assert_ok(mem_regions_init(&memory->range, &mem_kind_cuda_vmm, 0, num,
                                   REGION_SIZE, BASE_SWITCH_NO));
        memory->areas[GPU_RANGE] = memory->range.address;
    } else {
        memory->areas[GPU_RANGE] = gpu_alloc(memory->size);
    }
}

void gpu_memory_init(gpu_memory_t *memory, ucxpool_t *pool, size_t size)
{
    void *comm;

    memset(memory, 0, sizeof(*memory));
    memory->pool                  = pool;
    memory->size                  = size;
    memory->areas[GPU_PAGEABLE]   = malloc(size);
    memory->areas[GPU_PINNED]     = gpu_pinned(size);
    memory->areas[GPU_DEVICE]     = gpu_alloc(size);
    memory->areas[GPU_DEVICE_TOO] = gpu_alloc(size);
    memory->areas[GPU_MANAGED] =
        cuda_is_real() ? managed_alloc(size) : gpu_alloc(size);
    range_init(memory);
    if (pool != NULL) {
        assert_ok(ucxpool_comm_alloc(pool, size, &comm));
        memory->areas[GPU_COMM] = comm;
    }
    for (int i = 0; i < GPU_PLACES; i++) {
        memory->expected[i] = malloc(size);
    }
}

void gpu_memory_cleanup(gpu_memory_t *memory)
{
    free(memory->areas[GPU_PAGEABLE]);
    gpu_pinned_free(memory->areas[GPU_PINNED]);
    gpu_free(memory->areas[GPU_DEVICE]);
    gpu_free(memory->areas[GPU_DEVICE_TOO]);
    gpu_free(memory->areas[GPU_MANAGED]);
    if (memory->range.address != NULL) {
        mem_regions_cleanup(&memory->range);
    } else {
        gpu_free(memory->areas[GPU_RANGE]);
    }
    if (memory->pool != NULL) {
        ucxpool_comm_free(memory->pool, memory->areas[GPU_COMM]);
    }
    for (int i = 0; i < GPU_PLACES; i++) {
        free(memory->expected[i]);
    }
}

static int random_place(const gpu_memory_t *memory, unsigned places)
{
    int place;

    do {
        place = rand() % GPU_PLACES;
    } while (!(places & (1u << place)) || (memory->areas[place] == NULL));
    return place;
}

/* Most are short, some long, some empty. */
static size_t random_length(size_t left)
{
    size_t length = (size_t)rand() % 300;

    if (rand() % 4 == 0) {
        length = (size_t)rand() % 20000;
    } else if (rand() % 40 == 0) {
        length = (size_t)rand() % 700000;
    }
    return (length < left) ? length : left;
}

size_t gpu_cut(gpu_memory_t *memory, unsigned places, size_t length,
               ucxpool_segment_t *segments, size_t max)
{
    size_t left = length;
    size_t num  = 0;

    memset(memory->used, 0, sizeof(memory->used));
    while (left > 0) {
        int    place = random_place(memory, places);
        size_t at    = memory->used[place] + (size_t)rand() % 40;
        size_t piece = (num + 1 < max) ? random_length(left) : left;

        if (at + piece > memory->size) {
            /* The area is full: return as much as fits. */
            ck_assert_uint_lt(num + 1, max);
            piece = (memory->size > at) ? memory->size - at : 0;
        }
        segments[num++] = (ucxpool_segment_t){
            (piece == 0) ? NULL : memory->areas[place] + at, piece};
        memory->used[place] = at + piece;
        left -= piece;
    }
    return num;
}

/* Offset of a segment's bytes in the expected data. */
static uint8_t *expected_of(const gpu_memory_t      *memory,
                            const ucxpool_segment_t *segment)
{
    const uint8_t *address = segment->address;

    for (int i = 0; i < GPU_PLACES; i++) {
        uintptr_t offset = (uintptr_t)address - (uintptr_t)memory->areas[i];

        if ((memory->areas[i] != NULL) && (offset < memory->size)) {
            return memory->expected[i] + offset;
        }
    }
    ck_abort_msg("a segment that lies nowhere");
    return NULL;
}

static bool is_host_place(int place)
{
    return (place == GPU_PAGEABLE) || (place == GPU_PINNED);
}

/* The bytes of an area that the test checks: the segments, and some after
 * them. */
static size_t area_size(const gpu_memory_t *memory, int i)
{
    size_t size = memory->used[i] + 64;

    return (size < memory->size) ? size : memory->size;
}

static void area_write(gpu_memory_t *memory, int i)
{
    size_t size = area_size(memory, i);

    if (memory->areas[i] == NULL) {
        return;
    }
    if (is_host_place(i)) {
        memcpy(memory->areas[i], memory->expected[i], size);
    } else {
        gpu_write(memory->areas[i], memory->expected[i], size);
    }
}

void gpu_fill(gpu_memory_t *memory, const ucxpool_segment_t *segments,
              size_t num_segments, uint8_t *message)
{
    for (int i = 0; i < GPU_PLACES; i++) {
        pair_fill(memory->expected[i], area_size(memory, i));
        area_write(memory, i);
    }
    for (size_t i = 0; i < num_segments; i++) {
        if (segments[i].length != 0) {
            memcpy(message, expected_of(memory, &segments[i]),
                   segments[i].length);
            message += segments[i].length;
        }
    }
}

void gpu_poison(gpu_memory_t *memory)
{
    for (int i = 0; i < GPU_PLACES; i++) {
        pair_poison(memory->expected[i], area_size(memory, i));
        area_write(memory, i);
    }
}

static void require_same(const uint8_t *found, const uint8_t *expected,
                         size_t size, int place)
{
    size_t i = 0;

    if (memcmp(found, expected, size) == 0) {
        return;
    }
    while (found[i] == expected[i]) {
        i++;
    }
    ck_abort_msg("byte %zu of place %d is %d instead of %d", i, place, found[i],
                 expected[i]);
}

void gpu_check(gpu_memory_t *memory, const ucxpool_segment_t *segments,
               size_t num_segments, const uint8_t *message, size_t length)
{
    uint8_t *found = malloc(memory->size);

    for (size_t i = 0; (i < num_segments) && (length > 0); i++) {
        size_t n = (segments[i].length < length) ? segments[i].length : length;

        if (n != 0) {
            memcpy(expected_of(memory, &segments[i]), message, n);
            message += n;
            length -= n;
        }
    }
    for (int i = 0; i < GPU_PLACES; i++) {
        const uint8_t *area = found;

        if (memory->areas[i] == NULL) {
            continue;
        }
        if (is_host_place(i)) {
            area = memory->areas[i];
        } else {
            gpu_read(found, memory->areas[i], area_size(memory, i));
        }
        require_same(area, memory->expected[i], area_size(memory, i), i);
    }
    free(found);
}
