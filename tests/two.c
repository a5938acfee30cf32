#include "two.h"

#include "pair.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Set in the child, which must not run Check's code for the end of a test. */
static bool in_child;

/* End the test, in either process. */
static void end_test(const char *file, int line, const char *what,
                     const char *why, const char *detail)
{
    if (in_child) {
        fprintf(stderr, "%s:%d: in the child: %s: %s: %s\n", file, line, what,
                why, detail);
        _exit(1);
    }
    ck_abort_msg("%s:%d: %s: %s: %s", file, line, what, why, detail);
}

void two_require(bool holds, const char *what, const char *file, int line)
{
    if (!holds) {
        end_test(file, line, what, "the last error", ucxpool_error_detail());
    }
}

void two_require_ok(ucxpool_status_t status, const char *what, const char *file,
                    int line)
{
    if (status != UCXPOOL_OK) {
        end_test(file, line, what, ucxpool_status_string(status),
                 (status < 0) ? ucxpool_error_detail() : "");
    }
}

static void say(int talk, const void *bytes, size_t length)
{
    two_check(send(talk, bytes, length, MSG_NOSIGNAL) == (ssize_t)length);
}

static void hear(int talk, void *bytes, size_t length)
{
    two_check(recv(talk, bytes, length, MSG_WAITALL) == (ssize_t)length);
}

/* Exchange addresses, and create the channel. */
static void connect_pools(two_t *two)
{
    ucxpool_channel_params_t params = {
        .field_mask = UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS,
    };
    void  *mine;
    void  *theirs;
    size_t length;

    two_ok(ucxpool_address_get(two->pool, &mine, &length));
    say(two->talk, &length, sizeof(length));
    say(two->talk, mine, length);
    ucxpool_address_release(mine);
    hear(two->talk, &length, sizeof(length));
    theirs = malloc(length);
    hear(two->talk, theirs, length);
    params.address        = theirs;
    params.address_length = length;
    two_ok(ucxpool_channel_create(two->pool, &params, &two->channel));
    free(theirs);
    two_ok(ucxpool_channel_wait(two->channel, pair_patience()));
}

void two_fork(two_t *two)
{
    int sockets[2];

    ck_assert_int_eq(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    fflush(NULL);
    two->child = fork();
    ck_assert_int_ge(two->child, 0);
    two->is_child = two->child == 0;
    in_child      = two->is_child;
    two->talk     = sockets[two->is_child];
    close(sockets[!two->is_child]);
}

void two_connect(two_t *two, const char *settings)
{
    two->pool = pair_pool(settings);
    connect_pools(two);
}

void two_init(two_t *two, const char *settings)
{
    two_fork(two);
    two_connect(two, settings);
}

void two_init_after(two_t *two, const char *settings, void (*prepare)(void))
{
    two_fork(two);
    prepare();
    two_connect(two, settings);
}

void two_init_on(two_t *two, two_side_t parents, two_side_t childs)
{
    two_side_t side;

    two_fork(two);
    side      = two->is_child ? childs : parents;
    two->pool = (side.device < 0) ? pair_pool(side.settings)
                                  : pair_pool_on(side.device, side.settings);
    connect_pools(two);
}

void two_cleanup(two_t *two)
{
    int status;

    ucxpool_destroy(two->pool);
    close(two->talk);
    if (two->is_child) {
        _exit(0);
    }
    ck_assert_int_eq(waitpid(two->child, &status, 0), two->child);
    ck_assert_msg(WIFEXITED(status) && (WEXITSTATUS(status) == 0),
                  "the child ended with status %x", (unsigned)status);
}

void two_say(two_t *two)
{
    two_check(send(two->talk, "x", 1, MSG_NOSIGNAL) == 1);
}

void two_hear(two_t *two)
{
    uint64_t late = pair_deadline();
    char     byte;

    while (recv(two->talk, &byte, 1, MSG_DONTWAIT) != 1) {
        two_check(!pair_is_late(late));
        ucxpool_progress(two->pool);
    }
}

void two_meet(two_t *two)
{
    two_say(two);
    two_hear(two);
}

void two_settle(two_t *two)
{
    uint64_t late = pair_deadline();

    two_meet(two);
    while (!pair_is_whole(two->pool)) {
        two_check(!pair_is_late(late));
        ucxpool_progress(two->pool);
    }
    two_ok(ucxpool_check(two->pool));
    two_meet(two);
}

uint64_t two_count(two_t *two, const char *name)
{
    uint64_t value;

    two_ok(ucxpool_stats_get(two->pool, name, &value));
    return value;
}

uint64_t two_count_of_channel(two_t *two, const char *name)
{
    uint64_t value;

    two_ok(ucxpool_channel_stats_get(two->channel, name, &value));
    return value;
}

uint64_t two_count_of_histogram(two_t *two, const char *name)
{
    ucxpool_histogram_t histogram;

    two_ok(
        ucxpool_histogram_get(two->pool, name, &histogram, sizeof(histogram)));
    return histogram.count;
}

ucxpool_status_t two_finish(two_t *two, ucxpool_request_t *request)
{
    ucxpool_status_t status;
    uint64_t         late = pair_deadline();

    while (!pair_ended(request)) {
        two_check(!pair_is_late(late));
        ucxpool_progress(two->pool);
    }
    status = ucxpool_request_test(request);
    ucxpool_request_release(request);
    return status;
}

void two_progress(two_t *two, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        ucxpool_progress(two->pool);
    }
}

bool two_is_early(ucxpool_status_t status)
{
    return (status == UCXPOOL_OK) || (status == UCXPOOL_ERR_CANCELED) ||
           (status == UCXPOOL_ERR_REFUSED);
}
