/*
 * What was freed last in a stream, kept as it is: the next allocation of the
 * same size takes it, with no search and no cutting.
 *
 * A few sizes at a time, and a few ranges of each.
 */
#ifndef HEAP_QUICK_H
#define HEAP_QUICK_H

#include "heap/range.h"

#define HEAP_QUICK_SIZES 64
#define HEAP_QUICK_DEPTH 8

typedef struct heap_quick_bin {
    uint64_t      size;
    unsigned      count;
    heap_range_t *ranges[HEAP_QUICK_DEPTH];
} heap_quick_bin_t;

typedef struct heap_quick {
    heap_quick_bin_t bins[HEAP_QUICK_SIZES];
    uint64_t         used; /* a bit for each bin that is not empty */
} heap_quick_t;

/* One of exactly that size, which is HEAP_LIVE now, for a caller who asked for
 * so many bytes; NULL: none. */
heap_range_t *heap_quick_take(heap_quick_t *quick, uint64_t size,
                              uint64_t asked);

/*
 * Keep one that is HEAP_QUICK. Where its place is taken, others must go: they
 * are written to `gone`, an array of HEAP_QUICK_DEPTH. Returns how many.
 */
unsigned heap_quick_put(heap_quick_t *quick, heap_range_t *range,
                        heap_range_t **gone);

/* Take out all of one bin that is not empty, in the same way; 0: all are. */
unsigned heap_quick_empty(heap_quick_t *quick, heap_range_t **gone);

#endif
