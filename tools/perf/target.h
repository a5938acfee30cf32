/*
 * What the project has promised: how many times as fast the pool is at least.
 */
#ifndef PERF_TARGET_H
#define PERF_TARGET_H

#include "perf/side.h"
#include "perf/work.h"

#include <stdbool.h>

typedef struct target {
    const char *test;
    uint64_t    size;
    uint64_t    count;
    uint32_t    pool_mode;
    uint32_t    raw_mode;
    double      ratio;   /* 0: no promise, only to be told                    */
    double      aim;     /* hoped for; 0: no more than `ratio`                */
    bool        at_most; /* the pool's time by the other's is at most that    */
} target_t;

/* The promise for a work, or NULL. */
const target_t *target_find(const char *test, uint64_t size, uint64_t count,
                            uint32_t pool_mode, uint32_t raw_mode);

/* Nanoseconds of a block's get and put, at most. */
#define TARGET_BLOCK_NS 50.0

#endif
