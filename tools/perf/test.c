#include "perf/test.h"

#include <stddef.h>
#include <string.h>

static const test_t tests[] = {
    {"each", "scattered buffers, one active message each",
     TEST_UNIT_RATE, 4096, 16384, WAY_LAST, {WAY_AM_EACH, WAY_LAST}},
    {"iov", "scattered buffers, UCX's IOV datatype",
     TEST_UNIT_RATE, 4096, 16384, WAY_LAST, {WAY_IOV, WAY_LAST}},
    {"comm", "contiguous memory, with a memory handle",
     TEST_UNIT_RATE, 64 << 20, 1, WAY_LAST,
     {WAY_AM_MEMH, WAY_TAG_MEMH, WAY_LAST}},
    {"any", "contiguous memory",
     TEST_UNIT_RATE, 64 << 20, 1, WAY_LAST, {WAY_AM, WAY_TAG, WAY_LAST}},
    {"pingpong", "one message there and back",
     TEST_UNIT_TRIP, 64, 1, WAY_LAST, {WAY_AM, WAY_LAST}},
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
