/*
 * Descriptors of a pool's memory, where the system does not allow a peer to
 * take them with pidfd_getfd(): the peer requests them over a socket.
 */
#include <config.h>

#include "core/channel.h"
#include "core/remote.h"
#include "forbid.h"
#include "ipc/socket.h"
#include "caught.h"
#include "net_calls.h"
#include "pair.h"
#include "sealed.h"
#include "rounds.h"
#include "test.h"
#include "two.h"
#include "replace.h"
#include "wireup/wireup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAG      UINT64_C(0x77)
#define ALL_BITS UINT64_MAX
#define LENGTH   200000u

/* More regions than one message has descriptors. */
#define MANY "REGION_SIZE=64k BLOCK_SIZE=64k COMM_SIZE=5m"

#define HANDSHAKE_OVER UINT64_C(31000000000)

static pair_t pair;

static bool is_settled(void)
{
    return (pair_attr(pair.to_a).state != UCXPOOL_CHANNEL_CONNECTING) &&
           (pair_attr(pair.to_b).state != UCXPOOL_CHANNEL_CONNECTING);
}

static void check_wire(ucxpool_wire_t wire)
{
    ck_assert_msg((pair_attr(pair.to_a).wire == wire) &&
                      (pair_attr(pair.to_b).wire == wire),
                  "%s; %s", pair_attr(pair.to_a).wire_reason,
                  pair_attr(pair.to_b).wire_reason);
}

/* How the test changes the messages between the two; see the wraps below. */
typedef enum trick {
    NO_TRICK,
    FEWER_THAN_SAID,
    MORE_THAN_SAID,
    ANOTHER_TOTAL,
    ANOTHER_FIRST,
    ANOTHER_VERSION,
    ANOTHER_FILE,
    UNSEALED_FILE,
    SHORT_MESSAGE,
    LAST_TRICK,
    DIES
} trick_t;

static trick_t  trick;
static bool     fakes_owner, fakes_caller;
static uint32_t add_pid, add_uid;
static unsigned num_too_many; /* answers that fail with ETOOMANYREFS */

/* The owner's end of a connection has an address, the caller's has none. */
static bool is_owners(int fd)
{
    struct sockaddr_un address;
    socklen_t          length = sizeof(address);

    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    return length > sizeof(address.sun_family);
}

REPLACE(int, ipc_socket_caller, int fd, ipc_caller_t *caller_p)
{
    int error = __real_ipc_socket_caller(fd, caller_p);

    if (is_owners(fd) ? fakes_caller : fakes_owner) {
        caller_p->pid += add_pid;
        caller_p->uid += add_uid;
    }
    return error;
}

static int open_trick_file(void)
{
    int fd = -1;

    if (trick == ANOTHER_FILE) {
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    } else if (trick == UNSEALED_FILE) {
        fd = memfd_create("trick", MFD_CLOEXEC);
        ck_assert_int_eq(ftruncate(fd, 1 << 20), 0);
    }
    return fd;
}

REPLACE(int, ipc_socket_send, int fd, const void *data, size_t size,
        const int *fds, unsigned num_fds)
{
    proto_given_t given;
    int           all[IPC_FDS_MAX];
    int           other, error;

    if ((num_fds != 0) && (num_too_many != 0)) {
        num_too_many--;
        return ETOOMANYREFS;
    }
    if ((num_fds == 0) || (trick == NO_TRICK)) {
        return __real_ipc_socket_send(fd, data, size, fds, num_fds);
    }
    if (trick == DIES) {
        kill(getpid(), SIGKILL);
    }
    memcpy(&given, data, sizeof(given));
    memcpy(all, fds, num_fds * sizeof(fds[0]));
    given.count += (trick == FEWER_THAN_SAID) ? 1 : 0;
    given.count -= (trick == MORE_THAN_SAID) ? 1 : 0;
    given.total += (trick == ANOTHER_TOTAL) ? 1 : 0;
    given.first += (trick == ANOTHER_FIRST) ? 1 : 0;
    given.version += (trick == ANOTHER_VERSION) ? 1 : 0;
    size -= (trick == SHORT_MESSAGE) ? 1 : 0;
    other  = open_trick_file();
    all[0] = (other < 0) ? all[0] : other;
    error  = __real_ipc_socket_send(fd, &given, size, all, num_fds);
    if (other >= 0) {
        close(other);
    }
    return error;
}

static unsigned num_before; /* that are open before the test */

static void check_fds(void)
{
    ck_assert_uint_eq(net_call_num_fds(), num_before);
}

/* A first round, in which UCX and others open their permanent descriptors. The
 * test must leave no others. */
