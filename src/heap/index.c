#include <config.h>

#include "heap/index.h"

#include "base/math.h"

#include <assert.h>

#define COLUMN_BITS 5

/* So many ranges of a bin are looked at for one that fits well. */
#define MAX_LOOKS 8

static_assert(HEAP_INDEX_COLUMNS == 1 << COLUMN_BITS, "a column each");
static_assert(HEAP_INDEX_ROWS <= 64, "a bit each");

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
    index->rows  = 0;
    index->size  = 0;
    index->count = 0;
    for (unsigned row = 0; row < HEAP_INDEX_ROWS; row++) {
        index->columns[row] = 0;
        for (unsigned column = 0; column < HEAP_INDEX_COLUMNS; column++) {
            base_list_init(&index->bins[row][column]);
        }
    }
}

void heap_index_add(heap_index_t *index, heap_range_t *range)
{
    bin_t bin = bin_of(range->size);

    base_list_add_head(&index->bins[bin.row][bin.column], &range->link);
    index->rows |= UINT64_C(1) << bin.row;
    index->columns[bin.row] |= 1u << bin.column;
    index->size += range->size;
    index->count++;
}

void heap_index_remove(heap_index_t *index, heap_range_t *range)
{
    bin_t bin = bin_of(range->size);

    base_list_del(&range->link);
    if (base_list_is_empty(&index->bins[bin.row][bin.column])) {
        index->columns[bin.row] &= ~(1u << bin.column);
        if (index->columns[bin.row] == 0) {
            index->rows &= ~(UINT64_C(1) << bin.row);
        }
    }
    index->size -= range->size;
    index->count--;
}

/* The shortest of the first few in a bin that are long enough. */
static heap_range_t *best_of(const base_list_t *bin, uint64_t size)
{
    heap_range_t *best = NULL;
    heap_range_t *range;
    unsigned      looks = 0;

    base_list_for_each(range, bin, heap_range_t, link) {
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

/* The next bin that is not empty, behind one; false: there is none. */
static bool bin_above(const heap_index_t *index, bin_t *bin)
{
    uint32_t columns = 0;
    uint64_t rows    = 0;

    if (bin->column + 1 < HEAP_INDEX_COLUMNS) {
        columns = index->columns[bin->row] >> (bin->column + 1);
    }
    if (columns != 0) {
        bin->column += 1 + (unsigned)__builtin_ctz(columns);
        return true;
    }
    if (bin->row + 1 < HEAP_INDEX_ROWS) {
        rows = index->rows >> (bin->row + 1);
    }
    if (rows == 0) {
        return false;
    }
    bin->row += 1 + (unsigned)__builtin_ctzll(rows);
    bin->column = (unsigned)__builtin_ctz(index->columns[bin->row]);
    return true;
}

heap_range_t *heap_index_find(const heap_index_t *index, uint64_t size)
{
    bin_t         bin   = bin_of(size);
    heap_range_t *range = best_of(&index->bins[bin.row][bin.column], size);

    /* All that is in the bins above is long enough. */
    while ((range == NULL) && bin_above(index, &bin)) {
        range = best_of(&index->bins[bin.row][bin.column], size);
    }
    return range;
}

static heap_range_t *head_of(const heap_index_t *index, bin_t bin)
{
    return base_list_head(&index->bins[bin.row][bin.column], heap_range_t,
                          link);
}

/* The last bin that is not empty, before one; false: there is none. */
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
    const base_list_t *head = &index->bins[bin.row][bin.column];

    if (range->link.next != head) {
        return at_least(base_container_of(range->link.next, heap_range_t, link),
                        size);
    }
    return bin_below(index, &bin) ? at_least(head_of(index, bin), size) : NULL;
}

uint64_t heap_index_longest(const heap_index_t *index)
{
    const heap_range_t *range;
    const base_list_t  *bin;
    uint64_t            longest = 0;
    heap_range_t       *first   = heap_index_first(index, 0);

    if (first == NULL) {
        return 0;
    }
    bin = &index->bins[bin_of(first->size).row][bin_of(first->size).column];
    base_list_for_each(range, bin, heap_range_t, link) {
        longest = base_max(longest, range->size);
    }
    return longest;
}
