#include "perf/test.h"

#include <stddef.h>
#include <string.h>

#define SIZE_64M ((uint64_t)64 << 20)
#define SIZE_1G  ((uint64_t)1 << 30)

/* What scattered and contiguous buffers of a GPU are compared with. */
#define GPU_SCATTERED \
    { \
        WAY_AM_EACH, WAY_TAG_EACH, WAY_AM_MEMH, WAY_TAG_MEMH, WAY_COPY_EACH, \
            WAY_COPY, WAY_LAST \
    }
#define GPU_CONTIGUOUS \
    { \
        WAY_AM, WAY_TAG, WAY_AM_MEMH, WAY_TAG_MEMH, WAY_COPY, WAY_LAST \
    }
#define GPU_REGISTERED \
    { \
        WAY_AM_MEMH, WAY_TAG_MEMH, WAY_COPY, WAY_LAST \
    }

static const test_t tests[] = {
    {.name       = "each",
     .title      = "scattered buffers in one message, against one active "
                   "message per buffer",
     .size       = 4096,
     .count      = 16384,
     .pool_way   = WAY_POOL,
     .raw_ways   = {WAY_AM_EACH, WAY_LAST},
     .gpu_ways   = GPU_SCATTERED,
     .has_pieces = true},
    {.name     = "mixed",
     .title    = "scattered buffers of lengths as columns have them, up to -s, "
                 "against one active message per buffer",
     .size     = 8 << 20,
     .count    = 180,
     .pool_way = WAY_POOL,
     .raw_ways = {WAY_AM_EACH, WAY_LAST},
     .gpu_ways = GPU_SCATTERED,
     .is_mixed = true},
    {.name       = "misaligned",
     .title      = "scattered buffers, the sender's one byte off, against one "
                   "active message per buffer",
     .size       = 4096,
     .count      = 16384,
     .pool_way   = WAY_POOL,
     .raw_ways   = {WAY_AM_EACH, WAY_LAST},
     .gpu_ways   = GPU_SCATTERED,
     .misaligned = 1,
     .has_pieces = true},
    {.name       = "few-blocks",
     .title      = "scattered buffers through 16 MiB of send blocks in all, "
                   "against one active message per buffer",
     .size       = 4096,
     .count      = 16384,
     .pool_way   = WAY_POOL,
     .raw_ways   = {WAY_AM_EACH, WAY_LAST},
     .gpu_ways   = GPU_SCATTERED,
     .send_size  = 16 << 20,
     .has_pieces = true},
    {.name     = "iov",
     .title    = "scattered buffers in one message, against UCX's IOV datatype",
     .size     = 4096,
     .count    = 16384,
     .pool_way = WAY_POOL,
     .raw_ways = {WAY_IOV, WAY_LAST},
     .gpu_ways = {WAY_IOV, WAY_COPY_EACH, WAY_LAST}},
    {.name       = "both",
     .title      = "scattered buffers in both directions at once, each way "
                   "against one active message per buffer",
     .size       = 4096,
     .count      = 16384,
     .pool_way   = WAY_POOL,
     .raw_ways   = {WAY_AM_EACH, WAY_LAST},
     .gpu_ways   = GPU_SCATTERED,
     .is_both    = true,
     .has_pieces = true},
    {.name     = "read",
     .title    = "scattered pieces of the receiver's window, read by the "
                 "sender, against UCX's gets",
     .size     = 4096,
     .count    = 16384,
     .pool_way = WAY_POOL_READ,
     .raw_ways = {WAY_GET_EACH, WAY_GET, WAY_LAST},
     .gpu_ways = {WAY_COPY_EACH, WAY_COPY, WAY_LAST}},
    {.name     = "write",
     .title    = "scattered pieces of the receiver's window, written by the "
                 "sender, against UCX's puts",
     .size     = 4096,
     .count    = 16384,
     .pool_way = WAY_POOL_WRITE,
     .raw_ways = {WAY_PUT_EACH, WAY_PUT, WAY_LAST},
     .gpu_ways = {WAY_COPY_EACH, WAY_COPY, WAY_LAST}},
    {.name  = "comm",
     .title = "ucxpool_comm_alloc memory on both sides, against raw UCX with "
              "a memory handle",
     .size  = SIZE_64M,
     .count = 1,
     .pool_way = WAY_POOL_COMM,
     .raw_ways = {WAY_AM_MEMH, WAY_TAG_MEMH, WAY_LAST},
     .gpu_ways = GPU_REGISTERED},
    {.name     = "comm-send",
     .title    = "ucxpool_comm_alloc memory at the sender, against raw UCX "
                 "with a memory handle",
     .size     = SIZE_64M,
     .count    = 1,
     .pool_way = WAY_POOL_COMM_SEND,
     .raw_ways = {WAY_AM_MEMH, WAY_TAG_MEMH, WAY_LAST},
     .gpu_ways = GPU_REGISTERED},
    {.name     = "comm-recv",
     .title    = "ucxpool_comm_alloc memory at the receiver, against raw UCX "
                 "with a memory handle",
     .size     = SIZE_64M,
     .count    = 1,
     .pool_way = WAY_POOL_COMM_RECV,
     .raw_ways = {WAY_AM_MEMH, WAY_TAG_MEMH, WAY_LAST},
     .gpu_ways = GPU_REGISTERED},
    {.name     = "any",
     .title    = "any other memory, against raw UCX",
     .size     = SIZE_64M,
     .count    = 1,
     .pool_way = WAY_POOL,
     .raw_ways = {WAY_AM, WAY_TAG, WAY_LAST},
     .gpu_ways = GPU_CONTIGUOUS},
    {.name     = "pingpong",
     .title    = "one message there and back, against a raw active message",
     .unit     = TEST_UNIT_TRIP,
     .size     = 64,
     .count    = 1,
     .pool_way = WAY_POOL,
     .raw_ways = {WAY_AM, WAY_LAST},
     .gpu_ways = GPU_CONTIGUOUS},
    {.name     = "pingpong-comm",
     .title    = "one message of ucxpool_comm_alloc memory there and back",
     .unit     = TEST_UNIT_TRIP,
     .size     = 64,
     .count    = 1,
     .pool_way = WAY_POOL_COMM,
     .raw_ways = {WAY_AM, WAY_LAST},
     .gpu_ways = GPU_CONTIGUOUS},
    {.name     = "pingpong-event",
     .title    = "one message there and back, both sides asleep on the event "
                 "descriptor",
     .unit     = TEST_UNIT_TRIP,
     .size     = 64,
     .count    = 1,
     .pool_way = WAY_POOL_EVENT,
     .raw_ways = {WAY_LAST},
     .gpu_ways = {WAY_LAST}},
    {.name     = "pingpong-wait",
     .title    = "one message there and back, both sides in ucxpool_wait()",
     .unit     = TEST_UNIT_TRIP,
     .size     = 64,
     .count    = 1,
     .pool_way = WAY_POOL_WAIT,
     .raw_ways = {WAY_LAST},
     .gpu_ways = {WAY_LAST}},
    {.name     = "rate",
     .title    = "messages of one buffer each, against messages of raw UCX",
     .unit     = TEST_UNIT_MESSAGES,
     .size     = 8,
     .count    = 4096,
     .pool_way = WAY_POOL_EACH,
     .raw_ways = {WAY_AM_EACH, WAY_TAG_EACH, WAY_LAST},
     .gpu_ways = {WAY_LAST}},
    {.name     = "block",
     .title    = "one block taken and given back, one thread",
     .unit     = TEST_UNIT_BLOCK,
     .size     = 1,
     .count    = 1,
     .pool_way = WAY_BLOCK,
     .raw_ways = {WAY_LAST},
     .gpu_ways = {WAY_LAST}},
};

