/*
 * Two processes in different namespaces, like containers of one host. The child
 * is process 1 of its own PID namespace, and cannot see its parent.
 */
#include <config.h>

#include "pair.h"
#include "rounds.h"
#include "sealed.h"
#include "test.h"
#include "two.h"
#include "replace.h"

#include "base/clock.h"
#include "core/channel.h"
#include "core/remote.h"
#include "ipc/host.h"
#include "ipc/socket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define TAG  UINT64_C(0x77)
#define SIZE ((size_t)3 << 20)

#define NAMESPACES (CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS)

/* The user of both processes, if the child has a user namespace. There the
 * child is root. */
#define USER 12345

/* The namespaces that the child leaves in addition. Without a common network
 * namespace, the two share a directory. */
static const int others[] = {0, CLONE_NEWNET, CLONE_NEWUSER,
                             CLONE_NEWNET | CLONE_NEWUSER};

#define NUM_OTHERS (has_user_namespaces() ? 4 : 2)

static int  left;          /* one of them */
static char folder[32];    /* of sockets */
static bool is_old_kernel; /* before 6.5 */

REPLACE(int, getsockopt, int fd, int level, int name, void *value,
        socklen_t *size)
{
    if (is_old_kernel && (level == SOL_SOCKET) && (name == SO_PEERPIDFD)) {
        errno = ENOPROTOOPT;
        return -1;
    }
    return __real_getsockopt(fd, level, name, value, size);
}

static bool is_over_ucx;  /* no connection within the host */
static bool has_impostor; /* in the network namespace of each side */

REPLACE(ucxpool_status_t, core_local_connect, ucxpool_channel_t *channel)
{
    int fd;

    if (has_impostor) {
        /* No thread accepts connections of this socket. */
        ipc_socket_listen("", channel->conn.remote->blob.id, &fd);
    }
    return is_over_ucx ? UCXPOOL_ERR_UNSUPPORTED
                       : __real_core_local_connect(channel);
}

/* Become this user, in a user namespace that maps it to root. */
static bool become_root_of_namespace(void)
{
    static const char map[] = "0 12345 1";
    int               fd;
    bool              is_mapped;

    if ((setresuid(USER, USER, USER) != 0) ||
        (prctl(PR_SET_DUMPABLE, 1) != 0) || (unshare(CLONE_NEWUSER) != 0)) {
        return false;
    }
    fd        = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    is_mapped = (fd >= 0) && (write(fd, map, strlen(map)) > 0);
    close(fd);
    return is_mapped && (geteuid() == 0);
}

static bool succeeds_in_child(bool (*what)(void))
{
    int   status = 1;
    pid_t child  = fork();

    if (child == 0) {
        _exit(what() ? 0 : 1);
    }
    return (waitpid(child, &status, 0) == child) && (status == 0);
}

static bool has_user_namespaces(void)
{
    return succeeds_in_child(become_root_of_namespace);
}

static bool reports_end(void)
{
    int sockets[2];
    int fd;

    return (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0) &&
           (ipc_socket_watch(sockets[0], &fd) == 0);
}

static bool leave_all(void)
{
    return (unshare(CLONE_NEWPID | CLONE_NEWNET | NAMESPACES) == 0) &&
           reports_end();
}

/* Returns true if this process may create namespaces, and the kernel reports
 * the end of a process in another one. */
static bool has_namespaces(void)
{
    return succeeds_in_child(leave_all);
}

