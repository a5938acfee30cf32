#include "heap/heap.h"

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "heap/log.h"
#include "mem/cuda_api.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* Maximum number of medium allocations in the pages of a stream. It applies to
 * heaps with a limit of 32 GiB or more; smaller heaps allow fewer. */
#define MAX_MEDIUMS 64

/* Returns the size of the home, which is twice the limit because some addresses
 * stay unused. An allocation that must start at a chunk boundary may leave a
 * gap before it. Released addresses may be unsuitable for the next growth. */
static uint64_t home_size(const heap_options_t *options)
{
    return base_align_up(2 * options->limit, options->chunk_size) +
           2 * options->chunk_size;
}

/* Returns the number of medium allocations per stream that may be in pages. A
 * few are acceptable: each occupies at most one page, and all of them together
 * at most 1/256 of the limit. */
static unsigned max_mediums(const heap_options_t *options)
{
    return (unsigned)base_min(options->limit / HEAP_PAGE / 256, MAX_MEDIUMS);
}

static ucxpool_status_t init(heap_t *heap)
{
    const mem_vmm_calls_t *calls = heap->vmm->calls;
    uint64_t               home  = home_size(&heap->options);
    void                  *address;
    ucxpool_status_t       status;
    int                    error;

    heap->size = home + base_align_up(heap->options.stitch_size, HEAP_PAGE);
    status     = calls->reserve(heap->vmm, heap->size, heap->options.chunk_size,
                                &address);
    if (status != UCXPOOL_OK) {
        return status;
    }
    heap->address = address;
    status        = heap_page_map_init(&heap->page_map, heap->size);
    if (status != UCXPOOL_OK) {
        goto err_release;
    }
    status = heap_space_init(&heap->space, heap->vmm, address, home,
                             heap->options.chunk_size);
    if (status != UCXPOOL_OK) {
        goto err_cleanup_page_map;
    }
    error = pthread_mutex_init(&heap->lock, NULL);
    if (error != 0) {
        status = base_error_errno(error, "cannot create a lock for the heap");
        goto err_cleanup_space;
    }
    heap_streams_init(&heap->streams, heap->vmm);
    heap_stitcher_init(&heap->stitcher, &heap->space, home, heap->size);
    return UCXPOOL_OK;

err_cleanup_space:
    heap_space_cleanup(&heap->space);
err_cleanup_page_map:
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
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no host memory for the heap's bookkeeping "
                          "(%zu bytes)",
                          sizeof(*heap));
    }
    heap->vmm           = vmm;
    heap->options       = *options;
    heap->max_mediums   = max_mediums(options);
    heap->counted.limit = options->limit;
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

/* --- streams -------------------------------------------------------------- */

/* Find a stream by its handle. *stream_p is NULL if the stream is unknown or
 * has ended. Rejects handles that are not supported. CU_STREAM_LEGACY is
 * equivalent to NULL. */
static ucxpool_status_t find_stream(const heap_t *heap, void *handle,
                                    heap_stream_t **stream_p)
{
    if (handle == CU_STREAM_LEGACY) {
        handle = NULL;
    }
    *stream_p = heap_streams_find(&heap->streams, handle);
    if (handle == CU_STREAM_PER_THREAD) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "CU_STREAM_PER_THREAD is a different stream in each "
                          "thread: pass a stream from cuStreamCreate()");
    }
    return UCXPOOL_OK;
}

/* Like find_stream(), but adds an unknown stream and restarts an ended one. */
static ucxpool_status_t stream_of(heap_t *heap, void *handle,
                                  heap_stream_t **stream_p)
{
    ucxpool_status_t status = find_stream(heap, handle, stream_p);

    if ((status != UCXPOOL_OK) || (*stream_p != NULL)) {
        return status;
    }
    if (handle == CU_STREAM_LEGACY) {
        handle = NULL;
    }
    pthread_mutex_lock(&heap->lock);
    status = heap_streams_get(&heap->streams, handle, stream_p);
    pthread_mutex_unlock(&heap->lock);
    return status;
}

/* Convert an address to an offset. Returns false if the address is outside the
 * heap. */
static bool offset_of(const heap_t *heap, const void *address,
                      uint64_t *offset_p)
{
    uintptr_t begin = (uintptr_t)heap->address;

    *offset_p = (uintptr_t)address - begin;
    return ((uintptr_t)address >= begin) && (*offset_p < heap->size);
}

