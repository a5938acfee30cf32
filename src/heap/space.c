#include <config.h>

#include "heap/space.h"

#include "base/error.h"
#include "base/math.h"

#include <assert.h>
#include <stdlib.h>

/* --- the home ------------------------------------------------------------- */

static ucxpool_status_t home_init(heap_home_t *home, mem_vmm_t *vmm,
                                  void *address, uint64_t size,
                                  uint64_t slot_size)
{
    assert((size % slot_size == 0) && (slot_size >= HEAP_PAGE));
    assert(slot_size / HEAP_PAGE <= HEAP_SLOT_PAGES);
    *home       = (heap_home_t){.vmm       = vmm,
                                .address   = address,
                                .size      = size,
                                .slot_size = slot_size,
                                .num_slots = size / slot_size};
    home->slots = calloc(home->num_slots, sizeof(home->slots[0]));
    if (home->slots == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no host memory (%zu bytes) for the heap's table of "
                          "chunks",
                          home->num_slots * sizeof(home->slots[0]));
    }
    return UCXPOOL_OK;
}

static size_t page_of(const heap_home_t *home, uint64_t offset)
{
    return (offset % home->slot_size) / HEAP_PAGE;
}

mem_chunk_t heap_home_chunk(const heap_home_t *home, uint64_t offset)
{
    const heap_slot_t *slot = heap_home_slot(home, offset);

    return (slot->chunk != 0) ? slot->chunk
                              : slot->pages[page_of(home, offset)];
}

static uint64_t all_pages(const heap_home_t *home)
{
    uint64_t num = home->slot_size / HEAP_PAGE;

    return (num == 64) ? UINT64_MAX : (UINT64_C(1) << num) - 1;
}

/* A range that is a whole slot becomes one chunk. */
static bool is_chunk(const heap_home_t *home, uint64_t offset, uint64_t size)
{
    return (home->slot_size > HEAP_PAGE) && (offset % home->slot_size == 0) &&
           (size >= home->slot_size);
}

/* Note that `size` bytes from there on are one physical allocation. */
static void home_note(heap_home_t *home, uint64_t offset, uint64_t size,
                      mem_chunk_t chunk)
{
    heap_slot_t *slot = heap_home_slot(home, offset);
    size_t       page = page_of(home, offset);

    if (size > HEAP_PAGE) {
        slot->chunk  = chunk;
        slot->backed = all_pages(home);
        home->num_chunks++;
    } else {
        slot->pages[page] = chunk;
        slot->backed |= UINT64_C(1) << page;
        home->num_pages++;
    }
    home->reserved += size;
}

static void home_forget(heap_home_t *home, uint64_t offset, uint64_t size)
{
    heap_slot_t *slot = heap_home_slot(home, offset);
    size_t       page = page_of(home, offset);

    if (slot->chunk != 0) {
        slot->chunk  = 0;
        slot->backed = 0;
        home->num_chunks--;
    } else {
        slot->pages[page] = 0;
        slot->backed &= ~(UINT64_C(1) << page);
        home->num_pages--;
    }
    home->reserved -= size;
}

/* A chunk or a page, created and mapped, not yet allowed. */
static ucxpool_status_t home_add(heap_home_t *home, uint64_t offset,
                                 uint64_t size)
{
    const mem_vmm_calls_t *calls = home->vmm->calls;
    heap_slot_t           *slot  = heap_home_slot(home, offset);
    mem_chunk_t            chunk;
    ucxpool_status_t       status;

    if ((size == HEAP_PAGE) && (slot->pages == NULL)) {
        slot->pages =
            calloc(home->slot_size / HEAP_PAGE, sizeof(slot->pages[0]));
        if (slot->pages == NULL) {
            return base_error(UCXPOOL_ERR_NO_MEMORY,
                              "no host memory for the heap's table of pages");
        }
    }
    status = calls->chunk_create(home->vmm, size, &chunk);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = calls->map(home->vmm, home->address + offset, chunk, size);
    if (status != UCXPOOL_OK) {
        calls->chunk_destroy(home->vmm, chunk, size);
        return status;
    }
    home_note(home, offset, size, chunk);
    return UCXPOOL_OK;
}

