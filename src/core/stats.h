/* Statistics of pools and channels: latency histograms, counters,
 * registrations, and the heap. */
#ifndef CORE_STATS_H
#define CORE_STATS_H

#include "base/clock.h"
#include "block/pool.h"
#include "heap/heap.h"

#include <ucxpool/stats.h>
#include <ucxpool/window.h>

#include <stdbool.h>
#include <stdint.h>

/* --- latencies ------------------------------------------------------------ */

/*
 * Histograms of the latency of the caller's operations, from post to
 * completion, by operation, wire and path.
 *
 * Reading the clock twice for each operation would slow down short messages by
 * several percent. So only some operations are timed: sends, reads and writes
 * of at least CORE_LATENCY_LONG bytes, and samples of all others. The number of
 * operations of a histogram between two samples is random. Its mean is about
 * CORE_LATENCY_INTERVAL. An operation that is not timed is counted with the
 * latency of the last sample before it. So a histogram counts all operations.
 *
 * For most operations, the only cost is to test whether a sample is due and to
 * count down to the next one.
 */

#define CORE_LATENCY_LONG     65536u
#define CORE_LATENCY_INTERVAL 128u

/* While a histogram has fewer samples than this, the operation after a sample
 * is also sampled. */
#define CORE_LATENCY_FIRST 32u

/* The highest value of core_mode_t and of ucxpool_way_t. */
#define CORE_LATENCY_LAST_PATH 5u

typedef enum core_operation {
    CORE_OPERATION_NONE, /* internal: counted, but not shown */
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
    /* Since the last sample, `armed - left` operations were not timed. */
    int64_t armed;
    /* The last sample; its bucket is 0 before the first one. */
    uint64_t last_ns;
    unsigned last_bucket;
    uint64_t num_samples;
} core_histogram_t;

/* The histograms of one wire, by operation and path. */
typedef struct core_latency_wire {
    /* Decreases by 1 for each operation that is not timed. When it becomes
     * negative, the next operation is sampled. */
    int64_t          left[CORE_OPERATION_LAST][CORE_LATENCY_LAST_PATH + 1];
    core_histogram_t histograms[CORE_OPERATION_LAST]
                               [CORE_LATENCY_LAST_PATH + 1];
} core_latency_wire_t;

typedef struct core_latency {
    bool     skips[CORE_OPERATION_LAST]; /* the next operation is not sampled */
    uint32_t random;                     /* state of the random numbers */
    core_latency_wire_t wires[2];
} core_latency_t;

/* Returns the histograms of a wire. */
core_latency_wire_t *core_latency_of(core_latency_t *latency,
                                     ucxpool_wire_t  wire);

/* Returns the start time of an operation that is sampled. */
uint64_t core_latency_sample(core_latency_t  *latency,
                             core_operation_t operation) __attribute__((cold));

/* Add an operation that was timed. If `started` is 0, the operation was not
 * timed, and the next one will be sampled. */
void core_latency_update(core_latency_t *latency, core_latency_wire_t *wire,
                         core_operation_t operation, unsigned path,
                         uint64_t started) __attribute__((cold));

/* Read a histogram. */
void core_latency_get(core_latency_t *latency, const core_series_t *series,
                      ucxpool_histogram_t *histogram_p);

/* The lowest bit of a start time is 1 for a sample, and 0 for an operation that
 * is timed because of its size. */
#define CORE_LATENCY_SAMPLE UINT64_C(1)

/* Returns the start time of an operation of `size` bytes, for
 * core_latency_end(), or 0 if it is not timed. */
static inline uint64_t core_latency_begin(core_latency_t  *latency,
                                          core_operation_t operation,
                                          uint64_t         size)
{
    /* A long operation is not a sample, because only short operations are
     * counted with the latency of a sample. */
    if (size >= CORE_LATENCY_LONG) {
        return base_clock_now() & ~CORE_LATENCY_SAMPLE;
    }
    return latency->skips[operation] ? 0
                                     : core_latency_sample(latency, operation);
}

/* An operation with this start time has not been posted: sample the next one
 * instead. */
static inline void core_latency_cancel(core_latency_t  *latency,
                                       core_operation_t operation,
                                       uint64_t         started)
{
    if (started & CORE_LATENCY_SAMPLE) {
        latency->skips[operation] = false;
    }
}

/* Count operations that have succeeded. `started` is the start time of one of
 * them; the others were not timed. */
static inline void core_latency_end(core_latency_t      *latency,
                                    core_latency_wire_t *wire,
                                    core_operation_t operation, unsigned path,
                                    uint64_t started, uint32_t num)
{
    if (started != 0) {
        core_latency_update(latency, wire, operation, path, started);
        num--;
    }
    wire->left[operation][path] -= num;
    if (wire->left[operation][path] < 0) {
        core_latency_update(latency, wire, operation, path, 0);
    }
}

/* --- counters ------------------------------------------------------------- */

