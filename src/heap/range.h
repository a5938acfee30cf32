/*
 * Ranges describe the parts of the heap's addresses. A range can be found by
 * size (heap_index_t), by exact size if it was freed recently
 * (heap_free_cache_t), and by address (heap_page_map_t).
 *
 * Addresses of a heap are offsets: the home (heap/space.h) begins at offset 0,
 * and the addresses for stitched ranges follow it. The ranges of the home are
 * contiguous from its start to its end, and linked to their neighbors. The same
 * applies to the ranges of a page of small allocations.
 *
 *     home   | live | free | live  | unbacked | pages of small ones | ...
 *
 * Two free ranges can be adjacent only if different streams freed them and
 * neither ticket is known to have completed (see heap/stream.h).
 */
#ifndef HEAP_RANGE_H
#define HEAP_RANGE_H

#include "base/list.h"
#include "mem/vmm.h"

#include <ucxpool/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The sizes of all ranges are multiples of this. */
#define HEAP_UNIT ((uint64_t)256)

/* The smallest unit of backing memory. */
#define HEAP_PAGE ((uint64_t)MEM_VMM_PAGE_SIZE)

/* The largest small allocation. Small allocations share pages: see
 * heap/stream.h. */
#define HEAP_SMALL_MAX ((uint64_t)256 << 10)

typedef enum heap_state {
    HEAP_UNBACKED, /* addresses without memory */
    HEAP_FREE,     /* in the index of a stream */
    HEAP_LIVE,     /* allocated by the caller */
    HEAP_CACHED,   /* freed, and in the cache of the stream that freed it */
    HEAP_STITCHED, /* part of a stitched range that is live or cached */
    HEAP_SMALL,    /* a page of small allocations */
    HEAP_DEFERRED, /* small, freed in a stream other than the page's */
    HEAP_SPARE     /* unused descriptor */
} heap_state_t;

typedef struct heap_range {
    uint64_t           offset;
    uint64_t           size;
    struct heap_range *before; /* neighbors by address; NULL at an end */
    struct heap_range *after;
    /* Links ranges of the same state, and of similar size if free. */
    base_list_t         link;
    struct heap_stream *stream; /* where the range was freed, or allocated */
    uint64_t            ticket; /* the ticket of its free: see heap/stream.h */
    /* Live: bytes that the caller requested. Atomic, set before the range
     * becomes live. */
    uint64_t              asked;
    struct heap_stitched *stitched; /* NULL: not stitched */
    struct heap_page     *page; /* page of small allocations that contains it */
    uint8_t               state; /* a heap_state_t; atomic */
} heap_range_t;

static inline uint64_t heap_range_end(const heap_range_t *range)
{
    return range->offset + range->size;
}

static inline heap_state_t heap_range_state(const heap_range_t *range)
{
    return (heap_state_t)__atomic_load_n(&range->state, __ATOMIC_ACQUIRE);
}

/* Returns true if there is a range and it has this state. */
static inline bool heap_range_is(const heap_range_t *range, heap_state_t state)
{
    return (range != NULL) && (heap_range_state(range) == state);
}

static inline void heap_range_become(heap_range_t *range, heap_state_t state)
{
    __atomic_store_n(&range->state, (uint8_t)state, __ATOMIC_RELEASE);
}

/*
 * `asked` is written with the stream's lock held. The statistics read it with
 * the heap's lock held. The value belongs to the live range that
 * heap_range_state() reported, or to a later live range at the same place.
 */
static inline uint64_t heap_range_asked(const heap_range_t *range)
{
    return __atomic_load_n(&range->asked, __ATOMIC_RELAXED);
}

static inline void heap_range_set_asked(heap_range_t *range, uint64_t asked)
{
    __atomic_store_n(&range->asked, asked, __ATOMIC_RELAXED);
}

/* Change the state from `from` to `to`. If several threads try, only one
 * succeeds and returns true. */
