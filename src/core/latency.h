/*
 * How long the caller's operations take, from their post to their end:
 * histograms by operation, wire and path.
 *
 * Reading the clock twice for each operation would slow down short messages by
 * several percent. So only some operations are timed: sends, reads and writes
 * of at least CORE_LATENCY_LONG bytes, and samples of all others, one in about
 * CORE_LATENCY_INTERVAL at random intervals. An operation that is not timed is
 * counted with the latency of the last sample before it. So a histogram counts
 * all operations.
 */
#ifndef CORE_LATENCY_H
#define CORE_LATENCY_H

#include "base/clock.h"

#include <ucxpool/stats.h>
#include <ucxpool/window.h>

#include <stdint.h>

#define CORE_LATENCY_LONG     65536u
#define CORE_LATENCY_INTERVAL 128u

/* While a histogram has fewer samples, the operation after a sample is sampled,
 * too. */
#define CORE_LATENCY_FIRST 32u

/* Numbers above all values of ucxpool_wire_t, and of core_mode_t and
 * ucxpool_way_t. Powers of two, so that an index is computed by shifts. */
#define CORE_LATENCY_WIRES 4u
#define CORE_LATENCY_PATHS 8u

#define CORE_LATENCY_LAST_PATH 5u

typedef enum core_operation {
    CORE_OPERATION_NONE, /* not the caller's: counted, but not shown */
    CORE_OPERATION_SEND,
    CORE_OPERATION_RECV,
    CORE_OPERATION_READ,
    CORE_OPERATION_WRITE,
    CORE_OPERATION_LAST
} core_operation_t;

/* Operations of one kind, over one wire, along one path: a core_mode_t, or a
 * ucxpool_way_t for reads and writes. */
typedef struct core_series {
    core_operation_t operation;
    ucxpool_wire_t   wire;
    unsigned         path;
} core_series_t;

typedef struct core_histogram {
    uint64_t buckets[UCXPOOL_HISTOGRAM_BUCKETS];
    uint64_t sum;
    /* The last sample; its bucket is 0 before the first one. */
    uint64_t last_ns;
    unsigned last_bucket;
    unsigned num_samples; /* at most CORE_LATENCY_FIRST */
} core_histogram_t;

typedef struct core_latency {
    uint32_t until[CORE_OPERATION_LAST]; /* operations before the next sample */
    uint32_t random;                     /* state of the random numbers */
    /* Operations that were not timed, since the last sample. */
    uint64_t untimed[CORE_OPERATION_LAST][CORE_LATENCY_WIRES]
                    [CORE_LATENCY_PATHS];
    /* By operation, by wire (1: ucx), and by path. */
    core_histogram_t histograms[CORE_OPERATION_LAST][2]
                               [CORE_LATENCY_LAST_PATH + 1];
} core_latency_t;

/* Returns the start of a sample, and draws the interval to the next one. */
uint64_t core_latency_sample(core_latency_t  *latency,
                             core_operation_t operation);

/* Add an operation that was timed. */
void core_latency_add(core_latency_t *latency, const core_series_t *series,
                      uint64_t started);

/* Sample the next operation if the histogram has no sample. Called when 1, 2,
 * 4, 8, ... operations have not been timed. */
void core_latency_request(core_latency_t *latency, const core_series_t *series);

/* Read a histogram. */
void core_latency_get(core_latency_t *latency, const core_series_t *series,
                      ucxpool_histogram_t *histogram_p);

/* The lowest bit of a start is 1 in samples, and 0 in operations that are timed
 * because of their size. */
#define CORE_LATENCY_SAMPLE UINT64_C(1)

/* Returns the start of an operation of `size` bytes, for core_latency_end(); 0:
 * it is not timed. */
static inline uint64_t core_latency_begin(core_latency_t  *latency,
                                          core_operation_t operation,
                                          uint64_t         size)
{
    /* A long operation is no sample, because the operations that are counted
     * with the latency of a sample are all short. */
    if (size >= CORE_LATENCY_LONG) {
        return base_clock_now() & ~CORE_LATENCY_SAMPLE;
    }
    if (latency->until[operation]-- == 0) {
        return core_latency_sample(latency, operation);
    }
    return 0;
}

/* Count an operation that has succeeded. */
static inline void core_latency_end(core_latency_t  *latency,
                                    core_operation_t operation,
                                    ucxpool_wire_t wire, unsigned path,
                                    uint64_t started)
{
    const core_series_t series = {operation, wire, path};
    uint64_t            num;

    if (started != 0) {
        core_latency_add(latency, &series, started);
        return;
    }
    num = ++latency->untimed[operation][wire][path];
    if ((num & (num - 1)) == 0) {
        core_latency_request(latency, &series);
    }
}

#endif
