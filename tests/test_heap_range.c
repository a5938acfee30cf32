/*
 * Free ranges by size: a returned range is long enough, and the search succeeds
 * if any range is long enough.
 */
#include "heap/range.h"
#include "rounds.h"
#include "test.h"

#define NUM_RANGES 64

/* The first size of a bin for several sizes. */
#define SIZE (HEAP_UNIT << 12)

static heap_index_t bins;
static heap_range_t ranges[NUM_RANGES];
static bool         is_in[NUM_RANGES];

static void set_up(void)
{
    heap_index_init(&bins);
    for (unsigned i = 0; i < NUM_RANGES; i++) {
        base_list_init(&ranges[i].link);
        is_in[i] = false;
    }
}

static void add(unsigned number, uint64_t size)
{
    ranges[number].size = size;
    heap_index_add(&bins, &ranges[number]);
    is_in[number] = true;
}

static void drop(unsigned number)
{
    heap_index_remove(&bins, &ranges[number]);
    is_in[number] = false;
}

static uint64_t longest(void)
{
    uint64_t size = 0;

    for (unsigned i = 0; i < NUM_RANGES; i++) {
        if (is_in[i] && (ranges[i].size > size)) {
            size = ranges[i].size;
        }
    }
    return size;
}

static void find(uint64_t size)
{
    const heap_range_t *range = heap_index_find(&bins, size);

    if ((longest() == 0) || (longest() < size)) {
        ck_assert_ptr_null(range);
    } else {
        ck_assert_ptr_nonnull(range);
        ck_assert(is_in[range - ranges]);
        ck_assert_uint_ge(range->size, size);
    }
}

TEST_SETTINGS(.setup = set_up);

TEST(the_last_of_a_bin_is_found)
{
    add(0, SIZE + 2 * HEAP_UNIT);
    for (unsigned i = 1; i < NUM_RANGES; i++) {
        add(i, SIZE + HEAP_UNIT);
    }
    find(SIZE + 2 * HEAP_UNIT);
    find(SIZE + 3 * HEAP_UNIT);
    drop(0);
    find(SIZE + 2 * HEAP_UNIT);
    find(SIZE + HEAP_UNIT);
}

TEST(range_added_after_a_failed_search_is_found)
{
    for (unsigned i = 2; i < NUM_RANGES; i++) {
        add(i, SIZE);
    }
    find(SIZE + HEAP_UNIT);
    add(0, SIZE + HEAP_UNIT);
    add(1, SIZE);
    for (unsigned i = 2; i < NUM_RANGES; i++) {
        drop(i);
        add(i, SIZE);
    }
    find(SIZE + HEAP_UNIT);
}

/* In few bins, so that each has many ranges. */
TEST_EACH(any_range_that_is_long_enough_is_found, 4)
{
    uint64_t state = (uint64_t)_i + 1;

    for (unsigned i = 0; i < rounds(20000); i++) {
        unsigned number;
        uint64_t size;

        state  = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        number = (unsigned)(state >> 33) % NUM_RANGES;
        size   = SIZE + (state >> 40) % 300 * HEAP_UNIT;
        if (is_in[number]) {
            drop(number);
        } else {
            add(number, size);
        }
        find(SIZE + (state >> 50) % 300 * HEAP_UNIT);
        find(longest());
        find(longest() + HEAP_UNIT);
    }
}
