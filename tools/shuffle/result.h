/*
 * What one worker did.
 */
#ifndef SHUFFLE_RESULT_H
#define SHUFFLE_RESULT_H

#include "tools/shuffle/exchange.h"
#include "tools/shuffle/tally.h"

#include "common/pool_stats.h"

typedef struct result {
    tally_t            in;  /* records read */
    tally_t            out; /* records written, counted from what was written */
    uint64_t           num_added;    /* newlines that a last line lacked */
    uint64_t           max_resident; /* bytes of memory at the most */
    stopwatch_t        whole;
    stopwatch_t        copy; /* memcpy of bytes_received, if it was asked for */
    exchange_times_t   times;
    unsigned           num_map; /* peers by wire */
    unsigned           num_ucx;
    pool_stats_t       stats;
    ucxpool_degraded_t degraded_to;
    gpu_store_stats_t  gpu_store; /* size 0: there was none */
    uint64_t           early;     /* see writer.h */
} result_t;

#endif
