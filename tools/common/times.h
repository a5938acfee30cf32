/*
 * How long calls took, each in nanoseconds.
 */
#ifndef COMMON_TIMES_H
#define COMMON_TIMES_H

#include <stddef.h>
#include <stdint.h>

typedef struct times {
    uint64_t *ns;
    size_t    num;
} times_t;

/* Room for so many. */
void times_init(times_t *times, size_t room);
void times_cleanup(times_t *times);

/* Within the room. */
static inline void times_add(times_t *times, uint64_t ns)
{
    times->ns[times->num++] = ns;
}

/* All 0 where there are no times. */
typedef struct times_summary {
    uint64_t median;
    uint64_t p99;
    uint64_t max;
} times_summary_t;

/* Sorts them. */
void times_summarize(times_t *times, times_summary_t *summary_p);

/* Sorts the numbers; of an even number of them, the mean of the middle two. */
uint64_t times_median(uint64_t *ns, size_t num);

#endif
