#include "heap/space.h"

#include "base/error.h"
#include "base/math.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- the home ------------------------------------------------------------- */

static ucxpool_status_t home_init(heap_home_t *home, mem_vmm_t *vmm,
                                  void *address, uint64_t size,
                                  uint64_t slot_size)
{
    assert((size % slot_size == 0) && (slot_size >= HEAP_PAGE));
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

    return ((slot->chunk != 0) || (slot->pages == NULL))
               ? slot->chunk
               : slot->pages[page_of(home, offset)];
}

/* Returns true if the slot at `offset` becomes one chunk, because the `size`
 * bytes there cover all of it. */
static bool is_chunk(const heap_home_t *home, uint64_t offset, uint64_t size)
{
    return (home->slot_size > HEAP_PAGE) && (offset % home->slot_size == 0) &&
           (size >= home->slot_size);
}

/* Record that `size` bytes from an offset on are one physical allocation. */
static void home_note(heap_home_t *home, uint64_t offset, uint64_t size,
                      mem_chunk_t chunk)
{
    heap_slot_t *slot = heap_home_slot(home, offset);

    if (size > HEAP_PAGE) {
        slot->chunk = chunk;
        home->num_chunks++;
    } else {
        slot->pages[page_of(home, offset)] = chunk;
        home->num_pages++;
    }
    home->reserved += size;
}

static void home_forget(heap_home_t *home, uint64_t offset, uint64_t size)
{
    heap_slot_t *slot = heap_home_slot(home, offset);

    if (slot->chunk != 0) {
        slot->chunk = 0;
        home->num_chunks--;
    } else {
        slot->pages[page_of(home, offset)] = 0;
        home->num_pages--;
    }
    home->reserved -= size;
}

/* Create and map a chunk or a page, without enabling access. */
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

/* Unmap and destroy a chunk or a page. If unmapping fails, nothing changes. */
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

/* Drop all chunks and pages from `offset` to `end`. */
static void home_empty(heap_home_t *home, uint64_t offset, uint64_t end)
{
    uint64_t grain;

    for (; offset < end; offset += grain) {
        grain = heap_home_grain(home, offset);
        if (heap_home_chunk(home, offset) != 0) {
            (void)home_drop(home, offset, grain);
        }
    }
}

/* Allocate memory for whole pages of the home that have none. After an error,
 * these pages have no memory. */
static ucxpool_status_t home_back(heap_home_t *home, uint64_t offset,
                                  uint64_t size, bool as_pages)
{
    ucxpool_status_t status = UCXPOOL_OK;
    uint64_t         done, length;

    for (done = 0; (done < size) && (status == UCXPOOL_OK); done += length) {
        length = (!as_pages && is_chunk(home, offset + done, size - done))
                     ? home->slot_size
                     : HEAP_PAGE;
        status = home_add(home, offset + done, length);
    }
    if (status == UCXPOOL_OK) {
        status =
            home->vmm->calls->allow(home->vmm, home->address + offset, size);
    }
    if (status != UCXPOOL_OK) {
        home_empty(home, offset, offset + size);
    }
    return status;
}

/* Destroy all chunks and pages. No running work may use them. */
static void home_cleanup(heap_home_t *home)
{
    home_empty(home, 0, home->size);
    for (size_t i = 0; i < home->num_slots; i++) {
        free(home->slots[i].pages);
    }
    free(home->slots);
    home->slots = NULL;
}

/* --- ranges --------------------------------------------------------------- */

/* Record the range in all slots that begin in the part [offset, end) of the
 * range. */
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
    heap_range_t    *hole;
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
    hole         = heap_ranges_get(&space->ranges);
    hole->offset = 0;
    hole->size   = size;
    heap_range_become(hole, HEAP_UNBACKED);
    base_list_add_tail(&space->holes, &hole->link);
    note_slots(space, hole, 0, size);
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
    uint64_t end = heap_range_end(range);
    uint64_t offset =
        base_align_up(base_max(*offset_p, range->offset), HEAP_PAGE);

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
 * have to be updated. */
static void cut(heap_space_t *space, heap_range_t *range, uint64_t offset,
                heap_range_t **left_p, heap_range_t **right_p)
{
    heap_range_t *part;

    if (offset - range->offset < heap_range_end(range) - offset) {
        part     = heap_range_cut_front(&space->ranges, range, offset);
        *left_p  = part;
        *right_p = range;
    } else {
        part     = heap_range_cut(&space->ranges, range, offset);
        *left_p  = range;
        *right_p = part;
    }
    note_slots(space, part, part->offset, heap_range_end(part));
}

