/*
 * Ranges for profilers. Each begins and ends once, with its name and number of
 * bytes, however the transfer ends. The profiler is tests/nvtx_stand_in.
 */
#include <config.h>

#include "base/trace.h"
#include "gpu.h"
#include "nvtx_stand_in/stand_in.h"
#include "pair.h"
#include "segments.h"
#include "test.h"
#include "xfer/send.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define TAG      UINT64_C(0x17)
#define ALL_BITS UINT64_MAX

/* Segments of whole alignment units, to avoid padding. */
#define SHORT_SIZE ((size_t)9600)
#define LONG_SIZE  ((size_t)10400)
#define BOTH_SIZE  (SHORT_SIZE + LONG_SIZE)

/* Only one block for sending. */
#define TINY "COMM_SIZE=192k REGION_SIZE=64k SEND_SHARE=33 RECV_SHARE=33"

/* A short message consists of one fragment. */
static const char *const wires[] = {"WIRE=map FRAG_SIZE=64k",
                                    "WIRE=ucx FRAG_SIZE=64k"};

static pair_t  pair;
static uint8_t source[1 << 20], target[1 << 20];

/* --- the profiler --------------------------------------------------------- */

static void attach(void)
{
    ck_assert_int_eq(setenv("NVTX_INJECTION64_PATH", NVTX_STAND_IN_PATH, 1), 0);
}

static void *find(const char *name)
{
    void *library  = dlopen(NVTX_STAND_IN_PATH, RTLD_NOW | RTLD_NOLOAD);
    void *function = NULL;

    ck_assert_msg(library != NULL, "NVTX has not loaded the profiler");
    function = dlsym(library, name);
    ck_assert_ptr_nonnull(function);
    dlclose(library); /* NVTX holds a reference too */
    return function;
}

static const nvtx_stand_in_range_t *told(unsigned *num_p)
{
    void                  *function = find(NVTX_STAND_IN_RANGES);
    nvtx_stand_in_ranges_t ranges;

    memcpy(&ranges, &function, sizeof(ranges));
    return ranges(num_p);
}

static bool is_named(const nvtx_stand_in_range_t *range, const char *name)
{
    return strcmp(range->name, name) == 0;
}

static unsigned count(const char *name)
{
    unsigned                     num, found = 0;
    const nvtx_stand_in_range_t *ranges = told(&num);

    for (unsigned i = 0; i < num; i++) {
        found += is_named(&ranges[i], name) ? 1 : 0;
    }
    return found;
}

static unsigned num_open(const char *name)
{
    unsigned                     num, found = 0;
    const nvtx_stand_in_range_t *ranges = told(&num);

    for (unsigned i = 0; i < num; i++) {
        found += is_named(&ranges[i], name) && (ranges[i].end == 0) ? 1 : 0;
    }
    return found;
}

static uint64_t size_of(const char *name)
{
    unsigned                     num;
    uint64_t                     size   = 0;
    const nvtx_stand_in_range_t *ranges = told(&num);

    for (unsigned i = 0; i < num; i++) {
        size += is_named(&ranges[i], name) ? ranges[i].size : 0;
    }
    return size;
}

static nvtx_stand_in_range_t the_only(const char *name)
{
    unsigned                     num;
    const nvtx_stand_in_range_t *ranges = told(&num);

    ck_assert_uint_eq(count(name), 1);
    while (!is_named(ranges, name)) {
        ranges++;
    }
    return *ranges;
}

static void require_all_over(void)
{
    void                  *function = find(NVTX_STAND_IN_FAULTS);
    nvtx_stand_in_faults_t faults;
    unsigned               num;

    memcpy(&faults, &function, sizeof(faults));
    ck_assert_uint_eq(faults(), 0);
    for (const nvtx_stand_in_range_t *range = told(&num); num > 0;
         num--, range++) {
        ck_assert_msg(range->end != 0, "%s has no end", range->name);
    }
}

