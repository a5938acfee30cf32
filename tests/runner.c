#include "test.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define SKIPPED 77

/* In the order of the files, and of the lines in each. */
static test_t *tests;

static bool is_before(const test_t *a, const test_t *b)
{
    int order = strcmp(a->test.file, b->test.file);

    return (order != 0) ? (order < 0) : (a->test.line <= b->test.line);
}

void test_register(test_t *test)
{
    test_t **next_p = &tests;

    while ((*next_p != NULL) && is_before(*next_p, test)) {
        next_p = &(*next_p)->next;
    }
    test->next = *next_p;
    *next_p    = test;
}

static pthread_t threads[64];
static unsigned  num_threads;

void test_thread(void *(*run)(void *), void *arg)
{
    ck_assert_uint_lt(num_threads, sizeof(threads) / sizeof(threads[0]));
    ck_assert_int_eq(pthread_create(&threads[num_threads], NULL, run, arg), 0);
    num_threads++;
}

void test_join(unsigned num)
{
    for (; num > 0; num--) {
        ck_assert_int_eq(pthread_join(threads[--num_threads], NULL), 0);
    }
}

static Suite *create_suite(const char *file)
{
    const char *slash = strrchr(file, '/');

    return suite_create((slash != NULL) ? slash + 1 : file);
}

static void add(Suite *suite, const test_t *test, const test_t *settings)
{
    TCase *tcase = tcase_create(test->test.name);

    /* Check would run the test zero times. */
    assert(test->first < test->end);
    tcase_add_unchecked_fixture(tcase, settings->before_fork, NULL);
    tcase_add_checked_fixture(tcase, settings->setup, settings->teardown);
    /* The fixture that is added last is torn down first. */
    tcase_add_checked_fixture(tcase, NULL, test_end);
    if (settings->timeout != 0) {
        tcase_set_timeout(tcase, settings->timeout > 0 ? settings->timeout : 0);
    }
    tcase_add_loop_test_raise_signal(tcase, &test->test, test->signal,
                                     test->first, test->end);
    suite_add_tcase(suite, tcase);
}

static bool is_possible(const test_t *test)
{
    return (test->only_if == NULL) || test->only_if();
}

/* Returns the number of tests. */
static unsigned add_all(SRunner *runner)
{
    static const test_t defaults;
    const test_t       *settings = &defaults;
    const char         *file     = "";
    bool                is_run   = true;
    unsigned            num      = 0;
    Suite              *suite    = NULL;

    for (const test_t *test = tests; test != NULL; test = test->next) {
        if (strcmp(test->test.file, file) != 0) {
            file     = test->test.file;
            settings = &defaults;
            is_run   = true;
            suite    = create_suite(file);
            srunner_add_suite(runner, suite);
        }
        if (test->test.fn == NULL) {
            settings = test;
            is_run   = is_possible(test);
        } else if (is_run && is_possible(test)) {
            add(suite, test, settings);
            num++;
        }
    }
    return num;
}

int test_exit_of(pid_t child)
{
    int status;

    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status), "the child ended with %x",
                  (unsigned)status);
    return WEXITSTATUS(status);
}

void test_kill(pid_t child)
{
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

int test_run_all(void)
{
    SRunner *runner = srunner_create(NULL);
    int      result = SKIPPED;

    if (add_all(runner) > 0) {
        srunner_run_all(runner, CK_ENV);
        result =
            (srunner_ntests_failed(runner) == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    srunner_free(runner);
    return result;
}
