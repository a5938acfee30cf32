#include "heap/range.h"

#include "base/error.h"
#include "base/math.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define RANGES_PER_BATCH 256

typedef struct heap_batch {
    struct heap_batch *next;
    heap_range_t       ranges[RANGES_PER_BATCH];
} heap_batch_t;

void heap_ranges_init(heap_ranges_t *ranges)
{
    base_list_init(&ranges->spare);
    ranges->num_spare = 0;
    ranges->batches   = NULL;
}

void heap_ranges_cleanup(heap_ranges_t *ranges)
{
    while (ranges->batches != NULL) {
        heap_batch_t *batch = ranges->batches;

        ranges->batches = batch->next;
        free(batch);
    }
    heap_ranges_init(ranges);
}

static ucxpool_status_t add_batch(heap_ranges_t *ranges)
{
    heap_batch_t *batch = calloc(1, sizeof(*batch));

    if (batch == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no host memory (%zu bytes) to describe ranges of "
                          "the heap",
                          sizeof(*batch));
    }
    batch->next     = ranges->batches;
    ranges->batches = batch;
    for (size_t i = 0; i < RANGES_PER_BATCH; i++) {
        base_list_init(&batch->ranges[i].link);
        heap_ranges_put(ranges, &batch->ranges[i]);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t heap_ranges_prepare(heap_ranges_t *ranges, size_t num)
{
    while (ranges->num_spare < num) {
        ucxpool_status_t status = add_batch(ranges);

        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    return UCXPOOL_OK;
}

heap_range_t *heap_ranges_get(heap_ranges_t *ranges)
{
    heap_range_t *range = base_list_pop(&ranges->spare, heap_range_t, link);

    assert(range != NULL);
    ranges->num_spare--;
    range->before   = NULL;
    range->after    = NULL;
    range->stream   = NULL;
    range->ticket   = 0;
    range->stitched = NULL;
    range->page     = NULL;
    heap_range_set_asked(range, 0);
    return range;
}

void heap_ranges_put(heap_ranges_t *ranges, heap_range_t *range)
{
    heap_range_become(range, HEAP_SPARE);
    base_list_add_head(&ranges->spare, &range->link);
    ranges->num_spare++;
}

/* Returns a new range with the same properties and another position. */
static heap_range_t *copy_of_part(heap_ranges_t      *ranges,
                                  const heap_range_t *range, uint64_t offset,
                                  uint64_t end)
{
    heap_range_t *part = heap_ranges_get(ranges);

    assert((range->offset <= offset) && (offset < end) &&
           (end <= heap_range_end(range)));
    part->offset = offset;
    part->size   = end - offset;
    part->stream = range->stream;
    part->ticket = range->ticket;
    part->page   = range->page;
    heap_range_become(part, heap_range_state(range));
    return part;
}

static void set_neighbors(heap_range_t *before, heap_range_t *after)
{
    if (before != NULL) {
        before->after = after;
    }
    if (after != NULL) {
        after->before = before;
    }
}

heap_range_t *heap_range_cut(heap_ranges_t *ranges, heap_range_t *range,
                             uint64_t offset)
{
    heap_range_t *rest =
        copy_of_part(ranges, range, offset, heap_range_end(range));

    set_neighbors(rest, range->after);
    set_neighbors(range, rest);
    range->size = offset - range->offset;
    return rest;
}

heap_range_t *heap_range_cut_front(heap_ranges_t *ranges, heap_range_t *range,
                                   uint64_t offset)
{
    heap_range_t *front = copy_of_part(ranges, range, range->offset, offset);

    set_neighbors(range->before, front);
    set_neighbors(front, range);
    range->size   = heap_range_end(range) - offset;
    range->offset = offset;
    return front;
}

void heap_range_join(heap_ranges_t *ranges, heap_range_t *range,
                     heap_range_t *neighbor)
{
    if (neighbor == range->after) {
        assert(neighbor->offset == heap_range_end(range));
        set_neighbors(range, neighbor->after);
    } else {
        assert(heap_range_end(neighbor) == range->offset);
        set_neighbors(neighbor->before, range);
        range->offset = neighbor->offset;
    }
    range->size += neighbor->size;
    heap_ranges_put(ranges, neighbor);
}

/* --- free ranges by size -------------------------------------------------- */

#define COLUMN_BITS 5

/* Maximum number of ranges in a bin that are examined for the best fit. */
#define MAX_LOOKS 8

static_assert(HEAP_INDEX_COLUMNS == 1 << COLUMN_BITS,
              "COLUMN_BITS must number the columns");
static_assert(HEAP_INDEX_ROWS <= 64, "each row needs a bit in `rows`");

typedef struct bin {
    unsigned row, column;
} bin_t;

static bin_t bin_of(uint64_t size)
{
    uint64_t units = size / HEAP_UNIT;
    bin_t    bin   = {0, (unsigned)units};

    if (units >= HEAP_INDEX_COLUMNS) {
        unsigned top = 63u - (unsigned)__builtin_clzll(units);

        bin.row = top - COLUMN_BITS + 1;
        bin.column =
            (unsigned)(units >> (top - COLUMN_BITS)) & (HEAP_INDEX_COLUMNS - 1);
        if (bin.row >= HEAP_INDEX_ROWS) {
            bin.row    = HEAP_INDEX_ROWS - 1;
            bin.column = HEAP_INDEX_COLUMNS - 1;
        }
    }
    return bin;
}

void heap_index_init(heap_index_t *index)
{
    index->rows = 0;
    index->size = 0;
    for (unsigned row = 0; row < HEAP_INDEX_ROWS; row++) {
        index->columns[row] = 0;
        for (unsigned column = 0; column < HEAP_INDEX_COLUMNS; column++) {
            base_list_init(&index->bins[row][column].ranges);
            index->bins[row][column].longest = 0;
        }
    }
}

void heap_index_add(heap_index_t *index, heap_range_t *range)
{
    bin_t             bin    = bin_of(range->size);
    heap_index_bin_t *ranges = &index->bins[bin.row][bin.column];

    base_list_add_head(&ranges->ranges, &range->link);
    ranges->longest = base_max(ranges->longest, range->size);
    index->rows |= UINT64_C(1) << bin.row;
    index->columns[bin.row] |= 1u << bin.column;
    index->size += range->size;
}

void heap_index_remove(heap_index_t *index, heap_range_t *range)
{
    bin_t             bin    = bin_of(range->size);
    heap_index_bin_t *ranges = &index->bins[bin.row][bin.column];

    base_list_del(&range->link);
    if (base_list_is_empty(&ranges->ranges)) {
        ranges->longest = 0;
        index->columns[bin.row] &= ~(1u << bin.column);
        if (index->columns[bin.row] == 0) {
            index->rows &= ~(UINT64_C(1) << bin.row);
        }
    }
    index->size -= range->size;
}

/* Examine the first few ranges in a bin, and find the shortest one that is long
 * enough. */
static heap_range_t *best_of(const heap_index_bin_t *bin, uint64_t size)
{
    heap_range_t *best = NULL;
    heap_range_t *range;
    unsigned      looks = 0;

    if (bin->longest < size) {
        return NULL;
    }
    base_list_for_each(range, &bin->ranges, heap_range_t, link) {
        if ((range->size >= size) &&
            ((best == NULL) || (range->size < best->size))) {
            best = range;
        }
        if (++looks == MAX_LOOKS) {
            break;
        }
    }
    return best;
}

/* Find the first range in a bin that is long enough. If no range is, update the
 * bin's longest length. */
static heap_range_t *any_of(heap_index_bin_t *bin, uint64_t size)
{
    heap_range_t *range;
    uint64_t      longest = 0;

    if (bin->longest < size) {
        return NULL;
    }
    base_list_for_each(range, &bin->ranges, heap_range_t, link) {
        if (range->size >= size) {
            return range;
        }
        longest = base_max(longest, range->size);
    }
    bin->longest = longest;
    return NULL;
}

/* Find the next non-empty bin. Returns false if not found. */
static bool bin_above(const heap_index_t *index, bin_t *bin)
{
    uint32_t columns = index->columns[bin->row] & (~UINT32_C(1) << bin->column);
    uint64_t rows    = index->rows & (~UINT64_C(1) << bin->row);

    if (columns != 0) {
        bin->column = (unsigned)__builtin_ctz(columns);
        return true;
    }
    if (rows == 0) {
        return false;
    }
    bin->row    = (unsigned)__builtin_ctzll(rows);
    bin->column = (unsigned)__builtin_ctz(index->columns[bin->row]);
    return true;
}

heap_range_t *heap_index_find(heap_index_t *index, uint64_t size)
{
    bin_t             bin   = bin_of(size);
    heap_index_bin_t *own   = &index->bins[bin.row][bin.column];
    heap_range_t     *range = best_of(own, size);

    if ((range == NULL) && bin_above(index, &bin)) {
        return best_of(&index->bins[bin.row][bin.column], size);
    }
    return (range != NULL) ? range : any_of(own, size);
}

static heap_range_t *head_of(const heap_index_t *index, bin_t bin)
{
    return base_list_head(&index->bins[bin.row][bin.column].ranges,
                          heap_range_t, link);
}

/* Find the previous non-empty bin. Returns false if not found. */
static bool bin_below(const heap_index_t *index, bin_t *bin)
{
    uint32_t columns =
        index->columns[bin->row] & ((UINT32_C(1) << bin->column) - 1);
    uint64_t rows = index->rows & ((UINT64_C(1) << bin->row) - 1);

    if (columns != 0) {
        bin->column = 31u - (unsigned)__builtin_clz(columns);
        return true;
    }
    if (rows == 0) {
        return false;
    }
    bin->row    = 63u - (unsigned)__builtin_clzll(rows);
    bin->column = 31u - (unsigned)__builtin_clz(index->columns[bin->row]);
    return true;
}

static heap_range_t *at_least(heap_range_t *range, uint64_t size)
{
    return (range->size >= size) ? range : NULL;
}

heap_range_t *heap_index_first(const heap_index_t *index, uint64_t size)
{
    bin_t bin;

    if (index->rows == 0) {
        return NULL;
    }
    bin.row    = 63u - (unsigned)__builtin_clzll(index->rows);
    bin.column = 31u - (unsigned)__builtin_clz(index->columns[bin.row]);
    return at_least(head_of(index, bin), size);
}

heap_range_t *heap_index_next(const heap_index_t *index,
                              const heap_range_t *range, uint64_t size)
{
    bin_t              bin  = bin_of(range->size);
    const base_list_t *head = &index->bins[bin.row][bin.column].ranges;

    if (range->link.next != head) {
        return at_least(base_container_of(range->link.next, heap_range_t, link),
                        size);
    }
    return bin_below(index, &bin) ? at_least(head_of(index, bin), size) : NULL;
}

/* --- the free-list cache -------------------------------------------------- */

static_assert(HEAP_FREE_CACHE_SIZES == 64, "each bin needs a bit in `used`");

static unsigned cache_bin_of(uint64_t size)
{
    /* This hash puts powers of two, and sizes that are close together, into
     * different bins. The multiplier is 2^64 divided by the golden ratio. */
    return (unsigned)((size / HEAP_UNIT * UINT64_C(0x9E3779B97F4A7C15)) >> 58);
}

heap_range_t *heap_free_cache_take(heap_free_cache_t *cache, uint64_t size,
                                   uint64_t asked)
{
    unsigned               number = cache_bin_of(size);
    heap_free_cache_bin_t *bin    = &cache->bins[number];
    heap_range_t          *range;

    if ((bin->count == 0) || (bin->size != size)) {
        return NULL;
    }
    range = bin->ranges[--bin->count];
    if (bin->count == 0) {
        cache->used &= ~(UINT64_C(1) << number);
    }
    heap_range_set_asked(range, asked);
    heap_range_become(range, HEAP_LIVE);
    return range;
}

static unsigned empty_bin(heap_free_cache_t *cache, unsigned number,
                          heap_range_t **released)
{
    heap_free_cache_bin_t *bin   = &cache->bins[number];
    unsigned               count = bin->count;

    memcpy(released, bin->ranges, count * sizeof(released[0]));
    bin->count = 0;
    cache->used &= ~(UINT64_C(1) << number);
    return count;
}

unsigned heap_free_cache_put(heap_free_cache_t *cache, heap_range_t *range,
                             heap_range_t **released)
{
    unsigned               number       = cache_bin_of(range->size);
    heap_free_cache_bin_t *bin          = &cache->bins[number];
    unsigned               num_released = 0;

    if ((bin->count == HEAP_FREE_CACHE_DEPTH) ||
        ((bin->count > 0) && (bin->size != range->size))) {
        num_released = empty_bin(cache, number, released);
    }
    bin->size                 = range->size;
    bin->ranges[bin->count++] = range;
    cache->used |= UINT64_C(1) << number;
    return num_released;
}

unsigned heap_free_cache_empty(heap_free_cache_t *cache,
                               heap_range_t     **released)
{
    if (cache->used == 0) {
        return 0;
    }
    return empty_bin(cache, (unsigned)__builtin_ctzll(cache->used), released);
}

/* --- the page map --------------------------------------------------------- */

ucxpool_status_t heap_page_map_init(heap_page_map_t *map, uint64_t size)
{
    size_t num = size / HEAP_PAGE;

    map->entries = calloc(num, sizeof(map->entries[0]));
    if (map->entries == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no host memory (%zu bytes) for the heap's page map",
                          num * sizeof(map->entries[0]));
    }
    return UCXPOOL_OK;
}

void heap_page_map_cleanup(heap_page_map_t *map)
{
    free(map->entries);
    map->entries = NULL;
}

heap_range_t *heap_page_map_find(const heap_page_map_t *map, uint64_t offset)
{
    heap_page_map_start_t *entries = map->entries[offset / HEAP_PAGE].starts;

    for (size_t i = 0; i < HEAP_PAGE_MAX_STARTS; i++) {
        if (__atomic_load_n(&entries[i].key, __ATOMIC_ACQUIRE) == offset + 1) {
            return __atomic_load_n(&entries[i].range, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

heap_page_t *heap_page_map_page(const heap_page_map_t *map, uint64_t offset)
{
    return __atomic_load_n(&map->entries[offset / HEAP_PAGE].small,
                           __ATOMIC_ACQUIRE);
}

void heap_page_map_open(heap_page_map_t *map, uint64_t offset, uint64_t size)
{
    for (uint64_t done = 0; done < size; done += HEAP_PAGE) {
        heap_page_map_set_page(map, offset + done, NULL);
    }
}

static heap_page_map_start_t *entry(const heap_page_map_t *map, uint64_t offset,
                                    uint64_t key)
{
    heap_page_map_start_t *entries = map->entries[offset / HEAP_PAGE].starts;
    size_t                 i       = 0;

    while (entries[i].key != key) {
        i++;
        assert(i < HEAP_PAGE_MAX_STARTS);
    }
    return &entries[i];
}

void heap_page_map_add(heap_page_map_t *map, heap_range_t *range)
{
    heap_page_map_start_t *start = entry(map, range->offset, 0);

    __atomic_store_n(&start->range, range, __ATOMIC_RELAXED);
    __atomic_store_n(&start->key, range->offset + 1, __ATOMIC_RELEASE);
}

void heap_page_map_remove(heap_page_map_t *map, const heap_range_t *range)
{
    heap_page_map_start_t *start = entry(map, range->offset, range->offset + 1);

    __atomic_store_n(&start->key, 0, __ATOMIC_RELEASE);
}

void heap_page_map_set_page(heap_page_map_t *map, uint64_t offset,
                            heap_page_t *page)
{
    __atomic_store_n(&map->entries[offset / HEAP_PAGE].small, page,
                     __ATOMIC_RELEASE);
}
