/*
 * Growth: memory from the driver, no more of it than is missing.
 */
#include <config.h>

#include "heap/heap_inside.h"

#include "base/error.h"
#include "base/math.h"

/* Where to take how much. */
typedef struct place {
    heap_range_t *hole;
    uint64_t      offset;
    uint64_t      size;
} place_t;

/* Bytes beside a hole that are free for a stream. */
static uint64_t usable(const heap_range_t *range, const heap_stream_t *stream)
{
    return ((range != NULL) && (heap_range_state(range) == HEAP_FREE) &&
            heap_stream_may_use(stream, range->stream, range->ticket))
               ? range->size
               : 0;
}

/* The least that has to be taken in this hole; false: it is too short. */
static bool place_in(const heap_t *heap, heap_range_t *hole,
                     const heap_stream_t *stream, uint64_t size, place_t *place)
{
    uint64_t slot_size = heap->space.home.slot_size;
    uint64_t before    = usable(hole->before, stream);
    uint64_t after     = usable(hole->after, stream);
    uint64_t aligned   = base_align_up(hole->offset, slot_size);
    uint64_t missing = base_align_up(size - base_min(size, before), HEAP_PAGE);

    *place = (place_t){hole, hole->offset, missing};
    if (missing == 0) {
        return false;
    }
    if ((before == 0) && (size >= slot_size) &&
        (aligned + missing <= heap_range_end(hole))) {
        /* From the start of a slot, so that chunks are large. */
        place->offset = aligned;
        return true;
    }
    if (missing <= hole->size) {
        return true;
    }
    place->size = hole->size;
    return before + hole->size + after >= size;
}

static bool find_place(const heap_t *heap, const heap_stream_t *stream,
                       uint64_t size, bool is_page, place_t *best)
{
    heap_range_t *hole;
    place_t       place;

    best->hole = NULL;
    base_list_for_each(hole, &heap->space.holes, heap_range_t, link) {
        if (is_page) {
            place = (place_t){hole, hole->offset, HEAP_PAGE};
        } else if (!place_in(heap, hole, stream, size, &place)) {
            continue;
        }
        if ((best->hole == NULL) || (place.size < best->size) ||
            ((place.size == best->size) && (place.offset < best->offset))) {
            *best = place;
        }
    }
    return best->hole != NULL;
}

/* Its memory is free afterwards, with that ticket of a stream. */
static ucxpool_status_t take_place(heap_t *heap, const place_t *place,
                                   heap_stream_t *stream, uint64_t ticket,
                                   heap_range_t **range_p)
{
    heap_home_t     *home = &heap->space.home;
    ucxpool_status_t status;

    if (place->size > heap->options.limit - home->reserved) {
        __atomic_store_n(&heap->is_tight, true, __ATOMIC_RELAXED);
        return UCXPOOL_OK;
    }
    status = heap_space_back(&heap->space, place->hole, place->offset,
                             place->size, stream, ticket, range_p);
    if (status == UCXPOOL_OK) {
        heap_page_map_open(&heap->page_map, place->offset, place->size);
        heap->num_grows++;
        heap->peak_reserved = base_max(heap->peak_reserved, home->reserved);
    }
    return status;
}

ucxpool_status_t heap_grow(heap_t *heap, heap_stream_t *stream, uint64_t size,
                           bool is_page, heap_range_t **range_p)
{
    place_t place;

    *range_p = NULL;
    if (!find_place(heap, stream, size, is_page, &place)) {
        return UCXPOOL_OK;
    }
    /* As if the stream had freed it just now: what another stream is not over
     * with is not to become one with it. */
    return take_place(heap, &place, stream, heap_stream_ticket(stream),
                      range_p);
}

/* Whole pages, from hole to hole. */
static ucxpool_status_t take_pages(heap_t *heap, heap_stream_t *stream,
                                   uint64_t ticket, uint64_t size)
{
    heap_range_t *range = NULL;
    heap_range_t *hole;
    place_t       place;

    while ((size > 0) && !base_list_is_empty(&heap->space.holes)) {
        ucxpool_status_t status;

        hole   = base_list_head(&heap->space.holes, heap_range_t, link);
        place  = (place_t){hole, hole->offset, base_min(hole->size, size)};
        status = take_place(heap, &place, stream, ticket, &range);
        if (status != UCXPOOL_OK) {
            return status;
        }
        size -= place.size;
    }
    return UCXPOOL_OK;
}

ucxpool_status_t heap_grow_by(heap_t *heap, heap_stream_t *stream,
                              uint64_t size)
{
    if (size > heap->options.limit - heap->space.home.reserved) {
        return UCXPOOL_OK;
    }
    return take_pages(heap, stream, heap_stream_ticket(stream), size);
}

static ucxpool_status_t reserve(heap_t *heap, uint64_t missing)
{
    heap_stream_t   *stream;
    ucxpool_status_t status = heap_streams_get(&heap->streams, NULL, &stream);

    if (status != UCXPOOL_OK) {
        return status;
    }
    /* Nobody has used it: anybody may. */
    return take_pages(heap, stream, 0, missing);
}

ucxpool_status_t heap_reserve(heap_t *heap, size_t size)
{
    uint64_t         missing;
    ucxpool_status_t status = UCXPOOL_OK;

    if (size > heap->options.limit) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%zu bytes are more than the %zu that the heap may "
                          "hold: raise MEMORY_LIMIT",
                          size, (size_t)heap->options.limit);
    }
    pthread_mutex_lock(&heap->lock);
    missing = base_align_up((uint64_t)size, HEAP_PAGE);
    missing -= base_min(missing, heap->space.home.reserved);
    if (missing > 0) {
        status = reserve(heap, missing);
    }
    pthread_mutex_unlock(&heap->lock);
    return status;
}
