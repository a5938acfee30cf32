#include <config.h>

#include "heap/small.h"

#include "heap/stream.h"

#include <assert.h>

void heap_small_init(heap_small_t *small)
{
    base_list_init(&small->pages);
    heap_index_init(&small->index);
    small->cache = (heap_free_cache_t){.used = 0};
    heap_ranges_init(&small->ranges);
    base_list_init(&small->late);
    small->num_pages   = 0;
    small->num_empty   = 0;
    small->num_mediums = 0;
}

void heap_small_cleanup(heap_small_t *small)
{
    heap_ranges_cleanup(&small->ranges);
}

static size_t unit_of(const heap_page_t *page, uint64_t offset)
{
    return (offset - page->place->offset) / HEAP_UNIT;
}

static bool is_whole(const heap_range_t *range)
{
    return range->size == HEAP_PAGE;
}

static bool is_medium(const heap_range_t *range)
{
    return range->size > HEAP_SMALL_MAX;
}

static void index_add(heap_small_t *small, heap_range_t *range)
{
    heap_range_become(range, HEAP_FREE);
    heap_index_add(&small->index, range);
    small->num_empty += is_whole(range);
}

static void index_remove(heap_small_t *small, heap_range_t *range)
{
    heap_index_remove(&small->index, range);
    small->num_empty -= is_whole(range);
}

/* Cut one off a free range. */
static ucxpool_status_t cut(heap_small_t *small, uint64_t size, uint64_t asked,
                            heap_range_t **range_p)
{
    heap_range_t    *range;
    ucxpool_status_t status;

    *range_p = NULL;
    range    = heap_index_find(&small->index, size);
    if (range == NULL) {
        return UCXPOOL_OK;
    }
    status = heap_ranges_prepare(&small->ranges, 1);
    if (status != UCXPOOL_OK) {
        return status;
    }
    index_remove(small, range);
    if (range->size > size) {
        index_add(small,
                  heap_range_cut(&small->ranges, range, range->offset + size));
    }
    heap_range_set_asked(range, asked);
    heap_range_become(range, HEAP_LIVE);
    range->page->starts[unit_of(range->page, range->offset)] = range;
    *range_p                                                 = range;
    return UCXPOOL_OK;
}

ucxpool_status_t heap_small_take(heap_small_t *small, uint64_t size,
                                 uint64_t asked, heap_range_t **range_p)
{
    heap_range_t    *range  = heap_free_cache_take(&small->cache, size, asked);
    ucxpool_status_t status = UCXPOOL_OK;

    if (range == NULL) {
        status = cut(small, size, asked, &range);
    }
    if (range != NULL) {
        small->num_mediums += is_medium(range);
    }
    *range_p = range;
    return status;
}

void heap_small_end(heap_small_t *small, const heap_range_t *range)
{
    small->num_mediums -= is_medium(range);
}

ucxpool_status_t heap_small_add(heap_small_t *small, heap_stream_t *stream,
                                heap_page_t *page)
{
    heap_range_t    *range;
    ucxpool_status_t status = heap_ranges_prepare(&small->ranges, 1);

    if (status != UCXPOOL_OK) {
        return status;
    }
    range         = heap_ranges_get(&small->ranges);
    range->offset = page->place->offset;
    range->size   = HEAP_PAGE;
    range->page   = page;
    range->stream = stream;
    page->first   = range;
    __atomic_store_n(&page->stream, stream, __ATOMIC_RELEASE);
    base_list_add_tail(&small->pages, &page->link);
    small->num_pages++;
    index_add(small, range);
    return UCXPOOL_OK;
}

heap_range_t *heap_small_at(const heap_page_t *page, uint64_t offset)
{
    return (offset % HEAP_UNIT == 0) ? page->starts[unit_of(page, offset)]
                                     : NULL;
}

heap_range_t *heap_small_around(const heap_page_t *page, uint64_t offset)
{
    for (heap_range_t *range = page->first; range != NULL;
         range               = range->after) {
        if ((offset >= range->offset) && (offset < heap_range_end(range))) {
            return (heap_range_state(range) == HEAP_LIVE) ? range : NULL;
        }
    }
    return NULL;
}

/* Join a range with what is free beside it. */
static void release(heap_small_t *small, heap_range_t *range)
{
    heap_range_t *before = range->before;
    heap_range_t *after  = range->after;

    range->page->starts[unit_of(range->page, range->offset)] = NULL;
    if ((after != NULL) && (heap_range_state(after) == HEAP_FREE)) {
        index_remove(small, after);
        heap_range_join(&small->ranges, range);
    }
    if ((before != NULL) && (heap_range_state(before) == HEAP_FREE)) {
        index_remove(small, before);
        heap_range_join(&small->ranges, before);
        range = before;
    }
    range->stream = range->page->stream;
    index_add(small, range);
}

static void release_all(heap_small_t *small, heap_range_t **ranges,
                        unsigned num)
{
    for (unsigned i = 0; i < num; i++) {
        release(small, ranges[i]);
    }
}

void heap_small_give(heap_small_t *small, heap_range_t *range)
{
    heap_range_t *gone[HEAP_FREE_CACHE_DEPTH];

    release_all(small, gone, heap_free_cache_put(&small->cache, range, gone));
}

void heap_small_give_late(heap_small_t *small, heap_range_t *range)
{
    assert(heap_range_state(range) == HEAP_LATE);
    base_list_add_tail(&small->late, &range->link);
}

heap_stream_t *heap_small_settle(heap_small_t        *small,
                                 const heap_stream_t *stream, uint64_t ticket)
{
    heap_stream_t *left = NULL;
    heap_range_t  *range, *next;

    base_list_for_each_safe(range, next, &small->late, heap_range_t, link) {
        if (heap_stream_is_over(range->stream, range->ticket) ||
            ((range->stream == stream) && (range->ticket <= ticket))) {
            base_list_del(&range->link);
            release(small, range);
        } else {
            left = range->stream;
        }
    }
    return left;
}

void heap_small_join(heap_small_t *small)
{
    heap_range_t *gone[HEAP_FREE_CACHE_DEPTH];
    unsigned      num;

    while ((num = heap_free_cache_empty(&small->cache, gone)) != 0) {
        release_all(small, gone, num);
    }
}

heap_page_t *heap_small_remove(heap_small_t *small, unsigned keep)
{
    heap_range_t *range = heap_index_first(&small->index, HEAP_PAGE);
    heap_page_t  *page;

    if ((range == NULL) || (small->num_empty <= keep)) {
        return NULL;
    }
    page = range->page;
    index_remove(small, range);
    heap_ranges_put(&small->ranges, range);
    base_list_del(&page->link);
    small->num_pages--;
    page->first = NULL;
    return page;
}
