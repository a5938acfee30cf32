/*
 * Time spent in something, added up: by the clock on the wall, and of the
 * processor, which does not run while others have it.
 */
#ifndef SHUFFLE_STOPWATCH_H
#define SHUFFLE_STOPWATCH_H

#include <stdint.h>
#include <time.h>

typedef struct stopwatch {
    uint64_t wall_ns;
    uint64_t cpu_ns;
} stopwatch_t;

static inline uint64_t stopwatch_read(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Nanoseconds since some moment in the past, for deadlines. */
static inline uint64_t stopwatch_now(void)
{
    return stopwatch_read(CLOCK_MONOTONIC);
}

static inline stopwatch_t stopwatch_start(void)
{
    stopwatch_t start = {stopwatch_now(),
                         stopwatch_read(CLOCK_THREAD_CPUTIME_ID)};

    return start;
}

static inline void stopwatch_stop(stopwatch_t *total, const stopwatch_t *start)
{
    stopwatch_t now = stopwatch_start();

    total->wall_ns += now.wall_ns - start->wall_ns;
    total->cpu_ns += now.cpu_ns - start->cpu_ns;
}

static inline void stopwatch_add(stopwatch_t *total, const stopwatch_t *other)
{
    total->wall_ns += other->wall_ns;
    total->cpu_ns += other->cpu_ns;
}

#endif
