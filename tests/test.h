/*
 * Tests that register themselves, so that a program needs neither main() nor a
 * list of its tests:
 *
 *     TEST_SETTINGS(.setup = start, .teardown = stop, .timeout = 60);
 *
 *     TEST(a_freed_block_is_reused)
 *     {
 *         ...
 *     }
 *
 *     TEST_EACH(wires_deliver_in_order, NUM_WIRES)
 *     {
 *         ... wires[_i] ...
 *     }
 *
 * A file is a suite of Check, and each test is a case, so CK_RUN_CASE=NAME runs
 * one test. If all tests of a program are left out, it exits with 77.
 */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include "ucxpool/status.h"

#include <check.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

#define TEST_NO_TIMEOUT (-1)

/* An entry of the list: a test, or settings for the tests that follow in the
 * file. Omitted settings have Check's defaults. */
typedef struct test {
    TTest test;            /* fn is NULL in settings */
    int   first, end;      /* values of _i */
    int   signal;          /* signal that must end the test; 0: none */
    bool (*only_if)(void); /* if it returns false, the test is left out; may be
                              NULL */
    void (*before_fork)(void); /* called in the process that forks the test's */
    void (*setup)(void);
    void (*teardown)(void);
    double       timeout; /* seconds */
    struct test *next;
} test_t;

/* Called before main(). */
void test_register(test_t *test);

/* Call a function at the end of the test, before the teardown of the settings.
 * A function that starts something for a test calls this for its end. */
void test_at_end(void (*function)(void));

/* Returns zeroed memory that is freed after these functions. */
void *test_alloc(size_t size);

/* Start a thread. Wait for the `num` threads that were started last. Only the
 * main thread of a test may call these. */
void test_thread(void *(*run)(void *), void *arg);
void test_join(unsigned num);

/* Call the functions now, the last one first, and free the memory. For tests
 * that start repeatedly. */
void test_end(void);

/* Wait until a child process exits. Returns its status. */
int test_exit_of(pid_t child);

/* Kill a child process that runs, and wait for its end. */
void test_kill(pid_t child);

/* Run all tests. Returns the exit status. The default main() calls this
 * function. */
int test_run_all(void);

#define TEST_REGISTER(_register, _name, _function, ...) \
    __attribute__((constructor)) static void _register(void) \
    { \
        static test_t test; \
        test = (test_t){.test = {_name, _function, __FILE__, __LINE__}, \
                        __VA_ARGS__}; \
        test_register(&test); \
    }

#define TEST_WITH(_name, ...) \
    static void _name##_fn(int _i); \
    TEST_REGISTER(_name##_register, #_name, _name##_fn, __VA_ARGS__) \
    static void _name##_fn(int _i CK_ATTRIBUTE_UNUSED)
#define TEST(_name)            TEST_WITH(_name, .end = 1)
#define TEST_EACH(_name, _num) TEST_WITH(_name, .end = _num)

#define TEST_LINE_2(_line) settings_of_line_##_line
#define TEST_LINE(_line)   TEST_LINE_2(_line)
#define TEST_SETTINGS(...) \
    TEST_REGISTER(TEST_LINE(__LINE__), NULL, NULL, __VA_ARGS__) \
    struct test

/* Require that a call returns an error: assert_error(f(), NO_MEMORY). */
#define assert_error(_call, _error) \
    do { \
        ucxpool_status_t status_ = (_call); \
        ck_assert_msg(status_ == UCXPOOL_ERR_##_error, \
                      "%s: %s instead of %s (%s)", #_call, \
                      ucxpool_status_string(status_), #_error, \
                      ucxpool_error_detail()); \
    } while (0)

/* Require that a text contains these words. */
#define assert_has(_text, _words) \
    ck_assert_msg(strstr((_text), (_words)) != NULL, \
                  "\"%s\" is not in \"%s\"", (_words), (_text))

/* The same for the detail of the last error. */
#define assert_detail(_words) assert_has(ucxpool_error_detail(), _words)

/* Require that a call returns an error with these words. */
#define assert_error_detail(_call, _error, _words) \
    do { \
        assert_error(_call, _error); \
        assert_detail(_words); \
    } while (0)

/* Require that a call returns UCXPOOL_OK. */
#define assert_ok(_call) \
    do { \
        ucxpool_status_t status_ = (_call); \
        ck_assert_msg(status_ == UCXPOOL_OK, "%s: %s (%s)", #_call, \
                      ucxpool_status_string(status_), ucxpool_error_detail()); \
    } while (0)

#endif