static void make_folder(void)
{
    strcpy(folder, "/tmp/ucxpool-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

/* Pools that were destroyed leave no file. A killed child leaves one. */
static void remove_folder(void)
{
    ck_assert_int_eq(rmdir(folder), 0);
}

TEST_SETTINGS(.before_fork = pair_warm_up, .only_if = has_namespaces,
              .setup = make_folder, .teardown = remove_folder,
              .timeout = 60 + 2 * rounds(10));

static void start_loopback(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int          fd      = socket(AF_INET, SOCK_DGRAM, 0);

    two_check(ioctl(fd, SIOCSIFFLAGS, &request) == 0);
    close(fd);
}

/* The child leaves the parent's other namespaces. The parent's threads and
 * later children belong to its own PID namespace again. */
static void leave(void)
{
    if (getpid() == 1) {
        two_check(unshare(NAMESPACES | (left & CLONE_NEWNET)) == 0);
        if (left & CLONE_NEWNET) {
            start_loopback();
        }
        two_check(mount("none", "/", "", MS_REC | MS_PRIVATE, NULL) == 0);
        two_check(mount("proc", "/proc", "proc", 0, NULL) == 0);
        two_check(!(left & CLONE_NEWUSER) || become_root_of_namespace());
    } else {
        int fd = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);

        two_check(setns(fd, CLONE_NEWPID) == 0);
        close(fd);
        if (left & CLONE_NEWUSER) {
            two_check(setresuid(USER, USER, USER) == 0);
            two_check(prctl(PR_SET_DUMPABLE, 1) == 0);
        }
    }
}

static void start_with(two_t *two, int other, const char *more)
{
    char settings[128];

    left = others[other];
    snprintf(settings, sizeof(settings), "WIRE=map %s %s%s", more,
             (left & CLONE_NEWNET) ? "SOCKET_DIR=" : "",
             (left & CLONE_NEWNET) ? folder : "");
    two_check(!(left & CLONE_NEWUSER) || (chown(folder, USER, USER) == 0));
    two_check(unshare(CLONE_NEWPID) == 0);
    two_init_after(two, settings, leave);
    two_check(pair_attr(two->channel).wire == UCXPOOL_WIRE_MAP);
}

static void start(two_t *two, int other)
{
    start_with(two, other, "");
}

static ucxpool_request_t *post(two_t *two, uint8_t *bytes, bool is_send)
{
    ucxpool_request_t *request;

    two_ok(is_send ? ucxpool_send_buffer(two->channel, bytes, SIZE, TAG, NULL,
                                         &request)
                   : ucxpool_recv_buffer(two->pool, two->channel, bytes, SIZE,
                                         TAG, UINT64_MAX, NULL, &request));
    return request;
}

/* Each side sends its bytes, and receives the other's. */
typedef struct exchange {
    uint8_t           *source;
    uint8_t           *target;
    ucxpool_request_t *send;
    ucxpool_request_t *recv;
} exchange_t;

static void exchange_start(two_t *two, exchange_t *exchange, unsigned number)
{
    exchange->source = malloc(SIZE);
    exchange->target = malloc(SIZE);
    pair_fill_of(exchange->source, SIZE, two->is_child, number);
    exchange->send = post(two, exchange->source, true);
    exchange->recv = post(two, exchange->target, false);
}

static void exchange_release(exchange_t *exchange)
{
    ucxpool_request_release(exchange->send);
    ucxpool_request_release(exchange->recv);
    free(exchange->source);
    free(exchange->target);
}

/* Sleep until the bytes have arrived. */
static void exchange_finish(two_t *two, exchange_t *exchange, unsigned number)
{
    two_ok(ucxpool_request_wait(exchange->recv, pair_patience()));
    two_ok(ucxpool_request_wait(exchange->send, pair_patience()));
    pair_fill_of(exchange->source, SIZE, !two->is_child, number);
    two_check(memcmp(exchange->target, exchange->source, SIZE) == 0);
    exchange_release(exchange);
}

static void exchange(two_t *two)
{
    exchange_t one;

    exchange_start(two, &one, 0);
    exchange_finish(two, &one, 0);
}

static void exchange_and_end(two_t *two)
{
    exchange(two);
    two_settle(two);
    two_cleanup(two);
}

TEST_EACH(containers_map_and_wake_each_other, NUM_OTHERS)
{
    two_t two;

    start(&two, _i);
    exchange_and_end(&two);
}

TEST(a_socket_with_the_peers_abstract_name_is_not_used)
{
    two_t two;

    has_impostor = true;
    start(&two, 1);
    exchange_and_end(&two);
}

TEST(a_handshake_over_ucx_watches_the_peer_too)
{
    two_t two;

    is_over_ucx = true;
    start(&two, 0);
    two_check(two.channel->peer.watch.fd >= 0);
    exchange_and_end(&two);
}

/* The child's user has the parent's number, but in another user namespace. */
TEST_EACH(a_child_does_not_use_its_parents_user_map, NUM_OTHERS)
{
    ipc_host_t host;
    two_t      two;

    ipc_host_fill(&host);
    start(&two, _i);
    exchange_and_end(&two);
}

/* Process 1 of a PID namespace. Returns true if all children have succeeded. */
static bool await_children(void)
{
    bool is_good = true;
    int  status;

    while (wait(&status) > 0) {
        is_good = is_good && (status == 0);
    }
    return is_good;
}

/* Set the PID of the next process of this PID namespace. */
static bool set_next_pid(pid_t pid)
{
    int fd     = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
    int length = dprintf(fd, "%d", (int)pid - 1);

    close(fd);
    return length > 0;
}

/* A descendant of a process gets its PID, after it has ended and a clock tick
 * has passed. */
static bool knows_its_start_time(void)
{
    const struct timespec ticks = {.tv_nsec = 30000000};
    ipc_host_t            host;
    pid_t                 first;

    if (mount("proc", "/proc", "proc", 0, NULL) != 0) {
        return false;
    }
    if (fork() != 0) {
        return await_children();
    }
    ipc_host_fill(&host);
    first = getpid();
    if (fork() != 0) {
        _exit(0);
    }
    while (kill(first, 0) == 0) {
        sched_yield();
    }
    nanosleep(&ticks, NULL);
    if (!set_next_pid(first)) {
        _exit(1);
    }
    if (fork() != 0) {
        _exit(await_children() ? 0 : 1);
    }
    ipc_host_fill(&host);
    _exit((getpid() == first) && ipc_host_is_alive(&host) ? 0 : 1);
}

static bool knows_its_start_time_in_a_namespace(void)
{
    return (unshare(CLONE_NEWPID | NAMESPACES) == 0) &&
           (mount("none", "/", "", MS_REC | MS_PRIVATE, NULL) == 0) &&
           succeeds_in_child(knows_its_start_time);
}

TEST(a_descendant_with_the_pid_of_an_ancestor_has_its_own_start_time)
{
    ck_assert(succeeds_in_child(knows_its_start_time_in_a_namespace));
}

TEST(an_old_kernel_uses_the_ucx_wire)
{
    two_t two;

    is_old_kernel = true;
    two_check(unshare(CLONE_NEWPID) == 0);
    two_init_after(&two, "LOG_LEVEL=error", leave);
    two_check(pair_attr(two.channel).wire == UCXPOOL_WIRE_UCX);
    two_check(strstr(pair_attr(two.channel).wire_reason,
                     "its process cannot be watched (needs Linux 6.5)") !=
              NULL);
    exchange_and_end(&two);
}

/* --- windows -------------------------------------------------------------- */

/* The child exports a window of its memory. */
static void export(two_t *two, uint8_t *memory, int fd)
{
    const ucxpool_window_params_t params = {
        .field_mask = (fd >= 0) ? UCXPOOL_WINDOW_PARAM_FIELD_FD : 0,
        .fd         = fd,
    };
    ucxpool_window_t *window;

    memset(memory, 5, SIZE);
    two_ok(ucxpool_window_create(two->pool, memory, SIZE, &params, &window));
    two_export(two, window);
    two_hear(two);
    two_check(pair_is_all(memory, SIZE, 6));
    ucxpool_window_destroy(window);
}

/* The parent reads the window and writes to it. */
static void import(two_t *two, ucxpool_way_t way, const char *reason)
{
    ucxpool_remote_window_attr_t attr;
    ucxpool_remote_window_t     *remote;
    uint64_t                     offset = 0;
    ucxpool_places_t             places = ucxpool_places_even(&offset, 1, SIZE);
    uint8_t                     *bytes  = malloc(SIZE);
    ucxpool_data_t               data   = ucxpool_data_buffer(bytes, SIZE);
    ucxpool_request_t           *request;

    remote = two_import(two);
    two_ok(ucxpool_remote_window_read(remote, &places, &data, NULL, &request));
    two_ok(two_finish(two, request));
    ucxpool_remote_window_query(remote, &attr, sizeof(attr));
    two_check(attr.way == way);
    two_check(strstr(attr.way_reason, reason) != NULL);
    two_check(pair_is_all(bytes, SIZE, 5));
    memset(bytes, 6, SIZE);
    two_ok(ucxpool_remote_window_write(remote, &places, &data, NULL, &request));
    two_ok(two_finish(two, request));
    ucxpool_remote_window_release(remote);
    two_say(two);
    free(bytes);
}

TEST_EACH(containers_map_a_window_of_a_file, NUM_OTHERS)
{
    two_t    two;
    int      fd;
    uint8_t *memory;

    start(&two, _i);
    if (two.is_child) {
        memory = sealed_get(SIZE, &fd);
        export(&two, memory, fd);
        sealed_put(memory, SIZE);
    } else {
        import(&two, UCXPOOL_WAY_MAPPED, "same host and user");
    }
    two_settle(&two);
    two_cleanup(&two);
}

/* The owner's PID, 1, is that of another process for the importer. */
TEST_EACH(containers_access_private_memory_with_messages, NUM_OTHERS)
{
    two_t    two;
    uint8_t *memory;

    start(&two, _i);
    if (two.is_child) {
        memory = malloc(SIZE);
        export(&two, memory, -1);
        free(memory);
    } else {
        import(&two, UCXPOOL_WAY_MESSAGES, "other PID namespace");
    }
    two_settle(&two);
    two_cleanup(&two);
}

/* --- ends and stops ------------------------------------------------------- */

/* Remove the socket of a killed child. */
static void remove_files(void)
{
    DIR           *files = opendir(folder);
    struct dirent *entry;

    while ((entry = readdir(files)) != NULL) {
        unlinkat(dirfd(files), entry->d_name, 0);
    }
    closedir(files);
}

static void kill_child(const two_t *two)
{
    ck_assert_int_eq(kill(two->child, SIGKILL), 0);
}

/* The end of the killed child has been detected. */
static void clean_up_after_child(two_t *two)
{
    int status;

    two_survive(two);
    ck_assert_int_eq(waitpid(two->child, &status, 0), two->child);
    ck_assert(WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL));
    remove_files();
}

