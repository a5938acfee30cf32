/*
 * Pools on a GPU in two processes: the wires as applications use them, with
 * handles of CUDA IPC and of virtual memory.
 */
#include <config.h>

#include "core/pool.h"
#include "forbid.h"
#include "pair.h"
#include "segments.h"
#include "test.h"
#include "two_gpu.h"

#include "core/stats.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TAG      UINT64_C(42)
#define ALL_BITS UINT64_MAX

/* For the callers' buffers. */
#define ROOM " COMM_SIZE=32m"

static const struct {
    const char *settings;
    bool        is_forbidden; /* to take descriptors: peers request them */
} kinds[] = {
    {"CUDA_BACKING=alloc WIRE=map" ROOM, false},
    {"CUDA_BACKING=vmm WIRE=map" ROOM, false},
    {"CUDA_BACKING=alloc WIRE=map MAP_WAY=push" ROOM, false},
    {"CUDA_BACKING=vmm WIRE=map MAP_WAY=push" ROOM, false},
    {"CUDA_BACKING=alloc WIRE=map" ROOM, true},
    {"CUDA_BACKING=vmm WIRE=map" ROOM, true},
    {"CUDA_BACKING=alloc WIRE=ucx" ROOM, false},
    {"CUDA_BACKING=host WIRE=ucx" ROOM, false},
};
#define NUM_KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

static two_t two;

static void start(int kind)
{
    if (kinds[kind].is_forbidden) {
        forbid_taking(EPERM, true);
    }
    two_gpu_start(&two, kinds[kind].settings);
    two_check(!kinds[kind].is_forbidden || two.pool->wireup.was_forbidden);
}

static void stop(void)
{
    two_check(ucxpool_check(two.pool) == UCXPOOL_OK);
    mem_cuda_device_close(gpu);
    two_cleanup(&two);
}

/* Data that both processes can compute. */
static void fill(uint8_t *bytes, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++) {
        seed     = seed * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(seed >> 24);
    }
}

static void finish(ucxpool_request_t *request)
{
    two_check(ucxpool_request_wait(request, pair_patience()) == UCXPOOL_OK);
    ucxpool_request_release(request);
}

/* One message of segments of `length` bytes, separated by `gap` bytes. */
static void transfer(size_t size, size_t length, size_t gap, unsigned seed,
                     uint8_t *memory)
{
    size_t             count    = (size + length - 1) / length;
    ucxpool_segment_t *segments = calloc(count, sizeof(*segments));
    size_t             room     = count * (length + gap);
    uint8_t           *bytes    = malloc(room);
    uint8_t           *expected = malloc(room);
    ucxpool_request_t *request;

    fill(expected, room, seed);
    for (size_t i = 0; i < count; i++) {
        segments[i].address = memory + i * (length + gap);
        segments[i].length =
            (i + 1 < count) ? length : size - (count - 1) * length;
    }
    if (two.is_child) {
        memset(bytes, 0xfe, room);
        gpu_write(memory, bytes, room);
        two_check(recv_segments(two.pool, two.channel, segments, count, TAG,
                                ALL_BITS, NULL, &request) == UCXPOOL_OK);
        finish(request);
        gpu_read(bytes, memory, room);
        for (size_t i = 0; i < count; i++) {
            size_t at = i * (length + gap);

            two_check(memcmp(bytes + at, expected + at, segments[i].length) ==
                      0);
            for (size_t j = segments[i].length; j < length + gap; j++) {
                two_check(bytes[at + j] == 0xfe);
            }
        }
    } else {
        gpu_write(memory, expected, room);
        two_check(send_segments(two.channel, segments, count, TAG, NULL,
                                &request) == UCXPOOL_OK);
        finish(request);
    }
    free(segments);
    free(bytes);
    free(expected);
}

TEST_SETTINGS(.timeout = 120, .only_if = cuda_is_present);

TEST_EACH(buffers_of_all_kinds_arrive, NUM_KINDS)
{
    static const struct {
        size_t size, length, gap;
    } shapes[] = {
        {1, 1, 0},
        {4096, 4096, 0},
        {100000, 7, 1},
        {1000000, 64, 64},
        {3000000, 256, 3},
        {20000000, 4096, 16},
        {30000000, 30000000, 0},
        {20000000, 1000001, 5},
    };
    uint8_t *memory;

    start(_i);
    memory = gpu_alloc((size_t)64 << 20);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        transfer(shapes[i].size, shapes[i].length, shapes[i].gap,
                 (unsigned)i + 1, memory);
    }
    gpu_free(memory);
    stop();
}

/* These tests cannot fill comm memory in pinned host memory. */
TEST_EACH(comm_memory_is_sent_in_place_if_possible, NUM_KINDS - 1)
{
    const size_t size = (size_t)12 << 20;
    core_stats_t stats;
    void        *memory;

    start(_i);
    two_check(ucxpool_comm_alloc(two.pool, size, &memory) == UCXPOOL_OK);
    transfer(size, size, 0, 5, memory);
    core_stats_get(two.pool, &stats);
    if (strstr(kinds[_i].settings, "map") != NULL) {
        const core_traffic_t *traffic =
            two.is_child ? stats.counts.received : stats.counts.sent;

        two_check(traffic[CORE_MODE_MAP_INPLACE].bytes == size);
    }
    ucxpool_comm_free(two.pool, memory);
    stop();
}