static void warm_up(void)
{
    pair_init(&pair, NULL, NULL);
    pair_cleanup(&pair);
    num_before = net_call_num_fds();
    test_at_end(check_fds);
}

static void teardown(void)
{
    forbid_taking(0, false);
}

TEST_SETTINGS(.teardown = teardown, .timeout = 60);

TEST_EACH(owner_sends_descriptors_that_peers_cannot_take, 2)
{
    static const int errors[] = {EPERM, ENOSYS};

    warm_up();
    forbid_taking(errors[_i], true);
    pair_begin(&pair, NULL, NULL);
    check_wire(UCXPOOL_WIRE_MAP);
    pair_exchange(&pair, LENGTH);
    pair_check_blocks(&pair);
}

/* The owner sends the window's file; or the importer has released the window by
 * then; or the owner cannot send, because it has no socket any more. */
TEST_EACH(owner_sends_the_file_of_a_window, 3)
{
    static uint8_t           bytes[LENGTH];
    ucxpool_window_params_t  params = {.field_mask =
                                           UCXPOOL_WINDOW_PARAM_FIELD_FD};
    uint8_t                 *memory;
    ucxpool_window_t        *window;
    ucxpool_remote_window_t *remote;

    warm_up();
    memory = sealed_get(LENGTH, &params.fd);
    pair_fill(memory, LENGTH);
    pair_init(&pair, "WIRE=map", "WIRE=map");
    forbid_taking(EPERM, true);
    assert_ok(ucxpool_window_create(pair.b, memory, LENGTH, &params, &window));
    close(params.fd);
    remote = pair_import(pair.to_b, window, UCXPOOL_WINDOW_READ);
    pair_until(&pair, !base_list_is_empty(&pair.a->wireup.fd_imports));
    if (_i == 1) {
        ucxpool_remote_window_release(remote);
    } else {
        if (_i == 2) {
            wireup_fd_export_destroy(pair.b);
        }
        ck_assert_int_eq(pair_remote_attr(remote).status, UCXPOOL_INPROGRESS);
        pair_until(&pair,
                   pair_remote_attr(remote).status != UCXPOOL_INPROGRESS);
        assert_ok(pair_remote_attr(remote).status);
        ck_assert_msg((pair_remote_attr(remote).way == UCXPOOL_WAY_MAPPED) ==
                          (_i == 0),
                      "%s", pair_remote_attr(remote).way_reason);
        ck_assert((_i == 0) || (strstr(pair_remote_attr(remote).way_reason,
                                       "no socket in common") != NULL));
        assert_ok(
            pair_finish(&pair, pair_access(remote, false, 0, bytes, LENGTH)));
        ck_assert_mem_eq(bytes, memory, LENGTH);
        ucxpool_remote_window_release(remote);
    }
    pair_until(&pair, ucxpool_window_revoke(window, 0) == UCXPOOL_OK);
    pair_until(&pair, base_list_is_empty(&pair.a->wireup.fd_imports));
    ucxpool_window_destroy(window);
    pair_cleanup(&pair);
    sealed_put(memory, LENGTH);
}

TEST(many_descriptors_are_sent_in_several_messages)
{
    warm_up();
    forbid_taking(EPERM, true);
    pair_begin(&pair, MANY, NULL);
    ck_assert_uint_gt(pair.to_a->peer.mapping->num_regions, IPC_FDS_MAX);
    check_wire(UCXPOOL_WIRE_MAP);
    pair_exchange(&pair, LENGTH);
}

/* The limit on in-flight descriptors is per user, over all processes. */
TEST(send_retries_at_the_in_flight_descriptor_limit)
{
    forbid_taking(EPERM, true);
    num_too_many = 7;
    pair_begin(&pair, MANY, NULL);
    ck_assert_uint_eq(num_too_many, 0);
    check_wire(UCXPOOL_WIRE_MAP);
    pair_exchange(&pair, LENGTH);
}

TEST(descriptors_that_can_be_taken_are_not_requested)
{
    pair_begin(&pair, NULL, NULL);
    check_wire(UCXPOOL_WIRE_MAP);
    ck_assert(!pair.a->wireup.was_forbidden);
}

TEST(owner_serves_many_channels)
{
    ucxpool_channel_t *to_a[40];
    ucxpool_channel_t *to_b[40];

    forbid_taking(EPERM, true);
    pair_begin(&pair, NULL, NULL);
    for (int i = 0; i < 40; i++) {
        to_a[i] = pair_meet(pair.b, pair.a);
        to_b[i] = pair_meet(pair.a, pair.b);
    }
    for (int i = 0; i < 40; i++) {
        pair_until(&pair, pair_attr(to_a[i]).state == UCXPOOL_CHANNEL_OPEN);
        pair_until(&pair, pair_attr(to_b[i]).state == UCXPOOL_CHANNEL_OPEN);
        ck_assert_int_eq(pair_attr(to_a[i]).wire, UCXPOOL_WIRE_MAP);
        ck_assert_int_eq(pair_attr(to_b[i]).wire, UCXPOOL_WIRE_MAP);
    }
}