TEST_EACH(the_end_of_a_container_is_detected_and_frees_blocks, NUM_OTHERS)
{
    two_t              two;
    uint8_t           *bytes = calloc(1, SIZE);
    ucxpool_request_t *send;

    start(&two, _i);
    if (two.is_child) {
        pause();
    }
    send = post(&two, bytes, true);
    two_progress(&two, 100);
    ck_assert(!pair_ended(send));
    kill_child(&two);
    ck_assert_int_eq(ucxpool_request_wait(send, pair_patience()),
                     UCXPOOL_ERR_PEER_LOST);
    ck_assert_int_eq(pair_attr(two.channel).status, UCXPOOL_ERR_PEER_LOST);
    ucxpool_request_release(send);
    clean_up_after_child(&two);
    free(bytes);
}

/* Kill the child, which exchanges data with this process, at a random moment.
 * Returns the time in nanoseconds until this process detects its end. */
static uint64_t kill_and_detect(two_t *two)
{
    int        num_exchanges = rand() % 4;
    exchange_t last;
    uint64_t   killed;
    uint64_t   detected;

    for (int i = 0; i < num_exchanges; i++) {
        exchange(two);
    }
    exchange_start(two, &last, 0);
    two_progress(two, rand() % 500);
    killed = base_clock_now();
    kill_child(two);
    while (pair_attr(two->channel).status == UCXPOOL_OK) {
        ck_assert_int_ge(ucxpool_wait(two->pool, pair_patience()), 0);
    }
    detected = base_clock_now();
    ck_assert_int_eq(pair_attr(two->channel).status, UCXPOOL_ERR_PEER_LOST);
    ck_assert(pair_ended(last.send) && pair_ended(last.recv));
    exchange_release(&last);
    return detected - killed;
}

