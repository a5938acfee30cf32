/*
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
 */
#ifndef HEAP_INDEX_H
#define HEAP_INDEX_H

#include "heap/range.h"

/* All sizes are multiples of it. */
#define HEAP_UNIT ((uint64_t)256)

#define HEAP_INDEX_ROWS    44
#define HEAP_INDEX_COLUMNS 32

typedef struct heap_index {
    uint64_t    rows; /* a bit for each that is not empty */
    uint32_t    columns[HEAP_INDEX_ROWS];
    base_list_t bins[HEAP_INDEX_ROWS][HEAP_INDEX_COLUMNS];
    uint64_t    size; /* of all ranges together */
    size_t      count;
} heap_index_t;

void heap_index_init(heap_index_t *index);
void heap_index_add(heap_index_t *index, heap_range_t *range);
void heap_index_remove(heap_index_t *index, heap_range_t *range);

/* A range of at least `size` bytes, and of those a short one; NULL: none. */
heap_range_t *heap_index_find(const heap_index_t *index, uint64_t size);

/*
 * The ranges from the longest bin down: the first one, and the one behind a
 * range, as long as they have `size` bytes or more, which is a power of two;
 * NULL: no more.
 */
heap_range_t *heap_index_first(const heap_index_t *index, uint64_t size);
heap_range_t *heap_index_next(const heap_index_t *index,
                              const heap_range_t *range, uint64_t size);

/* Size of the longest; 0: there are none. */
uint64_t heap_index_longest(const heap_index_t *index);

#endif