static void end_pair(void)
{
    pair_check_blocks(&pair);
    pair_cleanup(&pair);
    require_all_over();
}

static void begin(const char *settings_a, const char *settings_b)
{
    attach();
    pair_init(&pair, settings_a, settings_b);
    test_at_end(end_pair);
}

/* --- host memory ---------------------------------------------------------- */

/* Two segments of the given total size, with a gap between them. */
static void halve(uint8_t *memory, size_t first, size_t second,
                  ucxpool_segment_t segments[2])
{
    segments[0] = (ucxpool_segment_t){memory, first};
    segments[1] = (ucxpool_segment_t){memory + first + 64, second};
}

static void exchange(size_t first, size_t second)
{
    ucxpool_segment_t  from[2], to[2];
    ucxpool_request_t *send, *recv;

    halve(source, first, second, from);
    halve(target, first, second, to);
    assert_ok(
        recv_segments(pair.b, pair.to_a, to, 2, TAG, ALL_BITS, NULL, &recv));
    assert_ok(send_segments(pair.to_b, from, 2, TAG, NULL, &send));
    pair_finish_both(&pair, send, recv);
}

TEST_SETTINGS(.only_if = cuda_is_present);

TEST_EACH(without_a_profiler_nothing_is_reported, 2)
{
    ck_assert_int_eq(unsetenv("NVTX_INJECTION64_PATH"), 0);
    pair_init(&pair, wires[_i], wires[_i]);
    ck_assert(!base_trace_is_on);
    exchange(SHORT_SIZE, LONG_SIZE);
    pair_cleanup(&pair);
    ck_assert_ptr_null(dlopen(NVTX_STAND_IN_PATH, RTLD_NOW | RTLD_NOLOAD));
}

TEST_EACH(a_fragment_is_gathered_sent_and_scattered, 2)
{
    nvtx_stand_in_range_t gather, wire, scatter;

    attach();
    pair_init(&pair, wires[_i], wires[_i]);
    ck_assert(base_trace_is_on);
    exchange(SHORT_SIZE, LONG_SIZE);
    end_pair();
    gather  = the_only("gather");
    wire    = the_only("wire");
    scatter = the_only("scatter");
    ck_assert_uint_eq(gather.size, BOTH_SIZE);
    ck_assert_uint_eq(wire.size, BOTH_SIZE);
    ck_assert_uint_eq(scatter.size, BOTH_SIZE);
    ck_assert_uint_lt(gather.end, wire.begin);
    ck_assert_uint_lt(wire.begin, scatter.begin);
    if (_i == 0) {
        /* The receiver copies from the sender's block. */
        ck_assert_uint_lt(scatter.end, wire.end);
    }
}

TEST_EACH(each_fragment_has_its_ranges, 2)
{
    static const char *const cut[] = {"WIRE=map FRAG_SIZE=16k INPLACE_MIN=1g",
                                      "WIRE=ucx FRAG_SIZE=16k INPLACE_MIN=1g"};

    attach();
    pair_init(&pair, cut[_i], cut[_i]);
    exchange(20 * SHORT_SIZE, 20 * LONG_SIZE);
    end_pair();
    ck_assert_uint_ge(count("gather"), 20 * BOTH_SIZE / 16384);
    ck_assert_uint_eq(count("wire"), count("gather"));
    ck_assert_uint_eq(size_of("gather"), 20 * BOTH_SIZE);
    ck_assert_uint_eq(size_of("wire"), 20 * BOTH_SIZE);
}

TEST(in_place_transfers_have_no_gather_range)
{
    const size_t       size = (size_t)128 << 10;
    ucxpool_request_t *send, *recv;
    void              *comm;

    attach();
    pair_init(&pair, wires[0], wires[0]);
    assert_ok(ucxpool_comm_alloc(pair.a, size, &comm));
    pair_fill(comm, size);
    recv = pair_recv(pair.b, pair.to_a, target, size, TAG);
    send = pair_send(pair.to_b, comm, size, TAG);
    pair_finish_both(&pair, send, recv);
    ucxpool_comm_free(pair.a, comm);
    end_pair();
    ck_assert_uint_eq(count("gather"), 0);
    ck_assert_uint_eq(size_of("wire"), size);
    ck_assert_uint_eq(size_of("scatter"), size);
}