/* Join two neighbors and return the result. The longer one keeps its
 * descriptor, so that few slots have to be updated. */
static heap_range_t *join(heap_space_t *space, heap_range_t *left,
                          heap_range_t *right)
{
    heap_range_t *longer  = (left->size < right->size) ? right : left;
    heap_range_t *shorter = (longer == left) ? right : left;

    note_slots(space, longer, shorter->offset, heap_range_end(shorter));
    heap_range_join(&space->ranges, longer, shorter);
    return longer;
}

/* Put a hole or a free range into its list. */
static void list_add(heap_space_t *space, heap_range_t *range)
{
    if (heap_range_is(range, HEAP_UNBACKED)) {
        base_list_add_head(&space->holes, &range->link);
    } else {
        heap_index_add(&range->stream->index, range);
    }
}

/* Cut a hole or a free range that is not in a list, so that a part of it
 * becomes a separate range. The rest goes back into the list. */
static heap_range_t *isolate(heap_space_t *space, heap_range_t *range,
                             uint64_t offset, uint64_t size)
{
    heap_range_t *rest;

    if (offset > range->offset) {
        cut(space, range, offset, &rest, &range);
        list_add(space, rest);
    }
    if (offset + size < heap_range_end(range)) {
        cut(space, range, offset + size, &range, &rest);
        list_add(space, rest);
    }
    return range;
}

heap_range_t *heap_space_take(heap_space_t *space, heap_range_t *range,
                              uint64_t offset, uint64_t size)
{
    assert(heap_range_state(range) == HEAP_FREE);
    heap_index_remove(&range->stream->index, range);
    return isolate(space, range, offset, size);
}

static bool is_over(const heap_range_t *range)
{
    return heap_stream_is_over(range->stream, range->ticket);
}

/* Returns true if two neighbors can be joined into one free range. */
static bool can_join(const heap_range_t *a, const heap_range_t *b)
{
    return (a->stream == b->stream) || is_over(a) || is_over(b);
}

/* Join two neighbors that are not in a list. The result belongs to the stream
 * whose ticket is still pending, or to `stream` if both tickets have
 * completed. */
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

/* Join a range that is not in a list with a free neighbor. Returns NULL if no
 * neighbor can be joined. */
