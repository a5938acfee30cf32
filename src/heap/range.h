/*
 * Ranges: what each part of the heap's addresses is, and how one is found: by
 * its size, as it was freed, and by its address.
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
#include "mem/vmm.h"

#include <ucxpool/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All sizes are multiples of it. */
#define HEAP_UNIT ((uint64_t)256)

/* What the home is backed by, at the least. */
#define HEAP_PAGE ((uint64_t)MEM_VMM_PAGE_SIZE)

/* The longest allocation that shares a page with others: see heap/stream.h. */
#define HEAP_SMALL_MAX ((uint64_t)256 << 10)

typedef enum heap_state {
    HEAP_UNBACKED, /* addresses without memory */
    HEAP_FREE,     /* in the index of a stream */
    HEAP_LIVE,     /* the caller's */
    HEAP_CACHED,   /* freed, and kept as it is for the stream that freed it */
    HEAP_STITCHED, /* part of a stitched range that is live or cached */
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
    struct heap_stream *stream; /* that it was freed in, or allocated for */
    uint64_t            ticket; /* free: see heap_stream_t */
    uint64_t            asked;  /* live: bytes that the caller asked for;
                                   atomic, set before it becomes live */
    struct heap_stitched
                     *stitched; /* live, cached: it is this one; else NULL */
    struct heap_page *page;     /* of small allocations, that it lies in */
    uint8_t           state;    /* a heap_state_t; atomic */
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
 * A stream writes this under its own lock, and statistics read it under the
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

/* --- free ranges by size ----------------------------------------------------
 * Free ranges by size, so that one that fits is found at once however many
 * there are.
 *
 * Sizes are sorted into rows, one for each power of two, and columns, which cut
 * a row into equal parts:
 *
 *     row 1   | 32 | 33 | 34 | ...                   | 63 |    units
 *     row 2   | 64, 65 | 66, 67 | ...          | 126, 127 |
 *     row 3   | 128 to 131 | ...             | 252 to 255 |
 *
 * Row 0 has the sizes below, a column for each. A bit for each row and each
 * column tells where there are any.
 *
 * All that is in the bins above that of a size is long enough; in its own bin
 * some may be too short.
 */

#define HEAP_INDEX_ROWS    44
#define HEAP_INDEX_COLUMNS 32

typedef struct heap_index_bin {
    base_list_t ranges;
    uint64_t    longest; /* none of them is longer; 0 where there are none */
} heap_index_bin_t;

typedef struct heap_index {
    uint64_t         rows; /* a bit for each that is not empty */
    uint32_t         columns[HEAP_INDEX_ROWS];
    heap_index_bin_t bins[HEAP_INDEX_ROWS][HEAP_INDEX_COLUMNS];
    uint64_t         size; /* of all ranges together */
    size_t           count;
} heap_index_t;

void heap_index_init(heap_index_t *index);
void heap_index_add(heap_index_t *index, heap_range_t *range);
void heap_index_remove(heap_index_t *index, heap_range_t *range);

/*
 * A range of at least `size` bytes, and of those a short one; NULL: none.
 *
 * It looks at a few ranges, unless those that are long enough can only be in
 * the size's own bin: then at all of that, but once. A bin in which none was
 * long enough is searched again when it has got one that is.
 */
heap_range_t *heap_index_find(heap_index_t *index, uint64_t size);

/*
 * The ranges from the longest bin down: the first one, and the one behind a
 * range, as long as they have `size` bytes or more, which is a power of two;
 * NULL: no more.
 */
heap_range_t *heap_index_first(const heap_index_t *index, uint64_t size);
heap_range_t *heap_index_next(const heap_index_t *index,
                              const heap_range_t *range, uint64_t size);

/* --- the free-list cache ----------------------------------------------------
 * What was freed last in a stream, kept as it is: the next allocation of the
 * same size takes it, with no search and no cutting.
 *
 * A few sizes at a time, and a few ranges of each.
 */

#define HEAP_FREE_CACHE_SIZES 64
#define HEAP_FREE_CACHE_DEPTH 8

typedef struct heap_free_cache_bin {
    uint64_t      size;
    unsigned      count;
    heap_range_t *ranges[HEAP_FREE_CACHE_DEPTH];
} heap_free_cache_bin_t;

typedef struct heap_free_cache {
    heap_free_cache_bin_t bins[HEAP_FREE_CACHE_SIZES];
    uint64_t              used; /* a bit for each bin that is not empty */
} heap_free_cache_t;

/* One of exactly that size, which is HEAP_LIVE now, for a caller who asked for
 * so many bytes; NULL: none. */
heap_range_t *heap_free_cache_take(heap_free_cache_t *cache, uint64_t size,
                                   uint64_t asked);

/*
 * Keep one that is HEAP_CACHED. Where its place is taken, others must go: they
 * are written to `gone`, an array of HEAP_FREE_CACHE_DEPTH. Returns how many.
 */
unsigned heap_free_cache_put(heap_free_cache_t *cache, heap_range_t *range,
                             heap_range_t **gone);

/* Take out all of one bin that is not empty, in the same way; 0: all are. */
unsigned heap_free_cache_empty(heap_free_cache_t *cache, heap_range_t **gone);

/* --- the page map -----------------------------------------------------------
 * From an address to the range that begins there, without a lock.
 *
 * For each 2 MiB of addresses: the few ranges that begin in them (large ones
 * are long enough for that), or the page of small allocations that they are.
 * The owner of a live allocation may look for it; nobody changes its entry
 * meanwhile.
 */

/* Of ranges longer than HEAP_SMALL_MAX, so many begin in a page at most. */
#define HEAP_PAGE_MAX_STARTS (HEAP_PAGE / HEAP_SMALL_MAX)

/* Of small allocations: heap/stream.h. */
typedef struct heap_page heap_page_t;

typedef struct heap_page_map_start {
    uint64_t      key;   /* offset + 1; 0: none; atomic */
    heap_range_t *range; /* atomic */
} heap_page_map_start_t;

typedef struct heap_page_map_entry {
    heap_page_t          *small; /* atomic */
    heap_page_map_start_t starts[HEAP_PAGE_MAX_STARTS];
} heap_page_map_entry_t;

typedef struct heap_page_map {
    heap_page_map_entry_t *entries;
    size_t                 num_entries;
} heap_page_map_t;

/*
 * size  Of the addresses; whole pages.
 *
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t heap_page_map_init(heap_page_map_t *map, uint64_t size);
void             heap_page_map_cleanup(heap_page_map_t *map);

/* A large range, or NULL. */
heap_range_t *heap_page_map_find(const heap_page_map_t *map, uint64_t offset);
/* The page of small allocations that an offset lies in, or NULL. */
heap_page_t *heap_page_map_page(const heap_page_map_t *map, uint64_t offset);

/* Under the heap's lock. */

/* Nothing begins in these whole pages, whose memory is new. Their entries are
 * written, so that the system gives memory for them now, when it takes long
 * anyway, and not when something is allocated there. */
void heap_page_map_open(heap_page_map_t *map, uint64_t offset, uint64_t size);
void heap_page_map_add(heap_page_map_t *map, heap_range_t *range);
void heap_page_map_remove(heap_page_map_t *map, const heap_range_t *range);
void heap_page_map_set_page(heap_page_map_t *map, uint64_t offset,
                            heap_page_t *page);

#endif
