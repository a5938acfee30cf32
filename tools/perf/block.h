/*
 * Taking blocks and giving them back: the one test in which nothing is sent.
 */
#ifndef PERF_BLOCK_H
#define PERF_BLOCK_H

#include "perf/job.h"

int block_measure(const job_t *job, job_result_t *result_p);

#endif
