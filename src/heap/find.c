/*
 * Where a large range comes from: the steps, from what costs nothing to what
 * makes the caller wait.
 */
#include <config.h>

#include "heap/heap_inside.h"

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"

/* Before memory is taken from the driver, ranges are stitched of so many chunks
 * at most: more take several times as long as new memory does. */
#define FEW_MAPPINGS 128

/* Who has to stitch often needs more room: the heap then takes memory instead,
 * until it holds half as much again as was in use at most, where nearly all
 * sizes fit somewhere. Often is more than once in so many allocations that
 * no cache served: a program that does much the same again and again, as
 * training does, stitches seldom, and should hold no more for it. So each
 * stitch is owed that many allocations. A few may be owed, as when a program
 * begins; with each from there on the heap may hold more, up to most. Few are
 * saved up, too: what a program did long ago says nothing of what it does now.
 */
#define SELDOM    80
#define FEW_OWED  (16 * SELDOM)
#define MOST_OWED (48 * SELDOM)

typedef struct wish {
    heap_t          *heap;
    heap_stream_t   *stream;
    uint64_t         size;
    bool             is_page;
    heap_range_t    *range;  /* what was found, or NULL */
    ucxpool_status_t status; /* of the last call that failed */
} wish_t;

static void note(wish_t *wish, ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        wish->status = status;
    }
}

/* Where in a free range does it fit? */
static bool fits(const wish_t *wish, const heap_range_t *range,
                 uint64_t *offset_p)
{
    *offset_p =
        wish->is_page ? base_align_up(range->offset, HEAP_PAGE) : range->offset;
    return *offset_p + wish->size <= heap_range_end(range);
}

static heap_range_t *look_up(const wish_t *wish, const heap_index_t *index,
                             uint64_t *offset_p)
{
    heap_range_t *range = heap_index_find(index, wish->size);

    if ((range != NULL) && !fits(wish, range, offset_p)) {
        /* Wherever such a range begins, a page lies in it. */
        range = heap_index_find(index, 2 * HEAP_PAGE - HEAP_UNIT);
    }
    return ((range != NULL) && fits(wish, range, offset_p)) ? range : NULL;
}

/* Is a slot one chunk, all of it free and nobody at work in it? */
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
 * Make pages of the chunk in which an allocation would end, so that the rest of
 * it can be stitched. True: the free ranges may have changed.
 */
static bool cut_chunk(wish_t *wish, heap_range_t *range, uint64_t offset)
{
    heap_t      *heap = wish->heap;
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
    note(wish, heap_space_split(&heap->space, range, slot));
    heap->num_splits++;
    return true;
}

static void take(wish_t *wish, heap_range_t *range, uint64_t offset)
{
    ucxpool_status_t status =
        heap_ranges_prepare(&wish->heap->space.ranges, HEAP_SPACE_TAKES);

    note(wish, status);
    if (status == UCXPOOL_OK) {
        wish->range =
            heap_space_take(&wish->heap->space, range, offset, wish->size);
    }
}

/* What the stream itself has freed. */
static void own(wish_t *wish)
{
    const heap_index_t *index = &wish->stream->index;
    uint64_t            offset;
    heap_range_t       *range = look_up(wish, index, &offset);

    if ((range != NULL) && (wish->heap->is_tight || wish->is_page) &&
        (cut_chunk(wish, range, offset) ||
         cut_chunk(wish, range, offset + wish->size))) {
        range = look_up(wish, index, &offset);
    }
    if (range != NULL) {
        take(wish, range, offset);
    }
}

/* And what is in its cache. */
static void own_cached(wish_t *wish)
{
    heap_collect(wish->heap, wish->stream);
    own(wish);
}

static void restitch(wish_t *wish)
{
    if (!wish->is_page) {
        note(wish, heap_restitch(&wish->heap->stitcher, wish->stream,
                                 wish->size, &wish->range));
    }
}

static void borrow_from(wish_t *wish, heap_stream_t *other)
{
    heap_streams_t *streams = &wish->heap->streams;
    heap_range_t   *range;
    uint64_t        offset;

    if (wish->size >= wish->heap->space.home.slot_size) {
        /* Worth it, even if that one has to search the next time. */
        heap_collect(wish->heap, other);
    }
    range = look_up(wish, &other->index, &offset);
    if (range == NULL) {
        return;
    }
    heap_stream_look(streams, other);
    if (heap_stream_is_over(other, range->ticket) ||
        (heap_stream_wait(streams, other, wish->stream) == UCXPOOL_OK)) {
        take(wish, range, offset);
    }
}

/* One range that another stream has freed. */
static void borrow(wish_t *wish)
{
    for (heap_stream_t *other = wish->heap->streams.all;
         (other != NULL) && (wish->range == NULL); other = other->next) {
        if (other != wish->stream) {
            borrow_from(wish, other);
        }
    }
}

/* All of it. */
static void gather(wish_t *wish)
{
    uint64_t size = 0;

    for (heap_stream_t *stream = wish->heap->streams.all; stream != NULL;
         stream                = stream->next) {
        size += stream->index.size;
    }
    if ((size < wish->size) || (size == wish->stream->index.size)) {
        return;
    }
    heap_gather(wish->heap, wish->stream);
    own(wish);
    if (wish->range == NULL) {
        restitch(wish);
    }
}

