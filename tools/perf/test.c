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
    {"each",
     "scattered buffers in one message, against one active message "
     "per buffer",
     TEST_UNIT_RATE,
     4096,
     16384,
     WAY_POOL,
     {WAY_AM_EACH, WAY_LAST},
     GPU_SCATTERED,
     false,
     0,
     0,
     true},
    {"mixed",
     "scattered buffers of lengths as columns have them, up to -s, "
     "against one active message per buffer",
     TEST_UNIT_RATE,
     8 << 20,
     180,
     WAY_POOL,
     {WAY_AM_EACH, WAY_LAST},
     GPU_SCATTERED,
     true,
     0,
     0,
     false},
    {"misaligned",
     "scattered buffers, the sender's one byte off, against one "
     "active message per buffer",
     TEST_UNIT_RATE,
     4096,
     16384,
     WAY_POOL,
     {WAY_AM_EACH, WAY_LAST},
     GPU_SCATTERED,
     false,
     1,
     0,
     true},
    {"few-blocks",
     "scattered buffers through 16 MiB of send blocks in all, "
     "against one active message per buffer",
     TEST_UNIT_RATE,
     4096,
     16384,
     WAY_POOL,
     {WAY_AM_EACH, WAY_LAST},
     GPU_SCATTERED,
     false,
     0,
     16 << 20,
     true},
    {"iov",
     "scattered buffers in one message, against UCX's IOV datatype",
     TEST_UNIT_RATE,
     4096,
     16384,
     WAY_POOL,
     {WAY_IOV, WAY_LAST},
     {WAY_IOV, WAY_COPY_EACH, WAY_LAST},
     false,
     0,
     0,
     false},
    {"comm",
     "ucxpool_comm_alloc memory on both sides, against raw UCX with a "
     "memory handle",
     TEST_UNIT_RATE,
     SIZE_64M,
     1,
     WAY_POOL_COMM,
     {WAY_AM_MEMH, WAY_TAG_MEMH, WAY_LAST},
     GPU_REGISTERED,
     false,
     0,
     0,
     false},
    {"comm-send",
     "ucxpool_comm_alloc memory at the sender, against raw UCX "
     "with a memory handle",
     TEST_UNIT_RATE,
     SIZE_64M,
     1,
     WAY_POOL_COMM_SEND,
     {WAY_AM_MEMH, WAY_TAG_MEMH, WAY_LAST},
     GPU_REGISTERED,
     false,
     0,
     0,
     false},
    {"comm-recv",
     "ucxpool_comm_alloc memory at the receiver, against raw UCX "
     "with a memory handle",
     TEST_UNIT_RATE,
     SIZE_64M,
     1,
     WAY_POOL_COMM_RECV,
     {WAY_AM_MEMH, WAY_TAG_MEMH, WAY_LAST},
     GPU_REGISTERED,
     false,
     0,
     0,
     false},
    {"any",
     "any other memory, against raw UCX",
     TEST_UNIT_RATE,
     SIZE_64M,
     1,
     WAY_POOL,
     {WAY_AM, WAY_TAG, WAY_LAST},
     GPU_CONTIGUOUS,
     false,
     0,
     0,
     false},
    {"pingpong",
     "one message there and back, against a raw active message",
     TEST_UNIT_TRIP,
     64,
     1,
     WAY_POOL,
     {WAY_AM, WAY_LAST},
     GPU_CONTIGUOUS,
     false,
     0,
     0,
     false},
    {"pingpong-comm",
     "one message of ucxpool_comm_alloc memory there and back",
     TEST_UNIT_TRIP,
     64,
     1,
     WAY_POOL_COMM,
     {WAY_AM, WAY_LAST},
     GPU_CONTIGUOUS,
     false,
     0,
     0,
     false},
    {"pingpong-event",
     "one message there and back, both sides asleep on the event descriptor",
     TEST_UNIT_TRIP,
     64,
     1,
     WAY_POOL_EVENT,
     {WAY_LAST},
     {WAY_LAST},
     false,
     0,
     0,
     false},
    {"pingpong-wait",
     "one message there and back, both sides in ucxpool_wait()",
     TEST_UNIT_TRIP,
     64,
     1,
     WAY_POOL_WAIT,
     {WAY_LAST},
     {WAY_LAST},
     false,
     0,
     0,
     false},
    {"rate",
     "messages of one buffer each, against messages of raw UCX",
     TEST_UNIT_MESSAGES,
     8,
     4096,
     WAY_POOL_EACH,
     {WAY_AM_EACH, WAY_TAG_EACH, WAY_LAST},
     {WAY_LAST},
     false,
     0,
     0,
     false},
    {"block",
     "one block taken and given back, one thread",
     TEST_UNIT_BLOCK,
     1,
     1,
     WAY_BLOCK,
     {WAY_LAST},
     {WAY_LAST},
     false,
     0,
     0,
     false},
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