ucxpool_status_t heap_stream_end(heap_t *heap, void *handle)
{
    heap_stream_t   *stream;
    ucxpool_status_t status = find_stream(heap, handle, &stream);

    if ((status != UCXPOOL_OK) || (stream == NULL)) {
        return status;
    }
    pthread_mutex_lock(&heap->lock);
    heap_collect(heap, stream, 0);
    status = heap_stream_retire(&heap->streams, stream);
    pthread_mutex_unlock(&heap->lock);
    return status;
}

/* --- statistics -------------------------------------------------------------
 * Statistics are computed by a walk over all ranges, so that allocation and
 * free need no counters.
 */

#define MIB ((double)(1 << 20))

static heap_class_stats_t *class_of(heap_stats_t *stats, uint64_t size)
{
    unsigned number =
        (size > 1) ? 64u - (unsigned)__builtin_clzll(size - 1) : 0;

    return &stats->classes[base_min(number, HEAP_CLASSES - 1u)];
}

static void count_live(heap_stats_t *stats, const heap_range_t *range)
{
    uint64_t asked            = heap_range_asked(range);
    heap_class_stats_t *class = class_of(stats, asked);

    class->live++;
    class->live_bytes += range->size;
    stats->live += range->size;
    stats->asked += asked;
    stats->num_live++;
}

static void count_free(heap_stats_t *stats, const heap_range_t *range)
{
    heap_class_stats_t *class = class_of(stats, range->size);

    class->free++;
    class->free_bytes += range->size;
    stats->largest_contiguous =
        base_max(stats->largest_contiguous, range->size);
}

static void count(heap_stats_t *stats, const heap_range_t *range)
{
    switch (heap_range_state(range)) {
    case HEAP_LIVE:
        count_live(stats, range);
        break;
    case HEAP_FREE:
    case HEAP_CACHED:
    case HEAP_DEFERRED:
        count_free(stats, range);
        break;
    default:
        break;
    }
}

static void count_pages(const heap_small_t *small, heap_stats_t *stats)
{
    const heap_page_t *page;

    base_list_for_each(page, &small->pages, heap_page_t, link) {
        for (const heap_range_t *range = page->first; range != NULL;
             range                     = range->after) {
            count(stats, range);
        }
    }
}

static void count_streams(heap_t *heap, heap_stats_t *stats)
{
    for (heap_stream_t *stream = heap->streams.all; stream != NULL;
         stream                = stream->next) {
        base_lock_take(&stream->lock);
        count_pages(&stream->small, stats);
        stats->allocations += stream->num_allocs;
        base_lock_give(&stream->lock);
        stats->largest_stitchable += heap_stitchable(&heap->space, stream);
    }
}

/* Count the stitched ranges, which are not ranges of the home. */
static void count_stitched(const heap_t *heap, heap_stats_t *stats)
{
    const heap_stitched_t *stitched;

    base_list_for_each(stitched, &heap->stitcher.all, heap_stitched_t, link) {
        stats->mapped += stitched->size;
        stats->mappings += stitched->num_mappings;
        if (stitched->range != NULL) {
            stats->stitched_live++;
            count(stats, stitched->range);
        } else {
            stats->stitched_kept++;
        }
    }
}

static void copy_counters(const heap_t *heap, heap_stats_t *stats)
{
    const heap_home_t *home = &heap->space.home;

    stats->reserved     = home->reserved;
    stats->chunks       = home->num_chunks;
    stats->pages        = home->num_pages;
    stats->mapped       = home->reserved;
    stats->mappings     = home->num_chunks + home->num_pages;
    stats->stitches     = heap->stitcher.num_stitches;
    stats->restitches   = heap->stitcher.num_restitches;
    stats->stream_waits = heap->streams.num_waits;
    stats->syncs        = heap->streams.num_syncs;
}

/* Take the statistics. Called with the heap's lock held. */
static void take_stats(heap_t *heap, heap_stats_t *stats)
{
    *stats = heap->counted;
    copy_counters(heap, stats);
    for (const heap_range_t *range = heap_space_first(&heap->space);
         range != NULL; range      = range->after) {
        count(stats, range);
    }
    count_streams(heap, stats);
    count_stitched(heap, stats);
    stats->free = stats->reserved - stats->live;
    stats->largest_stitchable =
        base_max(stats->largest_stitchable, stats->largest_contiguous);
    if (stats->free > 0) {
        double bytes = (double)stats->free;

        stats->fragmentation = 1 - (double)stats->largest_contiguous / bytes;
        stats->fragmentation_stitched =
            1 - (double)stats->largest_stitchable / bytes;
    }
}