static int compare(const void *a, const void *b)
{
    uint64_t one   = *(const uint64_t *)a;
    uint64_t other = *(const uint64_t *)b;

    return (one > other) - (one < other);
}

/* The peer's end is detected at once, not after PEER_TIMEOUT. */
TEST(a_container_killed_at_any_moment_is_detected)
{
    unsigned  num   = rounds(10);
    uint64_t *times = calloc(num, sizeof(*times));
    two_t     two;

    for (unsigned i = 0; i < num; i++) {
        srand(i);
        start_with(&two, 1, "PEER_TIMEOUT=1h");
        while (two.is_child) {
            exchange(&two);
        }
        times[i] = kill_and_detect(&two);
        clean_up_after_child(&two);
    }
    qsort(times, num, sizeof(*times), compare);
    printf("%u killed containers were detected after %.3f ms (median), "
           "%.3f ms (99 %%), %.3f ms (maximum)\n",
           num, (double)times[num / 2] / 1e6,
           (double)times[num * 99 / 100] / 1e6, (double)times[num - 1] / 1e6);
    free(times);
}

/* Stop the child for about three PEER_TIMEOUTs of one second. */
static void stop_for_a_while(two_t *two)
{
    uint64_t until;

    ck_assert_int_eq(kill(two->child, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(two->child, NULL, WUNTRACED), two->child);
    until = base_clock_now() + UINT64_C(1000000) * (2500 + rand() % 1000);
    while (base_clock_now() < until) {
        ucxpool_wait(two->pool, 10000000);
    }
    ck_assert_int_eq(pair_attr(two->channel).state, UCXPOOL_CHANNEL_OPEN);
    ck_assert_int_eq(kill(two->child, SIGCONT), 0);
}

TEST_EACH(a_container_stopped_at_any_moment_is_not_lost, NUM_OTHERS)
{
    unsigned   num = (rounds(10) + 9) / 10; /* a round takes three seconds */
    two_t      two;
    exchange_t one;

    start_with(&two, _i, "PEER_TIMEOUT=1s");
    for (unsigned i = 0; i < num; i++) {
        exchange_start(&two, &one, i);
        if (!two.is_child) {
            two_progress(&two, rand() % 500);
            stop_for_a_while(&two);
        }
        exchange_finish(&two, &one, i);
    }
    two_settle(&two);
    two_cleanup(&two);
}
