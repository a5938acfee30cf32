/* Allocation of parts of a file. */
#include "mem/memfd.h"
#include "test.h"
#include "replace.h"

#include <stdint.h>
#include <string.h>

#define UNIT ((size_t)1 << 21)

static mem_file_space_t space;
static bool             is_full; /* realloc() fails */

REPLACE(void *, realloc, void *memory, size_t size)
{
    return is_full ? NULL : __real_realloc(memory, size);
}

static void setup(void)
{
    memset(&space, 0, sizeof(space));
    is_full = false;
}

static void teardown(void)
{
    mem_file_space_cleanup(&space);
}

static size_t take(size_t num)
{
    size_t offset = SIZE_MAX;

    ck_assert(mem_file_space_take(&space, num * UNIT, &offset));
    ck_assert_uint_eq(offset % UNIT, 0);
    return offset / UNIT;
}

static void give(size_t offset, size_t num)
{
    mem_file_space_give(&space, offset * UNIT, num * UNIT);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown);

TEST(parts_are_adjacent)
{
    ck_assert_uint_eq(take(1), 0);
    ck_assert_uint_eq(take(16), 1);
    ck_assert_uint_eq(take(1), 17);
    ck_assert_uint_eq(space.end, 18 * UNIT);
}

TEST(freed_parts_are_reused_first)
{
    take(1);
    take(2);
    take(1);
    give(1, 2);
    ck_assert_uint_eq(take(3), 4);
    ck_assert_uint_eq(take(1), 1);
    ck_assert_uint_eq(take(1), 2);
    ck_assert_uint_eq(space.num_free, 0);
}

TEST_EACH(adjacent_free_parts_are_merged, 6)
{
    static const size_t orders[][3] = {{1, 2, 3}, {1, 3, 2}, {2, 1, 3},
                                       {2, 3, 1}, {3, 1, 2}, {3, 2, 1}};

    for (size_t i = 0; i < 5; i++) {
        ck_assert_uint_eq(take(1), i);
    }
    for (size_t i = 0; i < 3; i++) {
        give(orders[_i][i], 1);
    }
    ck_assert_uint_eq(space.num_free, 1);
    ck_assert_uint_eq(take(3), 1);
}

TEST(freeing_the_last_part_moves_the_end_back)
{
    take(1);
    take(1);
    take(1);
    give(1, 1);
    ck_assert_uint_eq(space.end, 3 * UNIT);
    give(2, 1);
    ck_assert_uint_eq(space.end, UNIT);
    give(0, 1);
    ck_assert_uint_eq(space.end, 0);
    ck_assert_uint_eq(space.num_free, 0);
    ck_assert_uint_eq(space.num_taken, 0);
}

TEST(take_fails_without_memory_for_the_tables)
{
    size_t offset;

    is_full = true;
    ck_assert(!mem_file_space_take(&space, UNIT, &offset));
    ck_assert_uint_eq(space.end, 0);
    is_full = false;
    ck_assert_uint_eq(take(1), 0);
    is_full = true;
    while (mem_file_space_take(&space, UNIT, &offset)) {
    }
    ck_assert_uint_eq(space.end, space.num_taken * UNIT);
    /* Freeing needs no memory, even in the worst order. */
    for (size_t i = space.num_taken, n = 0; n < i; n += 2) {
        give(n, 1);
    }
    for (size_t i = space.end / UNIT, n = 1; n < i; n += 2) {
        give(n, 1);
    }
    ck_assert_uint_eq(space.end, 0);
}

TEST(size_that_overflows_is_rejected)
{
    size_t offset;

    take(1);
    ck_assert(!mem_file_space_take(&space, SIZE_MAX - UNIT + 1, &offset));
    ck_assert_uint_eq(space.num_taken, 1);
}

#define NUM_UNITS 200

/* Compared with a map of the taken units. */
TEST(no_two_parts_overlap_in_any_order)
{
    static unsigned char owner[4 * NUM_UNITS]; /* part + 1 */
    struct {
        size_t offset, num;
    } parts[NUM_UNITS / 4];
    size_t   num_parts = 0;
    unsigned seed      = 7;

    for (int round = 0; round < 20000; round++) {
        seed = seed * 1664525u + 1013904223u;
        if ((num_parts < NUM_UNITS / 4) && ((seed >> 24) % 2 == 0)) {
            size_t num = 1 + (seed >> 16) % 8;
            size_t at  = take(num);

            ck_assert_uint_le(at + num, sizeof(owner));
            for (size_t i = 0; i < num; i++) {
                ck_assert_uint_eq(owner[at + i], 0);
                owner[at + i] = 1;
            }
            parts[num_parts].offset = at;
            parts[num_parts].num    = num;
            num_parts++;
        } else if (num_parts > 0) {
            size_t i = (seed >> 8) % num_parts;

            give(parts[i].offset, parts[i].num);
            memset(&owner[parts[i].offset], 0, parts[i].num);
            parts[i] = parts[--num_parts];
        }
    }
    while (num_parts > 0) {
        num_parts--;
        give(parts[num_parts].offset, parts[num_parts].num);
    }
    ck_assert_uint_eq(space.end, 0);
}
