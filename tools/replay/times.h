/*
 * How long calls took, each in nanoseconds.
 */
#ifndef REPLAY_TIMES_H
#define REPLAY_TIMES_H

#include <stddef.h>
#include <stdint.h>

typedef struct times {
    uint64_t *ns;
    size_t    num;
    size_t    room;
} times_t;

/* Make room for so many, none of which is there. 0, or -1: no memory. */
int  times_init(times_t *times, size_t room);
void times_cleanup(times_t *times);

/* Within the room. */
static inline void times_add(times_t *times, uint64_t ns)
{
    times->ns[times->num++] = ns;
}

/* Add those of another. */
void times_append(times_t *times, const times_t *more);

/* What is told of them; 0 where there are none. */
typedef struct times_summary {
    uint64_t median;
    uint64_t p99;
    uint64_t max;
} times_summary_t;

/* Sorts them. */
void times_summarize(times_t *times, times_summary_t *summary_p);

/* Of a few numbers, which are sorted; of an even number of them the mean of the
 * two in the middle. */
uint64_t times_median(uint64_t *ns, size_t num);

#endif
