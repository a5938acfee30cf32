#include "heap/stream.h"

#include "base/error.h"

#include <stdlib.h>

/* --- small allocations ---------------------------------------------------- */

/* Initialize zeroed memory. */
static void small_init(heap_small_t *small)
{
    base_list_init(&small->pages);
    heap_index_init(&small->index);
    heap_ranges_init(&small->ranges);
    base_list_init(&small->deferred);
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

static void small_index_add(heap_small_t *small, heap_range_t *range)
{
    heap_range_become(range, HEAP_FREE);
    heap_index_add(&small->index, range);
    small->num_empty += is_whole(range);
}

static void small_index_remove(heap_small_t *small, heap_range_t *range)
{
    heap_index_remove(&small->index, range);
    small->num_empty -= is_whole(range);
}

static ucxpool_status_t small_cut(heap_small_t *small, uint64_t size,
                                  uint64_t asked, heap_range_t **range_p)
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
    small_index_remove(small, range);
    if (range->size > size) {
        small_index_add(
            small, heap_range_cut(&small->ranges, range, range->offset + size));
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
        status = small_cut(small, size, asked, &range);
    }
    if (range != NULL) {
        small->num_mediums += is_medium(range);
    }
    *range_p = range;
    return status;
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
    page->first   = range;
    __atomic_store_n(&page->stream, stream, __ATOMIC_RELEASE);
    base_list_add_tail(&small->pages, &page->link);
    small->num_pages++;
    small_index_add(small, range);
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

/* Free a range of a page and join it with free neighbors. */
static void small_release(heap_small_t *small, heap_range_t *range)
{
    heap_range_t *before = range->before;
    heap_range_t *after  = range->after;

    range->page->starts[unit_of(range->page, range->offset)] = NULL;
    if (heap_range_is(after, HEAP_FREE)) {
        small_index_remove(small, after);
        heap_range_join(&small->ranges, range, after);
    }
    if (heap_range_is(before, HEAP_FREE)) {
        small_index_remove(small, before);
        heap_range_join(&small->ranges, before, range);
        range = before;
    }
    small_index_add(small, range);
}

static void small_release_all(heap_small_t *small, heap_range_t **ranges,
                              unsigned num)
{
    for (unsigned i = 0; i < num; i++) {
        small_release(small, ranges[i]);
    }
}

void heap_small_give(heap_small_t *small, heap_range_t *range)
{
    heap_range_t *released[HEAP_FREE_CACHE_DEPTH];

    small->num_mediums -= is_medium(range);
    if (heap_range_state(range) == HEAP_DEFERRED) {
        base_list_add_tail(&small->deferred, &range->link);
    } else {
        small_release_all(small, released,
                          heap_free_cache_put(&small->cache, range, released));
    }
}

heap_stream_t *heap_small_settle(heap_small_t        *small,
                                 const heap_stream_t *stream, uint64_t ticket)
{
    heap_stream_t *left = NULL;
    heap_range_t  *range, *next;

    base_list_for_each_safe(range, next, &small->deferred, heap_range_t, link) {
        if (heap_stream_is_over(range->stream, range->ticket) ||
            ((range->stream == stream) && (range->ticket <= ticket))) {
            base_list_del(&range->link);
            small_release(small, range);
        } else {
            left = range->stream;
        }
    }
    return left;
}

void heap_small_join(heap_small_t *small)
{
    heap_range_t *released[HEAP_FREE_CACHE_DEPTH];
    unsigned      num;

    while ((num = heap_free_cache_empty(&small->cache, released)) != 0) {
        small_release_all(small, released, num);
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
    small_index_remove(small, range);
    heap_ranges_put(&small->ranges, range);
    base_list_del(&page->link);
    small->num_pages--;
    page->first = NULL;
    return page;
}

/* --- streams of the heap -------------------------------------------------- */

#define FIRST_CAPACITY 64

/* A value of `over` that includes future tickets. */
#define ALL_TICKETS UINT64_MAX

/* A hash table with open addressing, at most half full. A replaced table is
 * kept, because another thread may be reading it. */
typedef struct heap_streams_table {
    struct heap_streams_table *smaller;
    size_t                     capacity;
    heap_stream_t             *entries[];
} heap_streams_table_t;

void heap_streams_init(heap_streams_t *streams, mem_vmm_t *vmm)
{
    *streams = (heap_streams_t){.vmm = vmm};
}

static void put_fence(heap_streams_t *streams, heap_stream_t *stream)
{
    if (stream->fence != NULL) {
        streams->vmm->calls->fence_put(streams->vmm, stream->fence);
        stream->fence = NULL;
    }
}

void heap_streams_cleanup(heap_streams_t *streams)
{
    while (streams->all != NULL) {
        heap_stream_t *stream = streams->all;

        streams->all = stream->next;
        put_fence(streams, stream);
        heap_ranges_cleanup(&stream->small.ranges);
        free(stream);
    }
    while (streams->table != NULL) {
        heap_streams_table_t *table = streams->table;

        streams->table = table->smaller;
        free(table);
    }
}

static size_t first_entry(const heap_streams_table_t *table, void *handle)
{
    /* Handles are addresses or small integers, so their bits must be mixed. */
    return ((uintptr_t)handle * UINT64_C(0x9E3779B97F4A7C15) >> 32) &
           (table->capacity - 1);
}

/* Find a stream, including ended ones. */
static heap_stream_t *look_up(const heap_streams_t *streams, void *handle)
{
    const heap_streams_table_t *table =
        __atomic_load_n(&streams->table, __ATOMIC_ACQUIRE);

    if (table == NULL) {
        return NULL;
    }
    for (size_t i = first_entry(table, handle);;
         i        = (i + 1) & (table->capacity - 1)) {
        heap_stream_t *stream =
            __atomic_load_n(&table->entries[i], __ATOMIC_ACQUIRE);

        if ((stream == NULL) || (stream->handle == handle)) {
            return stream;
        }
    }
}

heap_stream_t *heap_streams_find(const heap_streams_t *streams, void *handle)
{
    heap_stream_t *stream = look_up(streams, handle);

    return ((stream != NULL) && !heap_stream_is_ended(stream)) ? stream : NULL;
}

static void enter(heap_streams_table_t *table, heap_stream_t *stream)
{
    size_t i = first_entry(table, stream->handle);

    while (table->entries[i] != NULL) {
        i = (i + 1) & (table->capacity - 1);
    }
    __atomic_store_n(&table->entries[i], stream, __ATOMIC_RELEASE);
}

/* Ensure that the table has room for one more stream. */
static ucxpool_status_t prepare_table(heap_streams_t *streams)
{
    heap_streams_table_t *old = streams->table;
    size_t capacity = (old == NULL) ? FIRST_CAPACITY : 2 * old->capacity;
    heap_streams_table_t *table;

    if ((old != NULL) && (2 * (streams->count + 1) <= old->capacity)) {
        return UCXPOOL_OK;
    }
    table = calloc(1, sizeof(*table) + capacity * sizeof(table->entries[0]));
    if (table == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no host memory for the heap's table of %zu streams",
                          capacity);
    }
    table->smaller  = old;
    table->capacity = capacity;
    for (heap_stream_t *stream = streams->all; stream != NULL;
         stream                = stream->next) {
        enter(table, stream);
    }
    __atomic_store_n(&streams->table, table, __ATOMIC_RELEASE);
    return UCXPOOL_OK;
}

static ucxpool_status_t add(heap_streams_t *streams, void *handle,
                            heap_stream_t **stream_p)
{
    heap_stream_t   *stream;
    ucxpool_status_t status = prepare_table(streams);

    if (status != UCXPOOL_OK) {
        return status;
    }
    stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no host memory for the heap's data of a stream");
    }
    stream->handle = handle;
    stream->over   = streams->vmm->is_host ? ALL_TICKETS : 0;
    heap_index_init(&stream->index);
    small_init(&stream->small);
    stream->next = streams->all;
    streams->all = stream;
    streams->count++;
    enter(streams->table, stream);
    *stream_p = stream;
    return UCXPOOL_OK;
}

