/*
 * The table of address ranges. This test includes its source, so that it can
 * stop a writer in the middle of a change.
 */
#include "../src/block/comm.c"
#include "rounds.h"
#include "test.h"

#include <sched.h>

#define RANGE(_i)   ((char *)(uintptr_t)(0x10000 + (_i)*0x100))
#define NUM_THREADS 3
#define NUM_ROUNDS  300
#define NUM_STEPS   100 /* per round */

static ranges_t    *ranges;
static _Atomic bool stop;

static void insert(unsigned number)
{
    ranges_insert(ranges, RANGE(number), 0x80, RANGE(number));
}

TEST_SETTINGS(.timeout = 120);

TEST(ranges_are_found_in_any_insertion_order)
{
    const unsigned order[] = {5, 1, 3, 7, 0, 2};

    assert_ok(ranges_create(6, &ranges));
    for (unsigned i = 0; i < 6; i++) {
        insert(order[i]);
    }
    for (unsigned i = 0; i < 6; i++) {
        char *start = RANGE(order[i]);

        ck_assert_ptr_eq(ranges_find(ranges, start), start);
        ck_assert_ptr_eq(ranges_find(ranges, start + 0x7f), start);
        ck_assert_ptr_null(ranges_find(ranges, start + 0x80));
        ck_assert_ptr_null(ranges_find(ranges, start - 1));
    }
    ranges_destroy(ranges);
}

TEST(a_range_is_removed_once_and_only_by_its_start)
{
    assert_ok(ranges_create(3, &ranges));
    ck_assert_ptr_null(ranges_remove(ranges, RANGE(2)));
    for (unsigned i = 1; i < 4; i++) {
        insert(i);
    }
    ck_assert_ptr_null(ranges_remove(ranges, RANGE(2) + 1));
    ck_assert_ptr_eq(ranges_remove(ranges, RANGE(2)), RANGE(2));
    ck_assert_ptr_null(ranges_remove(ranges, RANGE(2)));
    ck_assert_ptr_null(ranges_find(ranges, RANGE(2)));
    ck_assert_ptr_eq(ranges_find(ranges, RANGE(1)), RANGE(1));
    ck_assert_ptr_eq(ranges_find(ranges, RANGE(3)), RANGE(3));
    ranges_destroy(ranges);
}

TEST(an_empty_table_finds_nothing)
{
    assert_ok(ranges_create(0, &ranges));
    ck_assert_ptr_null(ranges_find(ranges, NULL));
    ck_assert_ptr_null(ranges_find(ranges, RANGE(1)));
    ranges_destroy(ranges);
}

static void *find_last(void *arg)
{
    return ranges_find(ranges, RANGE(2));
}

TEST(a_reader_ignores_a_half_changed_table)
{
    pthread_t thread;
    void     *found;

    assert_ok(ranges_create(2, &ranges));
    insert(1);
    insert(2);
    for (unsigned i = 0; i < rounds(20); i++) {
        begin_change(ranges);
        set(&ranges->ranges[1].owner, (uintptr_t)RANGE(1));
        ck_assert_int_eq(pthread_create(&thread, NULL, find_last, NULL), 0);
        /* Give the reader time to fail; it must not, in any order. */
        for (int j = 0; j < 100; j++) {
            sched_yield();
        }
        set(&ranges->ranges[1].owner, (uintptr_t)RANGE(2));
        end_change(ranges);
        pthread_join(thread, &found);
        ck_assert_ptr_eq(found, RANGE(2));
    }
    ranges_destroy(ranges);
}

static void *find_forever(void *arg)
{
    while (!atomic_load(&stop)) {
        void *owner;

        /* Always in the table, at changing positions. */
        ck_assert_ptr_eq(ranges_find(ranges, RANGE(5)), RANGE(5));
        ck_assert_ptr_eq(ranges_find(ranges, RANGE(7)), RANGE(7));
        ck_assert_ptr_null(ranges_find(ranges, RANGE(6)));
        owner = ranges_find(ranges, RANGE(3));
        ck_assert((owner == NULL) || (owner == RANGE(3)));
    }
    return NULL;
}

TEST(readers_see_the_table_before_or_after_a_change)
{
    assert_ok(ranges_create(5, &ranges));
    insert(5);
    insert(7);
    atomic_store(&stop, false);
    for (int i = 0; i < NUM_THREADS; i++) {
        test_thread(find_forever, NULL);
    }
    for (unsigned i = 0; i < rounds(NUM_ROUNDS) * NUM_STEPS; i++) {
        unsigned number = i % 4;

        insert(number);
        insert(8 + number);
        ck_assert_ptr_eq(ranges_remove(ranges, RANGE(number)), RANGE(number));
        ck_assert_ptr_eq(ranges_remove(ranges, RANGE(8 + number)),
                         RANGE(8 + number));
    }
    atomic_store(&stop, true);
    test_join(NUM_THREADS);
    ranges_destroy(ranges);
}
