#include <config.h>

#include "heap/heap_inside.h"

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"

#include <stdlib.h>

/* A descriptor of a page. */
static heap_page_t *page_get(heap_t *heap)
{
    heap_page_t *page = heap->spare_pages;

    if (page != NULL) {
        heap->spare_pages = page->next;
        return page;
    }
    page = calloc(1, sizeof(*page));
    if (page != NULL) {
        page->older     = heap->all_pages;
        heap->all_pages = page;
    }
    return page;
}

/* Let a stream have a page, as it was found. Under the heap's lock. */
static ucxpool_status_t add_found(heap_t *heap, heap_stream_t *stream,
                                  heap_range_t *place)
{
    heap_page_t     *page;
    ucxpool_status_t status;

    page = page_get(heap);
    if (page == NULL) {
        heap_space_give(&heap->space, place, stream,
                        heap_stream_ticket(stream));
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no host memory (%zu bytes) to describe a page",
                          sizeof(*page));
    }
    heap_range_become(place, HEAP_SMALL);
    page->place = place;
    base_lock_take(&stream->lock);
    status = heap_small_add(&stream->small, stream, page);
    if (status == UCXPOOL_OK) {
        heap_page_map_set_page(&heap->page_map, place->offset, page);
    }
    base_lock_give(&stream->lock);
    if (status != UCXPOOL_OK) {
        heap_release_page(heap, page, stream);
    }
    return status;
}

/* One more page for a stream. Under the heap's lock. */
static ucxpool_status_t add_page(heap_t *heap, heap_stream_t *stream)
{
    heap_range_t    *place;
    ucxpool_status_t status = heap_find(heap, stream, HEAP_PAGE, true, &place);

    return (status == UCXPOOL_OK) ? add_found(heap, stream, place) : status;
}

static ucxpool_status_t take_small(heap_stream_t *stream, uint64_t size,
                                   uint64_t asked, heap_range_t **range_p)
{
    ucxpool_status_t status;

    base_lock_take(&stream->lock);
    status = heap_small_take(&stream->small, size, asked, range_p);
    stream->num_allocs += (*range_p != NULL);
    base_lock_give(&stream->lock);
    return status;
}

/* Make what other streams have freed in this one's pages its own again. False:
 * there is nothing more. Under the heap's lock. */
static bool settle(heap_t *heap, heap_stream_t *stream)
{
    heap_stream_t *other;
    uint64_t       ticket;

    base_lock_take(&stream->lock);
    other = heap_small_settle(&stream->small, NULL, 0);
    base_lock_give(&stream->lock);
    if (other == NULL) {
        return false;
    }
    ticket = __atomic_load_n(&other->frees, __ATOMIC_ACQUIRE);
    if (heap_stream_wait(&heap->streams, other, stream) != UCXPOOL_OK) {
        return false;
    }
    base_lock_take(&stream->lock);
    heap_small_settle(&stream->small, other, ticket);
    base_lock_give(&stream->lock);
    return true;
}

static ucxpool_status_t alloc_small(heap_t *heap, heap_stream_t *stream,
                                    uint64_t size, uint64_t asked,
                                    heap_range_t **range_p)
{
    bool             is_settled = false;
    ucxpool_status_t status     = take_small(stream, size, asked, range_p);

    if ((status != UCXPOOL_OK) || (*range_p != NULL)) {
        return status;
    }
    pthread_mutex_lock(&heap->lock);
    while ((status == UCXPOOL_OK) && (*range_p == NULL)) {
        is_settled = is_settled || !settle(heap, stream);
        status     = take_small(stream, size, asked, range_p);
        if ((status == UCXPOOL_OK) && (*range_p == NULL) && is_settled) {
            status = add_page(heap, stream);
        }
    }
    pthread_mutex_unlock(&heap->lock);
    return status;
}

/* As take_small(), unless there are enough of them: false. */
static bool take_medium(const heap_t *heap, heap_stream_t *stream,
                        uint64_t size, uint64_t asked, heap_range_t **range_p)
{
    heap_small_t    *small = &stream->small;
    ucxpool_status_t status;
    bool             is_few;

    base_lock_take(&stream->lock);
    is_few = small->num_mediums < heap->max_mediums;
    if (is_few) {
        status = heap_small_take(small, size, asked, range_p);
        if ((status == UCXPOOL_OK) && (*range_p == NULL) &&
            (small->num_pages >= heap->max_mediums / 4)) {
            /* Enough pages: what is in the cache has to do. */
            heap_small_join(small);
            status = heap_small_take(small, size, asked, range_p);
        }
        is_few = status == UCXPOOL_OK;
        stream->num_allocs += (*range_p != NULL);
    }
    base_lock_give(&stream->lock);
    return is_few;
}

/* Make room for one more in the stream's pages; not at any price, since there
 * are other places. Under the heap's lock. */
