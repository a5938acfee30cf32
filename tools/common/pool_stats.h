/* The statistics of a pool, by name. */
#ifndef COMMON_POOL_STATS_H
#define COMMON_POOL_STATS_H

#include <ucxpool/stats.h>

/* Returns the value of a statistic, or 0 if it does not exist. */
static inline uint64_t pool_stat(ucxpool_t *pool, const char *name)
{
    uint64_t value = 0;

    (void)ucxpool_stats_get(pool, name, &value);
    return value;
}

#endif
