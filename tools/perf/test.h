/*
 * Tests: which work is done, and which sides do it.
 */
#ifndef PERF_TEST_H
#define PERF_TEST_H

#include "perf/side.h"
#include "perf/work.h"

#define TEST_MAX_WAYS 7

typedef enum test_unit {
    TEST_UNIT_RATE,     /* GB/s of a stream of messages, or of each way */
    TEST_UNIT_TRIP,     /* microseconds there and back */
    TEST_UNIT_MESSAGES, /* millions a second, of one buffer each */
    TEST_UNIT_BLOCK     /* nanoseconds of a block's get and put */
} test_unit_t;

typedef struct test {
    const char *name;
    const char *title;
    test_unit_t unit;
    uint64_t    size;  /* unless -s says otherwise */
    uint64_t    count; /* unless -n says otherwise */
    uint32_t    pool_way;
    /* Each in both modes; the fastest of a mode is what the pool is measured
     * against. Ends with WAY_LAST. */
    uint32_t raw_ways[TEST_MAX_WAYS];
    /* The same, for buffers in a GPU's memory. */
    uint32_t gpu_ways[TEST_MAX_WAYS];
    bool     is_mixed;   /* lengths, see work_length() */
    bool     is_both;    /* directions, see work_t */
    uint32_t misaligned; /* bytes, see work_t */
    uint64_t send_size;  /* bytes, see job_t */
    bool     has_pieces; /* the pool does it by WAY_POOL_PIECES, too */
} test_t;

/* NULL when there is none of that name. */
const test_t *test_find(const char *name);

/* By number, from 0; NULL after the last. */
const test_t *test_at(unsigned index);

/* What -t, -s, -n and --wire together ask for, as a table of the issue has it:
 * a line of ucxpool_perf's own command. */
typedef struct test_row {
    const char *table; /* "map", "ucx", "both"; "cuda", "cuda-ucx" */
    const char *test;
    uint64_t    size;
    uint64_t    count;
    uint32_t    pool_mode;
} test_row_t;

const test_row_t *test_row_at(unsigned index);

/* Is it a table of buffers in a GPU's memory? */
bool test_table_is_on_gpu(const char *table);

#endif
