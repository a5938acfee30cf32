#include "two.h"

#include "pair.h"

#include <check.h>
#include <signal.h>
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

void two_send(two_t *two, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    ssize_t        num;

    /* A process that was stopped and continues may send fewer bytes. */
    for (; length > 0; length -= (size_t)num) {
        num = send(two->talk, at, length, MSG_NOSIGNAL);
        two_check(num > 0);
        at += num;
    }
}

void two_recv(two_t *two, void *bytes, size_t length)
{
    uint8_t *at = bytes;
    ssize_t  num;

    /* The same. */
    for (; length > 0; length -= (size_t)num) {
        num = recv(two->talk, at, length, MSG_WAITALL);
        two_check(num > 0);
        at += num;
    }
}

ucxpool_channel_t *two_create_channel(two_t *two, ucxpool_t *pool)
{
    ucxpool_channel_params_t params = {
        .field_mask = UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS,
    };
    ucxpool_channel_t *channel;
    void              *mine;
    void              *theirs;
    size_t             length;

    two_ok(ucxpool_address_get(pool, &mine, &length));
    two_send(two, &length, sizeof(length));
    two_send(two, mine, length);
    ucxpool_address_release(mine);
    two_recv(two, &length, sizeof(length));
    theirs = malloc(length);
    two_recv(two, theirs, length);
    params.address        = theirs;
    params.address_length = length;
    two_ok(ucxpool_channel_create(pool, &params, &channel));
    free(theirs);
    return channel;
}

static void connect_pools(two_t *two)
{
    two->channel = two_create_channel(two, two->pool);
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

void two_kill(two_t *two)
{
    int status;

    two_check(kill(two->child, SIGKILL) == 0);
    while (waitpid(two->child, &status, WNOHANG) == 0) {
        ucxpool_wait(two->pool, 1000000);
    }
    two_check(WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL));
}

void two_await_blocks(two_t *two)
{
    uint64_t late = pair_deadline();

    while (!pair_is_whole(two->pool)) {
        ucxpool_wait(two->pool, 1000000);
        two_check(!pair_is_late(late));
    }
    two_ok(ucxpool_check(two->pool));
}

void two_survive(two_t *two)
{
    two_await_blocks(two);
    ucxpool_destroy(two->pool);
    close(two->talk);
}

void two_say(two_t *two)
{
    two_send(two, "x", 1);
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
    two_meet(two);
    two_await_blocks(two);
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

void two_finish_all(two_t *two, ucxpool_request_t **requests, size_t num)
{
    for (size_t i = 0; i < num; i++) {
        two_ok(two_finish(two, requests[i]));
    }
}

void two_progress(two_t *two, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        ucxpool_progress(two->pool);
    }
}

void two_export(two_t *two, ucxpool_window_t *window)
{
    uint8_t blob[UCXPOOL_WINDOW_BLOB_SIZE];

    two_ok(ucxpool_window_export(window, PAIR_READ_AND_WRITE, blob));
    two_send(two, blob, sizeof(blob));
}

ucxpool_remote_window_t *two_import(two_t *two)
{
    uint8_t                  blob[UCXPOOL_WINDOW_BLOB_SIZE];
    ucxpool_remote_window_t *remote;

    two_recv(two, blob, sizeof(blob));
    two_ok(ucxpool_remote_window_import(two->channel, blob, sizeof(blob),
                                        &remote));
    return remote;
}

ucxpool_remote_window_attr_t
two_import_ended(two_t *two, const ucxpool_remote_window_t *remote)
{
    uint64_t late = pair_deadline();

    while (pair_remote_attr(remote).status == UCXPOOL_INPROGRESS) {
        two_check(!pair_is_late(late));
        ucxpool_wait(two->pool, 1000000);
    }
    return pair_remote_attr(remote);
}

bool two_is_early(ucxpool_status_t status)
{
    return (status == UCXPOOL_OK) || (status == UCXPOOL_ERR_CANCELED) ||
           (status == UCXPOOL_ERR_REFUSED);
}