static inline bool heap_range_turn(heap_range_t *range, heap_state_t from,
                                   heap_state_t to)
{
    uint8_t expected = (uint8_t)from;

    return __atomic_compare_exchange_n(&range->state, &expected, (uint8_t)to,
                                       false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

/*
 * Unused descriptors of ranges. They are allocated in batches and freed only
 * with the heap, so a pointer to a descriptor always remains readable.
 */
typedef struct heap_ranges {
    base_list_t        spare;
    size_t             num_spare;
    struct heap_batch *batches;
} heap_ranges_t;

void heap_ranges_init(heap_ranges_t *ranges);
void heap_ranges_cleanup(heap_ranges_t *ranges);

/*
 * Ensure that the next `num` calls of heap_ranges_get() succeed.
 *
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t heap_ranges_prepare(heap_ranges_t *ranges, size_t num);
heap_range_t    *heap_ranges_get(heap_ranges_t *ranges);
void             heap_ranges_put(heap_ranges_t *ranges, heap_range_t *range);

/*
 * Cut a range in two. Returns a new range that begins at `offset`, with the
 * same properties. A descriptor must have been prepared.
 */
heap_range_t *heap_range_cut(heap_ranges_t *ranges, heap_range_t *range,
                             uint64_t offset);
/* Like heap_range_cut(), but the new range ends at `offset`. */
heap_range_t *heap_range_cut_front(heap_ranges_t *ranges, heap_range_t *range,
                                   uint64_t offset);

/* Join a range with its previous or next range, which must not be in a list and
 * whose descriptor becomes unused. */
void heap_range_join(heap_ranges_t *ranges, heap_range_t *range,
                     heap_range_t *neighbor);

/* --- free ranges by size ----------------------------------------------------
 * An index of free ranges. Finding a range that is long enough takes constant
 * time; for the exception, see heap_index_find().
 *
 * Sizes are sorted into rows, one per power of two, and columns, which divide a
 * row into equal parts:
 *
 *     row 1   | 32 | 33 | 34 | ...                   | 63 |    units
 *     row 2   | 64, 65 | 66, 67 | ...          | 126, 127 |
 *     row 3   | 128 to 131 | ...             | 252 to 255 |
 *
 * Row 0 has the smaller sizes, one column each. A bit per row and column marks
 * the non-empty ones.
 *
 * A bin is one column of one row. For a requested size, all ranges in higher
 * bins are long enough. In the size's own bin, some ranges may be too short.
 */

#define HEAP_INDEX_ROWS    44
#define HEAP_INDEX_COLUMNS 32

typedef struct heap_index_bin {
    base_list_t ranges;
    /* An upper bound on the sizes of the ranges in the bin; 0 if the bin is
     * empty. */
    uint64_t longest;
} heap_index_bin_t;

typedef struct heap_index {
    uint64_t         rows; /* a bit per row that is not empty */
    uint32_t         columns[HEAP_INDEX_ROWS];
    heap_index_bin_t bins[HEAP_INDEX_ROWS][HEAP_INDEX_COLUMNS];
    uint64_t         size; /* total bytes */
} heap_index_t;

void heap_index_init(heap_index_t *index);
void heap_index_add(heap_index_t *index, heap_range_t *range);
void heap_index_remove(heap_index_t *index, heap_range_t *range);

/*
 * Find a range of at least `size` bytes, preferably a short one. Returns NULL
 * if not found.
 *
 * The search examines only a few ranges, unless ranges that are long enough can
 * only be in the size's own bin. It then searches that whole bin. If no range
 * in the bin is long enough, later searches skip the bin until such a range is
 * added.
 */
heap_range_t *heap_index_find(heap_index_t *index, uint64_t size);

/*
 * Iterate over the ranges of at least `size` bytes, starting with the bin of
 * the longest ranges. `size` must be a power of two. Returns NULL at the end.
 */
heap_range_t *heap_index_first(const heap_index_t *index, uint64_t size);
heap_range_t *heap_index_next(const heap_index_t *index,
                              const heap_range_t *range, uint64_t size);

/* --- the free-list cache ----------------------------------------------------
 * Ranges that were recently freed in a stream, and have not been joined or cut
 * since. The next allocation of the same size takes such a range without a
 * search and without cutting it.
 *
 * The cache holds a few sizes at a time, and a few ranges of each size.
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
    uint64_t              used; /* a bit per bin that is not empty */
} heap_free_cache_t;

/* Take a range of exactly `size` bytes and make it HEAP_LIVE, with the size
 * that the caller requested. Returns NULL if not found. */
heap_range_t *heap_free_cache_take(heap_free_cache_t *cache, uint64_t size,
                                   uint64_t asked);

/*
 * Add a HEAP_CACHED range. Writes the ranges that it displaces to `released`,
 * an array of HEAP_FREE_CACHE_DEPTH entries, and returns how many there are.
 */
unsigned heap_free_cache_put(heap_free_cache_t *cache, heap_range_t *range,
                             heap_range_t **released);

/* Remove all ranges of one non-empty bin, and write them to `released`. Returns
 * the number of removed ranges; 0 if the cache is empty. */
unsigned heap_free_cache_empty(heap_free_cache_t *cache,
                               heap_range_t     **released);

/* --- the page map -----------------------------------------------------------
 * A map from an address to the range that begins there. Lookups take no lock.
 *
 * For each 2 MiB of addresses, the map holds either the large ranges that begin
 * there or one page of small allocations. The owner of a live allocation may
 * look up the allocation's range, because the entry does not change while the
 * allocation is live.
 */

/* Maximum number of ranges longer than HEAP_SMALL_MAX that begin in a page. */
#define HEAP_PAGE_MAX_STARTS (HEAP_PAGE / HEAP_SMALL_MAX)

/* A page of small allocations: see heap/stream.h. */
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
} heap_page_map_t;

/*
 * Initialize a map of `size` bytes of address space. `size` is a multiple of
 * HEAP_PAGE.
 *
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t heap_page_map_init(heap_page_map_t *map, uint64_t size);
void             heap_page_map_cleanup(heap_page_map_t *map);

/* Find the large range that begins at an offset. Returns NULL if not found. */
heap_range_t *heap_page_map_find(const heap_page_map_t *map, uint64_t offset);
/* Find the page of small allocations that contains an offset. Returns NULL if
 * not found. */
heap_page_t *heap_page_map_page(const heap_page_map_t *map, uint64_t offset);

/* The functions below are called with the heap's lock held. */

/* Initialize the entries of whole pages that have received memory. No range may
 * begin in these pages yet. Writing the entries makes the system allocate their
 * memory now, during a slow operation, and not during a later allocation. */
void heap_page_map_open(heap_page_map_t *map, uint64_t offset, uint64_t size);
void heap_page_map_add(heap_page_map_t *map, heap_range_t *range);
void heap_page_map_remove(heap_page_map_t *map, const heap_range_t *range);
void heap_page_map_set_page(heap_page_map_t *map, uint64_t offset,
                            heap_page_t *page);

#endif
