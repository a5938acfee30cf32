/*
 * A copy of a pool's statistics. A program can compare copies, add them up,
 * send them to another process with the same library, and look up values by
 * name.
 */
#ifndef TOOLS_COMMON_POOL_STATS_H
#define TOOLS_COMMON_POOL_STATS_H

#include <ucxpool/stats.h>

#define POOL_STATS_MAX 120

typedef struct pool_stats {
    size_t   num;
    uint64_t values[POOL_STATS_MAX];
} pool_stats_t;

void pool_stats_read(ucxpool_t *pool, pool_stats_t *stats_p);

/* Returns the value of a statistic, or 0 if it does not exist. The name is a
 * format as for printf(). */
uint64_t pool_stats_value(const pool_stats_t *stats, const char *name, ...)
    __attribute__((format(printf, 2, 3)));

/* Add the statistics of another pool to a sum. A new sum is all zeros. */
void pool_stats_add(pool_stats_t *sum, const pool_stats_t *stats);

#endif
