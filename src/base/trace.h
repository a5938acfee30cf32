/*
 * Ranges for profilers: what a transfer does, and what it waits for, on the
 * profiler's time line. By NVTX, where it was there when the library was built
 * and a profiler is attached; else a range costs one branch.
 *
 * A range may begin in one call and end in another: many of them overlap, so
 * they begin and end by NVTX's start and end, not by its push and pop. Each has
 * the number of its bytes with it.
 */
#ifndef BASE_TRACE_H
#define BASE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum base_range_kind {
    BASE_RANGE_GATHER,  /* segments to a block */
    BASE_RANGE_WIRE,    /* from the sender's hand until it has it back */
    BASE_RANGE_SCATTER, /* what has come, to segments */
    BASE_RANGE_BLOCK,   /* a fragment waits for a block */
    BASE_RANGE_READ,    /* of a peer's window, from its post to its end */
    BASE_RANGE_WRITE,   /* likewise */
    BASE_RANGE_KINDS
} base_range_kind_t;

/* Zeroed memory is one that has not begun. */
typedef struct base_range {
    uint64_t id; /* the profiler's */
    bool     is_open;
} base_range_t;

/* Is a profiler attached? Settled by the first base_trace_init(). */
extern bool base_trace_is_on;

/* Look for a profiler, the first time. Any thread may call it. */
void base_trace_init(void);

/* For the two below. */
void base_trace_begin(base_range_t *range, base_range_kind_t kind,
                      uint64_t size);
void base_trace_end(base_range_t *range);

/* Begin, unless it has begun already. */
static inline void base_range_begin(base_range_t *range, base_range_kind_t kind,
                                    uint64_t size)
{
    if (__builtin_expect(base_trace_is_on, false) && !range->is_open) {
        base_trace_begin(range, kind, size);
    }
}

/* End, if it has begun. */
static inline void base_range_end(base_range_t *range)
{
    if (__builtin_expect(base_trace_is_on, false) && range->is_open) {
        base_trace_end(range);
    }
}

#endif
