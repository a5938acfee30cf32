/*
 * How each workload is made; for workload.c.
 */
#ifndef REPLAY_WORKLOADS_H
#define REPLAY_WORKLOADS_H

#include "replay/maker.h"

#define WORKLOAD_MAX_NUMBERS 2

/* Add the calls to an empty trace. numbers: what the name says, or defaults.
 * Returns 0 or -1. */
typedef int (*workload_make_t)(trace_t *trace, const uint64_t *numbers);

/* workload_random.c: N, MIB; the four traces. */
int workload_make_rmm(trace_t *trace, const uint64_t *numbers);
int workload_make_trace1(trace_t *trace, const uint64_t *numbers);
int workload_make_trace2(trace_t *trace, const uint64_t *numbers);
int workload_make_trace3(trace_t *trace, const uint64_t *numbers);
int workload_make_trace4(trace_t *trace, const uint64_t *numbers);

/* workload_shapes.c */
int workload_make_pair(trace_t *trace, const uint64_t *numbers);
int workload_make_holes(trace_t *trace, const uint64_t *numbers);
int workload_make_checkerboard(trace_t *trace, const uint64_t *numbers);
int workload_make_aba(trace_t *trace, const uint64_t *numbers);
int workload_make_threads(trace_t *trace, const uint64_t *numbers);

#endif