static void find_medium(heap_t *heap, heap_stream_t *stream, uint64_t size,
                        uint64_t asked, heap_range_t **range_p)
{
    heap_range_t *place;
    bool          is_settled;

    do {
        is_settled = !settle(heap, stream);
        if (!take_medium(heap, stream, size, asked, range_p) ||
            (*range_p != NULL)) {
            return;
        }
    } while (!is_settled);
    if ((heap_find_page_soon(heap, stream, &place) == UCXPOOL_OK) &&
        (add_found(heap, stream, place) == UCXPOOL_OK)) {
        (void)take_medium(heap, stream, size, asked, range_p);
    }
}

/* In a page, if there is to be one more. */
static void alloc_medium(heap_t *heap, heap_stream_t *stream, uint64_t size,
                         uint64_t asked, heap_range_t **range_p)
{
    base_log_level_t level;

    if (__atomic_load_n(&heap->is_tight, __ATOMIC_RELAXED) ||
        !take_medium(heap, stream, size, asked, range_p) ||
        (*range_p != NULL)) {
        return;
    }
    pthread_mutex_lock(&heap->lock);
    level = base_error_log_at(BASE_LOG_DEBUG);
    find_medium(heap, stream, size, asked, range_p);
    base_error_log_at(level);
    pthread_mutex_unlock(&heap->lock);
}

static heap_range_t *take_cached(heap_stream_t *stream, uint64_t size,
                                 uint64_t asked)
{
    heap_range_t *range;

    base_lock_take(&stream->lock);
    range = heap_free_cache_take(&stream->cache, size, asked);
    if (range != NULL) {
        stream->num_allocs++;
    }
    base_lock_give(&stream->lock);
    return range;
}

static ucxpool_status_t alloc_large(heap_t *heap, heap_stream_t *stream,
                                    uint64_t size, uint64_t asked,
                                    heap_range_t **range_p)
{
    heap_range_t    *range = take_cached(stream, size, asked);
    ucxpool_status_t status;

    if (range != NULL) {
        *range_p = range;
        return UCXPOOL_OK;
    }
    pthread_mutex_lock(&heap->lock);
    status = heap_find(heap, stream, size, false, &range);
    if (status == UCXPOOL_OK) {
        range->stream = stream;
        heap_range_set_asked(range, asked);
        heap_range_become(range, HEAP_LIVE);
        heap_page_map_add(&heap->page_map, range);
        heap->num_found++;
        *range_p = range;
    }
    pthread_mutex_unlock(&heap->lock);
    return status;
}

static ucxpool_status_t alloc_any(heap_t *heap, heap_stream_t *stream,
                                  uint64_t size, uint64_t asked,
                                  heap_range_t **range_p)
{
    *range_p = NULL;
    if (size <= HEAP_SMALL_MAX) {
        return alloc_small(heap, stream, size, asked, range_p);
    }
    if (size <= HEAP_MEDIUM_MAX) {
        alloc_medium(heap, stream, size, asked, range_p);
    }
    if (*range_p != NULL) {
        return UCXPOOL_OK;
    }
    return alloc_large(heap, stream, size, asked, range_p);
}

/* Does the application make room? */
static bool is_helped(heap_t *heap, uint64_t asked, void *stream)
{
    ucxpool_heap_failure_t callback;
    ucxpool_t             *pool;
    void                  *arg;

    pthread_mutex_lock(&heap->lock);
    callback = heap->callback;
    pool     = heap->pool;
    arg      = heap->callback_arg;
    pthread_mutex_unlock(&heap->lock);
    return (callback != NULL) && callback(arg, pool, asked, stream);
}

/* What has to be found for so many bytes; false: more than there can be. */
static bool round_up(const heap_t *heap, size_t asked, uint64_t *size_p)
{
    uint64_t padding = heap->options.alignment - 1;

    return base_add(asked, padding, size_p) &&
           ((*size_p &= ~padding) <= heap->options.limit);
}

ucxpool_status_t heap_alloc(heap_t *heap, size_t asked, void *handle,
                            void **address_p)
{
    heap_stream_t   *stream;
    heap_range_t    *range  = NULL;
    uint64_t         size   = 0;
    ucxpool_status_t status = heap_stream_of(heap, handle, &stream);

    if (status != UCXPOOL_OK) {
        return status;
    }
    if (asked == 0) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "an allocation of 0 bytes: ask for 1 or more");
    }
    if (!round_up(heap, asked, &size)) {
        return heap_fail(heap, asked, handle, UCXPOOL_ERR_NO_MEMORY);
    }
    do {
        status = alloc_any(heap, stream, size, asked, &range);
    } while ((status != UCXPOOL_OK) && is_helped(heap, asked, handle));
    if (status != UCXPOOL_OK) {
        return heap_fail(heap, asked, handle, status);
    }
    *address_p = heap->address + range->offset;
    heap_log_write(heap->log, HEAP_LOG_ALLOC, *address_p, asked, handle);
    return UCXPOOL_OK;
}
