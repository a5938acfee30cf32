/*
 * The walk of a plan, for the files of this folder.
 *
 * It stands at a byte of the stream, plan->at.offset, and says where that is in
 * both lists:
 *
 *     at.run, at.index, at.segment_offset    segment of the stream. Padding
 *                                            belongs to the segment before it:
 *                                            segment_offset >= its length
 *     at.memory, at.memory_offset            the next byte of memory to be used
 *
 * A segment takes its "stride" of the stream, its length with the padding that
 * follows. Whole runs and the segments of a run are passed by arithmetic, so a
 * peer's run of 2^40 segments costs as much as one of 1.
 */
#ifndef COPY_WALK_H
#define COPY_WALK_H

#include "base/math.h"
#include "copy/plan.h"

#include <assert.h>

/* Bytes that a segment of a run takes in the stream, if another one follows. */
static inline uint64_t copy_run_stride(const copy_run_t *run)
{
    return base_align_up(run->length, COPY_ALIGNMENT);
}

/* Do the segments of a run follow each other in the stream without padding? */
static inline bool copy_run_is_dense(const copy_run_t *run)
{
    return (run->length % COPY_ALIGNMENT) == 0;
}

/* Bytes from a place in a run up to the next padding, or the run's end. */
static inline uint64_t copy_run_data(const copy_run_t *run, uint64_t index,
                                     uint64_t segment_offset)
{
    uint64_t count = copy_run_is_dense(run) ? run->count - index : 1;

    return count * run->length - segment_offset;
}

/* The next byte of memory. As a number, because a piece that nobody has looked
 * at may be NULL. */
static inline char *copy_walk_address(const copy_plan_t *plan)
{
    return (
        char *)((uintptr_t)copy_memory_address(&plan->memory, plan->at.memory) +
                plan->at.memory_offset);
}

/* Bytes of a range that lie within the stream. */
static inline uint64_t copy_walk_clip(const copy_plan_t *plan, uint64_t offset,
                                      uint64_t length)
{
    assert(offset <= plan->totals.stream_size);
    return base_min(length, plan->totals.stream_size - offset);
}

/*
 * Go to a place of the stream, from the start if it lies before the walk's.
 * The walk then stands in a segment that is not empty (or its padding), and in
 * memory that is not empty if there are bytes left; or behind the last run.
 */
void copy_walk_seek(copy_plan_t *plan, uint64_t offset);

#endif
