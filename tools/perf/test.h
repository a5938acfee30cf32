/* The tests, and tables of them. */
#ifndef PERF_TEST_H
#define PERF_TEST_H

#include "perf/job.h"

typedef enum test_unit {
    UNIT_RATE,    /* GB/s of a stream of messages, or of each way */
    UNIT_TRIP,    /* microseconds per round trip */
    UNIT_MESSAGES /* millions per second, of one buffer each */
} test_unit_t;

#define TEST_MAX_WAYS 7

typedef struct test {
    const char *name;
    const char *title;
    test_unit_t unit;
    uint64_t    size;  /* default of -s */
    uint64_t    count; /* default of -n */
    uint32_t    pool_way;
    /* Ways of raw UCX, each in both modes, in host memory and in GPU memory.
     * Terminated by WAY_NONE. */
    uint32_t raw_ways[TEST_MAX_WAYS];
    uint32_t gpu_ways[TEST_MAX_WAYS];
    uint32_t second_way; /* another way of the pool; WAY_NONE: none */
    bool     is_both;    /* both directions, see work_t */
    uint32_t misaligned; /* bytes, see work_t */
} test_t;

/* Returns the test with this name, or NULL. */
const test_t *test_find(const char *name);

/* A row of a table: the values of -t, -s, -n and --wire. */
typedef struct test_row {
    const char *table; /* "map", "ucx", "cuda", "cuda-ucx" */
    const char *test;
    uint64_t    size;
    uint64_t    count;
    uint32_t    pool_mode;
} test_row_t;

/* Returns the row with this number, from 0, or NULL after the last. */
const test_row_t *test_row_at(unsigned index);

/* Returns true if the table is for buffers in GPU memory. */
bool test_table_is_on_gpu(const char *table);

/* Print tests and sides. */
void test_list(void);

#endif
