/*
 * The bitmap of free blocks. The test includes its source and runs the steps of
 * concurrent threads one at a time in a single thread.
 */
#include "../src/block/pool.c"
#include "test.h"

#include <string.h>

#define NUM_BITS 300u

static bitmap_t *bitmap;

/* Leave only the given runs set; a run of 0 bits ends the list. */
typedef struct run {
    uint32_t start;
    uint32_t num;
} run_t;

static void create(const run_t *runs)
{
    uint32_t indices[NUM_BITS];

    assert_ok(bitmap_create(NUM_BITS, &bitmap));
    bitmap_take(bitmap, NUM_BITS, indices);
    ck_assert_uint_eq(bitmap_count(bitmap), 0);
    for (; runs->num > 0; runs++) {
        for (uint32_t i = 0; i < runs->num; i++) {
            bitmap_give(bitmap, runs->start + i);
        }
    }
}

static void require_taken(uint32_t start, size_t num)
{
    uint32_t indices[NUM_BITS];

    bitmap_take(bitmap, num, indices);
    for (uint32_t i = 0; i < num; i++) {
        ck_assert_uint_eq(indices[i], start + i);
        ck_assert(!bitmap_test(bitmap, indices[i]));
    }
}

TEST(an_empty_word_breaks_a_run)
{
    create((run_t[]){{60, 4}, {128, 4}, {200, 8}, {0, 0}});
    require_taken(200, 8);
    bitmap_destroy(bitmap);
}

TEST(full_word_is_not_counted_as_a_longer_run)
{
    create((run_t[]){{0, 64}, {100, 100}, {0, 0}});
    require_taken(100, 100);
    require_taken(0, 64);
    bitmap_destroy(bitmap);
}

TEST(lowest_of_several_runs_is_taken)
{
    create((run_t[]){{3, 2}, {10, 5}, {30, 5}, {62, 40}, {0, 0}});
    require_taken(10, 5);
    require_taken(30, 3);
    require_taken(62, 6);
    bitmap_destroy(bitmap);
}

TEST(run_of_any_length_is_found_at_any_position)
{
    for (uint32_t num = 1; num <= 140; num += (num < 10) ? 1 : 13) {
        for (uint32_t start = 2; start + num <= NUM_BITS; start += 7) {
            create((run_t[]){{0, 1}, {start, num}, {0, 0}});
            if (num == 1) {
                require_taken(0, 1);
            }
            require_taken(start, num);
            bitmap_destroy(bitmap);
        }
    }
}

TEST(run_broken_by_another_thread_is_put_back)
{
    uint32_t index;

    create((run_t[]){{20, 200}, {0, 0}});
    ck_assert(take_run_at(bitmap, 150, 151));
    ck_assert(!take_run_at(bitmap, 30, 170));
    ck_assert_uint_eq(bitmap_count(bitmap), 199);
    for (index = 20; index < 220; index++) {
        ck_assert_int_eq(bitmap_test(bitmap, index), index != 150);
    }
    require_taken(20, 130);
    bitmap_destroy(bitmap);
}

TEST(bit_missing_in_the_summary_is_found)
{
    create((run_t[]){{200, 1}, {0, 0}});
    atomic_store(&bitmap->summaries[0], 0);
    require_taken(200, 1);
    bitmap_destroy(bitmap);
}

TEST(stale_summary_bit_is_harmless)
{
    create((run_t[]){{200, 1}, {0, 0}});
    atomic_store(&bitmap->summaries[0], ALL_BITS >> 59);
    require_taken(200, 1);
    bitmap_destroy(bitmap);
}

TEST(put_between_take_and_summary_update_is_kept)
{
    create((run_t[]){{64, 1}, {0, 0}});
    /* The steps of a take, with a put between the two. */
    atomic_fetch_and(&bitmap->words[1], ~(uint64_t)1);
    bitmap_give(bitmap, 65);
    clear_summary(bitmap, 1);
    ck_assert_uint_eq(atomic_load(&bitmap->summaries[0]), 2);
    require_taken(65, 1);
    ck_assert_uint_eq(atomic_load(&bitmap->summaries[0]), 0);
    bitmap_destroy(bitmap);
}

TEST(the_summary_follows_the_words)
{
    create((run_t[]){{0, 0}});
    ck_assert_uint_eq(atomic_load(&bitmap->summaries[0]), 0);
    bitmap_give(bitmap, 70);
    bitmap_give(bitmap, 299);
    ck_assert_uint_eq(atomic_load(&bitmap->summaries[0]), 0x12);
    require_taken(70, 1);
    ck_assert_uint_eq(atomic_load(&bitmap->summaries[0]), 0x10);
    bitmap_destroy(bitmap);
}
