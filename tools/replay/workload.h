/* Workloads: generated traces, which are the same on every machine. */
#ifndef REPLAY_WORKLOAD_H
#define REPLAY_WORKLOAD_H

#include "replay/trace.h"

#include <stdio.h>

/* Generate the workload with this name, for example "rmm:10000,64". Returns
 * NULL, after an error was printed, if there is no such workload. */
trace_t *workload_make(const char *text);

/* Print their names and descriptions. */
void workload_list(FILE *stream);

/* --- random numbers that are the same on every machine ------------------- */

/* Any start is a good one. */
typedef struct random64 {
    uint64_t state;
} random64_t;

uint64_t random64_next(random64_t *random);

/* From 0 to bound - 1; bound is not 0. */
uint64_t random64_below(random64_t *random, uint64_t bound);

/* From 0 to 1, which is not reached. */
double random64_fraction(random64_t *random);

/*
 * The random numbers of std::default_random_engine and
 * std::uniform_int_distribution in libstdc++. RMM's benchmarks use them, so our
 * calls are the same as theirs.
 */
typedef struct minstd {
    uint32_t state; /* 1 at the start */
} minstd_t;

/* From low to high, both included. */
uint64_t minstd_between(minstd_t *minstd, uint64_t low, uint64_t high);

#endif
