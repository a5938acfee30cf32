/* Time in nanoseconds on the monotonic clock. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define BASE_CLOCK_FOREVER UINT64_MAX

static inline uint64_t base_clock_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Returns the time timeout_ns from now. Returns BASE_CLOCK_FOREVER if the sum
 * overflows, so a timeout of BASE_CLOCK_FOREVER never ends. */
static inline uint64_t base_clock_deadline(uint64_t timeout_ns)
{
    uint64_t deadline;

    if (__builtin_add_overflow(base_clock_now(), timeout_ns, &deadline)) {
        return BASE_CLOCK_FOREVER;
    }
    return deadline;
}

#endif
