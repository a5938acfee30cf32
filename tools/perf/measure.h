/*
 * The rounds of a job: each side in turn, and what its samples say.
 */
#ifndef PERF_MEASURE_H
#define PERF_MEASURE_H

#include "perf/control.h"
#include "perf/job.h"

/* Run a job as the sender, or follow as the receiver. */
int measure_lead(const job_t *job, control_t *control, job_result_t *result_p);
int measure_follow(const job_t *job, control_t *control);

#endif
