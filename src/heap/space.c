#include <config.h>

#include "heap/space.h"

#include "base/math.h"

#include <assert.h>

/* Slots that begin in a part of a range are found by the range. */
static void note_slots(const heap_space_t *space, heap_range_t *range,
                       uint64_t offset, uint64_t end)
{
    uint64_t slot_size = space->home.slot_size;
    size_t   slot      = (offset + slot_size - 1) / slot_size;

    for (; slot * slot_size < end; slot++) {
        space->home.slots[slot].first = range;
    }
}

ucxpool_status_t heap_space_init(heap_space_t *space, mem_vmm_t *vmm,
                                 void *address, uint64_t size,
                                 uint64_t slot_size)
{
    ucxpool_status_t status;

    heap_ranges_init(&space->ranges);
    base_list_init(&space->holes);
    status = heap_ranges_prepare(&space->ranges, 1);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = heap_home_init(&space->home, vmm, address, size, slot_size);
    if (status != UCXPOOL_OK) {
        heap_ranges_cleanup(&space->ranges);
        return status;
    }
    space->first         = heap_ranges_get(&space->ranges);
    space->first->offset = 0;
    space->first->size   = size;
    heap_range_become(space->first, HEAP_UNBACKED);
    base_list_add_tail(&space->holes, &space->first->link);
    note_slots(space, space->first, 0, size);
    return UCXPOOL_OK;
}

void heap_space_cleanup(heap_space_t *space)
{
    heap_home_cleanup(&space->home);
    heap_ranges_cleanup(&space->ranges);
}

heap_range_t *heap_space_cover(const heap_space_t *space, uint64_t offset)
{
    heap_range_t *range = heap_home_slot(&space->home, offset)->first;

    while (heap_range_end(range) <= offset) {
        range = range->after;
    }
    return range;
}

bool heap_space_unit(const heap_space_t *space, const heap_range_t *range,
                     uint64_t *offset_p, uint64_t *size_p)
{
    uint64_t end    = heap_range_end(range);
    uint64_t offset = base_align_up(*offset_p, HEAP_PAGE);

    while (offset + HEAP_PAGE <= end) {
        uint64_t grain = heap_home_grain(&space->home, offset);

        if ((offset % grain == 0) && (offset + grain <= end)) {
            *offset_p = offset;
            *size_p   = grain;
            return true;
        }
        offset = base_align_up(offset + 1, grain);
    }
    return false;
}

/* Cut a range in two. The longer part keeps its descriptor, so that few slots
 * change theirs. */
static void cut(heap_space_t *space, heap_range_t *range, uint64_t offset,
                heap_range_t **left_p, heap_range_t **right_p)
{
    heap_range_t *part;

    if (offset - range->offset < heap_range_end(range) - offset) {
        part     = heap_range_cut_front(&space->ranges, range, offset);
        *left_p  = part;
        *right_p = range;
        if (space->first == range) {
            space->first = part;
        }
    } else {
        part     = heap_range_cut(&space->ranges, range, offset);
        *left_p  = range;
        *right_p = part;
    }
    note_slots(space, part, part->offset, heap_range_end(part));
}

/* The reverse, of two neighbours; the result. */
static heap_range_t *join(heap_space_t *space, heap_range_t *left,
                          heap_range_t *right)
{
    if (left->size < right->size) {
        note_slots(space, right, left->offset, right->offset);
        if (space->first == left) {
            space->first = right;
        }
        heap_range_join_front(&space->ranges, right);
        return right;
    }
    note_slots(space, left, right->offset, heap_range_end(right));
    heap_range_join(&space->ranges, left);
    return left;
}

/* Cut a range that is in no list so that a piece of it stands alone. */
static heap_range_t *isolate(heap_space_t *space, heap_range_t *range,
                             uint64_t offset, uint64_t size,
                             heap_range_t **left_p, heap_range_t **right_p)
{
    *left_p  = NULL;
    *right_p = NULL;
    if (offset > range->offset) {
        cut(space, range, offset, left_p, &range);
    }
    if (offset + size < heap_range_end(range)) {
        cut(space, range, offset + size, &range, right_p);
    }
    return range;
}

static void index_add(heap_range_t *range)
{
    heap_range_become(range, HEAP_FREE);
    heap_index_add(&range->stream->index, range);
}

heap_range_t *heap_space_take(heap_space_t *space, heap_range_t *range,
                              uint64_t offset, uint64_t size)
{
    heap_range_t *left, *right;

    assert(heap_range_state(range) == HEAP_FREE);
    heap_index_remove(&range->stream->index, range);
    range = isolate(space, range, offset, size, &left, &right);
    if (left != NULL) {
        index_add(left);
    }
    if (right != NULL) {
        index_add(right);
    }
    return range;
}

