/*
 * All that is measured of one allocator.
 */
#ifndef REPLAY_MEASURE_H
#define REPLAY_MEASURE_H

#include "replay/allocator.h"
#include "replay/curve.h"
#include "replay/reserve.h"
#include "replay/search.h"
#include "replay/times.h"
#include "replay/trace.h"

#include <stdbool.h>

#define MEASURE_MAX_ROUNDS 1000

typedef struct measure_params {
    uint64_t capacity;    /* 0: none */
    uint64_t heap_limit;  /* without one, for the heap and simulated ones; 0: */
                          /* none */
    unsigned  num_rounds; /* that are timed as a whole */
    bool      has_threads; /* each thread of the trace has one */
    bool      is_marked;   /* a further round writes and reads memory */
    bool      is_searched; /* find the smallest capacity */
    double    percent;     /* of the peak: the steps of that */
    reserve_t reserve;     /* before the first round, where one can */
} measure_params_t;

typedef struct measure {
    const allocator_kind_t *kind;
    times_summary_t         alloc; /* ns of a call */
    times_summary_t         free;
    uint64_t                first_ns; /* the first round, from an empty one */
    uint64_t                again_ns; /* the median of the others; 0: none */
    uint64_t                num_failures; /* allocations, in the worst round */
    uint64_t                peak_reserved;
    search_t                search;
    curve_t                 curve; /* of a round of its own, from empty */
} measure_t;

/* Returns 0, or -1 when something broke, which has been told. */
int measure_run(const trace_t *trace, device_t *device,
                const allocator_kind_t *kind, const measure_params_t *params,
                measure_t *measure_p);

/* What reading the clock once takes, ns. */
uint64_t measure_clock(void);

#endif
