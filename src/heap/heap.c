#include <config.h>

#include "heap/heap_inside.h"

#include "base/error.h"
#include "base/math.h"

#include <assert.h>
#include <stdlib.h>

#define MIB ((uint64_t)1 << 20)

/* Of a stream, and of the largest heaps. */
#define MAX_MEDIUMS 64

/* CU_STREAM_LEGACY, which is another name of NULL, and CU_STREAM_PER_THREAD, as
 * cuda.h has them. */
#define STREAM_LEGACY     ((void *)0x1)
#define STREAM_PER_THREAD ((void *)0x2)

ucxpool_status_t heap_stream_of(heap_t *heap, void *handle,
                                heap_stream_t **stream_p)
{
    ucxpool_status_t status;

    if (handle == STREAM_LEGACY) {
        handle = NULL;
    }
    *stream_p = heap_streams_find(&heap->streams, handle);
    if (*stream_p != NULL) {
        return UCXPOOL_OK;
    }
    if (handle == STREAM_PER_THREAD) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "CU_STREAM_PER_THREAD names another stream in each "
                          "thread: pass a stream made by cuStreamCreate()");
    }
    pthread_mutex_lock(&heap->lock);
    status = heap_streams_get(&heap->streams, handle, stream_p);
    pthread_mutex_unlock(&heap->lock);
    return status;
}

bool heap_offset_of(const heap_t *heap, const void *address, uint64_t *offset_p)
{
    uintptr_t begin = (uintptr_t)heap->address;

    *offset_p = (uintptr_t)address - begin;
    return ((uintptr_t)address >= begin) && (*offset_p < heap->size);
}

/*
 * Twice the limit: an allocation that is to begin with a chunk may leave a gap
 * of addresses before it, and what is given back need not be where the next
 * growth wants it.
 */
static uint64_t home_size(const heap_options_t *options)
{
    return base_align_up(2 * options->limit, options->chunk_size) +
           2 * options->chunk_size;
}

/*
 * As long as they are few, they do no harm: each keeps one page at most from
 * other use, together 1/256 of the limit.
 */
static unsigned max_mediums(const heap_options_t *options)
{
    return (unsigned)base_min(options->limit / HEAP_PAGE / 256, MAX_MEDIUMS);
}

static ucxpool_status_t init_tables(heap_t *heap, uint64_t home)
{
    ucxpool_status_t status = heap_page_map_init(&heap->page_map, heap->size);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = heap_space_init(&heap->space, heap->vmm, heap->address, home,
                             heap->options.chunk_size);
    if (status != UCXPOOL_OK) {
        heap_page_map_cleanup(&heap->page_map);
    }
    return status;
}

static ucxpool_status_t init(heap_t *heap)
{
    const mem_vmm_calls_t *calls = heap->vmm->calls;
    uint64_t               home  = home_size(&heap->options);
    void                  *address;
    ucxpool_status_t       status;
    int                    error;

    heap->size = home + base_align_up(heap->options.stitch_size, 2 * MIB);
    status     = calls->reserve(heap->vmm, heap->size, heap->options.chunk_size,
                                &address);
    if (status != UCXPOOL_OK) {
        return status;
    }
    heap->address = address;
    status        = init_tables(heap, home);
    if (status != UCXPOOL_OK) {
        goto err_release;
    }
    error = pthread_mutex_init(&heap->lock, NULL);
    if (error != 0) {
        status = base_error_errno(error, "no lock for the heap");
        goto err_cleanup_tables;
    }
    heap_streams_init(&heap->streams, heap->vmm);
    heap_stitcher_init(&heap->stitcher, &heap->space, home, heap->size);
    return UCXPOOL_OK;

err_cleanup_tables:
    heap_space_cleanup(&heap->space);
    heap_page_map_cleanup(&heap->page_map);
err_release:
    calls->release(heap->vmm, heap->address, heap->size);
    return status;
}

ucxpool_status_t heap_create(mem_vmm_t *vmm, const heap_options_t *options,
                             heap_t **heap_p)
{
    heap_t          *heap = calloc(1, sizeof(*heap));
    ucxpool_status_t status;

    assert(base_is_pow2(options->chunk_size) &&
           base_is_pow2(options->alignment));
    if (heap == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no host memory for the heap");
    }
    heap->vmm         = vmm;
    heap->options     = *options;
    heap->max_mediums = max_mediums(options);
    if (options->log_path != NULL) {
        status = heap_log_create(options->log_path, &heap->log);
        if (status != UCXPOOL_OK) {
            goto err_free;
        }
    }
    status = init(heap);
    if (status != UCXPOOL_OK) {
        goto err_destroy_log;
    }
    *heap_p = heap;
    return UCXPOOL_OK;

err_destroy_log:
    heap_log_destroy(heap->log);
err_free:
    free(heap);
    return status;
}

void heap_destroy(heap_t *heap)
{
    if (heap == NULL) {
        return;
    }
    (void)heap_settle(heap, NULL);
    heap_stitcher_cleanup(&heap->stitcher);
    heap_space_cleanup(&heap->space);
    heap_page_map_cleanup(&heap->page_map);
    heap_streams_cleanup(&heap->streams);
    heap->vmm->calls->release(heap->vmm, heap->address, heap->size);
    heap->vmm->calls->destroy(heap->vmm);
    while (heap->all_pages != NULL) {
        heap_page_t *page = heap->all_pages;

        heap->all_pages = page->older;
        free(page);
    }
    pthread_mutex_destroy(&heap->lock);
    heap_log_destroy(heap->log);
    free(heap);
}

ucxpool_status_t heap_stream_end(heap_t *heap, void *handle)
{
    heap_stream_t   *stream;
    ucxpool_status_t status = heap_stream_of(heap, handle, &stream);

    if (status != UCXPOOL_OK) {
        return status;
    }
    pthread_mutex_lock(&heap->lock);
    heap_collect(heap, stream);
    status = heap_stream_sync(&heap->streams, stream);
    pthread_mutex_unlock(&heap->lock);
    return status;
}

void heap_on_failure(heap_t *heap, ucxpool_t *pool,
                     ucxpool_heap_failure_t callback, void *arg)
{
    pthread_mutex_lock(&heap->lock);
    heap->pool         = pool;
    heap->callback     = callback;
    heap->callback_arg = arg;
    pthread_mutex_unlock(&heap->lock);
}
