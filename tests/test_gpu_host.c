/*
 * The `map` wire through pinned host memory, between two processes: pools on
 * GPUs that cannot access each other, and a pool on a GPU with a pool in host
 * memory.
 */
#include "core/pool.h"
#include "core/stats.h"
#include "forbid.h"
#include "pair.h"
#include "slow.h"
#include "test.h"
#include "two_gpu.h"
#include "replace.h"
#include "ucx/reg.h"
#include "wireup/wireup.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

/* The stand-in's two GPUs cannot access each other. */
#define NO_ACCESS "devices=2,peers=n"

#define REASON "same host and user, through pinned host memory"

static const struct {
    two_side_t parents, childs;
    bool       is_forbidden; /* to take descriptors: peers request them */
} kinds[] = {
    {{"WIRE=map MAP_WAY=host", 0}, {"WIRE=map", 0}, false},
    {{"WIRE=map", 0}, {"WIRE=map MAP_WAY=host", 0}, false},
    {{"WIRE=map MAP_WAY=host CUDA_BACKING=vmm", 0},
     {"WIRE=map MAP_WAY=host CUDA_BACKING=vmm", 0},
     false},
    {{"WIRE=map CUDA_BACKING=alloc", 0},
     {"WIRE=map CUDA_BACKING=alloc", 1},
     false},
    {{"WIRE=map CUDA_BACKING=vmm", 0}, {"WIRE=map CUDA_BACKING=vmm", 1}, false},
    {{"WIRE=map CUDA_BACKING=vmm", 0},
     {"WIRE=map CUDA_BACKING=alloc", 1},
     true},
    {{"REQUIRE=map", 0}, {"REQUIRE=map", -1}, false},
    {{"WIRE=map CHECKSUM=crc32c", -1}, {"WIRE=map", 0}, false},
    {{"WIRE=map", -1}, {"WIRE=map", 0}, false},
    {{"WIRE=map CUDA_BACKING=vmm", 0}, {"WIRE=map", -1}, true},
    {{"WIRE=map", -1}, {"WIRE=map CUDA_BACKING=vmm", 0}, true},
    {{"WIRE=map CUDA_BACKING=host", 0}, {"WIRE=map", -1}, false},
    {{"WIRE=map CUDA_BACKING=host", 0},
     {"WIRE=map CUDA_BACKING=host", 1},
     false},
    {{"WIRE=map", 0}, {"WIRE=map CUDA_BACKING=host", 1}, false},
};
#define NUM_KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

static two_t two;

/* Real GPUs may have access to each other. */
static two_side_t on_machine(two_side_t side)
{
    const char *num = getenv("TEST_CUDA_DEVICES");

    if (cuda_is_real() && (side.device > 0)) {
        side.device = (num == NULL) ? 0 : atoi(num) - 1;
    }
    return side;
}

static void start(int kind)
{
    if (kinds[kind].is_forbidden) {
        forbid_taking(EPERM, true);
    }
    setenv("CUDA_STAND_IN", NO_ACCESS, 1);
    two_gpu_start_on(&two, on_machine(kinds[kind].parents),
                     on_machine(kinds[kind].childs));
}

/* Require a channel over `map` through host memory. */
static void require_host(void)
{
    ucxpool_channel_attr_t attr = pair_attr(two.channel);

    two_check(attr.wire == UCXPOOL_WIRE_MAP);
    two_check(cuda_is_real() || (strcmp(attr.wire_reason, REASON) == 0));
}

static bool is_on_gpu(int kind)
{
    return (two.is_child ? kinds[kind].childs : kinds[kind].parents).device >=
           0;
}

TEST_SETTINGS(.before_fork = pair_warm_up, .timeout = 120,
              .only_if = cuda_is_present);

