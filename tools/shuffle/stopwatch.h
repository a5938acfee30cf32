/*
 * Time spent in something, added up.
 */
#ifndef SHUFFLE_STOPWATCH_H
#define SHUFFLE_STOPWATCH_H

#include <stdint.h>
#include <time.h>

static inline uint64_t stopwatch_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void stopwatch_add(uint64_t *total_ns, uint64_t since)
{
    *total_ns += stopwatch_now() - since;
}

#endif
