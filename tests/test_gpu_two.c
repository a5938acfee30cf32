/*
 * Pools on a GPU in two processes: the wires as applications use them, with
 * handles of CUDA IPC and of virtual memory.
 */
#include "core/pool.h"
#include "forbid.h"
#include "pair.h"
#include "test.h"
#include "two_gpu.h"

#include "core/stats.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

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

/* The parent sends one message of segments of `length` bytes, separated by
 * `gap` bytes. */
static void transfer(size_t size, size_t length, size_t gap, unsigned seed,
                     uint8_t *memory)
{
    two_gpu_transfer(&two, !two.is_child, size, length, gap, seed, memory);
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
    two_gpu_stop(&two);
}

/* These tests cannot fill comm memory in pinned host memory. */
TEST_EACH(comm_memory_is_sent_in_place_if_possible, NUM_KINDS - 1)
{
    const size_t size = (size_t)12 << 20;
    core_stats_t stats;
    void        *memory;

    start(_i);
    two_ok(ucxpool_comm_alloc(two.pool, size, &memory));
    transfer(size, size, 0, 5, memory);
    core_stats_get(two.pool, &stats);
    if (strstr(kinds[_i].settings, "map") != NULL) {
        const core_traffic_t *traffic =
            two.is_child ? stats.counts.received : stats.counts.sent;

        two_check(traffic[CORE_MODE_MAP_INPLACE].bytes == size);
    }
    ucxpool_comm_free(two.pool, memory);
    two_gpu_stop(&two);
}