/* How the data of a message was transferred. */
typedef enum core_mode {
    CORE_MODE_EAGER       = 0, /* with the descriptor */
    CORE_MODE_MAP_PACKED  = 1, /* map wire, through a block */
    CORE_MODE_MAP_INPLACE = 2, /* map wire, directly from registered memory */
    CORE_MODE_UCX_PACKED  = 3, /* ucx wire, through a block */
    CORE_MODE_UCX_INPLACE = 4, /* ucx wire, directly from or to user memory */
    CORE_MODE_MAP_PUSHED  = 5, /* map wire, into a lent block */
    CORE_MODE_LAST
} core_mode_t;

typedef struct core_traffic {
    uint64_t bytes;
    uint64_t fragments; /* wire operations; eager: messages */
} core_traffic_t;

/* Count one wire operation. */
static inline void core_traffic_add(core_traffic_t *traffic, uint64_t bytes)
{
    traffic->bytes += bytes;
    traffic->fragments++;
}

/* The number of values of ucxpool_way_t. */
#define CORE_NUM_WAYS ((unsigned)UCXPOOL_WAY_RMA + 1)

/* The counters of a channel. All members consist of uint64_t, so that a loop
 * can add them. */
typedef struct core_counters {
    uint64_t       messages_sent;
    uint64_t       messages_received;
    uint64_t       messages_failed;      /* requests that ended with an error */
    uint64_t       messages_refused;     /* messages answered with an error */
    uint64_t       copies_avoided_bytes; /* sent or received in place */
    uint64_t       block_waits;          /* sends that waited for a block */
    uint64_t       block_wait_ns;        /* total time of block_waits */
    uint64_t       credit_waits;         /* waits of short sends for a credit */
    uint64_t       credit_wait_ns;
    core_traffic_t sent[CORE_MODE_LAST];
    core_traffic_t received[CORE_MODE_LAST];
    /* The data of reads and writes of windows, by ucxpool_way_t. `fragments` is
     * the number of reads or writes. */
    core_traffic_t read[CORE_NUM_WAYS];
    core_traffic_t written[CORE_NUM_WAYS];
} core_counters_t;

typedef struct core_stats {
    /* In a pool: the counts that do not belong to a channel, plus the counts of
     * channels that no longer exist. In a snapshot: these, plus the counts of
     * all channels. */
    core_counters_t counts;
    uint64_t        block_size;
    uint64_t        num_regions;
    uint64_t        registered_bytes;
    uint64_t        registrations;      /* total calls of
                                           ucp_mem_map() */
    uint64_t registrations_after_start; /* since a channel was first created */
    uint64_t domains_needed;        /* UCX's memory domains that must register
                                       all memory; see ucx/reg.h */
    uint64_t      regions_verified; /* regions registered in these domains */
    block_stats_t blocks[BLOCK_SHARE_LAST];
    uint64_t      channels_open;
    uint64_t      channels_failed;
    uint64_t      handshakes_refused;
    uint64_t      allocations;     /* malloc() calls for transfers */
    uint64_t      registration_ns; /* duration of registrations */
    uint64_t      budget_bytes;    /* BAR1 limit of COMM_SIZE=auto; 0: none, or
                                      not queried */
    uint64_t bytes_asked;          /* requested size of the blocks;
                                      registered_bytes is less if the pool was
                                      degraded */
    uint64_t           blocks_asked;
    uint64_t           degradations; /* failed attempts to create the memory */
    ucxpool_degraded_t degraded_to;
    char               degraded_why[192]; /* the first failure; or "" */

    /* Registrations by ucxpool_verbs_register() in all protection domains; a
     * region in two domains counts twice. */
    uint64_t verbs_domains;
    uint64_t verbs_registrations;   /* registrations of regions, in total */
    uint64_t verbs_registration_ns; /* total time of these registrations */
    uint64_t verbs_host_regions;    /* registered with ibv_reg_mr */
    uint64_t verbs_host_bytes;
    uint64_t verbs_dmabuf_regions; /* GPU memory, with ibv_reg_dmabuf_mr */
    uint64_t verbs_dmabuf_bytes;
    uint64_t verbs_peer_regions; /* GPU memory, with ibv_reg_mr */
    uint64_t verbs_peer_bytes;

    /* Registrations of windows with UCX, for get and put by peers. */
    uint64_t window_registered_bytes;
    uint64_t window_registrations;
    uint64_t window_registrations_refused; /* refused by UCX or WINDOW_BUDGET */
} core_stats_t;

/* Add the counters `from` to the counters `to`. */
void core_counters_add(core_counters_t *to, const core_counters_t *from);

/* Take a snapshot. */
void core_stats_get(ucxpool_t *pool, core_stats_t *stats_p);

/* Take a snapshot of the heap's statistics; all are 0 before the first
 * allocation. */
void core_heap_stats_get(ucxpool_t *pool, heap_stats_t *stats_p);

#endif
