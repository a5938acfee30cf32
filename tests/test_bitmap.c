/*
 * The bitmap of free blocks. The test includes its source and runs the steps of
 * concurrent threads one at a time in a single thread.
 */
#include "../src/block/pool.c"

#include <check.h>
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

    ck_assert_int_eq(bitmap_create(NUM_BITS, &bitmap), UCXPOOL_OK);
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

START_TEST(an_empty_word_breaks_a_run)
{
    create((run_t[]){{60, 4}, {128, 4}, {200, 8}, {0, 0}});
    require_taken(200, 8);
    bitmap_destroy(bitmap);
}
END_TEST

START_TEST(full_word_is_not_counted_as_a_longer_run)
{
    create((run_t[]){{0, 64}, {100, 100}, {0, 0}});
    require_taken(100, 100);
    require_taken(0, 64);
    bitmap_destroy(bitmap);
}
END_TEST

START_TEST(lowest_of_several_runs_is_taken)
{
    create((run_t[]){{3, 2}, {10, 5}, {30, 5}, {62, 40}, {0, 0}});
    require_taken(10, 5);
    require_taken(30, 3);
    require_taken(62, 6);
    bitmap_destroy(bitmap);
}
END_TEST

START_TEST(run_of_any_length_is_found_at_any_position)
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
END_TEST

START_TEST(run_broken_by_another_thread_is_put_back)
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
END_TEST

START_TEST(bit_missing_in_the_summary_is_found)
{
    create((run_t[]){{200, 1}, {0, 0}});
    atomic_store(&bitmap->summaries[0], 0);
    require_taken(200, 1);
    bitmap_destroy(bitmap);
}
END_TEST

START_TEST(stale_summary_bit_is_harmless)
{
    create((run_t[]){{200, 1}, {0, 0}});
    atomic_store(&bitmap->summaries[0], ALL_BITS >> 59);
    require_taken(200, 1);
    bitmap_destroy(bitmap);
}
END_TEST

START_TEST(put_between_take_and_summary_update_is_kept)
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
END_TEST

START_TEST(the_summary_follows_the_words)
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
END_TEST

int main(void)
{
    Suite   *suite = suite_create("bitmap");
    TCase   *tcase = tcase_create("bitmap");
    SRunner *runner;
    int      num_failed;

    tcase_add_test(tcase, an_empty_word_breaks_a_run);
    tcase_add_test(tcase, full_word_is_not_counted_as_a_longer_run);
    tcase_add_test(tcase, lowest_of_several_runs_is_taken);
    tcase_add_test(tcase, run_of_any_length_is_found_at_any_position);
    tcase_add_test(tcase, run_broken_by_another_thread_is_put_back);
    tcase_add_test(tcase, bit_missing_in_the_summary_is_found);
    tcase_add_test(tcase, stale_summary_bit_is_harmless);
    tcase_add_test(tcase, put_between_take_and_summary_update_is_kept);
    tcase_add_test(tcase, the_summary_follows_the_words);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return num_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
