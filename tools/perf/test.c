#include "perf/test.h"

#include <stddef.h>
#include <string.h>

static const test_t tests[] = {
    {"each", "scattered buffers in one message, against one active message "
             "per buffer",
     TEST_UNIT_RATE, 4096, 16384, WAY_POOL, {WAY_AM_EACH, WAY_LAST}},
    {"iov", "scattered buffers in one message, against UCX's IOV datatype",
     TEST_UNIT_RATE, 4096, 16384, WAY_POOL, {WAY_IOV, WAY_LAST}},
    {"comm", "ucxpool_comm_alloc memory on both sides, against raw UCX with a "
             "memory handle",
     TEST_UNIT_RATE, 64 << 20, 1, WAY_POOL_COMM,
     {WAY_AM_MEMH, WAY_TAG_MEMH, WAY_LAST}},
    {"comm-send", "ucxpool_comm_alloc memory at the sender, against raw UCX "
                  "with a memory handle",
     TEST_UNIT_RATE, 64 << 20, 1, WAY_POOL_COMM_SEND,
     {WAY_AM_MEMH, WAY_TAG_MEMH, WAY_LAST}},
    {"comm-recv", "ucxpool_comm_alloc memory at the receiver, against raw UCX "
                  "with a memory handle",
     TEST_UNIT_RATE, 64 << 20, 1, WAY_POOL_COMM_RECV,
     {WAY_AM_MEMH, WAY_TAG_MEMH, WAY_LAST}},
    {"any", "any other memory, against raw UCX",
     TEST_UNIT_RATE, 64 << 20, 1, WAY_POOL, {WAY_AM, WAY_TAG, WAY_LAST}},
    {"pingpong", "one message there and back, against a raw active message",
     TEST_UNIT_TRIP, 64, 1, WAY_POOL, {WAY_AM, WAY_LAST}},
    {"block", "one block taken and given back, one thread",
     TEST_UNIT_BLOCK, 1, 1, WAY_BLOCK, {WAY_LAST}},
};

static const test_row_t rows[] = {
    {"map", "each", 256, 65536, MODE_MAP},
    {"map", "each", 4096, 16384, MODE_MAP},
    {"map", "iov", 256, 65536, MODE_MAP},
    {"map", "iov", 4096, 16384, MODE_MAP},
    {"map", "comm", 64 << 20, 1, MODE_MAP},
    {"map", "any", 64 << 20, 1, MODE_MAP},
    {"map", "pingpong", 64, 1, MODE_MAP},
    {"ucx", "each", 256, 65536, MODE_UCX},
    {"ucx", "each", 4096, 16384, MODE_UCX},
    {"ucx", "iov", 256, 65536, MODE_UCX},
    {"ucx", "iov", 4096, 16384, MODE_UCX},
    {"ucx", "comm", 64 << 20, 1, MODE_UCX},
    {"ucx", "any", 64 << 20, 1, MODE_UCX},
    {"both", "block", 1, 1, MODE_AUTO},
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