void heap_stats(heap_t *heap, heap_stats_t *stats_p)
{
    pthread_mutex_lock(&heap->lock);
    heap_collect_all(heap);
    take_stats(heap, stats_p);
    pthread_mutex_unlock(&heap->lock);
}

/* Returns advice on what to change, depending on whether the limit is the
 * cause. */
static const char *advice(const heap_stats_t *stats, uint64_t size)
{
    return (size <= stats->limit - stats->reserved)
               ? "the system has no more memory: free some in this process or "
                 "another"
               : "raise UCXPOOL_MEMORY_LIMIT, or free memory";
}

/* Record why an allocation for a stream fails, with the sizes of live and free
 * memory and of the largest pieces. */
static ucxpool_status_t fail(heap_t *heap, uint64_t size, const void *handle,
                             ucxpool_status_t status)
{
    heap_stats_t stats;
    char         cause[160] = "";

    if (status != UCXPOOL_ERR_NO_MEMORY) {
        snprintf(cause, sizeof(cause), "%s; ", ucxpool_error_detail());
    }
    pthread_mutex_lock(&heap->lock);
    heap->counted.failures++;
    take_stats(heap, &stats);
    pthread_mutex_unlock(&heap->lock);
    heap_log_write(heap->log, HEAP_LOG_FAILURE, NULL, size, handle);
    return base_error(
        status,
        "%sthe heap cannot allocate %.1f MiB: its limit is %.1f MiB, "
        "reserved %.1f, live %.1f (%" PRIu64 " allocations), free "
        "%.1f, largest free range %.1f, in whole chunks %.1f; %s",
        cause, (double)size / MIB, (double)stats.limit / MIB,
        (double)stats.reserved / MIB, (double)stats.live / MIB, stats.num_live,
        (double)stats.free / MIB, (double)stats.largest_contiguous / MIB,
        (double)stats.largest_stitchable / MIB, advice(&stats, size));
}

/* --- allocation ----------------------------------------------------------- */

void heap_set_failure_handler(heap_t *heap, ucxpool_t *pool,
                              ucxpool_heap_failure_handler_t handler, void *arg)
{
    pthread_mutex_lock(&heap->lock);
    heap->pool        = pool;
    heap->handler     = handler;
    heap->handler_arg = arg;
    pthread_mutex_unlock(&heap->lock);
}

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

/* Turn a range of the size of a page into a page of the stream. Called with the
 * heap's lock held. */
