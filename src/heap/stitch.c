#include <config.h>

#include "heap/stitch.h"

#include "base/error.h"
#include "base/math.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void heap_stitcher_init(heap_stitcher_t *stitcher, heap_space_t *space,
                        uint64_t begin, uint64_t end)
{
    *stitcher = (heap_stitcher_t){.space   = space,
                                  .address = space->home.address,
                                  .begin   = begin,
                                  .end     = end};
    base_list_init(&stitcher->all);
}

/* --- what to stitch ---------------------------------------------------------
 * Which free chunks and pages: as few mappings as possible, so large chunks
 * first, and of pages only as many as are missing.
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
                              "no host memory to plan a stitched range of %zu "
                              "runs",
                              capacity);
        }
        selection->runs     = runs;
        selection->capacity = capacity;
    }
    selection->runs[selection->num_runs++] = (heap_run_t){offset, size};
    return UCXPOOL_OK;
}

/* Add units of one size, until less than `stop` bytes are missing. */
static ucxpool_status_t select_all(const heap_space_t  *space,
                                   const heap_stream_t *stream, uint64_t unit,
                                   uint64_t size, uint64_t stop,
                                   selection_t *selection)
{
    const heap_index_t *index = &stream->index;
    const heap_range_t *range = heap_index_first(index, unit);
    uint64_t            offset, length;
    ucxpool_status_t    status;

    for (; range != NULL; range = heap_index_next(index, range, unit)) {
        for (offset = range->offset;
             heap_space_unit(space, range, &offset, &length);
             offset += length) {
            if (selection->size + stop > size) {
                return UCXPOOL_OK;
            }
            if (length == unit) {
                status = select_unit(selection, offset, length);
                if (status != UCXPOOL_OK) {
                    return status;
                }
            }
        }
    }
    return UCXPOOL_OK;
}

/* One more chunk, that is used in part, where there are too few pages. */
static ucxpool_status_t select_last(const heap_space_t  *space,
                                    const heap_stream_t *stream,
                                    selection_t         *selection)
{
    uint64_t            unit  = space->home.slot_size;
    const heap_index_t *index = &stream->index;
    const heap_range_t *range = heap_index_first(index, unit);
    uint64_t            offset, length;

    for (; range != NULL; range = heap_index_next(index, range, unit)) {
        for (offset = range->offset;
             heap_space_unit(space, range, &offset, &length);
             offset += length) {
            bool is_new = length == unit;

            for (size_t i = 0; is_new && (i < selection->num_runs); i++) {
                is_new = (offset < selection->runs[i].home) ||
                         (offset >=
                          selection->runs[i].home + selection->runs[i].size);
            }
            if (is_new) {
                return select_unit(selection, offset, length);
            }
        }
    }
    return UCXPOOL_OK;
}

/*
 * Look among what a stream has free. Less than `size` bytes are selected where
 * that is all there is. The caller frees the runs in any case.
 */
static ucxpool_status_t select_units(const heap_space_t  *space,
                                     const heap_stream_t *stream, uint64_t size,
                                     selection_t *selection)
{
    uint64_t         chunk  = space->home.slot_size;
    ucxpool_status_t status = UCXPOOL_OK;

    *selection = (selection_t){.runs = NULL};
    if (chunk > HEAP_PAGE) {
        status = select_all(space, stream, chunk, size, chunk, selection);
    }
    if (status == UCXPOOL_OK) {
        status = select_all(space, stream, HEAP_PAGE, size, 1, selection);
    }
    if ((status == UCXPOOL_OK) && (selection->size < size) &&
        (chunk > HEAP_PAGE)) {
        status = select_last(space, stream, selection);
    }
    return status;
}

uint64_t heap_stitchable(const heap_space_t *space, const heap_stream_t *stream)
{
    const heap_index_t *index = &stream->index;
    const heap_range_t *range = heap_index_first(index, HEAP_PAGE);
    uint64_t            sum   = 0;
    uint64_t            offset, length;

    for (; range != NULL; range = heap_index_next(index, range, HEAP_PAGE)) {
        for (offset = range->offset;
             heap_space_unit(space, range, &offset, &length);
             offset += length) {
            sum += length;
        }
    }
    return sum;
}

/* --- the mappings --------------------------------------------------------- */

/* Chunks and pages in a part of the home. */
static size_t count_units(const heap_home_t *home, uint64_t offset,
                          uint64_t size)
{
    size_t count = 0;

    for (uint64_t done = 0; done < size; count++) {
        done += heap_home_grain(home, offset + done);
    }
    return count;
}

static size_t count_mappings(const heap_stitcher_t *stitcher,
                             const heap_stitched_t *stitched)
{
    size_t count = 0;

    for (size_t i = 0; i < stitched->num_runs; i++) {
        count += count_units(&stitcher->space->home, stitched->runs[i].home,
                             stitched->runs[i].size);
    }
    return count;
}

/* Unmap the first bytes of one, mapping by mapping. */
static ucxpool_status_t unmap(const heap_stitcher_t *stitcher,
                              const heap_stitched_t *stitched, uint64_t size)
{
    mem_vmm_t       *vmm    = stitcher->space->home.vmm;
    ucxpool_status_t status = UCXPOOL_OK;

    if (size > 0) {
        status =
            vmm->calls->unmap(vmm, stitcher->address + stitched->offset, size);
    }
    return status;
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
        status = home->vmm->calls->map(
            home->vmm, stitcher->address + offset + done,
            heap_home_chunk(home, run->home + done), grain);
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
    mem_vmm_t       *vmm    = stitcher->space->home.vmm;
    uint64_t         mapped = 0;
    ucxpool_status_t status = UCXPOOL_OK;

    for (size_t i = 0; (status == UCXPOOL_OK) && (i < stitched->num_runs);
         i++) {
        status = map_run(stitcher, &stitched->runs[i],
                         stitched->offset + mapped, &mapped);
    }
    if (status == UCXPOOL_OK) {
        status = vmm->calls->allow(vmm, stitcher->address + stitched->offset,
                                   stitched->size);
    }
    if (status != UCXPOOL_OK) {
        (void)unmap(stitcher, stitched, mapped);
    }
    return status;
}

