/* The system clock, and available host memory. */
#ifndef COMMON_SYSTEM_H
#define COMMON_SYSTEM_H

#include <stdint.h>
#include <time.h>

/* Returns the nanoseconds since a fixed time in the past. */
static inline uint64_t clock_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Get the bytes of host memory that are available to programs. Returns -1 if
 * the system does not report them. */
int memory_left(uint64_t *bytes_p);

#endif
