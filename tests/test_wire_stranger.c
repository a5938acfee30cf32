/*
 * Peers on this host whose blocks cannot or must not be read: of another user,
 * or with memory that may shrink.
 */
#include <config.h>

#include "pair.h"
#include "test.h"
#include "two.h"
#include "replace.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAG      UINT64_C(0x77)
#define ALL_BITS UINT64_MAX
#define LENGTH   200000u

/* Memory files of this process are not sealed against shrinking. */
static bool leaves_unsealed;

static bool is_to_be_ignored(int command)
{
    return leaves_unsealed && (command == F_ADD_SEALS);
}

REPLACE(int, fcntl, int fd, int command, ...)
{
    va_list arguments;
    long    argument;

    va_start(arguments, command);
    argument = va_arg(arguments, long);
    va_end(arguments);
    return is_to_be_ignored(command) ? 0 : __real_fcntl(fd, command, argument);
}

REPLACE(int, fcntl64, int fd, int command, ...)
{
    va_list arguments;
    long    argument;

    va_start(arguments, command);
    argument = va_arg(arguments, long);
    va_end(arguments);
    return is_to_be_ignored(command) ? 0
                                     : __real_fcntl64(fd, command, argument);
}

/* Receive one message. */
static void be_served(const two_t *two)
{
    uint8_t           *target = malloc(LENGTH);
    ucxpool_request_t *recv;

    two_ok(ucxpool_recv_buffer(two->pool, two->channel, target, LENGTH, TAG,
                               ALL_BITS, NULL, &recv));
    two_ok(ucxpool_request_wait(recv, pair_patience()));
    two_check(pair_is_all(target, LENGTH, 0x5a));
    ucxpool_request_release(recv);
    free(target);
}

/* The other side requires `map`, and closes. */
static void be_refused(const two_t *two)
{
    uint64_t until = pair_deadline();

    while (pair_attr(two->channel).state <= UCXPOOL_CHANNEL_OPEN) {
        ucxpool_wait(two->pool, 10000000);
        two_check(!pair_is_late(until));
    }
}

typedef enum strangeness {
    OTHER_USER,
    UNSEALED,
    NUM_STRANGENESSES
} strangeness_t;

static const char *const said[] = {
    [OTHER_USER] = "other user",
    [UNSEALED]   = "not sealed against shrinking",
};

/* Returns false if this process may not do this. */
static bool become(strangeness_t strangeness)
{
    const struct passwd *nobody;

    switch (strangeness) {
    case OTHER_USER:
        nobody = getpwnam("nobody");
        return (nobody != NULL) && (nobody->pw_uid != geteuid()) &&
               (setgid(nobody->pw_gid) == 0) && (setuid(nobody->pw_uid) == 0);
    default:
        leaves_unsealed = true;
        return true;
    }
}

/* The child is the stranger, and ends when it has been served or refused. */
static void start(two_t *two, strangeness_t strangeness, const char *settings)
{
    two_fork(two);
    if (two->is_child && !become(strangeness)) {
        _exit(77);
    }
    two->pool    = pair_pool(two->is_child ? NULL : settings);
    two->channel = two_create_channel(two, two->pool);
    if (two->is_child) {
        ((settings == NULL) ? be_served : be_refused)(two);
        two_cleanup(two);
    }
}

static void stop(two_t *two)
{
    assert_ok(ucxpool_check(two->pool));
    two_cleanup(two);
}

static void send_to_stranger(const two_t *two)
{
    uint8_t           *source = malloc(LENGTH);
    ucxpool_request_t *send;

    memset(source, 0x5a, LENGTH);
    send = pair_send(two->channel, source, LENGTH, TAG);
    assert_ok(ucxpool_request_wait(send, pair_patience()));
    ucxpool_request_release(send);
    free(source);
}

START_TEST(a_stranger_uses_the_ucx_wire_and_the_reason_is_reported)
{
    two_t                  two;
    ucxpool_channel_attr_t attr;

    start(&two, (strangeness_t)_i, NULL);
    assert_ok(ucxpool_channel_wait(two.channel, pair_patience()));
    attr = pair_attr(two.channel);
    ck_assert_int_eq(attr.wire, UCXPOOL_WIRE_UCX);
    assert_has(attr.wire_reason, said[_i]);
    send_to_stranger(&two);
    stop(&two);
}
END_TEST

START_TEST(a_stranger_fails_with_a_reason_if_map_is_required)
{
    two_t                  two;
    ucxpool_channel_attr_t attr;

    start(&two, (strangeness_t)_i, "WIRE=map");
    assert_error(ucxpool_channel_wait(two.channel, pair_patience()),
                 UNSUPPORTED);
    attr = pair_attr(two.channel);
    ck_assert_int_eq(attr.state, UCXPOOL_CHANNEL_FAILED);
    ck_assert_msg(strncmp(attr.reason, "UCXPOOL_WIRE=map, but ", 22) == 0, "%s",
                  attr.reason);
    assert_has(attr.reason, said[_i]);
    assert_error(ucxpool_send_buffer(two.channel, "x", 1, TAG, NULL, NULL),
                 UNSUPPORTED);
    stop(&two);
}
END_TEST

/* May this process create such a child? */
static bool is_possible(strangeness_t strangeness)
{
    int   status;
    pid_t child = fork();

    if (child == 0) {
        _exit(become(strangeness) ? 0 : 77);
    }
    if ((waitpid(child, &status, 0) == child) && (status == 0)) {
        return true;
    }
    printf("not tried: %s (needs the rights of root)\n", said[strangeness]);
    return false;
}

static void add_tests(TCase *tcase, int i)
{
    tcase_add_loop_test(tcase,
                        a_stranger_uses_the_ucx_wire_and_the_reason_is_reported,
                        i, i + 1);
    tcase_add_loop_test(
        tcase, a_stranger_fails_with_a_reason_if_map_is_required, i, i + 1);
}

int main(void)
{
    bool     is_tried[NUM_STRANGENESSES];
    bool     is_complete = true;
    Suite   *suite;
    TCase   *tcase;
    SRunner *runner;
    int      num_failed;

    /* Before Check has allocated memory, which valgrind would often find to be
     * leaked by the child. */
    for (int i = 0; i < NUM_STRANGENESSES; i++) {
        is_tried[i] = is_possible((strangeness_t)i);
        is_complete = is_complete && is_tried[i];
    }
    suite = suite_create("wire_stranger");
    tcase = tcase_create("wire_stranger");
    tcase_set_timeout(tcase, 60);
    tcase_add_unchecked_fixture(tcase, pair_warm_up, NULL);
    for (int i = 0; i < NUM_STRANGENESSES; i++) {
        if (is_tried[i]) {
            add_tests(tcase, i);
        }
    }
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (num_failed != 0) {
        return EXIT_FAILURE;
    }
    return is_complete ? EXIT_SUCCESS : 77;
}