static bool is_over(const heap_range_t *range)
{
    return heap_stream_is_over(range->stream, range->ticket);
}

/* May two neighbours be one free range? */
static bool can_join(const heap_range_t *a, const heap_range_t *b)
{
    return (a->stream == b->stream) || is_over(a) || is_over(b);
}

/* Join two neighbours that are in no list. What they are together belongs to
 * whom is not over with it yet; if that is nobody, to `stream`. */
static heap_range_t *join_free(heap_space_t *space, heap_range_t *left,
                               heap_range_t *right, heap_stream_t *stream)
{
    const heap_range_t *owner  = is_over(left) ? right : left;
    uint64_t            ticket = owner->ticket;
    heap_range_t       *both;

    if (is_over(owner)) {
        ticket = 0;
    } else {
        stream = owner->stream;
        if (left->stream == right->stream) {
            ticket = base_max(left->ticket, right->ticket);
        }
    }
    both         = join(space, left, right);
    both->stream = stream;
    both->ticket = ticket;
    return both;
}

static bool is_free(const heap_range_t *range)
{
    return (range != NULL) && (heap_range_state(range) == HEAP_FREE);
}

/* Join a range that is in no list with one beside it; NULL: none is free for
 * the same users. */
static heap_range_t *join_beside(heap_space_t *space, heap_range_t *range,
                                 heap_stream_t *stream)
{
    heap_range_t *before = range->before;
    heap_range_t *after  = range->after;

    if (is_free(after) && can_join(range, after)) {
        heap_index_remove(&after->stream->index, after);
        return join_free(space, range, after, stream);
    }
    if (is_free(before) && can_join(range, before)) {
        heap_index_remove(&before->stream->index, before);
        return join_free(space, before, range, stream);
    }
    return NULL;
}

heap_range_t *heap_space_give(heap_space_t *space, heap_range_t *range,
                              heap_stream_t *stream, uint64_t ticket)
{
    heap_range_t *joined;

    range->stream = stream;
    range->ticket = ticket;
    /* More than twice, where one has become over since it was given. */
    while ((joined = join_beside(space, range, stream)) != NULL) {
        range = joined;
    }
    index_add(range);
    return range;
}

static bool is_hole(const heap_range_t *range)
{
    return (range != NULL) && (heap_range_state(range) == HEAP_UNBACKED);
}

/* A range in no list is a hole from now on, and one with those beside it. */
static void become_hole(heap_space_t *space, heap_range_t *range)
{
    heap_range_t *before = range->before;
    heap_range_t *after  = range->after;

    if (is_hole(after)) {
        base_list_del(&after->link);
        range = join(space, range, after);
    }
    if (is_hole(before)) {
        base_list_del(&before->link);
        range = join(space, before, range);
    }
    heap_range_become(range, HEAP_UNBACKED);
    range->stream = NULL;
    base_list_add_head(&space->holes, &range->link);
}

ucxpool_status_t heap_space_back(heap_space_t *space, heap_range_t *hole,
                                 uint64_t offset, uint64_t size,
                                 heap_stream_t *stream, uint64_t ticket,
                                 heap_range_t **range_p)
{
    heap_range_t    *left, *right, *range;
    ucxpool_status_t status;

    status = heap_ranges_prepare(&space->ranges, HEAP_SPACE_TAKES);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = heap_home_back(&space->home, offset, size);
    if (status != UCXPOOL_OK) {
        return status;
    }
    base_list_del(&hole->link);
    range = isolate(space, hole, offset, size, &left, &right);
    if (left != NULL) {
        base_list_add_head(&space->holes, &left->link);
    }
    if (right != NULL) {
        base_list_add_head(&space->holes, &right->link);
    }
    *range_p = heap_space_give(space, range, stream, ticket);
    return UCXPOOL_OK;
}

ucxpool_status_t heap_space_release(heap_space_t *space, heap_range_t *range,
                                    uint64_t offset, uint64_t size,
                                    uint64_t *done_p)
{
    ucxpool_status_t status;

    *done_p = 0;
    status  = heap_ranges_prepare(&space->ranges, HEAP_SPACE_TAKES);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = heap_home_release(&space->home, offset, size, done_p);
    if (*done_p > 0) {
        become_hole(space, heap_space_take(space, range, offset, *done_p));
    }
    return status;
}

ucxpool_status_t heap_space_recut(heap_space_t *space, heap_range_t *range,
                                  size_t slot)
{
    uint64_t         size = space->home.slot_size;
    bool             is_kept;
    ucxpool_status_t status;

    status = heap_ranges_prepare(&space->ranges, HEAP_SPACE_TAKES);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = heap_home_recut(&space->home, slot, &is_kept);
    if ((status != UCXPOOL_OK) && !is_kept) {
        become_hole(space, heap_space_take(space, range, slot * size, size));
    }
    return status;
}