static void stitch_up_to(wish_t *wish, size_t max_mappings)
{
    if (!wish->is_page) {
        note(wish, heap_stitch(&wish->heap->stitcher, wish->stream, wish->size,
                               max_mappings, &wish->range));
    }
}

/* May memory be taken, where what is free would have to be stitched? */
static bool has_room(const wish_t *wish)
{
    heap_t  *heap     = wish->heap;
    uint64_t owed     = base_max(heap->stitches_owed, FEW_OWED) - FEW_OWED;
    uint64_t reserved = heap->space.home.reserved;
    uint64_t used     = reserved + wish->size;

    for (const heap_stream_t *stream = heap->streams.all; stream != NULL;
         stream                      = stream->next) {
        used -= stream->index.size;
    }
    heap->peak_used = base_max(heap->peak_used, used);
    return reserved + wish->size <=
           heap->peak_used +
               heap->peak_used / 2 / (MOST_OWED - FEW_OWED) * owed;
}

/* Memory was looked for, and so many ranges were stitched for it. */
static void count_stitches(heap_t *heap, uint64_t num)
{
    int owed = heap->stitches_owed - 1 + (int)num * SELDOM;

    heap->stitches_owed = base_max(base_min(owed, MOST_OWED), -FEW_OWED);
}

static void stitch_few(wish_t *wish)
{
    if ((wish->size >= wish->heap->space.home.slot_size) && !has_room(wish)) {
        stitch_up_to(wish, FEW_MAPPINGS);
    }
}

static void grow(wish_t *wish)
{
    heap_range_t *range;
    uint64_t      offset;

    note(wish, heap_grow(wish->heap, wish->stream, wish->size, wish->is_page,
                         &range));
    if ((range != NULL) && fits(wish, range, &offset)) {
        take(wish, range, offset);
    }
}

static void stitch(wish_t *wish)
{
    stitch_up_to(wish, SIZE_MAX);
}

/* All of what the others have freed, and what is in their caches. */
static void reclaim(wish_t *wish)
{
    heap_collect_all(wish->heap);
    gather(wish);
    if (wish->range == NULL) {
        stitch(wish);
    }
}

/* Stitch, with new memory for what is missing. */
static void grow_and_stitch(wish_t *wish)
{
    heap_t  *heap = wish->heap;
    uint64_t size = heap_stitchable(&heap->space, wish->stream);

    if ((size > 0) && (size < wish->size) && !wish->is_page) {
        note(wish, heap_grow_by(heap, wish->stream,
                                base_align_up(wish->size - size, HEAP_PAGE)));
        stitch(wish);
    }
}

/* Wait until all that is free may be used. */
static void sync(wish_t *wish)
{
    note(wish, heap_settle(wish->heap, wish->stream));
    own(wish);
    if (wish->range == NULL) {
        restitch(wish);
    }
    if (wish->range == NULL) {
        /* What others kept may have been what the limit was full of. */
        grow(wish);
    }
    if (wish->range == NULL) {
        stitch(wish);
    }
    if (wish->range == NULL) {
        grow_and_stitch(wish);
    }
}

/* One step after the other, until one finds it. */
static ucxpool_status_t fulfil(wish_t *wish, void (*const *steps)(wish_t *),
                               size_t num_steps, heap_range_t **range_p)
{
    base_log_level_t level = base_error_log_at(BASE_LOG_DEBUG);

    for (size_t i = 0; (i < num_steps) && (wish->range == NULL); i++) {
        steps[i](wish);
    }
    base_error_log_at(level);
    *range_p = wish->range;
    return (wish->range != NULL) ? UCXPOOL_OK : wish->status;
}

ucxpool_status_t heap_find(heap_t *heap, heap_stream_t *stream, uint64_t size,
                           bool is_page, heap_range_t **range_p)
{
    static void (*const steps[])(wish_t *) = {
        own,  own_cached, restitch, borrow,          gather, stitch_few,
        grow, stitch,     reclaim,  grow_and_stitch, sync};

    wish_t wish = {.heap    = heap,
                   .stream  = stream,
                   .size    = size,
                   .is_page = is_page,
                   .status  = UCXPOOL_ERR_NO_MEMORY};

    uint64_t         before = heap->stitcher.num_stitches;
    ucxpool_status_t status =
        fulfil(&wish, steps, sizeof(steps) / sizeof(steps[0]), range_p);

    count_stitches(heap, heap->stitcher.num_stitches - before);
    return status;
}

ucxpool_status_t heap_find_page_soon(heap_t *heap, heap_stream_t *stream,
                                     heap_range_t **range_p)
{
    static void (*const steps[])(wish_t *) = {own, own_cached, borrow, gather,
                                              grow};

    wish_t wish = {.heap    = heap,
                   .stream  = stream,
                   .size    = HEAP_PAGE,
                   .is_page = true,
                   .status  = UCXPOOL_ERR_NO_MEMORY};

    return fulfil(&wish, steps, sizeof(steps) / sizeof(steps[0]), range_p);
}
