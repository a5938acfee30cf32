/*
 * A profiler's place in tests: what NVTX loads where NVTX_INJECTION64_PATH
 * names it. It keeps the ranges that begin and end, of which a test asks.
 *
 * It is loaded, so a test finds its functions by name; none is linked.
 */
#ifndef TESTS_NVTX_STAND_IN_H
#define TESTS_NVTX_STAND_IN_H

#include <stdint.h>

/* A range, as it was told of. Moments count what was told, from 1. */
typedef struct nvtx_stand_in_range {
    char     name[32];
    uint64_t size;  /* its payload */
    uint64_t begin; /* moment */
    uint64_t end;   /* 0: it is open */
} nvtx_stand_in_range_t;

/* All that have begun, in that order; *num_p of them. */
typedef const nvtx_stand_in_range_t *(*nvtx_stand_in_ranges_t)(unsigned *num_p);

/* What was told and should not have been: the end of none, the wrong domain, an
 * event without its version. */
typedef unsigned (*nvtx_stand_in_faults_t)(void);

#define NVTX_STAND_IN_RANGES "nvtx_stand_in_ranges"
#define NVTX_STAND_IN_FAULTS "nvtx_stand_in_faults"

#endif
