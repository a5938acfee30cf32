#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "heap/heap.h"

#include <inttypes.h>
#include <stdio.h>

/* --- reclaiming -------------------------------------------------------------
 * These functions collect the memory that streams have cached or freed, for a
 * stream that needs memory.
 */

void heap_release_range(heap_t *heap, heap_range_t *range,
                        heap_stream_t *stream)
{
    uint64_t ticket = heap_stream_ticket(stream);

    heap_page_map_remove(&heap->page_map, range);
    if (range->stitched != NULL) {
        heap_unstitch(&heap->stitcher, range, stream, ticket);
    } else {
        heap_space_give(&heap->space, range, stream, ticket);
    }
}

void heap_release_page(heap_t *heap, heap_page_t *page, heap_stream_t *stream)
{
    heap_page_map_set_page(&heap->page_map, page->place->offset, NULL);
    heap_space_give(&heap->space, page->place, stream,
                    heap_stream_ticket(stream));
    page->place       = NULL;
    page->next        = heap->spare_pages;
    heap->spare_pages = page;
}

void heap_collect(heap_t *heap, heap_stream_t *stream, unsigned keep)
{
    heap_range_t *ranges[HEAP_FREE_CACHE_DEPTH];
    heap_page_t  *page;
    unsigned      num;

    base_lock_take(&stream->lock);
    while ((num = heap_free_cache_empty(&stream->cache, ranges)) != 0) {
        for (unsigned i = 0; i < num; i++) {
            heap_release_range(heap, ranges[i], stream);
        }
    }
    if (keep == 0) {
        heap_small_settle(&stream->small, NULL, 0);
        heap_small_join(&stream->small);
    }
    while ((page = heap_small_remove(&stream->small, keep)) != NULL) {
        heap_release_page(heap, page, stream);
    }
    base_lock_give(&stream->lock);
}

void heap_collect_all(heap_t *heap)
{
    for (heap_stream_t *stream = heap->streams.all; stream != NULL;
         stream                = stream->next) {
        heap_stream_look(&heap->streams, stream);
        heap_collect(heap, stream, 0);
    }
}

static void move_all(heap_t *heap, heap_stream_t *from, heap_stream_t *to)
{
    uint64_t      ticket = heap_stream_ticket(to);
    heap_range_t *range;

    while ((range = heap_index_first(&from->index, 0)) != NULL) {
        bool is_over = heap_stream_is_over(from, range->ticket);

        heap_index_remove(&from->index, range);
        heap_space_give(&heap->space, range, to, is_over ? 0 : ticket);
    }
}

/* Move the free ranges of all other streams to `stream`, and make `stream` wait
 * for the work in those streams. */
static void move_all_to(heap_t *heap, heap_stream_t *stream)
{
    for (heap_stream_t *other = heap->streams.all; other != NULL;
         other                = other->next) {
        if ((other != stream) && (other->index.size > 0) &&
            (heap_stream_wait(&heap->streams, other, stream) == UCXPOOL_OK)) {
            move_all(heap, other, stream);
        }
    }
}

/* Returns a stream that has not ended, or any stream if all have ended. Returns
 * NULL if the heap has no streams. */
static heap_stream_t *any_stream(const heap_t *heap)
{
    heap_stream_t *stream = heap->streams.all;

    while ((stream != NULL) && heap_stream_is_ended(stream)) {
        stream = stream->next;
    }
    /* If all streams have ended, all their free ranges can be used at once. */
    return (stream != NULL) ? stream : heap->streams.all;
}

ucxpool_status_t heap_settle(heap_t *heap, heap_stream_t *stream)
{
    ucxpool_status_t status = UCXPOOL_OK;

    /* The first pass waits for the tickets of deferred ranges. The second pass
     * frees these ranges, and waits for the resulting tickets. */
    for (int i = 0; (i < 2) && (status == UCXPOOL_OK); i++) {
        heap_collect_all(heap);
        status = heap_streams_sync(&heap->streams);
    }
    if (stream == NULL) {
        stream = any_stream(heap);
    }
    if ((status == UCXPOOL_OK) && (stream != NULL)) {
        move_all_to(heap, stream);
    }
    return status;
}

/* --- growth -----------------------------------------------------------------
 * These functions allocate only the missing memory from the driver.
 */

