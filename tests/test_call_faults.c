/*
 * Two pools connect, exchange messages, files and windows, and are destroyed,
 * while one call of the system, the allocator or UCX fails: the n-th of its
 * kind, for each n, on both wires. Every request ends, bytes reported as moved
 * are right, and no descriptor and no mapping leaks. tests/test_create.c does
 * the same for the creation of a pool.
 */
#include "calls.h"
#include "pair.h"
#include "rounds.h"
#include "test.h"
#include "replace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

static const char *const wires[] = {"WIRE=map", "WIRE=ucx"};
#define NUM_WIRES ((int)(sizeof(wires) / sizeof(wires[0])))

/* --- more calls that fail ------------------------------------------------ */

#define WRAP(...) REPLACE_FAILING(calls_is_due, __VA_ARGS__)

WRAP(CALLS_REALLOC, void *, realloc, NULL, (void *old, size_t size),
     (old, size))
WRAP(CALLS_SOCKET, int, socket, -1, (int domain, int type, int protocol),
     (domain, type, protocol))
WRAP(CALLS_ACCEPT, int, accept4, -1,
     (int fd, struct sockaddr *address, socklen_t *length, int flags),
     (fd, address, length, flags))
WRAP(CALLS_CONNECT, int, connect, -1,
     (int fd, const struct sockaddr *address, socklen_t length),
     (fd, address, length))
WRAP(CALLS_SEND, ssize_t, send, -1,
     (int fd, const void *bytes, size_t length, int flags),
     (fd, bytes, length, flags))
WRAP(CALLS_RECV, ssize_t, recv, -1,
     (int fd, void *bytes, size_t length, int flags),
     (fd, bytes, length, flags))
WRAP(CALLS_SENDMSG, ssize_t, sendmsg, -1,
     (int fd, const struct msghdr *message, int flags), (fd, message, flags))
WRAP(CALLS_RECVMSG, ssize_t, recvmsg, -1,
     (int fd, struct msghdr *message, int flags), (fd, message, flags))
WRAP(CALLS_PREAD, ssize_t, pread, -1,
     (int fd, void *bytes, size_t length, off_t offset),
     (fd, bytes, length, offset))
WRAP(CALLS_PREADV, ssize_t, preadv, -1,
     (int fd, const struct iovec *places, int num, off_t offset),
     (fd, places, num, offset))
WRAP(CALLS_UCP_ARM, ucs_status_t, ucp_worker_arm, UCS_ERR_IO_ERROR,
     (ucp_worker_h worker), (worker))

/* UCX before 1.14 cannot destroy a worker while a peer's connection to it is
 * unfinished. The pool logs that, and the worker leaks. */
static unsigned num_destroyed;

REPLACE(void, ucp_worker_destroy, ucp_worker_h worker)
{
    num_destroyed++;
    __real_ucp_worker_destroy(worker);
}

static const struct {
    calls_name_t name;
    int          error;
} failures[] = {
    {CALLS_MALLOC, ENOMEM},        {CALLS_CALLOC, ENOMEM},
    {CALLS_REALLOC, ENOMEM},       {CALLS_ALIGNED_ALLOC, ENOMEM},
    {CALLS_MMAP, ENOMEM},          {CALLS_MEMFD_CREATE, EMFILE},
    {CALLS_FTRUNCATE, ENOSPC},     {CALLS_FALLOCATE, ENOSPC},
    {CALLS_FCNTL, EMFILE},         {CALLS_OPEN, EMFILE},
    {CALLS_FOPEN, EMFILE},         {CALLS_FSTAT, ENOMEM},
    {CALLS_SYSCALL, EMFILE},       {CALLS_EPOLL_CREATE1, EMFILE},
    {CALLS_EPOLL_CTL, ENOSPC},     {CALLS_RAND_BYTES, EIO},
    {CALLS_SOCKET, EMFILE},        {CALLS_ACCEPT, EMFILE},
    {CALLS_CONNECT, EAGAIN},       {CALLS_SEND, ECONNRESET},
    {CALLS_SEND, EAGAIN},          {CALLS_RECV, ECONNRESET},
    {CALLS_RECV, EAGAIN},          {CALLS_SENDMSG, ENOBUFS},
    {CALLS_RECVMSG, ECONNRESET},   {CALLS_PREAD, EIO},
    {CALLS_PREADV, EIO},           {CALLS_PROCESS_READ, ENOMEM},
    {CALLS_PROCESS_WRITE, ENOMEM}, {CALLS_UCP_AM_SEND, 0},
    {CALLS_UCP_AM_RECV, 0},        {CALLS_UCP_EP_CREATE, 0},
    {CALLS_UCP_MEM_MAP, 0},        {CALLS_UCP_ARM, 0},
};
#define NUM_FAILURES ((int)(sizeof(failures) / sizeof(failures[0])))