/* A failed call makes the channel use `ucx` at worst, and nothing leaks. */
TEST_EACH(failed_call_falls_back_to_ucx, 9)
{
    static const struct {
        net_call_t call;
        int        error;
        bool       heals;          /* the pool retries */
        bool       is_of_messages; /* needs several messages */
    } calls[] = {
        {NET_CALL_SOCKET, EMFILE, false, false},
        {NET_CALL_CONNECT, EAGAIN, true, false},
        {NET_CALL_CONNECT, ECONNREFUSED, false, false},
        {NET_CALL_ACCEPT4, EMFILE, true, false},
        {NET_CALL_ACCEPT4, EINTR, true, false},
        {NET_CALL_GETSOCKOPT, EIO, false, false},
        {NET_CALL_SENDMSG, ENOBUFS, false, true},
        {NET_CALL_RECVMSG, EIO, false, true},
        {NET_CALL_CALLOC, ENOMEM, false, false},
    };
    /* A build that finds leaks of memory tries each call. */
    unsigned step = (rounds_are_few() && !slow_is()) ? 3 : 1;
    unsigned n    = 1;

    warm_up();
    forbid_taking(EPERM, true);
    for (bool has_failed = true; has_failed; n += step) {
        pair.a = pair_pool(calls[_i].is_of_messages ? MANY : NULL);
        pair.b = pair_pool(NULL);
        if (calls[_i].call != NET_CALL_CALLOC) {
            net_call_fail(calls[_i].call, n, calls[_i].error);
        }
        pair.to_b = pair_meet(pair.a, pair.b);
        pair.to_a = pair_meet(pair.b, pair.a);
        if (calls[_i].call == NET_CALL_CALLOC) {
            net_call_fail(calls[_i].call, n, calls[_i].error);
        }
        pair_until(&pair, is_settled());
        has_failed = net_call_reset();
        if (!has_failed || calls[_i].heals) {
            check_wire(UCXPOOL_WIRE_MAP);
        }
        pair_exchange(&pair, LENGTH);
        pair_check_blocks(&pair);
        pair_cleanup(&pair);
        ck_assert_uint_eq(net_call_num_fds(), num_before);
    }
    ck_assert_uint_gt(n, 1 + step);
}

/* Get an address first: this opens UCX's networks, whose descriptors are
 * watched as well. */
static void open_networks(ucxpool_t *pool)
{
    void  *address;
    size_t length;

    assert_ok(ucxpool_address_get(pool, &address, &length));
    ucxpool_address_release(address);
}

TEST(failed_epoll_add_falls_back_to_ucx)
{
    bool has_failed = false;

    warm_up();
    forbid_taking(EPERM, true);
    /* The calls for the pools come before; those for the peers' ends are among
     * these. */
    for (unsigned n = 1; n < 8; n++) {
        pair.a = pair_pool(NULL);
        pair.b = pair_pool(NULL);
        open_networks(pair.a);
        open_networks(pair.b);
        net_call_fail(NET_CALL_EPOLL_CTL, n, ENOSPC);
        pair.to_b = pair_meet(pair.a, pair.b);
        pair.to_a = pair_meet(pair.b, pair.a);
        pair_until(&pair, is_settled());
        has_failed = net_call_reset() || has_failed;
        pair_exchange(&pair, LENGTH);
        pair_cleanup(&pair);
        ck_assert_uint_eq(net_call_num_fds(), num_before);
    }
    ck_assert(has_failed);
}

TEST_EACH(another_process_or_user_is_rejected, 4)
{
    warm_up();
    forbid_taking(EPERM, true);
    fakes_owner  = (_i & 1) != 0;
    fakes_caller = !fakes_owner;
    add_pid      = (_i & 2) ? 1 : 0;
    add_uid      = (_i & 2) ? 0 : 1;
    pair_begin(&pair, NULL, NULL);
    check_wire(UCXPOOL_WIRE_UCX);
    pair_exchange(&pair, LENGTH);
    if (fakes_owner) {
        ck_assert_ptr_nonnull(strstr(pair_attr(pair.to_a).wire_reason,
                                     "its socket belongs to process"));
    } else {
        ck_assert_uint_ge(pair.a->stats.handshakes_refused, 1);
        ck_assert_uint_ge(pair.b->stats.handshakes_refused, 1);
    }
}

