/* State that a forked child inherits from a process with pools. */
#include "caught.h"
#include "fds.h"
#include "pair.h"
#include "replace.h"
#include "test.h"
#include "ucx/context.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TAG      UINT64_C(3)
#define ALL_BITS UINT64_MAX
#define LENGTH   100000
#define MAX_FDS  2048
#define MANY     1100 /* more than fit in an fd_set */

/* A child never frees the memory that it inherits from UCX. LeakSanitizer, if
 * linked, calls the function below. */
static pid_t parent;

__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

static pair_t pair;

int __lsan_is_turned_off(void)
{
    return (parent != 0) && (getpid() != parent);
}

static uint8_t target[LENGTH];

static bool is_socket(int fd)
{
    struct stat file;

    return (fstat(fd, &file) == 0) && S_ISSOCK(file.st_mode);
}

static bool listens(int fd)
{
    int       value = 0;
    socklen_t size  = sizeof(value);

    return (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) == 0) &&
           (value != 0);
}

static bool is_epoll(int fd)
{
    char    path[32], name[32];
    ssize_t length;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    length                          = readlink(path, name, sizeof(name) - 1);
    name[(length > 0) ? length : 0] = '\0';
    return strcmp(name, "anon_inode:[eventpoll]") == 0;
}

TEST(forked_child_has_no_connection)
{
    bool  was_socket[MAX_FDS];
    pid_t pid;

    for (int fd = 0; fd < MAX_FDS; fd++) {
        was_socket[fd] = is_socket(fd);
    }
    pair_begin(&pair, "WIRE=ucx", "WIRE=ucx");
    pair_exchange(&pair, LENGTH);
    parent = getpid();
    pid    = fork();
    if (pid == 0) {
        for (int fd = 0; fd < MAX_FDS; fd++) {
            if (is_socket(fd) && !was_socket[fd] && !listens(fd)) {
                _exit(1);
            }
        }
        _exit(0);
    }
    ck_assert_int_eq(test_exit_of(pid), 0);
    pair_exchange(&pair, LENGTH);
}

TEST(a_forked_child_keeps_its_own_descriptors)
{
    int   fds[2];
    pid_t pid;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    pair_begin(&pair, "WIRE=ucx", "WIRE=ucx");
    parent = getpid();
    pid    = fork();
    if (pid == 0) {
        _exit((is_socket(fds[0]) && is_socket(fds[1]) &&
               (write(fds[0], "x", 1) == 1))
                  ? 0
                  : 1);
    }
    ck_assert_int_eq(test_exit_of(pid), 0);
    pair_cleanup(&pair);
    close(fds[0]);
    close(fds[1]);
}

TEST_EACH(child_can_destroy_its_parents_pools, 2)
{
    ucxpool_listener_t *listener;
    pid_t               pid;

    pair_init(&pair, _i ? "WIRE=ucx" : NULL, NULL);
    assert_ok(ucxpool_listener_create(pair.a, "127.0.0.1:0", &listener));
    parent = getpid();
    pid    = fork();
    if (pid == 0) {
        ucxpool_destroy(pair.a);
        ucxpool_destroy(pair.b);
        exit(0);
    }
    ck_assert_int_eq(test_exit_of(pid), 0);
    pair_exchange(&pair, LENGTH);
    pair_cleanup(&pair);
}

/* From now on this process gets no descriptor below MANY. */
static void open_many(void)
{
    fds_limit(MAX_FDS);
    if (fds_limit(MAX_FDS) < MAX_FDS) {
        fprintf(stderr, "the limit on open files is too low\n");
        return;
    }
    for (int fd = 0; fd < MANY;) {
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
    }
}

/* The state letter of a thread: "TID (name) S ...". */
static char thread_state(const char *tid)
{
    char  path[300], line[256] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%s/stat", tid);
    file = fopen(path, "re");
    if (file != NULL) {
        (void)!fread(line, 1, sizeof(line) - 1, file);
        fclose(file);
    }
    return (strrchr(line, ')') != NULL) ? strrchr(line, ')')[2] : 'S';
}

static unsigned num_awake(void)
{
    DIR           *tasks = opendir("/proc/self/task");
    struct dirent *task;
    unsigned       num = 0;

    ck_assert_ptr_nonnull(tasks);
    while ((task = readdir(tasks)) != NULL) {
        num += (task->d_name[0] != '.') && (thread_state(task->d_name) != 'S');
    }
    closedir(tasks);
    return num;
}

/* A fork while UCX's thread is in a call such as mmap() leaves its lock taken
 * in the child (docs/reference/api.md, "Fork"). So wait until all other threads
 * sleep. */
static pid_t fork_asleep(void)
{
    while (num_awake() > 1) {
        sched_yield();
    }
    parent = getpid();
    return fork();
}

static bool is_warned(void)
{
    return strstr(caught_text(), "was forked while its parent had a pool") !=
           NULL;
}