static heap_range_t *join_neighbor(heap_space_t *space, heap_range_t *range,
                                   heap_stream_t *stream)
{
    heap_range_t *before = range->before;
    heap_range_t *after  = range->after;

    if (heap_range_is(after, HEAP_FREE) && can_join(range, after)) {
        heap_index_remove(&after->stream->index, after);
        return join_free(space, range, after, stream);
    }
    if (heap_range_is(before, HEAP_FREE) && can_join(range, before)) {
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
    /* More than two joins are possible, because tickets of further neighbors
     * may have completed by now. */
    while ((joined = join_neighbor(space, range, stream)) != NULL) {
        range = joined;
    }
    heap_range_become(range, HEAP_FREE);
    heap_index_add(&range->stream->index, range);
    return range;
}

/* Turn a range that is not in a list into a hole, and join adjacent holes. */
static void become_hole(heap_space_t *space, heap_range_t *range)
{
    heap_range_t *before = range->before;
    heap_range_t *after  = range->after;

    if (heap_range_is(after, HEAP_UNBACKED)) {
        base_list_del(&after->link);
        range = join(space, range, after);
    }
    if (heap_range_is(before, HEAP_UNBACKED)) {
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
    ucxpool_status_t status =
        heap_ranges_prepare(&space->ranges, HEAP_SPACE_TAKES);

    if (status != UCXPOOL_OK) {
        return status;
    }
    assert((offset % HEAP_PAGE == 0) && (size % HEAP_PAGE == 0));
    status = home_back(&space->home, offset, size, false);
    if (status != UCXPOOL_OK) {
        return status;
    }
    base_list_del(&hole->link);
    *range_p = heap_space_give(space, isolate(space, hole, offset, size),
                               stream, ticket);
    return UCXPOOL_OK;
}

ucxpool_status_t heap_space_release(heap_space_t *space, heap_range_t *range,
                                    uint64_t offset, uint64_t size)
{
    ucxpool_status_t status;

    status = heap_ranges_prepare(&space->ranges, HEAP_SPACE_TAKES);
    if (status == UCXPOOL_OK) {
        status = home_drop(&space->home, offset, size);
    }
    if (status == UCXPOOL_OK) {
        become_hole(space, heap_space_take(space, range, offset, size));
    }
    return status;
}

ucxpool_status_t heap_space_split(heap_space_t *space, heap_range_t *range,
                                  size_t slot)
{
    heap_home_t     *home   = &space->home;
    uint64_t         size   = home->slot_size;
    uint64_t         offset = slot * size;
    ucxpool_status_t status;

    status = heap_ranges_prepare(&space->ranges, HEAP_SPACE_TAKES);
    if (status == UCXPOOL_OK) {
        status = home_drop(home, offset, size);
    }
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = home_back(home, offset, size, true);
    if (status != UCXPOOL_OK) {
        become_hole(space, heap_space_take(space, range, offset, size));
    }
    return status;
}

/* --- stitched ranges ------------------------------------------------------ */

void heap_stitcher_init(heap_stitcher_t *stitcher, heap_space_t *space,
                        uint64_t begin, uint64_t end)
{
    *stitcher = (heap_stitcher_t){.space = space, .begin = begin, .end = end};
    base_list_init(&stitcher->all);
}

/* --- selection --------------------------------------------------------------
 * These functions select free chunks and pages so that few mappings are needed:
 * large chunks first, and only as many pages as are missing.
 */

typedef struct selection {
    heap_run_t *runs;
    size_t      num_runs;
    size_t      capacity;
    size_t      num_mappings;
    uint64_t    size; /* of all runs */
} selection_t;

static ucxpool_status_t select_unit(selection_t *selection, uint64_t offset,
                                    uint64_t size)
{
    heap_run_t *last = (selection->num_runs > 0)
                           ? &selection->runs[selection->num_runs - 1]
                           : NULL;
    heap_run_t *runs;
    size_t      capacity;

    selection->size += size;
    selection->num_mappings++;
    if ((last != NULL) && (last->home + last->size == offset)) {
        last->size += size;
        return UCXPOOL_OK;
    }
    if (selection->num_runs == selection->capacity) {
        capacity = base_max(2 * selection->capacity, (size_t)32);
        runs     = realloc(selection->runs, capacity * sizeof(runs[0]));
        if (runs == NULL) {
            return base_error(UCXPOOL_ERR_NO_MEMORY,
                              "no host memory for a stitched range of %zu "
                              "runs",
                              capacity);
        }
        selection->runs     = runs;
        selection->capacity = capacity;
    }
    selection->runs[selection->num_runs++] = (heap_run_t){offset, size};
    return UCXPOOL_OK;
}

/* A chunk or a page in the free ranges of a stream. */
typedef struct unit {
    const heap_range_t *range; /* the range that contains it; NULL: none */
    uint64_t            offset;
    uint64_t            size;
} unit_t;

/* Find the next chunk or page in the free ranges of at least `min_size` bytes.
 * The first one is next to {.range = heap_index_first()}. */
static bool next_unit(const heap_space_t *space, const heap_stream_t *stream,
                      uint64_t min_size, unit_t *unit)
{
    unit->offset += unit->size;
    while ((unit->range != NULL) &&
           !heap_space_unit(space, unit->range, &unit->offset, &unit->size)) {
        *unit = (unit_t){
            .range = heap_index_next(&stream->index, unit->range, min_size)};
    }
    return unit->range != NULL;
}

/* Like next_unit(), but skips units of other sizes. */
static bool next_of_size(const heap_space_t *space, const heap_stream_t *stream,
                         uint64_t size, unit_t *unit)
{
    bool is_found;

    do {
        is_found = next_unit(space, stream, size, unit);
    } while (is_found && (unit->size != size));
    return is_found;
}

/*
 * Select free ranges of a stream. Selects less than `size` bytes if no more are
 * free. The caller must free the runs, even after an error.
 */
static ucxpool_status_t select_units(const heap_space_t  *space,
                                     const heap_stream_t *stream, uint64_t size,
                                     selection_t *selection)
{
    uint64_t slot_size = space->home.slot_size;
    unit_t   chunk     = {.range = heap_index_first(&stream->index, slot_size)};
    unit_t   page      = {.range = heap_index_first(&stream->index, HEAP_PAGE)};
    ucxpool_status_t status = UCXPOOL_OK;

    *selection = (selection_t){.runs = NULL};
    while ((status == UCXPOOL_OK) && (selection->size + slot_size <= size) &&
           next_of_size(space, stream, slot_size, &chunk)) {
        status = select_unit(selection, chunk.offset, chunk.size);
    }
    while ((status == UCXPOOL_OK) && (selection->size < size) &&
           (slot_size > HEAP_PAGE) &&
           next_of_size(space, stream, HEAP_PAGE, &page)) {
        status = select_unit(selection, page.offset, page.size);
    }
    /* If there are too few pages, select one more chunk and use only a part of
     * it. */
    if ((status == UCXPOOL_OK) && (selection->size < size) &&
        next_of_size(space, stream, slot_size, &chunk)) {
        status = select_unit(selection, chunk.offset, chunk.size);
    }
    return status;
}

uint64_t heap_stitchable(const heap_space_t *space, const heap_stream_t *stream)
{
    unit_t   unit = {.range = heap_index_first(&stream->index, HEAP_PAGE)};
    uint64_t sum  = 0;

    while (next_unit(space, stream, HEAP_PAGE, &unit)) {
        sum += unit.size;
    }
    return sum;
}

/* --- mappings ------------------------------------------------------------- */

/* Unmap the first `size` bytes of a stitched range. */
static ucxpool_status_t unmap(const heap_stitcher_t *stitcher,
                              const heap_stitched_t *stitched, uint64_t size)
{
    const heap_home_t *home = &stitcher->space->home;

    return (size == 0) ? UCXPOOL_OK
                       : home->vmm->calls->unmap(
                             home->vmm, home->address + stitched->offset, size);
}

static ucxpool_status_t map_run(const heap_stitcher_t *stitcher,
                                const heap_run_t *run, uint64_t offset,
                                uint64_t *mapped_p)
{
    const heap_home_t *home = &stitcher->space->home;
    uint64_t           done, grain;

    for (done = 0; done < run->size; done += grain) {
        ucxpool_status_t status;

        grain  = heap_home_grain(home, run->home + done);
        status = home->vmm->calls->map(home->vmm, home->address + offset + done,
                                       heap_home_chunk(home, run->home + done),
                                       grain);
        if (status != UCXPOOL_OK) {
            return status;
        }
        *mapped_p += grain;
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t map(const heap_stitcher_t *stitcher,
                            const heap_stitched_t *stitched)
{
    const heap_home_t *home   = &stitcher->space->home;
    uint64_t           mapped = 0;
    ucxpool_status_t   status = UCXPOOL_OK;

    for (size_t i = 0; (status == UCXPOOL_OK) && (i < stitched->num_runs);
         i++) {
        status = map_run(stitcher, &stitched->runs[i],
                         stitched->offset + mapped, &mapped);
    }
    if (status == UCXPOOL_OK) {
        status = home->vmm->calls->allow(
            home->vmm, home->address + stitched->offset, stitched->size);
    }
    if (status != UCXPOOL_OK) {
        (void)unmap(stitcher, stitched, mapped);
    }
    return status;
}

/* Unmap and free a stitched range that is kept for reuse. */
static ucxpool_status_t drop(heap_stitcher_t *stitcher,
                             heap_stitched_t *stitched)
{
    ucxpool_status_t status;

    assert(stitched->range == NULL);
    status = unmap(stitcher, stitched, stitched->size);
    if (status == UCXPOOL_OK) {
        base_list_del(&stitched->link);
        free(stitched);
    }
    return status;
}

void heap_stitcher_cleanup(heap_stitcher_t *stitcher)
{
    heap_stitched_t *stitched, *next;

    base_list_for_each_safe(stitched, next, &stitcher->all, heap_stitched_t,
                            link) {
        (void)unmap(stitcher, stitched, stitched->size);
        base_list_del(&stitched->link);
        free(stitched);
    }
}

/* Find a gap of `size` bytes: its offset, and the link of the stitched range
 * after it. Returns false if not found. */
static bool find_gap(const heap_stitcher_t *stitcher, uint64_t size,
                     uint64_t *offset_p, base_list_t **behind_p)
{
    heap_stitched_t *stitched;
    uint64_t         offset = stitcher->begin;

    base_list_for_each(stitched, &stitcher->all, heap_stitched_t, link) {
        if (stitched->offset - offset >= size) {
            break;
        }
        offset = stitched->offset + stitched->size;
    }
    *offset_p = offset;
    *behind_p = base_list_link(stitched, heap_stitched_t, link);
    return (*behind_p != &stitcher->all) || (stitcher->end - offset >= size);
}

static bool is_stitched_over(const heap_stitched_t *stitched)
{
    return heap_stream_is_over(stitched->stream, stitched->ticket);
}

/* Unmap the stitched range that has been kept longest. Returns false if none
 * can be unmapped. */
static bool make_room(heap_stitcher_t *stitcher)
{
    heap_stitched_t *stitched;
    heap_stitched_t *oldest = NULL;

    base_list_for_each(stitched, &stitcher->all, heap_stitched_t, link) {
        if ((stitched->range == NULL) && is_stitched_over(stitched) &&
            ((oldest == NULL) || (stitched->turn < oldest->turn))) {
            oldest = stitched;
        }
    }
    return (oldest != NULL) && (drop(stitcher, oldest) == UCXPOOL_OK);
}

/*
 * Map a selection as a stitched range that is kept but not in use. Unmaps other
 * kept ranges if there is no room. *stitched_p is NULL if there is still no
 * room.
 */
static ucxpool_status_t stitched_create(heap_stitcher_t   *stitcher,
                                        const selection_t *selection,
                                        heap_stream_t     *stream,
                                        heap_stitched_t  **stitched_p)
{
    heap_stitched_t *stitched;
    base_list_t     *behind;
    uint64_t         offset;
    size_t runs_size = selection->num_runs * sizeof(selection->runs[0]);
    ucxpool_status_t status;

    *stitched_p = NULL;
    while (!find_gap(stitcher, selection->size, &offset, &behind)) {
        if (!make_room(stitcher)) {
            return UCXPOOL_OK;
        }
    }
    stitched = calloc(1, sizeof(*stitched) + runs_size);
    if (stitched == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no host memory to describe a stitched range");
    }
    stitched->offset       = offset;
    stitched->size         = selection->size;
    stitched->stream       = stream;
    stitched->num_mappings = selection->num_mappings;
    stitched->num_runs     = selection->num_runs;
    memcpy(stitched->runs, selection->runs, runs_size);
    status = map(stitcher, stitched);
    if (status != UCXPOOL_OK) {
        free(stitched);
        return status;
    }
    base_list_add_tail(behind, &stitched->link);
    *stitched_p = stitched;
    return UCXPOOL_OK;
}

/* Returns true if a stitched range contains a part of the home. */
static bool has_part(const heap_stitched_t *stitched, uint64_t offset,
                     uint64_t size)
{
    for (size_t i = 0; i < stitched->num_runs; i++) {
        const heap_run_t *run = &stitched->runs[i];

        if ((run->home < offset + size) && (offset < run->home + run->size)) {
            return true;
        }
    }
    return false;
}

ucxpool_status_t heap_stitcher_purge(heap_stitcher_t *stitcher, uint64_t offset,
                                     uint64_t size)
{
    heap_stitched_t *stitched, *next;

    base_list_for_each_safe(stitched, next, &stitcher->all, heap_stitched_t,
                            link) {
        ucxpool_status_t status = UCXPOOL_OK;

        if (has_part(stitched, offset, size)) {
            /* The ticket of this part may have completed while the tickets of
             * other parts are pending. */
            status = ((stitched->range != NULL) || !is_stitched_over(stitched))
                         ? UCXPOOL_ERR_BUSY
                         : drop(stitcher, stitched);
        }
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    return UCXPOOL_OK;
}

const heap_stitched_t *heap_stitched_around(const heap_stitcher_t *stitcher,
                                            uint64_t               offset)
{
    heap_stitched_t *stitched;

    base_list_for_each(stitched, &stitcher->all, heap_stitched_t, link) {
        if ((offset >= stitched->offset) &&
            (offset - stitched->offset < stitched->size)) {
            return (stitched->range != NULL) ? stitched : NULL;
        }
    }
    return NULL;
}

/* --- use ------------------------------------------------------------------ */

/* Mark the first `size` bytes of a stitched range's runs as in use. Descriptors
 * must have been prepared. */
static void take_runs(heap_stitcher_t       *stitcher,
                      const heap_stitched_t *stitched, uint64_t size)
{
    heap_space_t *space = stitcher->space;

    for (size_t i = 0; size > 0; i++) {
        const heap_run_t *run  = &stitched->runs[i];
        uint64_t          part = base_min(run->size, size);

        heap_range_become(heap_space_take(space,
                                          heap_space_cover(space, run->home),
                                          run->home, part),
                          HEAP_STITCHED);
        size -= part;
    }
}

/* Put a kept stitched range into use. */
static ucxpool_status_t begin_use(heap_stitcher_t *stitcher,
                                  heap_stitched_t *stitched, uint64_t size,
                                  heap_range_t **range_p)
{
    heap_ranges_t   *ranges = &stitcher->space->ranges;
    heap_range_t    *range;
    ucxpool_status_t status;

    status =
        heap_ranges_prepare(ranges, stitched->num_runs * HEAP_SPACE_TAKES + 1);
    if (status != UCXPOOL_OK) {
        return status;
    }
    take_runs(stitcher, stitched, size);
    range           = heap_ranges_get(ranges);
    range->offset   = stitched->offset;
    range->size     = size;
    range->stitched = stitched;
    stitched->range = range;
    *range_p        = range;
    return UCXPOOL_OK;
}

ucxpool_status_t heap_stitch(heap_stitcher_t *stitcher, heap_stream_t *stream,
                             uint64_t size, size_t max_mappings,
                             heap_range_t **range_p)
{
    heap_stitched_t *stitched = NULL;
    selection_t      selection;
    ucxpool_status_t status;

    *range_p = NULL;
    if (stream->index.size < size) {
        return UCXPOOL_OK;
    }
    status = select_units(stitcher->space, stream, size, &selection);
    if ((status == UCXPOOL_OK) && (selection.size >= size) &&
        (selection.num_mappings <= max_mappings)) {
        status = stitched_create(stitcher, &selection, stream, &stitched);
    }
    free(selection.runs);
    if (stitched == NULL) {
        return status;
    }
    stitcher->num_stitches++;
    return begin_use(stitcher, stitched, size, range_p);
}

/* Returns true if a stream could use the first `size` bytes of a stitched
 * range's runs. */
static bool is_reusable(const heap_stitcher_t *stitcher,
                        const heap_stitched_t *stitched,
                        const heap_stream_t *stream, uint64_t size)
{
    for (size_t i = 0; size > 0; i++) {
        const heap_run_t   *run = &stitched->runs[i];
        const heap_range_t *range =
            heap_space_cover(stitcher->space, run->home);
        uint64_t part = base_min(run->size, size);

        if ((heap_range_state(range) != HEAP_FREE) ||
            (heap_range_end(range) < run->home + part) ||
            !heap_stream_may_use(stream, range->stream, range->ticket)) {
            return false;
        }
        size -= part;
    }
    return true;
}

ucxpool_status_t heap_restitch(heap_stitcher_t *stitcher, heap_stream_t *stream,
                               uint64_t size, heap_range_t **range_p)
{
    heap_stitched_t *stitched;
    heap_stitched_t *best = NULL;
    ucxpool_status_t status;

    *range_p = NULL;
    base_list_for_each(stitched, &stitcher->all, heap_stitched_t, link) {
        if ((stitched->range == NULL) && (stitched->size >= size) &&
            ((best == NULL) || (stitched->size < best->size)) &&
            is_reusable(stitcher, stitched, stream, size)) {
            best = stitched;
        }
    }
    if (best == NULL) {
        return UCXPOOL_OK;
    }
    status = begin_use(stitcher, best, size, range_p);
    stitcher->num_restitches += (status == UCXPOOL_OK);
    return status;
}

void heap_unstitch(heap_stitcher_t *stitcher, heap_range_t *range,
                   heap_stream_t *stream, uint64_t ticket)
{
    heap_stitched_t *stitched = range->stitched;
    heap_space_t    *space    = stitcher->space;
    uint64_t         size     = range->size;

    for (size_t i = 0; size > 0; i++) {
        heap_range_t *part = heap_space_cover(space, stitched->runs[i].home);

        assert(heap_range_state(part) == HEAP_STITCHED);
        size -= part->size;
        heap_space_give(space, part, stream, ticket);
    }
    heap_ranges_put(&space->ranges, range);
    stitched->range  = NULL;
    stitched->stream = stream;
    stitched->ticket = ticket;
    stitched->turn   = ++stitcher->turns;
}