static ucxpool_status_t add_found(heap_t *heap, heap_stream_t *stream,
                                  heap_range_t *place)
{
    ucxpool_status_t status;
    heap_page_t     *page = page_get(heap);

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

/* Take a range in the stream's pages. UCXPOOL_OK: *range_p is live; NULL: no
 * room. Fails if the stream already has too many medium allocations. */
static ucxpool_status_t take_in_page(const heap_t *heap, heap_stream_t *stream,
                                     uint64_t size, uint64_t asked,
                                     heap_range_t **range_p)
{
    heap_small_t    *small     = &stream->small;
    bool             is_medium = size > HEAP_SMALL_MAX;
    ucxpool_status_t status    = UCXPOOL_ERR_LIMIT;

    base_lock_take(&stream->lock);
    if (!is_medium || (small->num_mediums < heap->max_mediums)) {
        status = heap_small_take(small, size, asked, range_p);
        if (is_medium && (status == UCXPOOL_OK) && (*range_p == NULL) &&
            (small->num_pages >= heap->max_mediums / 4)) {
            /* The stream has enough pages: join the cached ranges instead. */
            heap_small_join(small);
            status = heap_small_take(small, size, asked, range_p);
        }
        stream->num_allocs += (*range_p != NULL);
    }
    base_lock_give(&stream->lock);
    return status;
}

/* Reclaim ranges in this stream's pages that other streams have freed. Returns
 * false if no such range is left. Called with the heap's lock held. */
static bool settle_deferred(heap_t *heap, heap_stream_t *stream)
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

/* Add a page to the stream for an allocation of this size. Fails for a medium
 * allocation if that would take long. Called with the heap's lock held. */
static ucxpool_status_t add_page(heap_t *heap, heap_stream_t *stream,
                                 uint64_t size)
{
    heap_range_t    *place;
    ucxpool_status_t status;

    status = (size > HEAP_SMALL_MAX)
                 ? heap_find_page_soon(heap, stream, &place)
                 : heap_find(heap, stream, HEAP_PAGE, true, &place);
    return (status == UCXPOOL_OK) ? add_found(heap, stream, place) : status;
}

static ucxpool_status_t alloc_in_page(heap_t *heap, heap_stream_t *stream,
                                      uint64_t size, uint64_t asked,
                                      heap_range_t **range_p)
{
    bool             is_settled = false;
    ucxpool_status_t status = take_in_page(heap, stream, size, asked, range_p);

    if ((status != UCXPOOL_OK) || (*range_p != NULL)) {
        return status;
    }
    pthread_mutex_lock(&heap->lock);
    /* Other threads of the stream may take the room that is made here. */
    while ((status == UCXPOOL_OK) && (*range_p == NULL)) {
        if (is_settled) {
            status = add_page(heap, stream, size);
        } else {
            is_settled = !settle_deferred(heap, stream);
        }
        if (status == UCXPOOL_OK) {
            status = take_in_page(heap, stream, size, asked, range_p);
        }
    }
    pthread_mutex_unlock(&heap->lock);
    return status;
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
        heap->counted.allocations++;
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
        return alloc_in_page(heap, stream, size, asked, range_p);
    }
    if ((size <= HEAP_MEDIUM_MAX) &&
        !__atomic_load_n(&heap->is_tight, __ATOMIC_RELAXED)) {
        base_error_do_at(BASE_LOG_DEBUG, (void)alloc_in_page(heap, stream, size,
                                                             asked, range_p));
    }
    return (*range_p != NULL) ? UCXPOOL_OK
                              : alloc_large(heap, stream, size, asked, range_p);
}

static bool ask_application(heap_t *heap, uint64_t asked, void *stream)
{
    ucxpool_heap_failure_handler_t handler;
    ucxpool_t                     *pool;
    void                          *arg;

    pthread_mutex_lock(&heap->lock);
    handler = heap->handler;
    pool    = heap->pool;
    arg     = heap->handler_arg;
    pthread_mutex_unlock(&heap->lock);
    return (handler != NULL) && (handler(arg, pool, asked, stream) != 0);
}

/* Round a size up to the alignment. Returns false if the result exceeds the
 * limit. */
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
    ucxpool_status_t status = stream_of(heap, handle, &stream);

    if (status != UCXPOOL_OK) {
        return status;
    }
    if (asked == 0) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "cannot allocate 0 bytes: request 1 or more");
    }
    if (!round_up(heap, asked, &size)) {
        return fail(heap, asked, handle, UCXPOOL_ERR_NO_MEMORY);
    }
    do {
        status = alloc_any(heap, stream, size, asked, &range);
    } while ((status != UCXPOOL_OK) && ask_application(heap, asked, handle));
    if (status != UCXPOOL_OK) {
        return fail(heap, asked, handle, status);
    }
    *address_p = heap->address + range->offset;
    heap_log_write(heap->log, HEAP_LOG_ALLOC, *address_p, asked, handle);
    return UCXPOOL_OK;
}

/* --- free ----------------------------------------------------------------- */

static ucxpool_status_t refuse(const void *address, const char *why)
{
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "%p is not a live allocation of this heap: %s", address,
                      why);
}

static ucxpool_status_t refuse_dead(const void *address)
{
    return refuse(address,
                  "it has already been freed, or begins at another address");
}

/* Free a small or medium allocation. Called with the lock of the page's stream
 * held. */
static bool give_small(heap_t *heap, heap_stream_t *owner,
                       heap_stream_t *stream, heap_range_t *range,
                       void *address)
{
    bool is_deferred = (owner != stream) && !heap->vmm->is_host;

    if (!heap_range_is(range, HEAP_LIVE)) {
        return false;
    }
    heap_range_become(range, is_deferred ? HEAP_DEFERRED : HEAP_CACHED);
    heap_log_write(heap->log, HEAP_LOG_FREE, address, heap_range_asked(range),
                   stream->handle);
    if (is_deferred) {
        range->stream = stream;
        range->ticket = heap_stream_ticket(stream);
    }
    heap_small_give(&owner->small, range);
    return true;
}