/* The reverse. A chunk that cannot be unmapped stays as it is. */
static ucxpool_status_t home_drop(heap_home_t *home, uint64_t offset,
                                  uint64_t size)
{
    mem_chunk_t      chunk = heap_home_chunk(home, offset);
    ucxpool_status_t status;

    status = home->vmm->calls->unmap(home->vmm, home->address + offset, size);
    if (status == UCXPOOL_OK) {
        home_forget(home, offset, size);
        home->vmm->calls->chunk_destroy(home->vmm, chunk, size);
    }
    return status;
}

/*
 * Give memory back: whole slots where they are one chunk. Nothing of it may be
 * mapped elsewhere, and no work be running in it. *done_p bytes from the start
 * of the range have been given back, after an error too.
 */
static ucxpool_status_t home_release(heap_home_t *home, uint64_t offset,
                                     uint64_t size, uint64_t *done_p)
{
    uint64_t done, length;

    for (done = 0; done < size; done += length) {
        ucxpool_status_t status;

        length = heap_home_grain(home, offset + done);
        assert((offset + done) % length == 0);
        status = home_drop(home, offset + done, length);
        if (status != UCXPOOL_OK) {
            *done_p = done;
            return status;
        }
    }
    *done_p = done;
    return UCXPOOL_OK;
}

/* Take memory for whole pages of the home that have none. After an error there
 * is none. */
static ucxpool_status_t home_back(heap_home_t *home, uint64_t offset,
                                  uint64_t size, bool as_pages)
{
    ucxpool_status_t status = UCXPOOL_OK;
    uint64_t         done, length, undone;

    for (done = 0; (done < size) && (status == UCXPOOL_OK); done += length) {
        length = (!as_pages && is_chunk(home, offset + done, size - done))
                     ? home->slot_size
                     : HEAP_PAGE;
        status = home_add(home, offset + done, length);
        if (status != UCXPOOL_OK) {
            break;
        }
    }
    if (status == UCXPOOL_OK) {
        status =
            home->vmm->calls->allow(home->vmm, home->address + offset, size);
    }
    if (status != UCXPOOL_OK) {
        home_release(home, offset, done, &undone);
    }
    return status;
}

/* Back a slot that is one chunk by pages instead. After an error there is no
 * memory in it, or (*is_kept_p) it is as it was. */
static ucxpool_status_t home_split(heap_home_t *home, size_t slot,
                                   bool *is_kept_p)
{
    uint64_t         offset = slot * home->slot_size;
    ucxpool_status_t status;

    assert(home->slots[slot].chunk != 0);
    status     = home_drop(home, offset, home->slot_size);
    *is_kept_p = status != UCXPOOL_OK;
    if (status != UCXPOOL_OK) {
        return status;
    }
    return home_back(home, offset, home->slot_size, true);
}

/* Destroys what there is; no work may be running in it. */
static void home_cleanup(heap_home_t *home)
{
    for (size_t i = 0; i < home->num_slots; i++) {
        heap_slot_t *slot   = &home->slots[i];
        uint64_t     offset = i * home->slot_size;

        if (slot->chunk != 0) {
            (void)home_drop(home, offset, home->slot_size);
        }
        for (size_t page = 0; slot->backed >> page != 0; page++) {
            if ((slot->backed >> page) & 1) {
                (void)home_drop(home, offset + page * HEAP_PAGE, HEAP_PAGE);
            }
            if (page == 63) {
                break;
            }
        }
        free(slot->pages);
    }
    free(home->slots);
    home->slots = NULL;
}

/* --- its ranges ----------------------------------------------------------- */

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
    status = home_init(&space->home, vmm, address, size, slot_size);
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
    home_cleanup(&space->home);
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
 * the stream that is not over with it yet; if there is none, to `stream`. */
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
    assert((offset % HEAP_PAGE == 0) && (size % HEAP_PAGE == 0));
    status = home_back(&space->home, offset, size, false);
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
    status = home_release(&space->home, offset, size, done_p);
    if (*done_p > 0) {
        become_hole(space, heap_space_take(space, range, offset, *done_p));
    }
    return status;
}

ucxpool_status_t heap_space_split(heap_space_t *space, heap_range_t *range,
                                  size_t slot)
{
    uint64_t         size = space->home.slot_size;
    bool             is_kept;
    ucxpool_status_t status;

    status = heap_ranges_prepare(&space->ranges, HEAP_SPACE_TAKES);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = home_split(&space->home, slot, &is_kept);
    if ((status != UCXPOOL_OK) && !is_kept) {
        become_hole(space, heap_space_take(space, range, slot * size, size));
    }
    return status;
}
