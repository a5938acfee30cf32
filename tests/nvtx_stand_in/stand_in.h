/*
 * A stand-in for a profiler. NVTX loads it if NVTX_INJECTION64_PATH names it.
 * It records ranges, which a test can query.
 *
 * It is loaded at run time, so a test looks up its functions by name.
 */
#ifndef TESTS_NVTX_STAND_IN_H
#define TESTS_NVTX_STAND_IN_H

#include <stdint.h>

/* A recorded range. A moment is the number of the recorded event, from 1. */
typedef struct nvtx_stand_in_range {
    char     name[32];
    uint64_t size;  /* payload */
    uint64_t begin; /* moment of the begin */
    uint64_t end;   /* moment of the end; 0: it is open */
} nvtx_stand_in_range_t;

/* All ranges in the order in which they began; *num_p is their number. */
typedef const nvtx_stand_in_range_t *(*nvtx_stand_in_ranges_t)(unsigned *num_p);

/* Number of invalid events: the end of an unknown range, the wrong domain, or
 * an event without its version. */
typedef unsigned (*nvtx_stand_in_faults_t)(void);

#define NVTX_STAND_IN_RANGES "nvtx_stand_in_ranges"
#define NVTX_STAND_IN_FAULTS "nvtx_stand_in_faults"

#endif
