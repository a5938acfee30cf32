/*
 * The smallest capacity at which an allocator plays a whole trace.
 */
#ifndef REPLAY_SEARCH_H
#define REPLAY_SEARCH_H

#include "replay/allocator.h"
#include "replay/trace.h"

#include <stdbool.h>

typedef struct search {
    bool was_made;
    bool has_found;
    /* The smallest that passed; else the largest that was tried, and failed. */
    uint64_t capacity;
    unsigned num_trials;
} search_t;

/*
 * Try capacities in steps of a part of the trace's peak of live bytes, from
 * that peak on: doubling the way while they fail, then by bisection. Each trial
 * begins with a new allocator. That a larger capacity passes too is taken for
 * granted.
 *
 * percent  The step, in percent of the peak.
 *
 * Returns 0, or -1 when something broke, which has been told.
 */
int search_run(const trace_t *trace, device_t *device,
               const allocator_kind_t *kind, double percent,
               search_t *search_p);

#endif