/* A place to add memory, and the amount. */
typedef struct site {
    heap_range_t *hole;
    uint64_t      offset;
    uint64_t      size;
} site_t;

/* Returns the size of a range next to a hole; 0 if the stream cannot use the
 * range. */
static uint64_t usable(const heap_range_t *range, const heap_stream_t *stream)
{
    return (heap_range_is(range, HEAP_FREE) &&
            heap_stream_may_use(stream, range->stream, range->ticket))
               ? range->size
               : 0;
}

/* Compute the minimum amount of memory to add in this hole so that `size`
 * contiguous bytes are free. Returns false if the hole is too short, or if no
 * memory is missing. */
static bool site_in(const heap_t *heap, heap_range_t *hole,
                    const heap_stream_t *stream, uint64_t size, site_t *site)
{
    uint64_t slot_size = heap->space.home.slot_size;
    uint64_t before    = usable(hole->before, stream);
    uint64_t after     = usable(hole->after, stream);
    uint64_t aligned   = base_align_up(hole->offset, slot_size);
    uint64_t missing = base_align_up(size - base_min(size, before), HEAP_PAGE);

    *site = (site_t){hole, hole->offset, missing};
    if (missing == 0) {
        return false;
    }
    if ((before == 0) && (size >= slot_size) &&
        (aligned + missing <= heap_range_end(hole))) {
        /* Start at a slot boundary, so that chunks are large. */
        site->offset = aligned;
        return true;
    }
    if (missing <= hole->size) {
        return true;
    }
    site->size = hole->size;
    return before + hole->size + after >= size;
}

static bool find_site(const heap_t *heap, const heap_stream_t *stream,
                      uint64_t size, bool is_page, site_t *best)
{
    heap_range_t *hole;
    site_t        site;

    best->hole = NULL;
    base_list_for_each(hole, &heap->space.holes, heap_range_t, link) {
        if (is_page) {
            site = (site_t){hole, hole->offset, HEAP_PAGE};
        } else if (!site_in(heap, hole, stream, size, &site)) {
            continue;
        }
        if ((best->hole == NULL) || (site.size < best->size) ||
            ((site.size == best->size) && (site.offset < best->offset))) {
            *best = site;
        }
    }
    return best->hole != NULL;
}

static void become_tight(heap_t *heap)
{
    __atomic_store_n(&heap->is_tight, true, __ATOMIC_RELAXED);
}

/* Add memory at a site; the memory is free with the given ticket. Fails if the
 * driver has too little memory, even if the limit allows the growth. *range_p
 * is the free range; it is unchanged if the limit does not allow the growth. */
static ucxpool_status_t back_site(heap_t *heap, const site_t *site,
                                  heap_stream_t *stream, uint64_t ticket,
                                  heap_range_t **range_p)
{
    heap_home_t     *home = &heap->space.home;
    ucxpool_status_t status;

    if (site->size > heap->options.limit - home->reserved) {
        become_tight(heap);
        return UCXPOOL_OK;
    }
    status = heap_space_back(&heap->space, site->hole, site->offset, site->size,
                             stream, ticket, range_p);
    if (status == UCXPOOL_ERR_NO_MEMORY) {
        become_tight(heap);
    }
    if (status == UCXPOOL_OK) {
        heap_page_map_open(&heap->page_map, site->offset, site->size);
        heap->counted.grows++;
        heap->counted.peak_reserved =
            base_max(heap->counted.peak_reserved, home->reserved);
    }
    return status;
}

/* Add whole pages in consecutive holes. */
static ucxpool_status_t back_pages(heap_t *heap, heap_stream_t *stream,
                                   uint64_t ticket, uint64_t size)
{
    heap_range_t *range = NULL;
    heap_range_t *hole;
    site_t        site;

    while ((size > 0) && !base_list_is_empty(&heap->space.holes)) {
        ucxpool_status_t status;

        hole   = base_list_head(&heap->space.holes, heap_range_t, link);
        site   = (site_t){hole, hole->offset, base_min(hole->size, size)};
        status = back_site(heap, &site, stream, ticket, &range);
        if (status != UCXPOOL_OK) {
            return status;
        }
        size -= site.size;
    }
    return UCXPOOL_OK;
}

