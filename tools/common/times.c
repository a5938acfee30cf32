#include "common/times.h"
#include "common/error.h"

#include <stdlib.h>
#include <string.h>

void times_init(times_t *times, size_t room)
{
    times->num = 0;
    times->ns  = tool_calloc(room, sizeof(*times->ns));
}

void times_cleanup(times_t *times)
{
    free(times->ns);
    memset(times, 0, sizeof(*times));
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The smallest of them that so many percent do not exceed. */
static uint64_t percentile(const times_t *times, unsigned percent)
{
    return times->ns[(times->num * percent + 99) / 100 - 1];
}

void times_summarize(times_t *times, times_summary_t *summary_p)
{
    memset(summary_p, 0, sizeof(*summary_p));
    if (times->num == 0) {
        return;
    }
    qsort(times->ns, times->num, sizeof(*times->ns), compare);
    summary_p->median = percentile(times, 50);
    summary_p->p99    = percentile(times, 99);
    summary_p->max    = times->ns[times->num - 1];
}

uint64_t times_median(uint64_t *ns, size_t num)
{
    uint64_t low, high;

    if (num == 0) {
        return 0;
    }
    qsort(ns, num, sizeof(*ns), compare);
    /* One in the middle, or two. */
    low  = ns[(num - 1) / 2];
    high = ns[num / 2];
    return low + (high - low) / 2;
}
