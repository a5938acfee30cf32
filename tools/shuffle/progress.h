/*
 * How far a worker is: written by it, read by what draws the bar, which may be
 * another process.
 */
#ifndef SHUFFLE_PROGRESS_H
#define SHUFFLE_PROGRESS_H

#include <stdint.h>

typedef struct progress {
    uint64_t bytes_read;
    uint64_t bytes_written;
} progress_t;

static inline void progress_add(uint64_t *bytes, uint64_t more)
{
    __atomic_fetch_add(bytes, more, __ATOMIC_RELAXED);
}

static inline uint64_t progress_get(const uint64_t *bytes)
{
    return __atomic_load_n(bytes, __ATOMIC_RELAXED);
}

#endif