/* --- search steps -----------------------------------------------------------
 * The steps are in order of cost: the first steps cost nothing, and the last
 * step makes the caller wait.
 */

/* Maximum number of mappings that a stitch may create if the heap can grow
 * instead. Creating more mappings takes several times as long as allocating
 * memory. */
#define FEW_MAPPINGS 128

/*
 * A heap that stitches often should grow instead, up to 1.5 times the peak of
 * memory in use. With that much memory, nearly all sizes fit somewhere.
 *
 * A heap stitches often if it stitches more than once in SELDOM allocations
 * that no cache served. A program that repeats the same allocations, such as
 * training, stitches seldom, and its heap should not hold more memory. Each
 * stitch adds SELDOM to stitches_owed, and each allocation that no cache served
 * subtracts 1. Values up to FEW_OWED, as at the start of a program, have no
 * effect. From FEW_OWED to MOST_OWED the allowed size rises to 1.5 times the
 * peak.
 * stitches_owed is at least -FEW_OWED, so that old behavior does not outweigh
 * recent behavior.
 */
#define SELDOM    80
#define FEW_OWED  (16 * SELDOM)
#define MOST_OWED (48 * SELDOM)

typedef struct search {
    heap_t          *heap;
    heap_stream_t   *stream;
    uint64_t         size;
    bool             is_page;
    bool             is_exhaustive; /* cheap searches have failed */
    heap_range_t    *range;         /* the result, or NULL */
    ucxpool_status_t status;        /* last error */
} search_t;

static void note(search_t *search, ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        search->status = status;
    }
}

/* Find the offset in a free range where the request fits. */
static bool fits(const search_t *search, const heap_range_t *range,
                 uint64_t *offset_p)
{
    *offset_p = search->is_page ? base_align_up(range->offset, HEAP_PAGE)
                                : range->offset;
    return *offset_p + search->size <= heap_range_end(range);
}

/* Search all ranges that are long enough for a page. A range shorter than two
 * pages may not contain an aligned page. */
static heap_range_t *look_for_page(const search_t     *search,
                                   const heap_index_t *index,
                                   uint64_t           *offset_p)
{
    heap_range_t *range = heap_index_first(index, HEAP_PAGE);

    while ((range != NULL) && !fits(search, range, offset_p)) {
        range = heap_index_next(index, range, HEAP_PAGE);
    }
    return range;
}

static heap_range_t *look_up(const search_t *search, heap_index_t *index,
                             uint64_t *offset_p)
{
    heap_range_t *range = heap_index_find(index, search->size);

    if ((range != NULL) && !fits(search, range, offset_p)) {
        /* A range of this size always contains an aligned page. */
        range = heap_index_find(index, 2 * HEAP_PAGE - HEAP_UNIT);
        if ((range == NULL) && search->is_exhaustive) {
            return look_for_page(search, index, offset_p);
        }
    }
    return ((range != NULL) && fits(search, range, offset_p)) ? range : NULL;
}

/* Returns true if a slot is one chunk that is completely free and unused by any
 * stream. */
static bool is_idle_chunk(const heap_t *heap, const heap_range_t *range,
                          size_t slot)
{
    const heap_home_t *home  = &heap->space.home;
    uint64_t           begin = slot * home->slot_size;

    return (home->slots[slot].chunk != 0) && (range->offset <= begin) &&
           (begin + home->slot_size <= heap_range_end(range)) &&
           heap_stream_is_over(range->stream, range->ticket);
}

/*
 * Split the chunk in which an allocation would end into pages, so that the rest
 * of the chunk can be stitched. Returns true if the free ranges may have
 * changed.
 */
static bool split_chunk(search_t *search, heap_range_t *range, uint64_t offset)
{
    heap_t      *heap = search->heap;
    heap_home_t *home = &heap->space.home;
    size_t       slot = offset / home->slot_size;

    if ((offset % home->slot_size == 0) || (offset >= home->size)) {
        return false;
    }
    heap_stream_ask(&heap->streams, range->stream);
    if (!is_idle_chunk(heap, range, slot) ||
        (heap_stitcher_purge(&heap->stitcher, slot * home->slot_size,
                             home->slot_size) != UCXPOOL_OK)) {
        return false;
    }
    note(search, heap_space_split(&heap->space, range, slot));
    heap->counted.splits++;
    return true;
}