static void set_over(heap_stream_t *stream, uint64_t ticket)
{
    __atomic_store_n(&stream->over, ticket, __ATOMIC_RELEASE);
}

/* Restart an ended stream. The tickets of earlier frees have completed, those
 * of later frees have not. Until is_ended is false, no caller can find the
 * stream by its handle and take a ticket. */
static void begin_again(const heap_streams_t *streams, heap_stream_t *stream)
{
    if (!streams->vmm->is_host) {
        set_over(stream, __atomic_load_n(&stream->frees, __ATOMIC_RELAXED));
    }
    __atomic_store_n(&stream->is_ended, false, __ATOMIC_RELEASE);
}

ucxpool_status_t heap_streams_get(heap_streams_t *streams, void *handle,
                                  heap_stream_t **stream_p)
{
    heap_stream_t *stream = look_up(streams, handle);

    if (stream == NULL) {
        return add(streams, handle, stream_p);
    }
    if (heap_stream_is_ended(stream)) {
        begin_again(streams, stream);
    }
    *stream_p = stream;
    return UCXPOOL_OK;
}

void heap_stream_look(heap_streams_t *streams, heap_stream_t *stream)
{
    if ((stream->fence != NULL) &&
        streams->vmm->calls->fence_is_reached(streams->vmm, stream->fence)) {
        set_over(stream, stream->covers);
        put_fence(streams, stream);
    }
}

