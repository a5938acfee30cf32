/*
 * Two forked processes that do a job: the sender and the receiver.
 */
#ifndef PERF_PAIR_H
#define PERF_PAIR_H

#include "perf/job.h"

/*
 * Run a job in two processes of its own. The calling process never touches
 * UCX, so it can do so again and again.
 *
 * cpus  Processors of the two; -1: any.
 */
int pair_run(const job_t *job, const int cpus[2], job_result_t *result_p);

/* Pin the calling process. */
int pair_pin(int cpu);

#endif