static void take(search_t *search, heap_range_t *range, uint64_t offset)
{
    ucxpool_status_t status =
        heap_ranges_prepare(&search->heap->space.ranges, HEAP_SPACE_TAKES);

    note(search, status);
    if (status == UCXPOOL_OK) {
        search->range =
            heap_space_take(&search->heap->space, range, offset, search->size);
    }
}

/* Search the stream's own free ranges. */
static void own(search_t *search)
{
    heap_index_t *index = &search->stream->index;
    uint64_t      offset;
    heap_range_t *range = look_up(search, index, &offset);

    if ((range != NULL) && (search->heap->is_tight || search->is_page) &&
        (split_chunk(search, range, offset) ||
         split_chunk(search, range, offset + search->size))) {
        range = look_up(search, index, &offset);
    }
    if (range != NULL) {
        take(search, range, offset);
    }
}

/* Empty the stream's cache, and search again. */
static void own_cached(search_t *search)
{
    heap_collect(search->heap, search->stream, 1);
    own(search);
}

static void restitch(search_t *search)
{
    if (!search->is_page) {
        note(search, heap_restitch(&search->heap->stitcher, search->stream,
                                   search->size, &search->range));
    }
}

static void borrow_from(search_t *search, heap_stream_t *other)
{
    heap_streams_t *streams = &search->heap->streams;
    heap_range_t   *range;
    uint64_t        offset;

    if (search->size >= search->heap->space.home.slot_size) {
        /* A large request is worth the time to empty the other stream's
         * cache. */
        heap_collect(search->heap, other, 1);
    }
    range = look_up(search, &other->index, &offset);
    if (range == NULL) {
        return;
    }
    heap_stream_look(streams, other);
    if (heap_stream_is_over(other, range->ticket) ||
        (heap_stream_wait(streams, other, search->stream) == UCXPOOL_OK)) {
        take(search, range, offset);
    }
}

/* Take a single range that another stream has freed. */
static void borrow(search_t *search)
{
    for (heap_stream_t *other = search->heap->streams.all;
         (other != NULL) && (search->range == NULL); other = other->next) {
        if (other != search->stream) {
            borrow_from(search, other);
        }
    }
}

/* Take all ranges that other streams have freed. */
static void borrow_all(search_t *search)
{
    uint64_t size = 0;

    for (heap_stream_t *stream = search->heap->streams.all; stream != NULL;
         stream                = stream->next) {
        size += stream->index.size;
    }
    if ((size < search->size) || (size == search->stream->index.size)) {
        return;
    }
    move_all_to(search->heap, search->stream);
    own(search);
    if (search->range == NULL) {
        restitch(search);
    }
}

static void stitch_up_to(search_t *search, size_t max_mappings)
{
    if (!search->is_page) {
        note(search, heap_stitch(&search->heap->stitcher, search->stream,
                                 search->size, max_mappings, &search->range));
    }
}

/* Returns true if the heap may grow instead of stitching free memory. */
static bool has_room(const search_t *search)
{
    heap_t  *heap     = search->heap;
    uint64_t owed     = base_max(heap->stitches_owed, FEW_OWED) - FEW_OWED;
    uint64_t reserved = heap->space.home.reserved;
    uint64_t used     = reserved + search->size;

    for (const heap_stream_t *stream = heap->streams.all; stream != NULL;
         stream                      = stream->next) {
        used -= stream->index.size;
    }
    heap->peak_used = base_max(heap->peak_used, used);
    return reserved + search->size <=
           heap->peak_used +
               heap->peak_used / 2 / (MOST_OWED - FEW_OWED) * owed;
}

/* Update stitches_owed after a search that stitched `num` ranges. */
static void count_stitches(heap_t *heap, uint64_t num)
{
    int owed = heap->stitches_owed - 1 + (int)num * SELDOM;

    heap->stitches_owed = base_max(base_min(owed, MOST_OWED), -FEW_OWED);
}

static void stitch_few(search_t *search)
{
    if ((search->size >= search->heap->space.home.slot_size) &&
        !has_room(search)) {
        stitch_up_to(search, FEW_MAPPINGS);
    }
}