TEST_EACH(messages_arrive_in_both_directions, NUM_KINDS)
{
    const size_t large = RUNNING_ON_VALGRIND ? 6000000 : 30000000;
    const struct {
        size_t size, length, gap;
    } shapes[] = {
        {1, 1, 0},
        {200, 200, 0},
        {4096, 4096, 0},
        {100000, 7, 1},
        {64 * 4096, 4096, 4096},
        {large / 10, 256, 3},
        {large / 3 * 2, 4096, 16},
        {large, large, 0},
    };
    uint8_t *memory;

    start(_i);
    require_host();
    memory = is_on_gpu(_i) ? gpu_alloc(64 * MIB) : malloc(64 * MIB);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        two_gpu_transfer(&two, !two.is_child, shapes[i].size, shapes[i].length,
                         shapes[i].gap, (unsigned)i, memory);
        two_gpu_transfer(&two, two.is_child, shapes[i].size, shapes[i].length,
                         shapes[i].gap, (unsigned)i + 1, memory);
    }
    if (is_on_gpu(_i)) {
        gpu_free(memory);
    } else {
        free(memory);
    }
    two_gpu_stop(&two);
}

/* --- creation, and failures -------------------------------------------------
 * In one process, so that calls of the driver can be counted and made to fail.
 */

static pair_t pair;

/* If true, UCX supports GPU memory, so a pool has no pinned blocks at first. */
static bool has_cuda;

REPLACE(ucxpool_status_t, ucx_facts_get, struct ucp_context *context,
        ucx_facts_t *facts_p)
{
    ucxpool_status_t status = __real_ucx_facts_get(context, facts_p);

    facts_p->has_cuda |= has_cuda;
    return status;
}

/* UCX in this machine may have no CUDA. */
REPLACE(ucxpool_status_t, ucx_reg_regions, mem_regions_t *regions,
        struct ucp_context *context)
{
    return (has_cuda && mem_regions_are_on_gpu(regions))
               ? UCXPOOL_OK
               : __real_ucx_reg_regions(regions, context);
}

/* A pool that cannot map the memory of its peers; NULL: none. */
static ucxpool_t *blind;

REPLACE(wireup_mapping_result_t, wireup_mapping_open,
        ucxpool_channel_t *channel, const proto_hello_t *hello,
        const ipc_file_t *files, const int *fds)
{
    if (channel->pool == blind) {
        return WIREUP_MAPPING_IMPOSSIBLE;
    }
    return __real_wireup_mapping_open(channel, hello, files, fds);
}

static void destroy_pair(void)
{
    gpu_disconnect(&pair);
    gpu_stop();
}

static void create_pair_with(const char *settings_of_b)
{
    has_cuda = true;
    gpu_start("");
    pair.a = pair_pool_on(0, "LOG_LEVEL=none CUDA_BACKING=alloc");
    pair.b = pair_pool(settings_of_b);
    test_at_end(destroy_pair);
}

static void create_pair(void)
{
    create_pair_with("LOG_LEVEL=none COMM_SIZE=4m REGION_SIZE=4m");
}

static void finish(ucxpool_request_t *request)
{
    assert_ok(gpu_finish(&pair, request));
}

/* Transfer a message between GPU memory of pool a and host memory of pool b. */
static void transfer_once(bool from_a, uint8_t *device)
{
    const size_t       size  = 5000000;
    uint8_t           *bytes = test_alloc(size), *seen = test_alloc(size);
    ucxpool_request_t *send, *recv;

    pair_fill(bytes, size);
    gpu_write(device, from_a ? bytes : seen, size);
    recv = pair_recv(from_a ? pair.b : pair.a, NULL, from_a ? seen : device,
                     size, 1);
    send = pair_send(from_a ? pair.to_b : pair.to_a, from_a ? device : bytes,
                     size, 1);
    finish(send);
    finish(recv);
    if (!from_a) {
        gpu_read(seen, device, size);
    }
    ck_assert(memcmp(seen, bytes, size) == 0);
}

static void exchange(void)
{
    uint8_t *device = gpu_alloc(5000000);

    transfer_once(true, device);
    transfer_once(false, device);
    gpu_free(device);
}

static void check_wire(ucxpool_wire_t wire, const char *words)
{
    ucxpool_channel_attr_t attr = pair_attr(pair.to_b);

    ck_assert_int_eq(attr.wire, wire);
    assert_has(attr.wire_reason, words);
}

