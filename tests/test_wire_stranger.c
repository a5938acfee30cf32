/*
 * Peers on this host whose blocks cannot or must not be read: of another user,
 * or with memory that may shrink.
 */
#include <config.h>

#include "pair.h"
#include "test.h"
#include "replace.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

static void give(int talk, const void *bytes, size_t length)
{
    if (send(talk, bytes, length, MSG_NOSIGNAL) != (ssize_t)length) {
        _exit(3);
    }
}

static void take(int talk, void *bytes, size_t length)
{
    if (recv(talk, bytes, length, MSG_WAITALL) != (ssize_t)length) {
        _exit(4);
    }
}

/* Runs in either process; in the child without Check. */
static ucxpool_channel_t *connect_over(ucxpool_t *pool, int talk)
{
    ucxpool_channel_params_t to = {
        .field_mask = UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS,
    };
    ucxpool_channel_t *channel;
    void              *mine;
    void              *theirs;
    size_t             length;

    if (ucxpool_address_get(pool, &mine, &length) != UCXPOOL_OK) {
        _exit(5);
    }
    give(talk, &length, sizeof(length));
    give(talk, mine, length);
    ucxpool_address_release(mine);
    take(talk, &length, sizeof(length));
    theirs = malloc(length);
    take(talk, theirs, length);
    to.address        = theirs;
    to.address_length = length;
    if (ucxpool_channel_create(pool, &to, &channel) != UCXPOOL_OK) {
        _exit(6);
    }
    free(theirs);
    return channel;
}

/* Receive one message. */
static void be_served(ucxpool_t *pool, ucxpool_channel_t *channel)
{
    uint8_t           *target = malloc(LENGTH);
    ucxpool_request_t *recv;

    if ((ucxpool_recv_buffer(pool, channel, target, LENGTH, TAG, ALL_BITS, NULL,
                             &recv) != UCXPOOL_OK) ||
        (ucxpool_request_wait(recv, pair_patience()) != UCXPOOL_OK)) {
        _exit(7);
    }
    for (size_t i = 0; i < LENGTH; i++) {
        if (target[i] != 0x5a) {
            _exit(8);
        }
    }
    ucxpool_request_release(recv);
    free(target);
}

/* The other side requires `map`, and closes. */
static void be_refused(ucxpool_t *pool, ucxpool_channel_t *channel)
{
    uint64_t until = pair_deadline();

    while (pair_attr(channel).state <= UCXPOOL_CHANNEL_OPEN) {
        ucxpool_wait(pool, 10000000);
        if (pair_is_late(until)) {
            _exit(9);
        }
    }
}

static void be_stranger(int talk, bool is_refused)
{
    ucxpool_t         *pool    = pair_pool(NULL);
    ucxpool_channel_t *channel = connect_over(pool, talk);

    (is_refused ? be_refused : be_served)(pool, channel);
    ucxpool_destroy(pool);
    _exit(0);
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

static pid_t fork_stranger(strangeness_t strangeness, bool is_refused,
                           int *talk_p)
{
    int   sockets[2];
    pid_t child;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    fflush(NULL);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        close(sockets[0]);
        if (!become(strangeness)) {
            _exit(77);
        }
        be_stranger(sockets[1], is_refused);
    }
    close(sockets[1]);
    *talk_p = sockets[0];
    return child;
}

static void check_ended_well(pid_t child)
{
    int status;

    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && (WEXITSTATUS(status) == 0),
                  "the child ended with status %x", (unsigned)status);
}

static void send_to_stranger(ucxpool_t *pool, ucxpool_channel_t *channel)
{
    uint8_t           *source = malloc(LENGTH);
    ucxpool_request_t *send;

    memset(source, 0x5a, LENGTH);
    send = pair_send(channel, source, LENGTH, TAG);
    assert_ok(ucxpool_request_wait(send, pair_patience()));
    ucxpool_request_release(send);
    free(source);
}

START_TEST(a_stranger_uses_the_ucx_wire_and_the_reason_is_reported)
{
    int                talk;
    pid_t              child   = fork_stranger((strangeness_t)_i, false, &talk);
    ucxpool_t         *pool    = pair_pool(NULL);
    ucxpool_channel_t *channel = connect_over(pool, talk);
    ucxpool_channel_attr_t attr;

    assert_ok(ucxpool_channel_wait(channel, pair_patience()));
    attr = pair_attr(channel);
    ck_assert_int_eq(attr.wire, UCXPOOL_WIRE_UCX);
    assert_has(attr.wire_reason, said[_i]);
    send_to_stranger(pool, channel);
    assert_ok(ucxpool_check(pool));
    ucxpool_destroy(pool);
    check_ended_well(child);
    close(talk);
}
END_TEST

START_TEST(a_stranger_fails_with_a_reason_if_map_is_required)
{
    int                talk;
    pid_t              child   = fork_stranger((strangeness_t)_i, true, &talk);
    ucxpool_t         *pool    = pair_pool("WIRE=map");
    ucxpool_channel_t *channel = connect_over(pool, talk);
    ucxpool_channel_attr_t attr;

    assert_error(ucxpool_channel_wait(channel, pair_patience()), UNSUPPORTED);
    attr = pair_attr(channel);
    ck_assert_int_eq(attr.state, UCXPOOL_CHANNEL_FAILED);
    ck_assert_msg(strncmp(attr.reason, "UCXPOOL_WIRE=map, but ", 22) == 0, "%s",
                  attr.reason);
    assert_has(attr.reason, said[_i]);
    assert_error(ucxpool_send_buffer(channel, "x", 1, TAG, NULL, NULL),
                 UNSUPPORTED);
    assert_ok(ucxpool_check(pool));
    ucxpool_destroy(pool);
    check_ended_well(child);
    close(talk);
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