/* Add memory so that a free range is long enough. */
static void grow(search_t *search)
{
    heap_stream_t *stream = search->stream;
    heap_range_t  *range  = NULL;
    site_t         site;
    uint64_t       offset;

    if (!find_site(search->heap, stream, search->size, search->is_page,
                   &site)) {
        return;
    }
    /* Use a new ticket of the stream: the range must not be joined with a range
     * that another stream may still be using. */
    note(search, back_site(search->heap, &site, stream,
                           heap_stream_ticket(stream), &range));
    if ((range != NULL) && fits(search, range, &offset)) {
        take(search, range, offset);
    }
}

static void stitch(search_t *search)
{
    stitch_up_to(search, SIZE_MAX);
}

/* Empty the caches of all streams. */
static void collect_all(search_t *search)
{
    search->is_exhaustive = true;
    heap_collect_all(search->heap);
}

/* Stitch free memory together with new memory. */
static void grow_and_stitch(search_t *search)
{
    heap_t  *heap = search->heap;
    uint64_t size = heap_stitchable(&heap->space, search->stream);
    uint64_t missing;

    if ((size == 0) || (size >= search->size) || search->is_page) {
        return;
    }
    missing = base_align_up(search->size - size, HEAP_PAGE);
    if (missing <= heap->options.limit - heap->space.home.reserved) {
        note(search, back_pages(heap, search->stream,
                                heap_stream_ticket(search->stream), missing));
    }
    stitch(search);
}

/* Wait for all streams, so that all free memory may be used. */
static void settle(search_t *search)
{
    note(search, heap_settle(search->heap, search->stream));
}

/* The first NUM_QUICK_STEPS steps neither block nor empty the caches of all
 * streams. */
#define NUM_QUICK_STEPS 7

static void (*const steps[])(search_t *) = {
    own, own_cached, restitch, borrow, borrow_all, stitch_few, grow,
    /* The steps from here on are not quick. */
    stitch,
    /* Use the caches of the other streams. */
    collect_all, own, borrow_all, stitch, grow_and_stitch,
    /* All free memory is usable now, so less memory must be added. */
    settle, own, restitch, grow, stitch, grow_and_stitch};

#define NUM_STEPS (sizeof(steps) / sizeof(steps[0]))

/* Run the first `num_steps` steps in order until one finds a range. */
static ucxpool_status_t run_steps(heap_t *heap, heap_stream_t *stream,
                                  uint64_t size, bool is_page, size_t num_steps,
                                  heap_range_t **range_p)
{
    base_log_level_t level  = base_error_log_at(BASE_LOG_DEBUG);
    search_t         search = {.heap    = heap,
                               .stream  = stream,
                               .size    = size,
                               .is_page = is_page,
                               .status  = UCXPOOL_ERR_NO_MEMORY};

    for (size_t i = 0; (i < num_steps) && (search.range == NULL); i++) {
        steps[i](&search);
    }
    base_error_log_at(level);
    *range_p = search.range;
    return (search.range != NULL) ? UCXPOOL_OK : search.status;
}

ucxpool_status_t heap_find(heap_t *heap, heap_stream_t *stream, uint64_t size,
                           bool is_page, heap_range_t **range_p)
{
    uint64_t         before = heap->stitcher.num_stitches;
    ucxpool_status_t status =
        run_steps(heap, stream, size, is_page, NUM_STEPS, range_p);

    count_stitches(heap, heap->stitcher.num_stitches - before);
    return status;
}

ucxpool_status_t heap_find_page_soon(heap_t *heap, heap_stream_t *stream,
                                     heap_range_t **range_p)
{
    return run_steps(heap, stream, HEAP_PAGE, true, NUM_QUICK_STEPS, range_p);
}

/* --- reserve and trim ----------------------------------------------------- */

/* Returns about half of a size, in whole chunks if possible. */
static uint64_t half_of(const heap_t *heap, uint64_t size)
{
    uint64_t slot_size = heap->space.home.slot_size;

    return base_align_up(size / 2, (size > slot_size) ? slot_size : HEAP_PAGE);
}

/* Add memory. If the driver has too little for a piece, try smaller and smaller
 * pieces. */
