/*
 * Plans: pure arithmetic from a byte range of the stream to memory.
 *
 *     sender's runs   [  seg 0  ][pad][ seg 1 ][pad][ seg 2 ]     the stream
 *                     0              16x            16y
 *     memory          the sender's own segments, or the receiver's, which may
 *                     be cut in any other way
 *
 * A plan walks both lists. Asking for ranges in order costs nothing extra; a
 * range that lies before the last one starts the walk anew.
 */
#ifndef COPY_PLAN_H
#define COPY_PLAN_H

#include "copy/lengths.h"
#include "copy/list.h"
#include "copy/memory.h"

/* A place in both lists. */
typedef struct copy_place {
    uint64_t offset; /* in the stream */
    size_t   run;
    uint64_t index;          /* of the segment in its run */
    uint64_t segment_offset; /* in that stream segment */
    size_t   memory;         /* index in the memory's list */
    uint64_t memory_offset;  /* in that segment, or piece */
} copy_place_t;

typedef struct copy_plan {
    const copy_run_t *runs;
    size_t            num_runs;
    copy_memory_t     memory;
    copy_totals_t     totals;
    copy_place_t      at;     /* the walk's, see walk.h */
    copy_place_t      before; /* where the range before began */
} copy_plan_t;

/*
 * The runs and the memory's list must outlive the plan. The memory holds at
 * least totals.payload_size bytes (the caller has checked that).
 */
void copy_plan_init(copy_plan_t *plan, const copy_run_t *runs, size_t num_runs,
                    const copy_totals_t *totals, const copy_memory_t *memory);

/* The memory behind a range of the stream, when it is one piece. */
typedef struct copy_extent {
    void    *address;
    uint64_t length;
} copy_extent_t;

/*
 * The longest extent of contiguous memory, with no padding inside, that starts
 * at stream offset `offset` and is at most `length` bytes long. *extent_p is
 * {NULL, n} where n bytes of padding lie at `offset`; or n bytes of a piece
 * whose address is NULL, where the caller's list was not looked through.
 */
void copy_plan_extent(copy_plan_t *plan, uint64_t offset, uint64_t length,
                      copy_extent_t *extent_p);

/* Bytes of padding that lie at `offset`; 0 where there are data, or no more. */
uint64_t copy_plan_padding(copy_plan_t *plan, uint64_t offset);

/*
 * Gather: copy the range [offset, offset + length) of the stream from the
 * plan's memory to `block`. Padding becomes zeros.
 */
void copy_gather(copy_plan_t *plan, uint64_t offset, uint64_t length,
                 void *block);

/* Scatter: copy such a range from `block` into the plan's memory. */
void copy_scatter(copy_plan_t *plan, uint64_t offset, uint64_t length,
                  const void *block);

#endif
