/*
 * What an address of the heap is.
 */
#include <config.h>

#include "heap/heap_inside.h"

#include "base/error.h"
#include "base/math.h"

/* Something of a live allocation. */
typedef struct place {
    uint64_t               offset; /* that was asked about */
    uint64_t               end;    /* of the allocation, as was asked for */
    uint64_t               begin;
    uint64_t               size;     /* rounded up */
    const heap_stitched_t *stitched; /* NULL: it lies in the home */
} place_t;

static void fill(const heap_range_t *range, place_t *place)
{
    place->begin    = range->offset;
    place->size     = range->size;
    place->end      = range->offset + heap_range_asked(range);
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
    if ((range == NULL) || (heap_range_state(range) != HEAP_LIVE)) {
        return false;
    }
    fill(range, place);
    return true;
}

/* Under the heap's lock. */
static ucxpool_status_t find(heap_t *heap, const void *address, place_t *place)
{
    heap_page_t *page     = NULL;
    bool         is_found = false;

    if (heap_offset_of(heap, address, &place->offset)) {
        page = heap_page_map_page(&heap->page_map, place->offset);
        is_found =
            (page != NULL) ? find_small(page, place) : find_large(heap, place);
    }
    if (!is_found || (place->offset >= place->begin + place->size)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%p lies in no live allocation of this heap",
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
    status = find(heap, address, &place);
    pthread_mutex_unlock(&heap->lock);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (place.offset != place.begin) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%p lies in an allocation, which begins %zu bytes "
                          "before",
                          address, (size_t)(place.offset - place.begin));
    }
    *size_p = place.size;
    return UCXPOOL_OK;
}

/* Where a byte of an allocation lies in the home, and how many bytes lie behind
 * it in a row. */
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

/* The piece at an offset, `length` bytes at most. */
static void piece_at(const heap_t *heap, const place_t *place, uint64_t offset,
                     uint64_t length, ucxpool_heap_segment_t *piece)
{
    uint64_t in_a_row;
    uint64_t home  = home_of(place, offset, &in_a_row);
    uint64_t grain = heap_home_grain(&heap->space.home, home);
    uint64_t chunk = home & ~(grain - 1);

    piece->address    = heap->address + home;
    piece->chunk      = heap->address + chunk;
    piece->chunk_size = grain;
    piece->length = base_min(base_min(in_a_row, chunk + grain - home), length);
}

ucxpool_status_t heap_segments(heap_t *heap, const void *address, size_t length,
                               ucxpool_heap_segment_t *segments,
                               size_t max_segments, size_t *num_segments_p)
{
    place_t                place;
    ucxpool_heap_segment_t piece;
    size_t                 num = 0;
    ucxpool_status_t       status;

    pthread_mutex_lock(&heap->lock);
    status = find(heap, address, &place);
    if ((status == UCXPOOL_OK) &&
        ((length == 0) || (length > place.begin + place.size - place.offset))) {
        status = base_error(UCXPOOL_ERR_INVALID_PARAM,
                            "%zu bytes from %p on: the allocation has %zu "
                            "there",
                            length, address,
                            (size_t)(place.begin + place.size - place.offset));
    }
    for (size_t done = 0; (status == UCXPOOL_OK) && (done < length);
         done += piece.length) {
        piece_at(heap, &place, place.offset + done, length - done, &piece);
        if (num < max_segments) {
            segments[num] = piece;
        }
        num++;
    }
    pthread_mutex_unlock(&heap->lock);
    if (status == UCXPOOL_OK) {
        *num_segments_p = num;
    }
    return status;
}