static void close_channels(void)
{
    uint32_t count = pair.a->channels.count - 1;

    ucxpool_channel_close(pair.to_b);
    ucxpool_channel_close(pair.to_a);
    pair.to_b = NULL;
    pair.to_a = NULL;
    pair_until(&pair, (pair.a->channels.count == count) &&
                          (pair.b->channels.count == count));
}

STAND_IN_TEST(channels_to_one_pool_share_a_mapping_and_its_pinning)
{
    ucxpool_channel_t *to_b, *to_a;

    create_pair();
    ck_assert_ptr_null(pair.a->memory.pinned_blocks);
    stand_in.fail_call(NULL, 0, CUDA_SUCCESS);
    pair_connect(&pair);
    check_wire(UCXPOOL_WIRE_MAP, "through pinned host memory");
    ck_assert_ptr_nonnull(pair.a->memory.pinned_blocks);
    /* The pool's own blocks, and the mapping of the peer's. */
    ck_assert_uint_eq(stand_in.count("cuMemHostRegister"), 2);
    to_b = pair_meet(pair.a, pair.b);
    to_a = pair_meet(pair.b, pair.a);
    pair_until(&pair, pair_is_open(to_b) && pair_is_open(to_a));
    ck_assert_uint_eq(stand_in.count("cuMemHostRegister"), 2);
    ck_assert_ptr_eq(to_b->peer.mapping, pair.to_b->peer.mapping);
    ck_assert_ptr_eq(to_a->peer.mapping, pair.to_a->peer.mapping);
    /* The other channel still uses the mapping. */
    close_channels();
    pair.to_b = to_b;
    pair.to_a = to_a;
    exchange();
    ck_assert_uint_eq(stand_in.count("cuMemHostUnregister"), 0);
}

STAND_IN_TEST(pinned_host_memory_is_not_a_direct_path)
{
    create_pair_with("LOG_LEVEL=none REQUIRE=direct,rma");
    pair.to_b = pair_meet(pair.a, pair.b);
    pair.to_a = pair_meet(pair.b, pair.a);
    pair_until(&pair,
               (pair_attr(pair.to_a).state != UCXPOOL_CHANNEL_CONNECTING) &&
                   (pair_attr(pair.to_b).state >= UCXPOOL_CHANNEL_CLOSED));
    assert_error(pair_attr(pair.to_a).status, UNSUPPORTED);
    ck_assert_str_eq(pair_attr(pair.to_a).reason,
                     "the channel requires direct or rma, but the map wire "
                     "copies through host memory: a side has set "
                     "UCXPOOL_MAP_WAY=host, or the pools are not on two GPUs "
                     "that can access each other; allow map, or change this");
}