/* Set a fence after all current tickets. */
static ucxpool_status_t set_fence(heap_streams_t *streams,
                                  heap_stream_t  *stream)
{
    uint64_t     tickets = __atomic_load_n(&stream->frees, __ATOMIC_RELAXED);
    mem_fence_t *fence;
    ucxpool_status_t status;

    if ((stream->fence != NULL) && (stream->covers == tickets)) {
        return UCXPOOL_OK;
    }
    status =
        streams->vmm->calls->fence_set(streams->vmm, stream->handle, &fence);
    if (status != UCXPOOL_OK) {
        return status;
    }
    put_fence(streams, stream);
    stream->fence  = fence;
    stream->covers = tickets;
    return UCXPOOL_OK;
}

static bool is_all_over(const heap_stream_t *stream)
{
    return heap_stream_is_over(
        stream, __atomic_load_n(&stream->frees, __ATOMIC_RELAXED));
}

void heap_stream_ask(heap_streams_t *streams, heap_stream_t *stream)
{
    heap_stream_look(streams, stream);
    if ((stream->fence == NULL) && !is_all_over(stream) &&
        (set_fence(streams, stream) == UCXPOOL_OK)) {
        heap_stream_look(streams, stream);
    }
}

ucxpool_status_t heap_stream_wait(heap_streams_t *streams,
                                  heap_stream_t *stream, heap_stream_t *user)
{
    ucxpool_status_t status;

    heap_stream_look(streams, stream);
    if ((user == stream) || is_all_over(stream)) {
        return UCXPOOL_OK;
    }
    status = set_fence(streams, stream);
    if (status == UCXPOOL_OK) {
        status = streams->vmm->calls->fence_wait(streams->vmm, stream->fence,
                                                 user->handle);
    }
    if (status == UCXPOOL_OK) {
        streams->num_waits++;
    }
    return status;
}

/* Block until the current work in a stream has completed. All tickets of the
 * stream have then completed. */
static ucxpool_status_t stream_sync(heap_streams_t *streams,
                                    heap_stream_t  *stream)
{
    ucxpool_status_t status;

    if (is_all_over(stream)) {
        return UCXPOOL_OK;
    }
    status = set_fence(streams, stream);
    if (status == UCXPOOL_OK) {
        status = streams->vmm->calls->fence_sync(streams->vmm, stream->fence);
    }
    if (status == UCXPOOL_OK) {
        set_over(stream, stream->covers);
        put_fence(streams, stream);
        streams->num_syncs++;
    }
    return status;
}

ucxpool_status_t heap_stream_retire(heap_streams_t *streams,
                                    heap_stream_t  *stream)
{
    ucxpool_status_t status;

    /* Frees in the stream's own pages have no ticket. This ticket covers
     * them. */
    (void)heap_stream_ticket(stream);
    status = stream_sync(streams, stream);
    if (status == UCXPOOL_OK) {
        set_over(stream, ALL_TICKETS);
        __atomic_store_n(&stream->is_ended, true, __ATOMIC_RELEASE);
    }
    return status;
}

ucxpool_status_t heap_streams_sync(heap_streams_t *streams)
{
    for (heap_stream_t *stream = streams->all; stream != NULL;
         stream                = stream->next) {
        ucxpool_status_t status = stream_sync(streams, stream);

        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    return UCXPOOL_OK;
}
