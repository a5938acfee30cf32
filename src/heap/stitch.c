/*
 * The use of stitched ranges.
 */
#include <config.h>

#include "heap/stitch.h"

#include "base/math.h"
#include "heap/stitch_map.h"

#include <assert.h>

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
                          HEAP_PIECE);
        size -= part;
    }
}

static ucxpool_status_t prepare(const heap_stitcher_t *stitcher,
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

static ucxpool_status_t stitch_plan(heap_stitcher_t   *stitcher,
                                    const heap_plan_t *plan,
                                    heap_stream_t *stream, uint64_t size,
                                    heap_range_t **range_p)
{
    heap_stitched_t *stitched;
    ucxpool_status_t status = prepare(stitcher, plan->num_runs);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = heap_stitched_create(stitcher, plan, stream, &stitched);
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
    heap_plan_t      plan;
    ucxpool_status_t status;

    *range_p = NULL;
    if (stream->index.size < size) {
        return UCXPOOL_OK;
    }
    status = heap_plan_make(stitcher->space, stream, size, &plan);
    if ((status == UCXPOOL_OK) && (plan.size >= size) &&
        (plan.num_mappings <= max_mappings)) {
        status = stitch_plan(stitcher, &plan, stream, size, range_p);
    }
    heap_plan_cleanup(&plan);
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
    status = prepare(stitcher, best->num_runs);
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
        heap_range_t *piece = heap_space_cover(space, stitched->runs[i].home);

        assert(heap_range_state(piece) == HEAP_PIECE);
        size -= piece->size;
        heap_space_give(space, piece, stream, ticket);
    }
    heap_ranges_put(&space->ranges, range);
    stitched->range  = NULL;
    stitched->stream = stream;
    stitched->ticket = ticket;
    stitched->turn   = ++stitcher->turns;
    stitcher->num_live--;
    stitcher->num_kept++;
}
