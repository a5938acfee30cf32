/*
 * The system: its clock, and host memory that is not in use.
 */
#ifndef COMMON_SYSTEM_H
#define COMMON_SYSTEM_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since some moment in the past. */
static inline uint64_t clock_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Bytes that programs can still have. -1: the system does not say. */
int memory_left(uint64_t *bytes_p);

#endif