/* Take one that is kept out of the mappings. */
static ucxpool_status_t drop(heap_stitcher_t *stitcher,
                             heap_stitched_t *stitched)
{
    size_t           num = count_mappings(stitcher, stitched);
    ucxpool_status_t status;

    assert(stitched->range == NULL);
    status = unmap(stitcher, stitched, stitched->size);
    if (status == UCXPOOL_OK) {
        base_list_del(&stitched->link);
        stitcher->num_kept--;
        stitcher->mapped -= stitched->size;
        stitcher->num_mappings -= num;
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

/* A gap of `size` bytes: its offset, and the stitched range behind it. */
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

static bool is_over(const heap_stitched_t *stitched)
{
    return heap_stream_is_over(stitched->stream, stitched->ticket);
}

/* Unmap what has been kept for the longest time; false: nothing can be. */
static bool make_room(heap_stitcher_t *stitcher)
{
    heap_stitched_t *stitched;
    heap_stitched_t *oldest = NULL;

    base_list_for_each(stitched, &stitcher->all, heap_stitched_t, link) {
        if ((stitched->range == NULL) && is_over(stitched) &&
            ((oldest == NULL) || (stitched->turn < oldest->turn))) {
            oldest = stitched;
        }
    }
    return (oldest != NULL) && (drop(stitcher, oldest) == UCXPOOL_OK);
}

/*
 * Map what is selected; it is kept, and in no use. Where there is no room,
 * others that are kept go. *stitched_p is NULL if there is no room all the
 * same.
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
    stitched->offset   = offset;
    stitched->size     = selection->size;
    stitched->stream   = stream;
    stitched->num_runs = selection->num_runs;
    memcpy(stitched->runs, selection->runs, runs_size);
    status = map(stitcher, stitched);
    if (status != UCXPOOL_OK) {
        free(stitched);
        return status;
    }
    base_list_add_tail(behind, &stitched->link);
    stitcher->num_kept++;
    stitcher->mapped += stitched->size;
    stitcher->num_mappings += selection->num_mappings;
    *stitched_p = stitched;
    return UCXPOOL_OK;
}

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
            /* The part may be over, and others not. */
            status = ((stitched->range != NULL) || !is_over(stitched))
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

/* --- their use ------------------------------------------------------------ */

/* Its runs, as far as `size` goes, are in use from now on. Descriptors are
 * prepared. */
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

static ucxpool_status_t prepare_ranges(const heap_stitcher_t *stitcher,
                                       size_t                 num_runs)
{
    return heap_ranges_prepare(&stitcher->space->ranges,
                               num_runs * HEAP_SPACE_TAKES + 1);
}

/* Let a kept one be in use; as prepared. */
static heap_range_t *begin_use(heap_stitcher_t *stitcher,
                               heap_stitched_t *stitched, uint64_t size)
{
    heap_range_t *range;

    take_runs(stitcher, stitched, size);
    range           = heap_ranges_get(&stitcher->space->ranges);
    range->offset   = stitched->offset;
    range->size     = size;
    range->stitched = stitched;
    stitched->range = range;
    stitcher->num_kept--;
    stitcher->num_live++;
    return range;
}

static ucxpool_status_t stitch_selection(heap_stitcher_t   *stitcher,
                                         const selection_t *selection,
                                         heap_stream_t *stream, uint64_t size,
                                         heap_range_t **range_p)
{
    heap_stitched_t *stitched;
    ucxpool_status_t status = prepare_ranges(stitcher, selection->num_runs);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = stitched_create(stitcher, selection, stream, &stitched);
    if ((status == UCXPOOL_OK) && (stitched != NULL)) {
        *range_p = begin_use(stitcher, stitched, size);
        stitcher->num_stitches++;
    }
    return status;
}

ucxpool_status_t heap_stitch(heap_stitcher_t *stitcher, heap_stream_t *stream,
                             uint64_t size, size_t max_mappings,
                             heap_range_t **range_p)
{
    selection_t      selection;
    ucxpool_status_t status;

    *range_p = NULL;
    if (stream->index.size < size) {
        return UCXPOOL_OK;
    }
    status = select_units(stitcher->space, stream, size, &selection);
    if ((status == UCXPOOL_OK) && (selection.size >= size) &&
        (selection.num_mappings <= max_mappings)) {
        status = stitch_selection(stitcher, &selection, stream, size, range_p);
    }
    free(selection.runs);
    return status;
}

/* Could a stream use its runs, as far as `size` goes? */
static bool is_free(const heap_stitcher_t *stitcher,
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
            is_free(stitcher, stitched, stream, size)) {
            best = stitched;
        }
    }
    if (best == NULL) {
        return UCXPOOL_OK;
    }
    status = prepare_ranges(stitcher, best->num_runs);
    if (status == UCXPOOL_OK) {
        *range_p = begin_use(stitcher, best, size);
        stitcher->num_restitches++;
    }
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
    stitcher->num_live--;
    stitcher->num_kept++;
}
