/*
 * Ranges for profilers: they show the steps and waits of a transfer on the
 * profiler's timeline. Ranges need NVTX at build time and an attached profiler.
 * Otherwise each range costs one branch.
 *
 * A range may begin in one call and end in another, and ranges overlap. They
 * therefore use NVTX's start and end, not push and pop. Each range also has a
 * size in bytes.
 */
#ifndef BASE_TRACE_H
#define BASE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum base_range_kind {
    BASE_RANGE_GATHER,  /* copies segments to a block */
    BASE_RANGE_WIRE,    /* the fragment is on the wire */
    BASE_RANGE_SCATTER, /* copies received data to segments */
    BASE_RANGE_BLOCK,   /* a fragment waits for a block */
    BASE_RANGE_READ,    /* a read of a peer's window, from post to completion */
    BASE_RANGE_WRITE, /* a write to a peer's window, from post to completion */
    BASE_RANGE_KINDS
} base_range_kind_t;

/* Zeroed memory is a range that has not begun. */
typedef struct base_range {
    uint64_t id; /* set by the profiler */
    bool     is_open;
} base_range_t;

/* True if a profiler is attached. The first base_trace_init() sets it. */
extern bool base_trace_is_on;

/* Look for a profiler, on the first call only. Any thread may call this. */
void base_trace_init(void);

/* Slow paths of the functions below. */
void base_trace_begin(base_range_t *range, base_range_kind_t kind,
                      uint64_t size);
void base_trace_end(base_range_t *range);

/* Begin the range unless it is open. */
static inline void base_range_begin(base_range_t *range, base_range_kind_t kind,
                                    uint64_t size)
{
    if (__builtin_expect(base_trace_is_on, false) && !range->is_open) {
        base_trace_begin(range, kind, size);
    }
}

/* End the range if it is open. */
static inline void base_range_end(base_range_t *range)
{
    if (__builtin_expect(base_trace_is_on, false) && range->is_open) {
        base_trace_end(range);
    }
}

#endif
