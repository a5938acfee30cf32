/*
 * The heap's invariants.
 */
#include <config.h>

#include "heap/heap_inside.h"

#include "base/error.h"

#include <inttypes.h>

static ucxpool_status_t fault(const char *what, uint64_t offset)
{
    return base_error(UCXPOOL_ERR_PROTOCOL, "heap, offset %" PRIu64 ": %s",
                      offset, what);
}

static bool is_backed(const heap_home_t *home, uint64_t offset)
{
    const heap_slot_t *slot = heap_home_slot(home, offset);

    return (slot->backed >> (offset % home->slot_size / HEAP_PAGE)) & 1;
}

/* Holes have no memory, and all else has. */
static ucxpool_status_t check_backing(const heap_home_t  *home,
                                      const heap_range_t *range)
{
    bool     is_hole = heap_range_state(range) == HEAP_UNBACKED;
    uint64_t page    = range->offset & ~(HEAP_PAGE - 1);

    for (; page < heap_range_end(range); page += HEAP_PAGE) {
        if (is_backed(home, page) == is_hole) {
            return fault(is_hole ? "a hole with memory" : "no memory", page);
        }
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t
check_range(const heap_t *heap, const heap_range_t *range, uint64_t *indexed)
{
    const heap_range_t *after = range->after;

    if ((range->size == 0) || (range->size % HEAP_UNIT != 0)) {
        return fault("a range of odd size", range->offset);
    }
    if ((after != NULL) && ((after->before != range) ||
                            (after->offset != heap_range_end(range)))) {
        return fault("neighbours do not meet", range->offset);
    }
    if (heap_space_cover(&heap->space, range->offset) != range) {
        return fault("not found by its offset", range->offset);
    }
    if (heap_range_state(range) == HEAP_FREE) {
        *indexed += range->size;
        if ((after != NULL) && (heap_range_state(after) == HEAP_FREE) &&
            (after->stream == range->stream)) {
            return fault("two free ranges of one stream meet", range->offset);
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

    for (const heap_range_t *range = heap->space.first; range != NULL;
         range                     = range->after) {
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
        return fault("the last range ends before the home does", end);
    }
    return (sum == indexed) ? UCXPOOL_OK
                            : fault("not all that is free is in an index", sum);
}

static ucxpool_status_t check_counts(const heap_t *heap)
{
    const heap_home_t *home = &heap->space.home;
    uint64_t           sum =
        home->num_chunks * home->slot_size + home->num_pages * HEAP_PAGE;

    if ((home->reserved != sum) || (sum > heap->options.limit)) {
        return fault("chunks and pages are not what is reserved", sum);
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
            const heap_range_t *piece =
                heap_space_cover(&heap->space, stitched->runs[i].home);

            if ((heap_range_state(piece) != HEAP_PIECE) ||
                (piece->offset != stitched->runs[i].home) ||
                (piece->size > left)) {
                return fault("a run in use is no piece", piece->offset);
            }
            left -= piece->size;
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