/* --- queues and early ends ------------------------------------------------ */

/* Two messages at once. The second waits for the block of the first. */
static void post_two(ucxpool_request_t *sends[2], ucxpool_request_t *recvs[2])
{
    const size_t size = sizeof(source) / 2;

    for (unsigned i = 0; i < 2; i++) {
        recvs[i] =
            pair_recv(pair.b, pair.to_a, target + i * size, size, TAG + i);
    }
    for (unsigned i = 0; i < 2; i++) {
        sends[i] = pair_send(pair.to_b, source + i * size, size, TAG + i);
    }
}

TEST(a_send_waiting_for_a_block_has_a_range)
{
    ucxpool_request_t *sends[2], *recvs[2];

    begin("WIRE=map " TINY, "WIRE=map");
    post_two(sends, recvs);
    pair_until(&pair, num_open("wait for block") != 0);
    for (unsigned i = 0; i < 2; i++) {
        pair_finish_both(&pair, sends[i], recvs[i]);
    }
}

TEST(canceling_a_waiting_send_ends_its_range)
{
    ucxpool_request_t *sends[2], *recvs[2];

    begin("WIRE=map " TINY, "WIRE=map");
    post_two(sends, recvs);
    pair_until(&pair, num_open("wait for block") != 0);
    for (unsigned i = 0; i < 2; i++) {
        ucxpool_request_cancel(sends[i]);
    }
    ck_assert_uint_eq(num_open("wait for block"), 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_error(pair_finish(&pair, sends[i]), CANCELED);
        assert_error(pair_finish(&pair, recvs[i]), CANCELED);
    }
}

/* The peer stops with unprocessed fragments, and both pools are destroyed. */
TEST(ranges_of_pending_transfers_end_with_the_pool)
{
    attach();
    pair_init(&pair, wires[0], wires[0]);
    assert_ok(ucxpool_recv_buffer(pair.b, pair.to_a, target, sizeof(target),
                                  TAG, ALL_BITS, NULL, NULL));
    assert_ok(ucxpool_send_buffer(pair.to_b, source, sizeof(source), TAG, NULL,
                                  NULL));
    while (count("wire") == 0) {
        ucxpool_progress(pair.b);
        ucxpool_progress(pair.a);
    }
    ck_assert_uint_ne(num_open("wire"), 0);
    pair_cleanup(&pair);
    require_all_over();
}

/* --- windows -------------------------------------------------------------- */

static const char *const ways[] = {"WIRE=map", "WIRE=map WINDOW_WAY=messages"};

static bool is_free(const ucxpool_window_t *window)
{
    return pair_window_attr(window).num_peers == 0;
}

TEST_EACH(reads_and_writes_of_windows_have_ranges, 2)
{
    static const uint64_t offsets[] = {LONG_SIZE * 2, 0};
    ucxpool_places_t      places = ucxpool_places_even(offsets, 2, LONG_SIZE);
    ucxpool_data_t        data   = ucxpool_data_buffer(target, 2 * LONG_SIZE);
    ucxpool_window_t     *window;
    ucxpool_remote_window_t *remote;
    ucxpool_request_t       *request;

    begin(ways[_i], ways[_i]);
    assert_ok(
        ucxpool_window_create(pair.b, source, sizeof(source), NULL, &window));
    remote = pair_import(pair.to_b, window, PAIR_READ_AND_WRITE);
    assert_ok(
        ucxpool_remote_window_read(remote, &places, &data, NULL, &request));
    assert_ok(pair_finish(&pair, request));
    ck_assert_uint_eq(the_only("read").size, 2 * LONG_SIZE);
    ck_assert_uint_eq(num_open("read"), 0);
    assert_ok(
        ucxpool_remote_window_write(remote, &places, &data, NULL, &request));
    assert_ok(pair_finish(&pair, request));
    ck_assert_uint_eq(the_only("write").size, 2 * LONG_SIZE);
    ck_assert_uint_eq(num_open("write"), 0);
    ucxpool_remote_window_release(remote);
    pair_until(&pair, is_free(window));
    ucxpool_window_destroy(window);
}