static ucxpool_status_t free_small(heap_t *heap, heap_page_t *page,
                                   uint64_t offset, heap_stream_t *stream,
                                   void *address)
{
    heap_stream_t *owner = __atomic_load_n(&page->stream, __ATOMIC_ACQUIRE);
    bool           is_given;

    base_lock_take(&owner->lock);
    /* The page may have been released since it was looked up, but only if it
     * had no live allocations. */
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
    heap_range_t *released[HEAP_FREE_CACHE_DEPTH];
    unsigned      num_released;

    if ((range == NULL) || !heap_range_turn(range, HEAP_LIVE, HEAP_CACHED)) {
        return refuse_dead(address);
    }
    heap_log_write(heap->log, HEAP_LOG_FREE, address, heap_range_asked(range),
                   stream->handle);
    base_lock_take(&stream->lock);
    num_released = heap_free_cache_put(&stream->cache, range, released);
    base_lock_give(&stream->lock);
    if (num_released > 0) {
        pthread_mutex_lock(&heap->lock);
        for (unsigned i = 0; i < num_released; i++) {
            heap_release_range(heap, released[i], stream);
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
    ucxpool_status_t status = stream_of(heap, handle, &stream);

    if ((status != UCXPOOL_OK) || (address == NULL)) {
        return status;
    }
    if (!offset_of(heap, address, &offset)) {
        return refuse(address,
                      "it is outside the heap; pass the pool that allocated "
                      "it");
    }
    page = heap_page_map_page(&heap->page_map, offset);
    if (page != NULL) {
        return free_small(heap, page, offset, stream, address);
    }
    return free_large(heap, heap_page_map_find(&heap->page_map, offset), stream,
                      address);
}

/* --- queries -------------------------------------------------------------- */

/* A position in a live allocation. */
typedef struct place {
    uint64_t               offset; /* the queried offset */
    uint64_t               begin;
    uint64_t               size;     /* of the allocation, rounded up */
    const heap_stitched_t *stitched; /* NULL: not stitched, in the home */
} place_t;

static void fill(const heap_range_t *range, place_t *place)
{
    place->begin    = range->offset;
    place->size     = range->size;
    place->stitched = range->stitched;
}

static bool find_small(heap_page_t *page, place_t *place)
{
    heap_stream_t      *owner = page->stream;
    const heap_range_t *range;

    base_lock_take(&owner->lock);
    range = heap_small_around(page, place->offset);
    if (range != NULL) {
        fill(range, place);
    }
    base_lock_give(&owner->lock);
    return range != NULL;
}

static bool find_large(const heap_t *heap, place_t *place)
{
    const heap_stitched_t *stitched;
    const heap_range_t    *range = NULL;

    if (place->offset < heap->space.home.size) {
        range = heap_space_cover(&heap->space, place->offset);
    } else {
        stitched = heap_stitched_around(&heap->stitcher, place->offset);
        range    = (stitched != NULL) ? stitched->range : NULL;
    }
    if (!heap_range_is(range, HEAP_LIVE)) {
        return false;
    }
    fill(range, place);
    return true;
}

/* Find the live allocation at an address. Called with the heap's lock held. */
static ucxpool_status_t find_live(heap_t *heap, const void *address,
                                  place_t *place)
{
    heap_page_t *page     = NULL;
    bool         is_found = false;

    if (offset_of(heap, address, &place->offset)) {
        page = heap_page_map_page(&heap->page_map, place->offset);
        is_found =
            (page != NULL) ? find_small(page, place) : find_large(heap, place);
    }
    if (!is_found || (place->offset >= place->begin + place->size)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%p is not in a live allocation of this heap: pass "
                          "the pool that allocated it",
                          address);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t heap_usable_size(heap_t *heap, const void *address,
                                  size_t *size_p)
{
    place_t          place;
    ucxpool_status_t status;

    pthread_mutex_lock(&heap->lock);
    status = find_live(heap, address, &place);
    pthread_mutex_unlock(&heap->lock);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (place.offset != place.begin) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%p is not the start of its allocation, which begins "
                          "%zu bytes earlier",
                          address, (size_t)(place.offset - place.begin));
    }
    *size_p = place.size;
    return UCXPOOL_OK;
}

/* Returns the offset in the home of a byte of an allocation. Stores the number
 * of contiguous bytes from there on in *length_p. */
static uint64_t home_of(const place_t *place, uint64_t offset,
                        uint64_t *length_p)
{
    const heap_stitched_t *stitched = place->stitched;
    uint64_t               inside;

    if (stitched == NULL) {
        *length_p = place->begin + place->size - offset;
        return offset;
    }
    inside = offset - stitched->offset;
    for (size_t i = 0;; i++) {
        const heap_run_t *run = &stitched->runs[i];

        if (inside < run->size) {
            *length_p = run->size - inside;
            return run->home + inside;
        }
        inside -= run->size;
    }
}

/* Get the segment at an offset, at most `length` bytes long. */
static void segment_at(const heap_t *heap, const place_t *place,
                       uint64_t offset, uint64_t length,
                       ucxpool_heap_segment_t *segment)
{
    uint64_t in_a_row;
    uint64_t home  = home_of(place, offset, &in_a_row);
    uint64_t grain = heap_home_grain(&heap->space.home, home);
    uint64_t chunk = home & ~(grain - 1);

    *segment = (ucxpool_heap_segment_t){
        .address = heap->address + home,
        .length  = base_min(base_min(in_a_row, chunk + grain - home), length),
        .chunk   = heap->address + chunk,
        .chunk_size = grain,
    };
}

ucxpool_status_t heap_segments(heap_t *heap, const void *address, size_t length,
                               ucxpool_heap_segment_t *segments,
                               size_t max_segments, size_t *num_segments_p)
{
    place_t                place;
    ucxpool_heap_segment_t segment;
    size_t                 num = 0;
    ucxpool_status_t       status;

    pthread_mutex_lock(&heap->lock);
    status = find_live(heap, address, &place);
    if ((status == UCXPOOL_OK) &&
        ((length == 0) || (length > place.begin + place.size - place.offset))) {
        status = base_error(UCXPOOL_ERR_INVALID_PARAM,
                            "invalid range of %zu bytes at %p: the allocation "
                            "has %zu bytes there",
                            length, address,
                            (size_t)(place.begin + place.size - place.offset));
    }
    for (size_t done = 0; (status == UCXPOOL_OK) && (done < length);
         done += segment.length) {
        segment_at(heap, &place, place.offset + done, length - done, &segment);
        if (num < max_segments) {
            segments[num] = segment;
        }
        num++;
    }
    pthread_mutex_unlock(&heap->lock);
    if (status == UCXPOOL_OK) {
        *num_segments_p = num;
    }
    return status;
}

bool heap_file(heap_t *heap, const void *address, size_t length,
               heap_file_t *file_p)
{
    const mem_vmm_calls_t *calls = heap->vmm->calls;
    ucxpool_heap_segment_t segment;
    place_t                place;
    bool                   is_live;
    uint64_t               chunk;
    uint64_t               start = 0;

    if ((calls->chunk_file == NULL) || (length == 0) ||
        !offset_of(heap, address, &place.offset)) {
        return false;
    }
    pthread_mutex_lock(&heap->lock);
    is_live = find_live(heap, address, &place) == UCXPOOL_OK;
    if (is_live) {
        length =
            base_min(length, (size_t)(place.begin + place.size - place.offset));
        segment_at(heap, &place, place.offset, length, &segment);
        chunk = (uint64_t)((char *)segment.chunk - heap->address);
        calls->chunk_file(heap->vmm, heap_home_chunk(&heap->space.home, chunk),
                          &file_p->fd, &start);
        file_p->offset =
            start + (uint64_t)((char *)segment.address - (char *)segment.chunk);
        file_p->length = segment.length;
    }
    pthread_mutex_unlock(&heap->lock);
    return is_live;
}

/* --- invariants ----------------------------------------------------------- */

static ucxpool_status_t fault(const char *what, uint64_t offset)
{
    return base_error(UCXPOOL_ERR_PROTOCOL, "heap, offset %" PRIu64 ": %s",
                      offset, what);
}

/* Check that a hole has no memory, and that any other range has memory. */
static ucxpool_status_t check_backing(const heap_home_t  *home,
                                      const heap_range_t *range)
{
    bool     is_hole = heap_range_state(range) == HEAP_UNBACKED;
    uint64_t page    = range->offset & ~(HEAP_PAGE - 1);

    for (; page < heap_range_end(range); page += HEAP_PAGE) {
        if ((heap_home_chunk(home, page) != 0) == is_hole) {
            return fault(
                is_hole ? "a hole has memory" : "a range has no memory", page);
        }
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t
check_range(const heap_t *heap, const heap_range_t *range, uint64_t *indexed)
{
    const heap_range_t *after = range->after;

    if ((range->size == 0) || (range->size % HEAP_UNIT != 0)) {
        return fault("invalid size of a range", range->offset);
    }
    if ((after != NULL) && ((after->before != range) ||
                            (after->offset != heap_range_end(range)))) {
        return fault("neighbors are not adjacent", range->offset);
    }
    if (heap_space_cover(&heap->space, range->offset) != range) {
        return fault("a range is not found by its offset", range->offset);
    }
    if (heap_range_state(range) == HEAP_FREE) {
        *indexed += range->size;
        if (heap_range_is(after, HEAP_FREE) &&
            (after->stream == range->stream)) {
            return fault("two free ranges of one stream are adjacent",
                         range->offset);
        }
    }
    return check_backing(&heap->space.home, range);
}

static ucxpool_status_t check_home(const heap_t *heap)
{
    const heap_home_t *home    = &heap->space.home;
    uint64_t           end     = 0;
    uint64_t           indexed = 0;
    uint64_t           sum     = 0;
    ucxpool_status_t   status;

    for (const heap_range_t *range = heap_space_first(&heap->space);
         range != NULL; range      = range->after) {
        status = check_range(heap, range, &indexed);
        if (status != UCXPOOL_OK) {
            return status;
        }
        end = heap_range_end(range);
    }
    for (const heap_stream_t *stream = heap->streams.all; stream != NULL;
         stream                      = stream->next) {
        sum += stream->index.size;
    }
    if (end != home->size) {
        return fault("the last range ends before the home", end);
    }
    return (sum == indexed)
               ? UCXPOOL_OK
               : fault("the indexes do not hold all free ranges", sum);
}

static ucxpool_status_t check_counts(const heap_t *heap)
{
    const heap_home_t *home = &heap->space.home;
    uint64_t           sum =
        home->num_chunks * home->slot_size + home->num_pages * HEAP_PAGE;

    if ((home->reserved != sum) || (sum > heap->options.limit)) {
        return fault("the reserved size does not match the chunks and pages",
                     sum);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t check_stitched(const heap_t *heap)
{
    const heap_stitched_t *stitched;
    uint64_t               end = heap->stitcher.begin;

    base_list_for_each(stitched, &heap->stitcher.all, heap_stitched_t, link) {
        uint64_t left = (stitched->range != NULL) ? stitched->range->size : 0;

        if (stitched->offset < end) {
            return fault("stitched ranges overlap", stitched->offset);
        }
        end = stitched->offset + stitched->size;
        for (size_t i = 0; left > 0; i++) {
            const heap_range_t *range =
                heap_space_cover(&heap->space, stitched->runs[i].home);

            if ((heap_range_state(range) != HEAP_STITCHED) ||
                (range->offset != stitched->runs[i].home) ||
                (range->size > left)) {
                return fault("a run in use is not HEAP_STITCHED",
                             range->offset);
            }
            left -= range->size;
        }
    }
    return UCXPOOL_OK;
}

ucxpool_status_t heap_check(heap_t *heap)
{
    ucxpool_status_t status;

    pthread_mutex_lock(&heap->lock);
    status = check_home(heap);
    if (status == UCXPOOL_OK) {
        status = check_counts(heap);
    }
    if (status == UCXPOOL_OK) {
        status = check_stitched(heap);
    }
    pthread_mutex_unlock(&heap->lock);
    return status;
}

static const char *const state_words[] = {
    [HEAP_UNBACKED] = "hole",     [HEAP_FREE] = "free",
    [HEAP_LIVE] = "live",         [HEAP_CACHED] = "free",
    [HEAP_STITCHED] = "stitched", [HEAP_SMALL] = "small",
    [HEAP_DEFERRED] = "free",     [HEAP_SPARE] = "spare"};

void heap_print_ranges(heap_t *heap, FILE *stream)
{
    pthread_mutex_lock(&heap->lock);
    for (const heap_range_t *range = heap_space_first(&heap->space);
         range != NULL; range      = range->after) {
        fprintf(stream, "%p %14" PRIu64 " %s\n",
                (void *)(heap->address + range->offset), range->size,
                state_words[heap_range_state(range)]);
    }
    pthread_mutex_unlock(&heap->lock);
}
