#include "common/pool_stats.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void pool_stats_read(ucxpool_t *pool, pool_stats_t *stats_p)
{
    memset(stats_p, 0, sizeof(*stats_p));
    (void)ucxpool_stats_read(pool, stats_p->values, POOL_STATS_MAX,
                             &stats_p->num);
}

uint64_t pool_stats_value(const pool_stats_t *stats, const char *name, ...)
{
    char                text[64];
    ucxpool_stat_attr_t attr;
    va_list             arguments;

    va_start(arguments, name);
    vsnprintf(text, sizeof(text), name, arguments);
    va_end(arguments);
    for (size_t i = 0; i < stats->num; i++) {
        if ((ucxpool_stats_query(i, &attr, sizeof(attr)) == UCXPOOL_OK) &&
            (strcmp(attr.name, text) == 0)) {
            return stats->values[i];
        }
    }
    return 0;
}

void pool_stats_add(pool_stats_t *sum, const pool_stats_t *stats)
{
    sum->num = stats->num;
    for (size_t i = 0; i < stats->num; i++) {
        sum->values[i] += stats->values[i];
    }
}