/* --- GPU memory ----------------------------------------------------------- */

static const char *const backings[] = {"CUDA_BACKING=vmm WIRE=map FRAG_SIZE=1m",
                                       "CUDA_BACKING=vmm WIRE=ucx FRAG_SIZE=1m",
                                       "CUDA_BACKING=alloc FRAG_SIZE=1m"};

static void start(void)
{
    attach();
    gpu_start("run=n");
}

TEST_SETTINGS(.setup = start, .teardown = gpu_stop, .only_if = cuda_is_present);

/* Nothing has been copied yet, and more than one range is open. They stay open
 * until the GPU has completed the copies. */
TEST_EACH(launch_ranges_last_until_the_gpu_is_done, 3)
{
    const size_t             size   = (size_t)8 << 20;
    ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_STREAM,
        .stream     = UCXPOOL_STREAM_READY,
    };
    void              *from = gpu_alloc(size), *to = gpu_alloc(size);
    ucxpool_request_t *send, *recv;

    gpu_connect(&pair, backings[_i], backings[_i]);
    assert_ok(ucxpool_recv_buffer(pair.b, pair.to_a, to, size, TAG, ALL_BITS,
                                  &params, &recv));
    assert_ok(ucxpool_send_buffer(pair.to_b, from, size, TAG, &params, &send));
    if (!cuda_is_real()) {
        pair_until(&pair, num_open("gather") > 1);
        ck_assert_uint_eq(count("gather"), num_open("gather"));
        ck_assert_uint_eq(count("wire"), 0);
    }
    gpu_finish_both(&pair, send, recv);
    ck_assert_uint_eq(size_of("gather"), size);
    ck_assert_uint_eq(size_of("wire"), size);
    ck_assert_uint_eq(size_of("scatter"), size);
    gpu_disconnect(&pair);
    require_all_over();
    gpu_free(from);
    gpu_free(to);
}

/* --- two GPUs ------------------------------------------------------------- */

static void start_two(void)
{
    attach();
    gpu_start("run=n,devices=2");
}

TEST_SETTINGS(.setup = start_two, .teardown = gpu_stop);

/* The first message is short, and the receiver lends a mailbox with it. DATA of
 * the second one is sent when its gather is launched. */
STAND_IN_TEST(announced_fragment_is_on_the_wire_after_its_gather)
{
    static const char *const settings = "CUDA_BACKING=vmm WIRE=map "
                                        "MAP_WAY=push COMM_SIZE=32m";
    static const size_t      sizes[]  = {4096, sizeof(target)};
    void                    *from     = gpu_alloc(sizeof(target));
    ucxpool_request_t       *send, *recv;

    pair.a = pair_pool_on(0, settings);
    pair.b = pair_pool_on(1, settings);
    pair_connect(&pair);
    for (unsigned i = 0; i < 2; i++) {
        recv = pair_recv(pair.b, pair.to_a, target, sizes[i], TAG);
        send = pair_send(pair.to_b, from, sizes[i], TAG);
        gpu_until(&pair, pair_ended(send) && pair_ended(recv));
        ck_assert(send->send->is_early == (i == 1));
        gpu_finish_both(&pair, send, recv);
    }
    gpu_disconnect(&pair);
    require_all_over();
    ck_assert_uint_eq(size_of("gather"), sizes[0] + sizes[1]);
    ck_assert_uint_eq(size_of("wire"), sizes[0] + sizes[1]);
    gpu_free(from);
}
