/* A lock: one has it at a time, and who waits sleeps. */
#include "base/lock.h"
#include "rounds.h"

#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define NUM_THREADS 4

static base_lock_t lock;
static unsigned    count; /* under the lock */
static unsigned    num_each;

static void *count_up(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < num_each; i++) {
        base_lock_take(&lock);
        count++;
        base_lock_give(&lock);
    }
    return NULL;
}

START_TEST(one_has_it_at_a_time)
{
    pthread_t threads[NUM_THREADS];

    num_each = rounds(100) * 1000;
    for (unsigned i = 0; i < NUM_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    }
    for (unsigned i = 0; i < NUM_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_eq(count, NUM_THREADS * num_each);
    ck_assert_uint_eq(lock.state, BASE_LOCK_FREE);
}
END_TEST

static void pause_for(long ms)
{
    const struct timespec time = {.tv_nsec = ms * 1000000};

    (void)nanosleep(&time, NULL);
}

static bool has_it; /* atomic */

static void *take_once(void *arg)
{
    struct timespec *used = arg;

    base_lock_take(&lock);
    __atomic_store_n(&has_it, true, __ATOMIC_RELEASE);
    base_lock_give(&lock);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, used);
    return NULL;
}

/* Several sleep: each is woken, one after another. */
START_TEST(who_waits_sleeps_until_it_is_given_back)
{
    pthread_t       threads[NUM_THREADS];
    struct timespec used[NUM_THREADS];

    base_lock_take(&lock);
    for (unsigned i = 0; i < NUM_THREADS; i++) {
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, take_once, &used[i]), 0);
    }
    pause_for(200);
    ck_assert(!__atomic_load_n(&has_it, __ATOMIC_ACQUIRE));
    base_lock_give(&lock);
    for (unsigned i = 0; i < NUM_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_int_eq(used[i].tv_sec, 0);
        ck_assert_int_lt(used[i].tv_nsec, 100000000);
    }
}
END_TEST

int main(void)
{
    Suite   *suite = suite_create("lock");
    TCase   *tcase = tcase_create("lock");
    SRunner *runner;
    int      failed;

    tcase_add_test(tcase, one_has_it_at_a_time);
    tcase_add_test(tcase, who_waits_sleeps_until_it_is_given_back);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