/* Check allocates memory itself, so call it only if something is wrong. */
#define require(_condition, ...) \
    do { \
        if (!(_condition)) { \
            calls_reset(); \
            ck_abort_msg("%s: " __VA_ARGS__, #_condition); \
        } \
    } while (0)

/* Progress both pools until the condition holds. */
#define until(_condition, _what) \
    do { \
        uint64_t until_ = pair_deadline(); \
        while (!(_condition)) { \
            progress(); \
            require(!pair_is_late(until_), _what); \
        } \
    } while (0)

/* --- one pair of pools --------------------------------------------------- */

#define LONG     ((size_t)300000)
#define SHORT    ((size_t)3000)
#define ON_FILE  ((size_t)30000)
#define NUM_BOTH 3 /* messages, each a send and a receive */
#define EVERY    UINT64_MAX

/* b listens, and owns the window. */
static pair_t                   pair;
static ucxpool_window_t        *window;
static ucxpool_remote_window_t *remote;
static int                      file;
static uint8_t                  source[LONG], owned[LONG];
static uint8_t                  targets[NUM_BOTH][LONG], read_here[LONG];

static void progress(void)
{
    ucxpool_progress(pair.a);
    ucxpool_progress(pair.b);
}

static bool is_opening(ucxpool_listener_t *listener)
{
    if (pair.to_a == NULL) {
        (void)ucxpool_listener_accept(listener, NULL, &pair.to_a);
    }
    return pair_attr(pair.to_b).state == UCXPOOL_CHANNEL_CONNECTING;
}

/* Are both ends open? A channel that failed to open must have a reason. */
static bool open_channels(void)
{
    ucxpool_listener_t *listener;
    char                where[32];
    bool                is_open = false;

    pair.to_a = NULL;
    pair.to_b = NULL;
    if (ucxpool_listener_create(pair.b, "127.0.0.1:0", &listener) !=
        UCXPOOL_OK) {
        return false;
    }
    snprintf(where, sizeof(where), "127.0.0.1:%u",
             ucxpool_listener_port(listener));
    if (ucxpool_channel_connect(pair.a, where, NULL, &pair.to_b) ==
        UCXPOOL_OK) {
        until(!is_opening(listener), "the channel stays CONNECTING");
        is_open = (pair_attr(pair.to_b).state == UCXPOOL_CHANNEL_OPEN) &&
                  (pair.to_a != NULL);
        require(is_open || (pair_attr(pair.to_b).reason[0] != '\0'),
                "the channel gives no reason");
    }
    ucxpool_listener_destroy(listener);
    return is_open;
}

static bool has_ended(const ucxpool_request_t *request)
{
    return (request == NULL) || pair_ended(request);
}

static ucxpool_status_t take(ucxpool_request_t *request)
{
    ucxpool_request_attr_t attr;
    ucxpool_status_t       status = UCXPOOL_ERR_NO_MEMORY; /* not posted */

    if (request != NULL) {
        ucxpool_request_query(request, &attr, sizeof(attr));
        require((attr.status == UCXPOOL_OK) || (attr.detail[0] != '\0'),
                "the request gives no reason");
        status = attr.status;
    }
    ucxpool_request_release(request);
    return status;
}

static void post_receives(ucxpool_request_t **requests)
{
    static const size_t sizes[NUM_BOTH] = {LONG, SHORT, LONG};

    for (int i = 0; i < NUM_BOTH; i++) {
        bool at_b = i != 1;

        memset(targets[i], 0, LONG);
        if (ucxpool_recv_buffer(at_b ? pair.b : pair.a,
                                at_b ? pair.to_a : pair.to_b, targets[i],
                                sizes[i], (uint64_t)i, EVERY, NULL,
                                &requests[i]) != UCXPOOL_OK) {
            requests[i] = NULL;
        }
    }
}

static void post_sends(ucxpool_request_t **requests)
{
    ucxpool_range_t range = ucxpool_range_file(file, 0, ON_FILE, NULL);
    ucxpool_data_t  datas[NUM_BOTH] = {
         ucxpool_source_buffer(source, LONG),
         ucxpool_source_buffer(source, SHORT),
         ucxpool_source_ranges(&range, 1),
    };

    for (int i = 0; i < NUM_BOTH; i++) {
        if (ucxpool_send((i == 1) ? pair.to_a : pair.to_b, &datas[i],
                         (uint64_t)i, NULL, &requests[i]) != UCXPOOL_OK) {
            requests[i] = NULL;
        }
    }
}

/* If one side has failed or was not posted, the other may never end. */
static void cancel_other(ucxpool_request_t *request, ucxpool_request_t *other)
{
    if ((request == NULL) || (pair_ended(request) &&
                              (ucxpool_request_test(request) != UCXPOOL_OK))) {
        ucxpool_request_cancel(other);
    }
}

static void exchange(void)
{
    static const size_t sizes[NUM_BOTH] = {LONG, SHORT, ON_FILE};
    ucxpool_request_t  *sends[NUM_BOTH], *receives[NUM_BOTH];

    post_receives(receives);
    post_sends(sends);
    for (int i = 0; i < NUM_BOTH; i++) {
        until((cancel_other(receives[i], sends[i]),
               cancel_other(sends[i], receives[i]),
               has_ended(sends[i]) && has_ended(receives[i])),
              "a message does not complete");
        (void)take(sends[i]);
        require((take(receives[i]) != UCXPOOL_OK) ||
                    (memcmp(targets[i], source, sizes[i]) == 0),
                "the bytes of a message are wrong");
    }
}

static void operate(bool is_write)
{
    ucxpool_place_t    lengths[] = {{1000, 1000}, {5000, 100000}};
    ucxpool_places_t   places    = ucxpool_places(lengths, 2);
    uint8_t           *here      = is_write ? source : read_here;
    ucxpool_data_t     data      = ucxpool_data_buffer(here, 101000);
    ucxpool_request_t *request;

    if ((is_write ? ucxpool_remote_window_write(remote, &places, &data, NULL,
                                                &request)
                  : ucxpool_remote_window_read(remote, &places, &data, NULL,
                                               &request)) != UCXPOOL_OK) {
        return;
    }
    until(pair_ended(request), "a window operation does not complete");
    require((take(request) != UCXPOOL_OK) ||
                ((memcmp(here, owned + 1000, 1000) == 0) &&
                 (memcmp(here + 1000, owned + 5000, 100000) == 0)),
            "the bytes of a window are wrong");
}

static void use_window(void)
{
    uint8_t blob[UCXPOOL_WINDOW_BLOB_SIZE];

    if (ucxpool_window_create(pair.b, owned, LONG, NULL, &window) !=
        UCXPOOL_OK) {
        return;
    }
    if ((ucxpool_window_export(window,
                               UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE,
                               blob) == UCXPOOL_OK) &&
        (ucxpool_remote_window_import(pair.to_b, blob, sizeof(blob), &remote) ==
         UCXPOOL_OK)) {
        operate(false);
        operate(true);
        ucxpool_remote_window_release(remote);
    }
    until(ucxpool_window_revoke(window, 0) == UCXPOOL_OK,
          "the window is not released");
    ucxpool_window_destroy(window);
}

/* Did everything succeed? */
static bool live(void)
{
    bool is_open = open_channels();

    if (is_open) {
        exchange();
        use_window();
        is_open = (pair_attr(pair.to_a).state == UCXPOOL_CHANNEL_OPEN) &&
                  (pair_attr(pair.to_b).state == UCXPOOL_CHANNEL_OPEN);
    }
    (void)ucxpool_wait(pair.a, 1000);
    ucxpool_channel_close(pair.to_b);
    ucxpool_channel_close(pair.to_a);
    progress();
    return is_open;
}

/* Count memory files only. Other reservations may be malloc() arenas of UCX's
 * thread. */
static unsigned num_mappings(void)
{
    FILE    *maps = fopen("/proc/self/maps", "re");
    unsigned num  = 0;
    char     line[512];

    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        num += (strstr(line, "memfd:") != NULL) ? 1 : 0;
    }
    fclose(maps);
    return num;
}

