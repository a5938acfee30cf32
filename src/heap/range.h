/*
 * Ranges: what each piece of the heap's addresses is.
 *
 * The addresses of a heap are counted from 0 (offsets): first the home, then
 * those for stitched ranges. The ranges of the home lie side by side, from its
 * start to its end, and each knows its neighbours; so do those of one page of
 * small allocations.
 *
 *     home   | live | free | live  | unbacked | pages of small ones | ...
 *
 * Two free ranges lie side by side only where different streams freed them, of
 * which neither is known to have come so far.
 */
#ifndef HEAP_RANGE_H
#define HEAP_RANGE_H

#include "base/list.h"

#include <ucxpool/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum heap_state {
    HEAP_UNBACKED, /* addresses without memory */
    HEAP_FREE,     /* in the index of a stream */
    HEAP_LIVE,     /* the caller's */
    HEAP_QUICK,    /* freed, and kept as it is for the stream that freed it */
    HEAP_PIECE,    /* part of a stitched range that is live or quick */
    HEAP_SMALL,    /* a page of small allocations */
    HEAP_LATE,     /* small, freed in a stream that is not its page's */
    HEAP_SPARE     /* describes nothing */
} heap_state_t;

typedef struct heap_range {
    uint64_t           offset;
    uint64_t           size;
    struct heap_range *before; /* neighbours by address; NULL at an end */
    struct heap_range *after;
    base_list_t link; /* of ranges of its state, and of like size if free */
    struct heap_stream *stream;     /* that it was freed in, or allocated for */
    uint64_t            ticket;     /* free: see heap_stream_t */
    uint64_t            asked;      /* live: bytes that the caller asked for;
                                       atomic, set before it becomes live */
    struct heap_stitched *stitched; /* live, quick: it is this one; else NULL */
    struct heap_page     *page;     /* of small allocations, that it lies in */
    uint8_t               state;    /* a heap_state_t; atomic */
} heap_range_t;

static inline uint64_t heap_range_end(const heap_range_t *range)
{
    return range->offset + range->size;
}

static inline heap_state_t heap_range_state(const heap_range_t *range)
{
    return (heap_state_t)__atomic_load_n(&range->state, __ATOMIC_ACQUIRE);
}

static inline void heap_range_become(heap_range_t *range, heap_state_t state)
{
    __atomic_store_n(&range->state, (uint8_t)state, __ATOMIC_RELEASE);
}

/*
 * A stream writes this under its own lock, and who counts reads it under the
 * heap's. It belongs to the live range that heap_range_state() told of, or to
 * one that has been live there since.
 */
static inline uint64_t heap_range_asked(const heap_range_t *range)
{
    return __atomic_load_n(&range->asked, __ATOMIC_RELAXED);
}

static inline void heap_range_set_asked(heap_range_t *range, uint64_t asked)
{
    __atomic_store_n(&range->asked, asked, __ATOMIC_RELAXED);
}

/* Become `to` if it is `from`: of two threads that try, one does. */
static inline bool heap_range_turn(heap_range_t *range, heap_state_t from,
                                   heap_state_t to)
{
    uint8_t expected = (uint8_t)from;

    return __atomic_compare_exchange_n(&range->state, &expected, (uint8_t)to,
                                       false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

/*
 * Descriptors of ranges that are not in use. They are taken from the system in
 * lots and go back with the heap alone, so that a pointer to one stays good for
 * reading.
 */
typedef struct heap_ranges {
    base_list_t      spare;
    size_t           num_spare;
    struct heap_lot *lots;
} heap_ranges_t;

void heap_ranges_init(heap_ranges_t *ranges);
void heap_ranges_cleanup(heap_ranges_t *ranges);

/*
 * See to it that the next `num` calls of get() find one.
 *
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t heap_ranges_prepare(heap_ranges_t *ranges, size_t num);
heap_range_t    *heap_ranges_get(heap_ranges_t *ranges);
void             heap_ranges_put(heap_ranges_t *ranges, heap_range_t *range);

/*
 * Cut a range in two; the new one is what begins at `offset`, and like the old
 * one in all else. One is prepared.
 */
heap_range_t *heap_range_cut(heap_ranges_t *ranges, heap_range_t *range,
                             uint64_t offset);
/* The same; the new one is what ends there. */
heap_range_t *heap_range_cut_front(heap_ranges_t *ranges, heap_range_t *range,
                                   uint64_t offset);

/* The reverse, with the range behind it, which is in no list. */
void heap_range_join(heap_ranges_t *ranges, heap_range_t *range);
/* The same, with the range before it. */
void heap_range_join_front(heap_ranges_t *ranges, heap_range_t *range);

#endif
