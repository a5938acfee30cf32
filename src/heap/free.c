#include <config.h>

#include "heap/heap_inside.h"

#include "base/error.h"

static ucxpool_status_t refuse(const void *address, const char *why)
{
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "%p is not a live allocation of this heap: %s", address,
                      why);
}

static ucxpool_status_t refuse_dead(const void *address)
{
    return refuse(address, "it has been freed before, or does not begin there");
}

/* Under the lock of the page's stream. */
static bool give_small(heap_t *heap, heap_stream_t *owner,
                       heap_stream_t *stream, heap_range_t *range,
                       void *address)
{
    bool is_late = (owner != stream) && !heap->vmm->is_host;

    if ((range == NULL) || (heap_range_state(range) != HEAP_LIVE)) {
        return false;
    }
    heap_range_become(range, is_late ? HEAP_LATE : HEAP_CACHED);
    heap_log_write(heap->log, HEAP_LOG_FREE, address, heap_range_asked(range),
                   stream->handle);
    heap_small_end(&owner->small, range);
    if (is_late) {
        range->stream = stream;
        range->ticket = heap_stream_ticket(stream);
        heap_small_give_late(&owner->small, range);
    } else {
        heap_small_give(&owner->small, range);
    }
    return true;
}

static ucxpool_status_t free_small(heap_t *heap, heap_page_t *page,
                                   uint64_t offset, heap_stream_t *stream,
                                   void *address)
{
    heap_stream_t *owner = __atomic_load_n(&page->stream, __ATOMIC_ACQUIRE);
    bool           is_given;

    base_lock_take(&owner->lock);
    /* Only a page in which nothing is live can have gone meanwhile. */
    is_given =
        (heap_page_map_page(&heap->page_map, offset) == page) &&
        (page->stream == owner) &&
        give_small(heap, owner, stream, heap_small_at(page, offset), address);
    base_lock_give(&owner->lock);
    return is_given ? UCXPOOL_OK : refuse_dead(address);
}

static ucxpool_status_t free_large(heap_t *heap, heap_range_t *range,
                                   heap_stream_t *stream, void *address)
{
    heap_range_t *gone[HEAP_FREE_CACHE_DEPTH];
    unsigned      num_gone;

    if ((range == NULL) || !heap_range_turn(range, HEAP_LIVE, HEAP_CACHED)) {
        return refuse_dead(address);
    }
    heap_log_write(heap->log, HEAP_LOG_FREE, address, heap_range_asked(range),
                   stream->handle);
    base_lock_take(&stream->lock);
    num_gone = heap_free_cache_put(&stream->cache, range, gone);
    base_lock_give(&stream->lock);
    if (num_gone > 0) {
        pthread_mutex_lock(&heap->lock);
        for (unsigned i = 0; i < num_gone; i++) {
            heap_release_range(heap, gone[i], stream);
        }
        pthread_mutex_unlock(&heap->lock);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t heap_free(heap_t *heap, void *address, void *handle)
{
    heap_stream_t   *stream;
    heap_page_t     *page;
    uint64_t         offset;
    ucxpool_status_t status = heap_stream_of(heap, handle, &stream);

    if ((status != UCXPOOL_OK) || (address == NULL)) {
        return status;
    }
    if (!heap_offset_of(heap, address, &offset)) {
        return refuse(address, "the address is somebody else's");
    }
    page = heap_page_map_page(&heap->page_map, offset);
    if (page != NULL) {
        return free_small(heap, page, offset, stream, address);
    }
    return free_large(heap, heap_page_map_find(&heap->page_map, offset), stream,
                      address);
}