STAND_IN_TEST(without_pinned_blocks_the_wire_is_ucx)
{
    ucxpool_channel_t *to_b;

    create_pair();
    stand_in.fail_call("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY);
    pair_connect(&pair);
    ck_assert(stand_in.has_failed());
    check_wire(UCXPOOL_WIRE_UCX, "cannot pin");
    /* The next channel does not try it again. */
    stand_in.fail_call(NULL, 0, CUDA_SUCCESS);
    to_b = pair_meet(pair.a, pair.b);
    (void)pair_meet(pair.b, pair.a);
    pair_until(&pair, pair_is_open(to_b));
    ck_assert_uint_eq(stand_in.count("cuMemHostRegister"), 0);
    pair.to_b = to_b;
    check_wire(UCXPOOL_WIRE_UCX, "cannot pin");
}

STAND_IN_TEST_EACH(cpu_copies_if_the_peers_memory_cannot_be_pinned, 2)
{
    create_pair();
    stand_in.fail_call("cuMemHostRegister", 2,
                       (_i == 0) ? CUDA_ERROR_NOT_SUPPORTED
                                 : CUDA_ERROR_OUT_OF_MEMORY);
    pair_connect(&pair);
    ck_assert(stand_in.has_failed());
    check_wire(UCXPOOL_WIRE_MAP, "the CPU copies for the GPU: cannot pin");
    check_wire(UCXPOOL_WIRE_MAP,
               (_i == 0) ? "): CUDA_ERROR_NOT_SUPPORTED (801"
                         : "be locked, raise the limit (ulimit -l): "
                           "CUDA_ERROR_OUT_OF_MEMORY (2");
    exchange();
}

STAND_IN_TEST(memory_of_peers_is_pinned_up_to_a_limit)
{
    const uint64_t     size    = 4 * MIB; /* of pool b's blocks */
    static const char *words[] = {
        "through pinned host memory",
        "the CPU copies for the GPU: cannot pin 4194304 bytes of the peer's "
        "memory: a pool may pin half of the machine's memory, of which "
        "4194303 bytes are left; lower the peers' UCXPOOL_COMM_SIZE or import "
        "fewer windows",
    };

    create_pair();
    ck_assert_uint_ge(pair.a->memory.pinnable, size);
    for (unsigned i = 0; i < 2; i++) {
        pair.a->memory.pinnable = size - i;
        pair_connect(&pair);
        check_wire(UCXPOOL_WIRE_MAP, words[i]);
        exchange();
        close_channels();
        ck_assert_uint_eq(pair.a->memory.pinnable, size - i);
    }
}

STAND_IN_TEST(ucx_wire_keeps_no_mapping_of_the_peers_memory)
{
    create_pair();
    stand_in.fail_call(NULL, 0, CUDA_SUCCESS);
    blind = pair.b;
    pair_connect(&pair);
    blind = NULL;
    check_wire(UCXPOOL_WIRE_UCX, "the peer cannot map our memory");
    ck_assert_uint_eq(stand_in.count("cuMemHostRegister"), 2);
    ck_assert_uint_eq(stand_in.count("cuMemHostUnregister"), 1);
    ck_assert_ptr_null(pair.to_b->peer.mapping);
}

/* The pool in host memory receives HELLOs in the name of the pool on the GPU:
 * first one with GPU memory, then others with the flag of pinned memory. */
STAND_IN_TEST(second_hello_must_offer_host_memory_of_the_same_process)
{
    static const struct {
        ucxpool_memory_kind_t kind;
        uint32_t              num_files;
        uint32_t              other_pid;
    } seconds[] = {
        {UCXPOOL_MEMORY_CUDA, 5, 0},
        {UCXPOOL_MEMORY_HOST, 0, 0},
        {UCXPOOL_MEMORY_HOST, 1, 0},
        {UCXPOOL_MEMORY_HOST, 2, 1},
    };
    const core_way_t   way      = {.fd = -1};
    const ipc_file_t   files[5] = {{.size = 4096}};
    proto_hello_t      hello    = {.channel_key = 1,
                                   .flags       = PROTO_HELLO_MAP,
                                   .memory_kind = UCXPOOL_MEMORY_CUDA,
                                   .num_files   = 5};
    ucxpool_channel_t *channel;

    create_pair();
    channel    = pair_meet(pair.b, pair.a);
    hello.head = (proto_head_t){PROTO_HELLO, PROTO_VERSION, 0, 0, 0};
    hello.pair = channel->wireup.pair;
    memcpy(hello.to_id, pair.b->id, sizeof(hello.to_id));
    memcpy(hello.to_key, pair.b->key, sizeof(hello.to_key));
    memcpy(hello.from_id, pair.a->id, sizeof(hello.from_id));
    memcpy(hello.from_key, pair.a->key, sizeof(hello.from_key));
    ipc_host_fill(&hello.host);
    core_lock(pair.b);
    wireup_hello_received(pair.b, &hello, files, &way);
    ck_assert(channel->wireup.handshake & CORE_HELLO_RECEIVED);
    hello.flags |= PROTO_HELLO_PINNED;
    for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
        hello.memory_kind = seconds[i].kind;
        hello.num_files   = seconds[i].num_files;
        hello.host.pid += seconds[i].other_pid;
        wireup_hello_received(pair.b, &hello, files, &way);
        ck_assert_int_eq(channel->state, UCXPOOL_CHANNEL_CONNECTING);
        ck_assert(!channel->peer.offers_pinned);
        ck_assert(!(channel->wireup.handshake & CORE_READY_SENT));
    }
    core_unlock(pair.b);
    ucxpool_channel_abort(channel);
}

/* --- in place, and windows ------------------------------------------------ */