static void make_pools(int wire)
{
    pair.a = pair_pool(wires[wire]);
    pair.b = pair_pool(wires[wire]);
}

static void destroy_pools(void)
{
    ucxpool_destroy(pair.a);
    ucxpool_destroy(pair.b);
}

/* --- every n -------------------------------------------------------------- */

/* If a channel fails while UCX connects, the next one between the same pools
 * may fail too (docs/known-issues.md). The one after it must work. */
static bool live_again(int wire)
{
    return live() || ((wire != 0) && live());
}

/* Did the n-th call fail? */
static bool live_with_failure(int wire, int failure, unsigned n)
{
    bool has_failed, was_well;

    make_pools(wire);
    calls_fail(failures[failure].name, n, failures[failure].error);
    was_well   = live();
    has_failed = calls_has_failed();
    if (has_failed) {
        calls_reset();
        ck_assert_msg(live_again(wire),
                      "call %u: the channel cannot be created again", n);
    }
    destroy_pools();
    has_failed |= calls_has_failed();
    calls_reset();
    ck_assert(has_failed || was_well);
    return has_failed;
}

static void prepare(void)
{
    char name[] = "/tmp/ucxpool-call-faults-XXXXXX";

    pair_fill(source, sizeof(source));
    pair_fill(owned, sizeof(owned));
    file = mkstemp(name);
    ck_assert_int_ge(file, 0);
    unlink(name);
    ck_assert_int_eq(write(file, source, ON_FILE), (ssize_t)ON_FILE);
}

TEST_SETTINGS(.teardown = calls_reset, .timeout = 300);

TEST_EACH(every_request_ends_whichever_call_fails, NUM_WIRES *NUM_FAILURES)
{
    int      wire    = _i / NUM_FAILURES;
    int      failure = _i % NUM_FAILURES;
    unsigned step    = rounds_are_few() ? 5 : 1;
    unsigned n       = 1;
    unsigned num_fds;
    unsigned mapped;

    prepare();
    /* Let UCX make its one-time allocations now. */
    (void)live_with_failure(wire, failure, 0);
    (void)live_with_failure(wire, failure, 0);
    num_fds       = fds_count();
    mapped        = num_mappings();
    num_destroyed = 0;
    while (live_with_failure(wire, failure, n)) {
        if (num_destroyed != 2) {
            num_fds = fds_count();
            mapped  = num_mappings();
        }
        num_destroyed = 0;
        ck_assert_msg(fds_count() == num_fds,
                      "call %u leaves %u descriptors, there were %u", n,
                      fds_count(), num_fds);
        ck_assert_msg(num_mappings() == mapped,
                      "call %u leaves %u mappings, there were %u", n,
                      num_mappings(), mapped);
        n += step;
    }
    close(file);
}