/* One channel of a pool to itself over ucx: does the log contain the fork
 * warning? */
static bool warns_caller(void)
{
    ucxpool_t *pool;

    caught_begin();
    pool = pair_pool("WIRE=ucx LOG_LEVEL=warn");
    pair_meet(pool, pool);
    return is_warned();
}

TEST(child_of_a_process_with_a_pool_logs_a_ucx_warning)
{
    ucxpool_t *pool = pair_pool(NULL);

    for (int i = 0; i < 2; i++) {
        pid_t pid = fork_asleep();

        if (pid == 0) {
            _exit(warns_caller() == (i == 0) ? 0 : 1);
        }
        ck_assert_int_eq(test_exit_of(pid), 0);
        if (i == 0) {
            ucxpool_destroy(pool);
        }
    }
}

static bool     fails_flush;
static unsigned num_rounds; /* of progress until UCX has flushed */
static unsigned num_stalls; /* seconds added to the clock */

REPLACE(ucs_status_ptr_t, ucp_worker_flush_nbx, ucp_worker_h worker,
        const ucp_request_param_t *param)
{
    return fails_flush         ? UCS_STATUS_PTR(UCS_ERR_NO_MEMORY)
           : (num_rounds != 0) ? &num_rounds
                               : __real_ucp_worker_flush_nbx(worker, param);
}

REPLACE(ucs_status_t, ucp_request_check_status, void *request)
{
    if (request != &num_rounds) {
        return __real_ucp_request_check_status(request);
    }
    return (--num_rounds != 0) ? UCS_INPROGRESS : UCS_OK;
}

REPLACE(void, ucp_request_free, void *request)
{
    if (request != &num_rounds) {
        __real_ucp_request_free(request);
    }
}

/* While num_rounds is not 0, a second passes between two calls. */
REPLACE(int, clock_gettime, clockid_t id, struct timespec *now)
{
    int result = __real_clock_gettime(id, now);

    num_stalls += (num_rounds != 0) ? 1 : 0;
    now->tv_sec += num_stalls;
    return result;
}

/* UCX needs a few rounds of progress, between which the process gets no CPU. */
TEST_WITH(destroy_keeps_no_worker_because_of_a_stall, .end = 1,
          .only_if = ucx_asserts_on_answers)
{
    ucxpool_t *pool = pair_pool("LOG_LEVEL=warn");

    caught_begin();
    num_rounds = 3;
    ucxpool_destroy(pool);
    ck_assert_uint_eq(num_rounds, 0);
    ck_assert_str_eq(caught_text(), "");
    caught_end();
}

/* UCX before 1.14 cannot destroy the worker if answers may be pending. */
TEST_WITH(child_of_a_process_that_keeps_a_worker_logs_the_same_warning,
          .end = 1, .only_if = ucx_asserts_on_answers)
{
    pid_t pid;

    fails_flush = true;
    ucxpool_destroy(pair_pool("LOG_LEVEL=error"));
    fails_flush = false;
    pid         = fork_asleep();
    if (pid == 0) {
        _exit(warns_caller() ? 0 : 1);
    }
    ck_assert_int_eq(test_exit_of(pid), 0);
}

/* Accept clients, and write a byte when the log contains the warning. The
 * parent kills this process, because UCX before 1.14 aborts if a peer exits
 * while UCX connects to it. */
static void listen_until_killed(int fd)
{
    pair_t              pools = {.a = NULL};
    ucxpool_listener_t *listener;
    uint16_t            port;

    caught_begin();
    pools.a  = pair_pool("WIRE=ucx LOG_LEVEL=warn");
    listener = pair_listen(pools.a, "127.0.0.1:0");
    port     = ucxpool_listener_port(listener);
    if (write(fd, &port, sizeof(port)) != sizeof(port)) {
        _exit(1);
    }
    for (bool was_warned = false;;) {
        (void)ucxpool_listener_accept(listener, NULL, &pools.to_b);
        ucxpool_progress(pools.a);
        if (!was_warned && is_warned()) {
            was_warned = true;
            if (write(fd, "w", 1) != 1) {
                _exit(1);
            }
        }
    }
}

static bool is_readable(int fd)
{
    struct pollfd input = {.fd = fd, .events = POLLIN};

    return poll(&input, 1, 0) == 1;
}

TEST(child_that_listens_logs_a_ucx_warning)
{
    ucxpool_t *pool = pair_pool("WIRE=ucx");
    uint16_t   port;
    char       byte;
    int        fds[2];
    pid_t      pid;

    ck_assert_int_eq(pipe(fds), 0);
    pid = fork_asleep();
    if (pid == 0) {
        listen_until_killed(fds[1]);
    }
    close(fds[1]);
    ck_assert_int_eq(read(fds[0], &port, sizeof(port)), sizeof(port));
    pair_call(pool, "127.0.0.1", port);
    while (!is_readable(fds[0])) {
        ucxpool_progress(pool);
    }
    ck_assert_int_eq(read(fds[0], &byte, 1), 1);
    ucxpool_destroy(pool);
    test_kill(pid);
    close(fds[0]);
}

