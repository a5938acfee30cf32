/*
 * A pool's statistics, kept to be compared, added up or sent to another
 * process of the same library, and looked up by name.
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

/* The value of a name, which may be put together as printf() does; 0 where
 * there is none of it. */
uint64_t pool_stats_value(const pool_stats_t *stats, const char *name, ...)
    __attribute__((format(printf, 2, 3)));

/* Add those of another pool to a sum that began with zeros. */
void pool_stats_add(pool_stats_t *sum, const pool_stats_t *stats);

#endif
