/* Workloads: generated traces, which are the same on every machine. */
#ifndef REPLAY_WORKLOAD_H
#define REPLAY_WORKLOAD_H

#include "replay/trace.h"

#include <stdio.h>

/* Generate the workload with this name, for example "rmm:10000,64". If there is
 * no such workload, prints an error and returns NULL. */
trace_t *workload_make(const char *text);

/* Print the names and descriptions of all workloads. */
void workload_list(FILE *stream);

/*
 * The random numbers of std::default_random_engine and
 * std::uniform_int_distribution in libstdc++. RMM's benchmarks use these, so
 * the calls here are the same as in RMM.
 */
typedef struct minstd {
    uint32_t state; /* 1 at the start */
} minstd_t;

/* Returns a number from low to high, both included. */
uint64_t minstd_between(minstd_t *minstd, uint64_t low, uint64_t high);

#endif