TEST_EACH(exec_inherits_no_descriptors, 2)
{
    bool was_open[MAX_FDS];

    if (_i != 0) {
        open_many();
    }
    for (int fd = 0; fd < MAX_FDS; fd++) {
        was_open[fd] = fcntl(fd, F_GETFD) >= 0;
    }
    pair_begin(&pair, "WIRE=ucx", "WIRE=ucx");
    pair_exchange(&pair, LENGTH);
    for (int fd = 0; fd < MAX_FDS; fd++) {
        if (!was_open[fd] && (is_socket(fd) || is_epoll(fd))) {
            ck_assert_msg(fcntl(fd, F_GETFD) & FD_CLOEXEC, "%d", fd);
        }
    }
}

static bool is_inherited(int fd)
{
    return is_socket(fd) && !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

static bool inherits_none_but(const bool *was_open)
{
    for (int fd = 0; fd < MAX_FDS; fd++) {
        if (!was_open[fd] && is_inherited(fd)) {
            return false;
        }
    }
    return true;
}

/* Most open in the pause after a scan of the descriptors. */
TEST(programs_inherit_none_of_many_connections_that_open_at_once)
{
    enum { NUM = 50 };
    bool               was_open[MAX_FDS];
    ucxpool_channel_t *channels[2 * NUM];

    for (int fd = 0; fd < MAX_FDS; fd++) {
        was_open[fd] = fcntl(fd, F_GETFD) >= 0;
    }
    pair_begin(&pair, "WIRE=ucx", "WIRE=ucx");
    for (int i = 0; i < NUM; i++) {
        channels[2 * i]     = pair_meet(pair.a, pair.b);
        channels[2 * i + 1] = pair_meet(pair.b, pair.a);
    }
    for (int i = 0; i < 2 * NUM; i++) {
        pair_until(&pair, pair_is_open(channels[i]));
    }
    pair_until(&pair, inherits_none_but(was_open));
}

/* A peer that forks a child which outlives it. */

/* The child would never exit by itself. */
static void peer_main(uint16_t port, int to)
{
    ucxpool_t         *pool = pair_pool("WIRE=ucx");
    ucxpool_channel_t *channel;
    char               where[32];
    pid_t              pid;

    snprintf(where, sizeof(where), "127.0.0.1:%u", port);
    if ((ucxpool_channel_connect(pool, where, NULL, &channel) != UCXPOOL_OK) ||
        (ucxpool_channel_wait(channel, pair_patience()) != UCXPOOL_OK)) {
        _exit(1);
    }
    parent = getpid();
    pid    = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    if (write(to, &pid, sizeof(pid)) != sizeof(pid)) {
        _exit(2);
    }
    for (;;) {
        ucxpool_wait(pool, UCXPOOL_FOREVER);
    }
}

TEST(surviving_child_does_not_hide_its_parents_death)
{
    ucxpool_t          *pool;
    ucxpool_listener_t *listener;
    ucxpool_channel_t  *channel = NULL;
    ucxpool_request_t  *recv;
    uint16_t            port;
    int                 up[2], down[2];
    pid_t               pid;
    pid_t               grandchild;

    ck_assert_int_eq(pipe(up), 0);
    ck_assert_int_eq(pipe(down), 0);
    parent = getpid();
    pid    = fork();
    if (pid == 0) {
        if (read(down[0], &port, sizeof(port)) != sizeof(port)) {
            _exit(3);
        }
        peer_main(port, up[1]);
    }
    pool = pair_pool("WIRE=ucx");
    assert_ok(ucxpool_listener_create(pool, "127.0.0.1:0", &listener));
    port = ucxpool_listener_port(listener);
    ck_assert_int_eq(write(down[1], &port, sizeof(port)), sizeof(port));
    while (ucxpool_listener_accept(listener, NULL, &channel) != UCXPOOL_OK) {
        ucxpool_wait(pool, 10000000);
    }
    assert_ok(ucxpool_channel_wait(channel, pair_patience()));
    recv = pair_recv(pool, channel, target, LENGTH, TAG);
    ck_assert_int_eq(fcntl(up[0], F_SETFL, O_NONBLOCK), 0);
    while (read(up[0], &grandchild, sizeof(grandchild)) != sizeof(grandchild)) {
        ucxpool_wait(pool, 10000000);
    }
    test_kill(pid);
    /* The child never exits by itself. */
    assert_error(ucxpool_request_wait(recv, pair_patience()), PEER_LOST);
    ck_assert_int_eq(kill(grandchild, SIGKILL), 0);
    ucxpool_destroy(pool);
}
