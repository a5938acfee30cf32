/* The system clock, and the properties of host memory. */
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

/* Get a value of /proc/meminfo, such as "MemAvailable": bytes, or a count if
 * the line has no unit. Returns -1 if the system does not report it. */
int meminfo_get(const char *name, uint64_t *value_p);

#endif