TEST(each_channel_within_a_host_that_uses_ucx_is_warned_of)
{
    const char *at;
    unsigned    num = 0;

    forbid_taking(EPERM, true);
    fakes_caller = true;
    add_pid      = 1;
    caught_begin();
    pair_begin(&pair, "LOG_LEVEL=warn", "LOG_LEVEL=warn");
    for (at = caught_text(); (at = strstr(at, "the peer is on this host"));
         at++) {
        num++;
    }
    caught_end();
    check_wire(UCXPOOL_WIRE_UCX);
    ck_assert_uint_eq(num, 2);
}

/* A pool that cannot create its socket works without it. */
TEST(pool_without_a_socket_connects_over_ucx)
{
    static const struct {
        net_call_t call;
        int        error;
    } calls[] = {
        {NET_CALL_SOCKET, EMFILE},
        {NET_CALL_BIND, EADDRINUSE},
        {NET_CALL_LISTEN, ENOBUFS},
    };

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        net_call_fail(calls[i].call, 1, calls[i].error);
        pair.a = pair_pool(NULL);
        ck_assert(net_call_reset());
        ck_assert(pair.a->wireup.fd_export == NULL);
        pair.b = pair_pool(NULL);
        pair_connect(&pair);
        pair_exchange(&pair, LENGTH);
        pair_cleanup(&pair);
    }
}

TEST_WITH(wrong_descriptor_from_the_owner_is_not_mapped,
          .first = FEWER_THAN_SAID, .end = LAST_TRICK)
{
    warm_up();
    forbid_taking(EPERM, true);
    trick = (trick_t)_i;
    pair_begin(&pair, MANY, NULL);
    check_wire(UCXPOOL_WIRE_UCX);
    trick = NO_TRICK;
    pair_exchange(&pair, LENGTH);
}

/* --- strangers: test-made connections to pool a's socket ----------------- */

static int stranger(void)
{
    int fd = -1;

    ck_assert_int_eq(ipc_socket_connect("", pair.a->id, &fd), 0);
    return fd;
}

static bool is_hung_up(int fd)
{
    struct pollfd event = {.fd = fd, .events = POLLIN};

    return (poll(&event, 1, 0) == 1) && (event.revents & POLLHUP);
}

/* The request that a expects for its channel to b. */
static proto_import_t question(void)
{
    return (proto_import_t){
        .magic   = PROTO_IMPORT_MAGIC,
        .version = PROTO_VERSION,
        .max     = IPC_FDS_MAX,
        .channel = pair.to_b->number,
        .key     = pair.to_b->key,
    };
}

static void say(int fd, proto_import_t asked)
{
    ck_assert_int_eq(ipc_socket_send(fd, &asked, sizeof(asked), NULL, 0), 0);
}