STAND_IN_TEST(only_memory_of_a_host_pool_is_sent_in_place)
{
    const size_t       size = MIB;
    core_stats_t       stats;
    void              *ours, *theirs;
    ucxpool_request_t *send, *recv;

    create_pair();
    pair_connect(&pair);
    assert_ok(ucxpool_comm_alloc(pair.a, size, &ours));
    assert_ok(ucxpool_comm_alloc(pair.b, size, &theirs));
    for (int i = 0; i < 2; i++) {
        recv = pair_recv((i == 0) ? pair.b : pair.a, NULL,
                         (i == 0) ? theirs : ours, size, 1);
        send = pair_send((i == 0) ? pair.to_b : pair.to_a,
                         (i == 0) ? ours : theirs, size, 1);
        finish(send);
        finish(recv);
    }
    core_stats_get(pair.a, &stats);
    ck_assert_uint_eq(stats.counts.sent[CORE_MODE_MAP_PACKED].bytes, size);
    core_stats_get(pair.b, &stats);
    ck_assert_uint_eq(stats.counts.sent[CORE_MODE_MAP_INPLACE].bytes, size);
    ucxpool_comm_free(pair.a, ours);
    ucxpool_comm_free(pair.b, theirs);
}

static ucxpool_remote_window_t *
import(ucxpool_channel_t *channel, ucxpool_window_t *window, unsigned access)
{
    ucxpool_remote_window_t *remote = pair_import(channel, window, access);

    pair_until(&pair, pair_remote_attr(remote).status != UCXPOOL_INPROGRESS);
    assert_ok(pair_remote_attr(remote).status);
    return remote;
}

/* Write bytes to a window of pool a or pool b, and read them back. Returns the
 * way of reads. */
static ucxpool_way_t use_window(bool is_of_a, uint8_t *owned, uint8_t *local,
                                size_t size)
{
    uint8_t                 *bytes = test_alloc(size), *seen = test_alloc(size);
    ucxpool_way_t            way;
    ucxpool_window_t        *window;
    ucxpool_remote_window_t *remote;

    pair_fill(bytes, size);
    assert_ok(ucxpool_window_create(is_of_a ? pair.a : pair.b, owned, size,
                                    NULL, &window));
    remote =
        import(is_of_a ? pair.to_a : pair.to_b, window, PAIR_READ_AND_WRITE);
    way = pair_remote_attr(remote).way;
    gpu_write(local, bytes, size);
    finish(pair_access(remote, true, 0, local, size));
    gpu_read(seen, owned, size);
    ck_assert(memcmp(seen, bytes, size) == 0);
    memset(seen, 0, size);
    gpu_write(local, seen, size);
    finish(pair_access(remote, false, 0, local, size));
    gpu_read(seen, local, size);
    ck_assert(memcmp(seen, bytes, size) == 0);
    ucxpool_remote_window_release(remote);
    pair_progress(&pair);
    pair_destroy_window(window);
    return way;
}

#define WINDOW_SIZE ((size_t)300000)

STAND_IN_TEST(windows_in_gpu_memory_and_private_memory_use_messages)
{
    uint8_t *device, *host = test_alloc(WINDOW_SIZE);

    create_pair();
    pair_connect(&pair);
    device = gpu_alloc(WINDOW_SIZE);
    ck_assert_int_eq(use_window(true, device, host, WINDOW_SIZE),
                     UCXPOOL_WAY_MESSAGES);
    ck_assert_int_eq(use_window(false, host, device, WINDOW_SIZE),
                     UCXPOOL_WAY_MESSAGES);
    gpu_free(device);
}

