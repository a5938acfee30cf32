#include <config.h>

#include "heap/range.h"

#include "base/error.h"

#include <assert.h>
#include <stdlib.h>

#define LOT 256

typedef struct heap_lot {
    struct heap_lot *next;
    heap_range_t     ranges[LOT];
} heap_lot_t;

void heap_ranges_init(heap_ranges_t *ranges)
{
    base_list_init(&ranges->spare);
    ranges->num_spare = 0;
    ranges->lots      = NULL;
}

void heap_ranges_cleanup(heap_ranges_t *ranges)
{
    while (ranges->lots != NULL) {
        heap_lot_t *lot = ranges->lots;

        ranges->lots = lot->next;
        free(lot);
    }
    heap_ranges_init(ranges);
}

static ucxpool_status_t add_lot(heap_ranges_t *ranges)
{
    heap_lot_t *lot = calloc(1, sizeof(*lot));

    if (lot == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no host memory (%zu bytes) to describe ranges of "
                          "the heap",
                          sizeof(*lot));
    }
    lot->next    = ranges->lots;
    ranges->lots = lot;
    for (size_t i = 0; i < LOT; i++) {
        base_list_init(&lot->ranges[i].link);
        heap_ranges_put(ranges, &lot->ranges[i]);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t heap_ranges_prepare(heap_ranges_t *ranges, size_t num)
{
    while (ranges->num_spare < num) {
        ucxpool_status_t status = add_lot(ranges);

        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    return UCXPOOL_OK;
}

heap_range_t *heap_ranges_get(heap_ranges_t *ranges)
{
    heap_range_t *range;

    assert(ranges->num_spare > 0);
    range = base_list_head(&ranges->spare, heap_range_t, link);
    base_list_del(&range->link);
    ranges->num_spare--;
    range->before   = NULL;
    range->after    = NULL;
    range->stream   = NULL;
    range->ticket   = 0;
    range->stitched = NULL;
    range->page     = NULL;
    heap_range_set_asked(range, 0);
    return range;
}

void heap_ranges_put(heap_ranges_t *ranges, heap_range_t *range)
{
    heap_range_become(range, HEAP_SPARE);
    base_list_add_head(&ranges->spare, &range->link);
    ranges->num_spare++;
}

/* A new one, like another in all but where it lies. */
static heap_range_t *like(heap_ranges_t *ranges, const heap_range_t *range,
                          uint64_t offset, uint64_t end)
{
    heap_range_t *part = heap_ranges_get(ranges);

    assert((range->offset <= offset) && (offset < end) &&
           (end <= heap_range_end(range)));
    part->offset = offset;
    part->size   = end - offset;
    part->stream = range->stream;
    part->ticket = range->ticket;
    part->page   = range->page;
    heap_range_become(part, heap_range_state(range));
    return part;
}

static void set_neighbors(heap_range_t *before, heap_range_t *after)
{
    if (before != NULL) {
        before->after = after;
    }
    if (after != NULL) {
        after->before = before;
    }
}

heap_range_t *heap_range_cut(heap_ranges_t *ranges, heap_range_t *range,
                             uint64_t offset)
{
    heap_range_t *rest = like(ranges, range, offset, heap_range_end(range));

    set_neighbors(rest, range->after);
    set_neighbors(range, rest);
    range->size = offset - range->offset;
    return rest;
}

heap_range_t *heap_range_cut_front(heap_ranges_t *ranges, heap_range_t *range,
                                   uint64_t offset)
{
    heap_range_t *front = like(ranges, range, range->offset, offset);

    set_neighbors(range->before, front);
    set_neighbors(front, range);
    range->size   = heap_range_end(range) - offset;
    range->offset = offset;
    return front;
}

void heap_range_join(heap_ranges_t *ranges, heap_range_t *range)
{
    heap_range_t *rest = range->after;

    assert(rest->offset == heap_range_end(range));
    range->size += rest->size;
    set_neighbors(range, rest->after);
    heap_ranges_put(ranges, rest);
}

void heap_range_join_front(heap_ranges_t *ranges, heap_range_t *range)
{
    heap_range_t *front = range->before;

    assert(heap_range_end(front) == range->offset);
    range->offset = front->offset;
    range->size += front->size;
    set_neighbors(front->before, range);
    heap_ranges_put(ranges, front);
}
