/*
 * The public functions for the heap of a pool. The first allocation creates the
 * heap. Its limit is MEMORY_LIMIT minus the memory of the blocks.
 */
#include "base/error.h"
#include "base/math.h"
#include "base/text.h"
#include "core/pool.h"
#include "heap/heap.h"

#define SMALLEST ((uint64_t)2 << 20)

/* Returns the total size of the blocks that are in the same kind of memory as
 * the heap. The blocks of a pool on a GPU may be in pinned host memory. */
static uint64_t block_bytes(const ucxpool_t *pool, const mem_vmm_t *vmm)
{
    const mem_regions_t *regions = &pool->memory.regions;

    return (mem_regions_are_on_gpu(regions) == vmm->is_host)
               ? 0
               : (uint64_t)regions->num_regions * regions->region_size;
}

/* Find the memory that the pool may use: MEMORY_LIMIT, or the total memory if
 * that is less. */
static ucxpool_status_t find_memory(const ucxpool_t *pool, mem_vmm_t *vmm,
                                    uint64_t *memory_p)
{
    uint64_t         total, free_size;
    ucxpool_status_t status = vmm->calls->sizes(vmm, &total, &free_size);

    if (status != UCXPOOL_OK) {
        return status;
    }
    if (pool->config.memory_limit == BASE_SIZE_AUTO) {
        *memory_p = vmm->is_host ? total / 2 : total;
    } else {
        *memory_p = base_min(total, (uint64_t)pool->config.memory_limit);
    }
    return UCXPOOL_OK;
}

/* Find the limit of the heap: the memory that remains after the blocks. */
static ucxpool_status_t find_limit(const ucxpool_t *pool, mem_vmm_t *vmm,
                                   uint64_t *limit_p)
{
    uint64_t         blocks = block_bytes(pool, vmm);
    uint64_t         memory;
    char             text[BASE_FORMAT_SIZE];
    ucxpool_status_t status = find_memory(pool, vmm, &memory);

    if (status != UCXPOOL_OK) {
        return status;
    }
    if (memory < blocks + SMALLEST) {
        base_format_size(memory, text);
        return base_error(
            UCXPOOL_ERR_NO_MEMORY,
            "the memory limit, %s, leaves no memory for the heap after %zu "
            "bytes of blocks: raise UCXPOOL_MEMORY_LIMIT, or lower "
            "UCXPOOL_COMM_SIZE",
            text, (size_t)blocks);
    }
    *limit_p = (memory - blocks) & ~(SMALLEST - 1);
    return UCXPOOL_OK;
}

/* Returns the size of the address space for stitching. HEAP_STITCH is capped at
 * 16 times the heap's limit, because address space is finite. */
static uint64_t stitch_size(const base_config_t *config, uint64_t limit)
{
    return (config->heap_stitch == BASE_SIZE_AUTO)
               ? 2 * limit
               : base_min((uint64_t)config->heap_stitch, 16 * limit);
}

static ucxpool_status_t find_options(const ucxpool_t *pool, mem_vmm_t *vmm,
                                     heap_options_t *options)
{
    const base_config_t *config = &pool->config;
    ucxpool_status_t     status = find_limit(pool, vmm, &options->limit);

    if (status != UCXPOOL_OK) {
        return status;
    }
    options->chunk_size  = config->heap_chunk;
    options->alignment   = config->heap_alignment;
    options->stitch_size = stitch_size(config, options->limit);
    options->log_path = (config->heap_log[0] != '\0') ? config->heap_log : NULL;
    return UCXPOOL_OK;
}

static ucxpool_status_t create(const ucxpool_t *pool, heap_t **heap_p)
{
    const mem_regions_t *regions = &pool->memory.regions;
    heap_options_t       options;
    mem_vmm_t           *vmm;
    ucxpool_status_t     status;

    status = (regions->cuda == NULL) ? mem_vmm_create_host(&vmm)
                                     : mem_vmm_create_cuda(regions->cuda, &vmm);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = find_options(pool, vmm, &options);
    if (status == UCXPOOL_OK) {
        status = heap_create(vmm, &options, heap_p);
    }
    if (status != UCXPOOL_OK) {
        vmm->calls->destroy(vmm);
    }
    return status;
}