/* Use a window in the blocks of pool b, and one in its heap. */
static void check_file_windows(ucxpool_way_t of_blocks, ucxpool_way_t of_heap)
{
    uint8_t     *device   = gpu_alloc(WINDOW_SIZE);
    uint64_t     pinnable = pair.a->memory.pinnable;
    core_stats_t stats;
    uint64_t     before;
    void        *blocks, *heap;

    core_stats_get(pair.a, &stats);
    before = stats.counts.read[UCXPOOL_WAY_CUDA].bytes;
    assert_ok(ucxpool_comm_alloc(pair.b, WINDOW_SIZE, &blocks));
    assert_ok(ucxpool_heap_alloc(pair.b, WINDOW_SIZE, NULL, &heap));
    memset(heap, 0, WINDOW_SIZE); /* only backed pages can be mapped */
    ck_assert_int_eq(use_window(false, blocks, device, WINDOW_SIZE), of_blocks);
    ck_assert_int_eq(use_window(false, heap, device, WINDOW_SIZE), of_heap);
    ck_assert_uint_eq(pair.a->memory.pinnable, pinnable);
    core_stats_get(pair.a, &stats);
    ck_assert_uint_eq(
        stats.counts.read[UCXPOOL_WAY_CUDA].bytes - before,
        ((of_blocks == UCXPOOL_WAY_CUDA) + (of_heap == UCXPOOL_WAY_CUDA)) *
            WINDOW_SIZE);
    ucxpool_comm_free(pair.b, blocks);
    assert_ok(ucxpool_heap_free(pair.b, heap, NULL));
    gpu_free(device);
}

STAND_IN_TEST(gpu_reads_windows_in_files_of_a_host_pool)
{
    create_pair();
    pair_connect(&pair);
    check_file_windows(UCXPOOL_WAY_CUDA, UCXPOOL_WAY_CUDA);
}

STAND_IN_TEST(gpu_reads_windows_in_files_that_the_owner_passes)
{
    forbid_taking(EPERM, true);
    create_pair();
    pair_connect(&pair);
    check_file_windows(UCXPOOL_WAY_CUDA, UCXPOOL_WAY_CUDA);
}

STAND_IN_TEST(windows_that_cannot_be_pinned_use_messages)
{
    create_pair();
    pair_connect(&pair);
    pair.a->memory.pinnable = 0;
    check_file_windows(UCXPOOL_WAY_CUDA, UCXPOOL_WAY_MESSAGES);
    close_channels();
    pair.a->memory.pinnable = 0;
    pair_connect(&pair); /* the blocks are not pinned either */
    check_file_windows(UCXPOOL_WAY_MESSAGES, UCXPOOL_WAY_MESSAGES);
}

/* Returns the result of revoking an imported window of pool b while pool a
 * makes no progress. */
static ucxpool_status_t revoke(void *owned, size_t size, unsigned access)
{
    ucxpool_remote_window_t *remote;
    ucxpool_window_t        *window;
    ucxpool_status_t         status;

    assert_ok(ucxpool_window_create(pair.b, owned, size, NULL, &window));
    remote = import(pair.to_b, window, access);
    status = ucxpool_window_revoke(window, 10000000);
    ucxpool_remote_window_release(remote);
    pair_progress(&pair);
    pair_destroy_window(window);
    return status;
}

STAND_IN_TEST(revoke_waits_only_for_gpus_that_may_have_pinned_the_window)
{
    const unsigned both = UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE;
    void          *one, *several;

    create_pair_with("LOG_LEVEL=none COMM_SIZE=8m REGION_SIZE=1m");
    pair_connect(&pair);
    assert_ok(ucxpool_comm_alloc(pair.b, WINDOW_SIZE, &one));
    assert_ok(ucxpool_comm_alloc(pair.b, 2 * MIB, &several));
    ck_assert_int_eq(revoke(one, WINDOW_SIZE, both), UCXPOOL_INPROGRESS);
    assert_ok(revoke(one, WINDOW_SIZE, UCXPOOL_WINDOW_WRITE));
    assert_ok(revoke(several, 2 * MIB, both));
    ucxpool_comm_free(pair.b, one);
    ucxpool_comm_free(pair.b, several);
}

STAND_IN_TEST(windows_in_several_regions_use_messages)
{
    const size_t size = 2 * MIB;
    uint8_t     *device;
    void        *owned;

    create_pair_with("LOG_LEVEL=none COMM_SIZE=8m REGION_SIZE=1m");
    pair_connect(&pair);
    device = gpu_alloc(size);
    assert_ok(ucxpool_comm_alloc(pair.b, size, &owned));
    ck_assert_int_eq(use_window(false, owned, device, size),
                     UCXPOOL_WAY_MESSAGES);
    ucxpool_comm_free(pair.b, owned);
    gpu_free(device);
}
