/*
 * What the project has promised: how fast the pool is at least, in GB/s, and
 * how many times as fast as another side.
 */
#ifndef PERF_TARGET_H
#define PERF_TARGET_H

#include "perf/job.h"

#include <stdbool.h>

typedef struct target {
    double ratio;   /* 0: no promise, only to be told */
    double aim;     /* hoped for; 0: no more than `ratio` */
    bool   at_most; /* the pool's time by the other's is at most that */
} target_t;

/*
 * The promise for a job, against a side of it.
 *
 * mode  The wire that the pool used.
 *
 * Returns NULL when there is none.
 */
const target_t *target_find(const job_t *job, uint32_t mode, side_t other);

/* GB/s that the pool has at least; 0: no promise. Those of a GPU's memory hold
 * for one kind of GPU. */
double target_rate(const job_result_t *result, uint32_t mode);

/* Nanoseconds of a block's get and put, at most. */
#define TARGET_BLOCK_NS 50.0

#endif