static heap_t *heap_of(ucxpool_t *pool)
{
    return __atomic_load_n(&pool->heap, __ATOMIC_ACQUIRE);
}

static ucxpool_status_t create_once(ucxpool_t *pool, heap_t **heap_p)
{
    ucxpool_status_t status = UCXPOOL_OK;

    core_lock(pool);
    if (pool->heap == NULL) {
        status = create(pool, heap_p);
        if (status == UCXPOOL_OK) {
            __atomic_store_n(&pool->heap, *heap_p, __ATOMIC_RELEASE);
        }
    }
    *heap_p = pool->heap;
    core_unlock(pool);
    return status;
}

ucxpool_status_t ucxpool_heap_alloc(ucxpool_t *pool, size_t size, void *stream,
                                    void **address_p)
{
    heap_t          *heap;
    ucxpool_status_t status;

    if (base_missing(pool) || base_missing(address_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    heap = heap_of(pool);
    if (__builtin_expect(heap == NULL, 0)) {
        status = create_once(pool, &heap);
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    return heap_alloc(heap, size, stream, address_p);
}

/* Return an error for an address, because the heap was never created. */
static ucxpool_status_t refuse(const void *address)
{
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "%p is not in this pool's heap, which is empty: pass "
                      "the pool that allocated it",
                      address);
}

ucxpool_status_t ucxpool_heap_free(ucxpool_t *pool, void *address, void *stream)
{
    heap_t *heap;

    if (base_missing(pool)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    heap = heap_of(pool);
    if (heap == NULL) {
        return (address == NULL) ? UCXPOOL_OK : refuse(address);
    }
    return heap_free(heap, address, stream);
}

ucxpool_status_t ucxpool_heap_usable_size(ucxpool_t *pool, const void *address,
                                          size_t *size_p)
{
    heap_t *heap;

    if (base_missing(pool) || base_missing(size_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    heap = heap_of(pool);
    return (heap == NULL) ? refuse(address)
                          : heap_usable_size(heap, address, size_p);
}

ucxpool_status_t ucxpool_heap_stream_end(ucxpool_t *pool, void *stream)
{
    heap_t *heap;

    if (base_missing(pool)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    heap = heap_of(pool);
    return (heap == NULL) ? UCXPOOL_OK : heap_stream_end(heap, stream);
}

ucxpool_status_t ucxpool_heap_segments(ucxpool_t *pool, const void *address,
                                       size_t                  length,
                                       ucxpool_heap_segment_t *segments,
                                       size_t                  max_segments,
                                       size_t                 *num_segments_p)
{
    heap_t *heap;

    if (base_missing(pool) || base_missing(num_segments_p) ||
        ((max_segments != 0) && base_missing(segments))) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    heap = heap_of(pool);
    return (heap == NULL) ? refuse(address)
                          : heap_segments(heap, address, length, segments,
                                          max_segments, num_segments_p);
}

ucxpool_status_t ucxpool_heap_reserve(ucxpool_t *pool, size_t size)
{
    heap_t          *heap;
    ucxpool_status_t status;

    if (base_missing(pool)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    status = create_once(pool, &heap);
    return (status == UCXPOOL_OK) ? heap_reserve(heap, size) : status;
}

ucxpool_status_t ucxpool_heap_trim(ucxpool_t *pool, size_t keep_size,
                                   size_t *released_p)
{
    heap_t *heap;

    if (base_missing(pool)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    heap = heap_of(pool);
    if (heap != NULL) {
        return heap_trim(heap, keep_size, released_p);
    }
    if (released_p != NULL) {
        *released_p = 0;
    }
    return UCXPOOL_OK;
}

ucxpool_status_t ucxpool_heap_set_failure_handler(
    ucxpool_t *pool, ucxpool_heap_failure_handler_t handler, void *arg)
{
    heap_t          *heap;
    ucxpool_status_t status;

    if (base_missing(pool)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    status = create_once(pool, &heap);
    if (status == UCXPOOL_OK) {
        heap_set_failure_handler(heap, pool, handler, arg);
    }
    return status;
}