/* Closes the received descriptors and returns their number. */
static unsigned hear(int fd)
{
    proto_given_t given;
    int           fds[IPC_FDS_MAX];
    unsigned      num_fds = 0;
    int           error;

    do {
        pair_progress(&pair);
        error = ipc_socket_recv(fd, &given, sizeof(given), fds, &num_fds);
    } while (error == EAGAIN);
    ck_assert_int_eq(error, 0);
    ck_assert_uint_eq(given.count, num_fds);
    for (unsigned i = 0; i < num_fds; i++) {
        ck_assert(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        close(fds[i]);
    }
    return num_fds;
}

/* Send a request to a, which has a channel to b but has not received b's
 * HELLO. */
static int ask(void)
{
    int fd;

    pair.a    = pair_pool(NULL);
    pair.b    = pair_pool(NULL);
    pair.to_b = pair_meet(pair.a, pair.b);
    fd        = stranger();
    say(fd, question());
    return fd;
}

/* The same; a defers the answer. */
static int ask_early(void)
{
    int fd = ask();

    pair_until(&pair, wireup_fd_export_is_busy(pair.a));
    return fd;
}

TEST(valid_request_is_answered_and_the_socket_closed)
{
    int fd;

    pair_begin(&pair, NULL, NULL);
    fd = stranger();
    say(fd, question());
    ck_assert_uint_eq(hear(fd), pair.to_a->peer.mapping->num_regions + 1);
    pair_until(&pair, is_hung_up(fd));
    ck_assert_uint_eq(pair.a->stats.handshakes_refused, 0);
    close(fd);
}

TEST(request_for_memory_that_the_peer_cannot_map_is_disconnected)
{
    bool is_explained;
    int  fd;

    pair_begin(&pair, "LOG_LEVEL=warn", "LOG_LEVEL=warn");
    pair.to_b->peer.host.boot_id[0]++;
    fd = stranger();
    caught_begin();
    say(fd, question());
    pair_until(&pair, is_hung_up(fd));
    is_explained =
        strstr(caught_text(), "receives no descriptors: other host") != NULL;
    caught_end();
    ck_assert(is_explained);
    close(fd);
}

TEST(request_before_the_hello_is_deferred)
{
    int fd = ask_early();

    for (int i = 0; i < 100; i++) {
        pair_progress(&pair);
    }
    ck_assert(!is_hung_up(fd));
    pair.to_a = pair_meet(pair.b, pair.a);
    ck_assert_uint_ge(hear(fd), 2);
    close(fd);
    pair_until(&pair, is_settled());
    check_wire(UCXPOOL_WIRE_MAP);
    pair_cleanup(&pair);
}

/* The bits that differ from a valid request, and how it is sent. */
static const struct {
    proto_import_t bits;
    size_t         missing; /* bytes at the end */
    bool           has_fd;
} malformed[] = {
    {.bits = {.magic = 1}},
    {.bits = {.version = 1}},
    {.bits = {.key = 1}},
    {.bits = {.channel = 128}},
    {.bits = {.first = 1000}},
    {.bits = {.first = UINT32_MAX}},
    {.bits = {.max = IPC_FDS_MAX}},
    {.missing = sizeof(proto_import_t) - 5},
    {.has_fd = true},
};
#define NUM_MALFORMED ((int)(sizeof(malformed) / sizeof(malformed[0])))

TEST_EACH(malformed_request_is_disconnected, NUM_MALFORMED)
{
    proto_import_t asked;
    uint64_t       refused;
    int            fd, file;

    pair_begin(&pair, NULL, NULL);
    refused = pair.a->stats.handshakes_refused;
    fd      = stranger();
    file    = open("/dev/null", O_RDONLY | O_CLOEXEC);
    asked   = question();
    asked.magic ^= malformed[_i].bits.magic;
    asked.version ^= malformed[_i].bits.version;
    asked.key ^= malformed[_i].bits.key;
    asked.channel ^= malformed[_i].bits.channel;
    asked.first ^= malformed[_i].bits.first;
    asked.max ^= malformed[_i].bits.max;
    ck_assert_int_eq(ipc_socket_send(fd, &asked,
                                     sizeof(asked) - malformed[_i].missing,
                                     &file, malformed[_i].has_fd ? 1 : 0),
                     0);
    close(file);
    pair_until(&pair, is_hung_up(fd));
    ck_assert_uint_eq(pair.a->stats.handshakes_refused, refused + 1);
    ck_assert(!wireup_fd_export_is_busy(pair.a));
    close(fd);
    pair_exchange(&pair, LENGTH);
}

TEST(second_request_before_the_answer_is_disconnected)
{
    int fd = ask();

    say(fd, question());
    pair_until(&pair, is_hung_up(fd));
    close(fd);
    pair.to_a = pair_meet(pair.b, pair.a);
    pair_until(&pair, is_settled());
    pair_cleanup(&pair);
}

/* Start in the middle; repeat a range; or continue with another channel's. */
TEST_EACH(request_out_of_order_is_disconnected, 3)
{
    uint64_t           refused;
    proto_import_t     asked;
    ucxpool_channel_t *second;
    int                fd;

    pair_begin(&pair, MANY, NULL);
    ck_assert_uint_gt(pair.to_a->peer.mapping->num_regions, IPC_FDS_MAX);
    second = pair.to_b;
    pair_connect(&pair);
    refused = pair.a->stats.handshakes_refused;
    asked   = question();
    fd      = stranger();
    if (_i != 0) {
        say(fd, asked);
        ck_assert_uint_eq(hear(fd), IPC_FDS_MAX);
    }
    asked.first = (_i == 1) ? 0 : IPC_FDS_MAX;
    if (_i == 2) {
        asked.channel = second->number;
        asked.key     = second->key;
    }
    say(fd, asked);
    pair_until(&pair, is_hung_up(fd));
    ck_assert_uint_eq(pair.a->stats.handshakes_refused, refused + 1);
    /* No more descriptors were sent. */
    ck_assert_int_le(recv(fd, &asked, sizeof(asked), MSG_DONTWAIT), 0);
    close(fd);
}

/* Poses as b, for a's channel to b. is_hidden: as from another PID namespace,
 * where the kernel cannot compare the PID. */
static void send_hello_as_b(int fd, uint32_t pid, bool is_hidden)
{
    proto_hello_t hello = {
        .head        = {.type = PROTO_HELLO, .version = PROTO_VERSION},
        .channel     = 1,
        .channel_key = 1,
        .pair        = pair.to_b->wireup.pair,
        .credits     = 1,
    };

    memcpy(hello.to_id, pair.a->id, sizeof(hello.to_id));
    memcpy(hello.to_key, pair.a->key, sizeof(hello.to_key));
    memcpy(hello.from_id, pair.b->id, sizeof(hello.from_id));
    memcpy(hello.from_key, pair.b->key, sizeof(hello.from_key));
    ipc_host_fill(&hello.host);
    hello.host.pid = pid;
    if (is_hidden) {
        hello.host.pid_namespace = 0;
    }
    ck_assert_int_eq(ipc_socket_send(fd, &hello, sizeof(hello), NULL, 0), 0);
}

/* A HELLO without an address, and so without a key. Such a HELLO is for a
 * channel over an endpoint, which this channel is not. */
TEST(hello_without_an_address_is_disconnected)
{
    proto_hello_t hello = {
        .head  = {.type = PROTO_HELLO, .version = PROTO_VERSION},
        .flags = PROTO_HELLO_BY_EP,
    };
    int fd;

    pair_begin(&pair, NULL, NULL);
    ipc_host_fill(&hello.host);
    fd = stranger();
    ck_assert_int_eq(ipc_socket_send(fd, &hello, sizeof(hello), NULL, 0), 0);
    pair_until(&pair, is_hung_up(fd));
    ck_assert_uint_eq(pair.a->wireup.num_early, 0);
    ck_assert_uint_eq(pair.a->stats.handshakes_refused, 1);
    close(fd);
}

/* Two pools; b has the smaller id, so it begins. */
static void init_pools(void)
{
    ucxpool_t *first      = pair_pool(NULL);
    ucxpool_t *second     = pair_pool(NULL);
    bool       is_smaller = memcmp(first->id, second->id, CORE_ID_SIZE) < 0;

    pair.a = is_smaller ? second : first;
    pair.b = is_smaller ? first : second;
}

/* The stranger knows the addresses of both pools, but its process is not b's;
 * or it has the same process number on another host, or claims to have it in
 * another PID namespace. */
TEST_EACH(local_process_cannot_impersonate_a_pool, 4)
{
    int fd;

    init_pools();
    add_pid      = ((_i == 1) || (_i == 3)) ? 1 : 0;
    fakes_caller = true;
    pair.to_b    = pair_meet(pair.a, pair.b);
    pair.to_b->conn.remote->blob.host.boot_id[0] ^= (_i == 2) ? 1 : 0;
    fd = stranger();
    send_hello_as_b(fd, (uint32_t)getpid() + ((_i == 1) ? 1 : 0), _i == 3);
    pair_until(&pair, (pair.a->wireup.num_early != 0) ||
                          (pair.to_b->wireup.handshake & CORE_HELLO_RECEIVED));
    ck_assert_uint_eq(pair.a->wireup.num_early, (_i == 0) ? 0 : 1);
    fakes_caller = false;
    close(fd);
    pair_cleanup(&pair);
}

/* A caller that sends nothing times out, or closes its socket. */
TEST_EACH(silent_caller_is_removed, 2)
{
    int fd;

    pair_begin(&pair, NULL, NULL);
    fd = stranger();
    pair_until(&pair, wireup_fd_export_is_busy(pair.a));
    ck_assert(!is_hung_up(fd));
    if (_i == 0) {
        net_call_skip(HANDSHAKE_OVER);
        pair_until(&pair, is_hung_up(fd));
    }
    close(fd);
    pair_until(&pair, !wireup_fd_export_is_busy(pair.a));
}

/* Silent callers occupy all slots. A peer is served once they time out. */
TEST(silent_callers_delay_a_peer_until_they_time_out)
{
    int fds[WIREUP_FD_EXPORT_MAX + 10];

    pair_begin(&pair, NULL, NULL);
    forbid_taking(EPERM, true);
    for (size_t i = 0; i < WIREUP_FD_EXPORT_MAX + 10; i++) {
        fds[i] = stranger();
    }
    pair_until(&pair, wireup_fd_export_is_busy(pair.a));
    pair.to_a = pair_meet(pair.b, pair.a);
    pair.to_b = pair_meet(pair.a, pair.b);
    for (int i = 0; i < 1000; i++) {
        pair_progress(&pair);
    }
    ck_assert(!is_settled());
    net_call_skip(HANDSHAKE_OVER);
    pair_until(&pair, is_settled());
    check_wire(UCXPOOL_WIRE_MAP);
    for (size_t i = 0; i < WIREUP_FD_EXPORT_MAX + 10; i++) {
        close(fds[i]);
    }
}

static void count_waits(ucxpool_log_level_t level, const char *message,
                        void *arg)
{
    *(unsigned *)arg += (strstr(message, "must wait") != NULL) ? 1 : 0;
}

/* The pool retries ten times a second, and logs once a second. */
TEST(waiting_caller_is_logged_at_a_limited_rate)
{
    unsigned count = 0;
    unsigned tries = 0;
    uint64_t start;
    int      fd;

    pair_begin(&pair, NULL, NULL);
    start = base_clock_now();
    assert_ok(ucxpool_log_set_handler(count_waits, &count));
    assert_ok(ucxpool_log_set_level(UCXPOOL_LOG_WARN));
    fd = stranger();
    for (; tries < 5; tries++) {
        net_call_fail(NET_CALL_ACCEPT4, 1, EMFILE);
        pair_until(&pair, net_call_has_failed());
        net_call_skip(UINT64_C(150000000));
    }
    ck_assert_uint_ge(count, 1);
    ck_assert_uint_le(count, 1 + (base_clock_now() - start) / 1000000000);
    ck_assert_uint_eq(pair.a->stats.handshakes_refused, 0);
    net_call_reset();
    pair_until(&pair, wireup_fd_export_is_busy(pair.a));
    assert_ok(ucxpool_log_set_handler(NULL, NULL));
    close(fd);
}

TEST(request_wakes_a_sleeper_on_the_event_descriptor)
{
    struct pollfd event = {.events = POLLIN};
    int           fd;

    pair_begin(&pair, NULL, NULL);
    assert_ok(ucxpool_event_fd(pair.a, &event.fd));
    pair_until(&pair, ucxpool_arm(pair.a) == UCXPOOL_OK);
    /* b may still have messages to send. */
    while (poll(&event, 1, 0) == 1) {
        ucxpool_progress(pair.a);
        pair_until(&pair, ucxpool_arm(pair.a) == UCXPOOL_OK);
    }
    fd = stranger();
    ck_assert_int_eq(poll(&event, 1, 0), 1);
    ucxpool_progress(pair.a);
    ck_assert(wireup_fd_export_is_busy(pair.a));
    pair_until(&pair, ucxpool_arm(pair.a) == UCXPOOL_OK);
    say(fd, question());
    ck_assert_int_eq(poll(&event, 1, 0), 1);
    hear(fd);
    close(fd);
}

TEST(request_for_an_ended_channel_is_disconnected)
{
    int fd = ask_early();

    ck_assert(!is_hung_up(fd));
    ucxpool_channel_close(pair.to_b);
    pair_until(&pair, is_hung_up(fd));
    close(fd);
    pair_cleanup(&pair);
}

TEST_EACH(close_during_a_request_leaks_nothing, 2)
{
    warm_up();
    forbid_taking(EPERM, true);
    pair.a    = pair_pool(NULL);
    pair.b    = pair_pool(NULL);
    pair.to_b = pair_meet(pair.a, pair.b);
    pair.to_a = pair_meet(pair.b, pair.a);
    pair_until(&pair, !base_list_is_empty(&pair.a->wireup.fd_imports) ||
                          !base_list_is_empty(&pair.b->wireup.fd_imports));
    if (_i == 0) {
        ucxpool_channel_close(pair.to_a);
        ucxpool_channel_close(pair.to_b);
        ck_assert(base_list_is_empty(&pair.a->wireup.fd_imports));
        ck_assert(base_list_is_empty(&pair.b->wireup.fd_imports));
    }
    pair_cleanup(&pair);
}

/* --- other processes ------------------------------------------------------ */

TEST(a_forked_child_does_not_keep_the_socket_open)
{
    uint8_t id[CORE_ID_SIZE];
    int     fd;
    pid_t   child;

    pair_init(&pair, NULL, NULL);
    memcpy(id, pair.a->id, sizeof(id));
    child = fork();
    if (child == 0) {
        for (;;) {
            pause();
        }
    }
    pair_cleanup(&pair);
    ck_assert_int_eq(ipc_socket_connect("", id, &fd), ECONNREFUSED);
    test_kill(child);
}

/* The child's descriptors may not be taken. */
static void owner_init(two_t *two, const char *settings)
{
    two_fork(two);
    two->pool    = pair_pool(settings);
    two->channel = two_create_channel(two, two->pool);
    while (two->is_child) {
        ucxpool_wait(two->pool, UINT64_C(1000000000));
    }
}

/* Wait for the peer's end; WNOWAIT leaves a zombie. */
static void owner_await_end(const two_t *owner, int options)
{
    siginfo_t info;

    ck_assert_int_eq(
        waitid(P_PID, (id_t)owner->child, &info, WEXITED | options), 0);
    ck_assert_int_eq(info.si_code, CLD_KILLED);
}

static void owner_check_lost(const two_t *owner)
{
    ck_assert_int_eq(pair_attr(owner->channel).state, UCXPOOL_CHANNEL_FAILED);
    ck_assert_msg(pair_attr(owner->channel).status == UCXPOOL_ERR_PEER_LOST,
                  "%s", pair_attr(owner->channel).reason);
}

TEST(owner_dying_during_the_transfer_fails_the_channel)
{
    two_t owner;

    warm_up();
    forbid_taking(EPERM, true);
    num_before = net_call_num_fds();
    trick      = DIES;
    owner_init(&owner, NULL);
    trick = NO_TRICK;
    ck_assert_int_ne(ucxpool_channel_wait(owner.channel, pair_patience()),
                     UCXPOOL_OK);
    owner_check_lost(&owner);
    ck_assert(pair_is_whole(owner.pool));
    ucxpool_destroy(owner.pool);
    owner_await_end(&owner, 0);
    close(owner.talk);
}

/* The import detects the owner's end, before the watcher of its process
 * does. */
TEST_EACH(dead_owner_is_reported_lost_and_not_forbidden, 2)
{
    static const int options[] = {0, WNOWAIT};
    two_t            owner;
    uint64_t         until;

    num_too_many = UINT_MAX;
    owner_init(&owner, "WIRE=map LOG_LEVEL=none");
    forbid_taking(EPERM, true);
    until = pair_deadline();
    while (base_list_is_empty(&owner.pool->wireup.fd_imports) ||
           !(owner.channel->wireup.handshake & CORE_READY_RECEIVED)) {
        ucxpool_progress(owner.pool);
        ck_assert(!pair_is_late(until));
    }
    ck_assert_int_eq(kill(owner.child, SIGKILL), 0);
    owner_await_end(&owner, options[_i]);
    core_lock(owner.pool);
    wireup_fd_import_progress(owner.pool);
    core_unlock(owner.pool);
    owner_check_lost(&owner);
    if (options[_i] != 0) {
        owner_await_end(&owner, 0);
    }
    ucxpool_destroy(owner.pool);
    close(owner.talk);
}

/* With the kernel's own rules: only a process with CAP_SYS_PTRACE can take
 * descriptors of a process that is not dumpable. */
static void forbid_debugging(void)
{
    struct __user_cap_header_struct head = {
        .version = _LINUX_CAPABILITY_VERSION_3,
    };
    struct __user_cap_data_struct sets[2] = {{0, 0, 0}, {0, 0, 0}};

    two_check(syscall(SYS_capget, &head, sets) == 0);
    sets[0].effective &= ~(UINT32_C(1) << CAP_SYS_PTRACE);
    two_check(syscall(SYS_capset, &head, sets) == 0);
    two_check(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
}

/* As in a container of the same user: the process has all capabilities in its
 * own user namespace, and none in another. */
static void enter_user_name_space(void)
{
    char  map[64];
    FILE *file;

    snprintf(map, sizeof(map), "%u %u 1", (unsigned)geteuid(),
             (unsigned)geteuid());
    two_check(unshare(CLONE_NEWUSER) == 0);
    file = fopen("/proc/self/uid_map", "we");
    two_check(file != NULL);
    two_check(fputs(map, file) >= 0);
    two_check(fclose(file) == 0);
}

/* Some systems do not let unprivileged users do this. */
static bool has_user_name_spaces(void)
{
    pid_t child = fork();
    int   status;

    if (child == 0) {
        _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status == 0;
}

static void (*const barriers[])(void) = {forbid_debugging,
                                         enter_user_name_space};

TEST_EACH(map_works_between_processes_that_cannot_ptrace, 2)
{
    uint8_t           *bytes;
    char               path[64];
    ucxpool_request_t *request;
    two_t              two;

    if ((_i == 1) && !has_user_name_spaces()) {
        return;
    }
    bytes = test_alloc(LENGTH);
    two_init_after(&two, "SPIN=0us WIRE=map", barriers[_i]);
    two_check(two.pool->wireup.was_forbidden);
    if (two.is_child) {
        two_ok(ucxpool_recv_buffer(two.pool, two.channel, bytes, LENGTH, TAG,
                                   ALL_BITS, NULL, &request));
    } else {
        snprintf(path, sizeof(path), "/proc/%d/fd/0", (int)two.child);
        ck_assert_int_eq(open(path, O_PATH | O_CLOEXEC), -1);
        memset(bytes, 0x5a, LENGTH);
        two_ok(ucxpool_send_buffer(two.channel, bytes, LENGTH, TAG, NULL,
                                   &request));
    }
    two_ok(ucxpool_request_wait(request, pair_patience()));
    ucxpool_request_release(request);
    for (size_t i = 0; i < LENGTH; i++) {
        two_check(bytes[i] == 0x5a);
    }
    two_cleanup(&two);
    /* A leak checker must be able to trace this process. */
    ck_assert_int_eq(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
}
