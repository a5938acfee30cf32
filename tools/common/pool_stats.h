/* The statistics of a pool, by name. */
#ifndef COMMON_POOL_STATS_H
#define COMMON_POOL_STATS_H

#include <ucxpool/stats.h>

#include <assert.h>

/* Returns the value of a statistic, which must exist. */
static inline uint64_t pool_stat(ucxpool_t *pool, const char *name)
{
    uint64_t         value  = 0;
    ucxpool_status_t status = ucxpool_stats_get(pool, name, &value);

    assert(status == UCXPOOL_OK);
    (void)status;
    return value;
}

#endif