static const test_row_t rows[] = {
    {"map", "each", 256, 65536, MODE_MAP},
    {"map", "each", 4096, 16384, MODE_MAP},
    {"map", "iov", 256, 65536, MODE_MAP},
    {"map", "iov", 4096, 16384, MODE_MAP},
    {"map", "comm", SIZE_64M, 1, MODE_MAP},
    {"map", "any", SIZE_64M, 1, MODE_MAP},
    {"map", "pingpong", 64, 1, MODE_MAP},
    {"ucx", "each", 256, 65536, MODE_UCX},
    {"ucx", "each", 4096, 16384, MODE_UCX},
    {"ucx", "iov", 256, 65536, MODE_UCX},
    {"ucx", "iov", 4096, 16384, MODE_UCX},
    {"ucx", "comm", SIZE_64M, 1, MODE_UCX},
    {"ucx", "any", SIZE_64M, 1, MODE_UCX},
    {"both", "block", 1, 1, MODE_AUTO},
    {"cuda", "each", 4096, 131072, MODE_MAP},
    {"cuda", "each", 1024, 131072, MODE_MAP},
    {"cuda", "each", 256, 262144, MODE_MAP},
    {"cuda", "each", 64, 1048576, MODE_MAP},
    {"cuda", "each", 1 << 20, 512, MODE_MAP},
    {"cuda", "mixed", 8 << 20, 1170, MODE_MAP},
    {"cuda", "misaligned", 4096, 131072, MODE_MAP},
    {"cuda", "few-blocks", 4096, 131072, MODE_MAP},
    {"cuda", "any", SIZE_1G, 1, MODE_MAP},
    {"cuda", "comm", SIZE_1G, 1, MODE_MAP},
    {"cuda", "pingpong", 4096, 1, MODE_MAP},
    {"cuda", "pingpong-comm", 4096, 1, MODE_MAP},
    {"cuda-ucx", "each", 4096, 131072, MODE_UCX},
    {"cuda-ucx", "each", 1024, 131072, MODE_UCX},
    {"cuda-ucx", "any", SIZE_1G, 1, MODE_UCX},
    {"cuda-ucx", "comm", SIZE_1G, 1, MODE_UCX},
};

const test_t *test_at(unsigned index)
{
    return index < sizeof(tests) / sizeof(tests[0]) ? &tests[index] : NULL;
}

const test_t *test_find(const char *name)
{
    const test_t *test;

    for (unsigned i = 0; (test = test_at(i)) != NULL; i++) {
        if (strcmp(test->name, name) == 0) {
            return test;
        }
    }
    return NULL;
}

const test_row_t *test_row_at(unsigned index)
{
    return index < sizeof(rows) / sizeof(rows[0]) ? &rows[index] : NULL;
}

bool test_table_is_on_gpu(const char *table)
{
    return strncmp(table, "cuda", 4) == 0;
}
