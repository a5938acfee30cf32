/*
 * A pool's statistics, stored so that they can be compared, added up, sent to
 * another process with the same library, and looked up by name.
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

/* The value of a statistic, or 0 if it does not exist. The name is a format as
 * for printf(). */
uint64_t pool_stats_value(const pool_stats_t *stats, const char *name, ...)
    __attribute__((format(printf, 2, 3)));

/* Add the statistics of another pool to a sum that began with zeros. */
void pool_stats_add(pool_stats_t *sum, const pool_stats_t *stats);

#endif