static ucxpool_status_t reserve_in_pieces(heap_t *heap, heap_stream_t *stream,
                                          uint64_t missing)
{
    uint64_t piece = missing;

    while (missing > 0) {
        uint64_t         before = heap->space.home.reserved;
        ucxpool_status_t status;

        piece = base_min(piece, missing);
        /* Use ticket 0, because any stream may use new memory. */
        status = back_pages(heap, stream, 0, piece);
        missing -= heap->space.home.reserved - before;
        if ((status == UCXPOOL_ERR_NO_MEMORY) && (piece > HEAP_PAGE)) {
            piece = half_of(heap, piece);
        } else if (status != UCXPOOL_OK) {
            return status;
        }
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t reserve(heap_t *heap, uint64_t size)
{
    uint64_t         reserved = heap->space.home.reserved;
    char             cause[160];
    heap_stream_t   *stream;
    ucxpool_status_t status = heap_streams_get(&heap->streams, NULL, &stream);

    if ((status != UCXPOOL_OK) || (size <= reserved)) {
        return status;
    }
    base_error_do_at(BASE_LOG_DEBUG,
                     status = reserve_in_pieces(heap, stream, size - reserved));
    if (status == UCXPOOL_OK) {
        return UCXPOOL_OK;
    }
    snprintf(cause, sizeof(cause), "%s", ucxpool_error_detail());
    return base_error(status,
                      "cannot reserve %" PRIu64
                      " bytes: the heap holds %" PRIu64 "; %s",
                      size, heap->space.home.reserved, cause);
}

ucxpool_status_t heap_reserve(heap_t *heap, size_t size)
{
    ucxpool_status_t status;

    if (size > heap->options.limit) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "cannot reserve %zu bytes: the limit of the heap is "
                          "%zu; raise UCXPOOL_MEMORY_LIMIT",
                          size, (size_t)heap->options.limit);
    }
    pthread_mutex_lock(&heap->lock);
    status = reserve(heap, base_align_up((uint64_t)size, HEAP_PAGE));
    pthread_mutex_unlock(&heap->lock);
    return status;
}

/* Release a chunk or a page to the driver. Skips memory that is in use by a
 * stitched range. */
static ucxpool_status_t release_to_driver(heap_t *heap, uint64_t offset,
                                          uint64_t size)
{
    heap_range_t    *range = heap_space_cover(&heap->space, offset);
    ucxpool_status_t status;

    status = heap_stitcher_purge(&heap->stitcher, offset, size);
    if (status == UCXPOOL_ERR_BUSY) {
        return UCXPOOL_OK;
    }
    if (status == UCXPOOL_OK) {
        status = heap_space_release(&heap->space, range, offset, size);
    }
    if (status == UCXPOOL_OK) {
        heap->counted.trimmed += size;
    }
    return status;
}

/* Release free chunks and pages, in address order, until the heap has no more
 * than keep_size bytes. */
static ucxpool_status_t trim(heap_t *heap, size_t keep_size)
{
    const heap_home_t *home   = &heap->space.home;
    uint64_t           offset = 0;
    uint64_t           size;
    heap_range_t      *range;
    ucxpool_status_t   status;

    if (home->reserved <= keep_size) {
        return UCXPOOL_OK; /* do not wait for streams */
    }
    status = heap_settle(heap, NULL);
    while ((status == UCXPOOL_OK) && (offset < home->size) &&
           (home->reserved > keep_size)) {
        range = heap_space_cover(&heap->space, offset);
        if ((heap_range_state(range) == HEAP_FREE) &&
            heap_space_unit(&heap->space, range, &offset, &size)) {
            status = release_to_driver(heap, offset, size);
            offset += size;
        } else {
            offset = heap_range_end(range);
        }
    }
    return status;
}

ucxpool_status_t heap_trim(heap_t *heap, size_t keep_size, size_t *released_p)
{
    uint64_t         before;
    ucxpool_status_t status;

    pthread_mutex_lock(&heap->lock);
    before = heap->counted.trimmed;
    status = trim(heap, keep_size);
    if (heap->counted.trimmed > before) {
        __atomic_store_n(&heap->is_tight, false, __ATOMIC_RELAXED);
    }
    if (released_p != NULL) {
        *released_p = heap->counted.trimmed - before;
    }
    pthread_mutex_unlock(&heap->lock);
    return status;
}
