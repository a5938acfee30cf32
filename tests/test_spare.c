/* UCX aborts a process that is short of descriptors or memory. The pool has to
 * fail first. */
#include "base/limits.h"
#include "core/channel.h"
#include "fds.h"
#include "loopback.h"
#include "pair.h"
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* More connections than a listener leaves descriptors for. */
#define NUM_STRANGERS 12

static ucxpool_status_t try_pool(ucxpool_t **pool_p)
{
    return pair_try_pool(NULL, "COMM_SIZE=1m BLOCK_SIZE=64k WIRE=ucx", pool_p);
}

/* A pool in a process whose file limit is just large enough for it. */
static ucxpool_t *smallest_pool(void)
{
    ucxpool_t *pool;

    for (rlim_t count = 8;; count++) {
        fds_limit(count);
        if (try_pool(&pool) == UCXPOOL_OK) {
            return pool;
        }
        ck_assert_uint_lt(count, 100);
    }
}

static int end_of(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(free_descriptors_are_counted)
{
    int      fds[32];
    unsigned count = 0;

    fds_limit(32);
    while ((fds[count] = dup(0)) >= 0) {
        count++;
    }
    ck_assert_uint_gt(count, 3);
    ck_assert(base_limits_has(0));
    ck_assert(!base_limits_has(1));
    for (unsigned i = 0; i < count; i++) {
        close(fds[i]);
        ck_assert(base_limits_has(i + 1));
        ck_assert(!base_limits_has(i + 2));
    }
}

/* Returns 0 if it was created, and 1 if it failed with a message. */
static int create_with(rlim_t count)
{
    pid_t pid = fork();

    if (pid == 0) {
        ucxpool_t *pool;

        fds_limit(count);
        if (try_pool(&pool) == UCXPOOL_OK) {
            _exit(0);
        }
        _exit(strstr(ucxpool_error_detail(), "ulimit -n") != NULL ? 1 : 2);
    }
    return end_of(pid);
}

TEST(creation_with_few_descriptors_fails_with_a_message)
{
    int    fd = dup(0);
    rlim_t count;
    int    end = 1;

    close(fd);
    for (count = (rlim_t)fd; end == 1; count++) {
        end = create_with(count);
        ck_assert_msg(end <= 1, "with %d descriptors: %d", (int)count, end);
    }
    ck_assert_uint_gt(count, 8);
}

TEST(creation_without_memory_for_a_thread_fails_with_a_message)
{
    struct rlimit    before, limit;
    ucxpool_status_t status;

    ck_assert_int_eq(getrlimit(RLIMIT_DATA, &before), 0);
    limit          = before;
    limit.rlim_cur = 1 << 20;
    ck_assert_int_eq(setrlimit(RLIMIT_DATA, &limit), 0);
    status = base_limits_check_ucx();
    ck_assert_int_eq(setrlimit(RLIMIT_DATA, &before), 0);
    ck_assert_int_eq(status, UCXPOOL_ERR_NO_MEMORY);
    assert_detail("ulimit -d");
    assert_ok(base_limits_check_ucx());
}

/* A listener with the fewest descriptors that a pool can run with. */
static void listener_main(int to)
{
    ucxpool_t          *pool = smallest_pool();
    ucxpool_listener_t *listener;
    ucxpool_channel_t  *channel;
    uint16_t            port;

    if (ucxpool_listener_create(pool, "127.0.0.1:0", &listener) != UCXPOOL_OK) {
        _exit(1);
    }
    port = ucxpool_listener_port(listener);
    if (write(to, &port, sizeof(port)) != sizeof(port)) {
        _exit(2);
    }
    while (ucxpool_listener_accept(listener, NULL, &channel) ==
           UCXPOOL_INPROGRESS) {
        ucxpool_wait(pool, 100000000);
    }
    for (;;) {
        ucxpool_wait(pool, UCXPOOL_FOREVER);
    }
}

TEST(unauthenticated_connections_leave_descriptors_for_a_client)
{
    ucxpool_channel_t *channel;
    ucxpool_t         *pool;
    char               where[32];
    uint16_t           port;
    int                fds[2];
    pid_t              pid;

    ck_assert_int_eq(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        listener_main(fds[1]);
    }
    ck_assert_int_eq(read(fds[0], &port, sizeof(port)), sizeof(port));
    for (int i = 0; i < NUM_STRANGERS; i++) {
        loopback_connect(port);
    }
    pool = pair_pool("WIRE=ucx");
    snprintf(where, sizeof(where), "127.0.0.1:%u", port);
    assert_ok(ucxpool_channel_connect(pool, where, NULL, &channel));
    assert_ok(ucxpool_channel_wait(channel, pair_patience()));
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(end_of(pid), 1000 + SIGKILL);
    ucxpool_destroy(pool);
}

TEST(an_endpoint_without_descriptors_fails_with_a_message)
{
    uint64_t         before;
    ucxpool_status_t status;

    before = fds_limit(0);
    status = base_limits_check_endpoint();
    fds_limit(before);
    ck_assert_int_eq(status, UCXPOOL_ERR_LIMIT);
    assert_detail("ulimit -n");
    assert_ok(base_limits_check_endpoint());
}

/* Does a send HELLO first? The pool with the smaller name does. */
static bool begins(const ucxpool_t *a, const ucxpool_t *b)
{
    return memcmp(a->id, b->id, CORE_ID_SIZE) < 0;
}

TEST(a_channel_without_descriptors_fails_and_names_the_limit)
{
    pair_t                 pair   = {.a = pair_pool("WIRE=ucx LOG_LEVEL=none"),
                                     .b = pair_pool("WIRE=ucx LOG_LEVEL=none")};
    ucxpool_t             *first  = begins(pair.a, pair.b) ? pair.a : pair.b;
    ucxpool_t             *second = (first == pair.a) ? pair.b : pair.a;
    ucxpool_channel_t     *channel;
    ucxpool_channel_attr_t attr;
    uint64_t               before;

    pair_meet(first, second);
    pair_until(&pair, second->wireup.num_early == 1);
    before  = fds_limit(0);
    channel = pair_meet(second, first);
    fds_limit(before);
    attr = pair_attr(channel);
    ck_assert_int_eq(attr.state, UCXPOOL_CHANNEL_FAILED);
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_LIMIT);
    assert_has(attr.reason, "descriptors");
    pair_cleanup(&pair);
}
