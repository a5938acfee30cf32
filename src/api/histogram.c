/*
 * The public functions for histograms of latencies.
 */
#include <ucxpool/stats.h>

#include "base/error.h"
#include "core/pool.h"

#include <string.h>

typedef struct entry {
    ucxpool_histogram_attr_t attr;
    core_series_t            series;
} entry_t;

#define ENTRY(_operation, _OPERATION, _wire, _WIRE, _way, _path) \
    { \
        {_operation "_" _wire "_" _way, _operation, _wire, _way}, \
        { \
            CORE_OPERATION_##_OPERATION, UCXPOOL_WIRE_##_WIRE, _path \
        } \
    }
#define MESSAGES(_operation, _OPERATION) \
    ENTRY(_operation, _OPERATION, "map", MAP, "eager", CORE_MODE_EAGER), \
        ENTRY(_operation, _OPERATION, "map", MAP, "packed", \
              CORE_MODE_MAP_PACKED), \
        ENTRY(_operation, _OPERATION, "map", MAP, "inplace", \
              CORE_MODE_MAP_INPLACE), \
        ENTRY(_operation, _OPERATION, "map", MAP, "pushed", \
              CORE_MODE_MAP_PUSHED), \
        ENTRY(_operation, _OPERATION, "ucx", UCX, "eager", CORE_MODE_EAGER), \
        ENTRY(_operation, _OPERATION, "ucx", UCX, "packed", \
              CORE_MODE_UCX_PACKED), \
        ENTRY(_operation, _OPERATION, "ucx", UCX, "inplace", \
              CORE_MODE_UCX_INPLACE)
#define WINDOWS(_operation, _OPERATION) \
    ENTRY(_operation, _OPERATION, "map", MAP, "mapped", UCXPOOL_WAY_MAPPED), \
        ENTRY(_operation, _OPERATION, "map", MAP, "process", \
              UCXPOOL_WAY_PROCESS), \
        ENTRY(_operation, _OPERATION, "map", MAP, "cuda", UCXPOOL_WAY_CUDA), \
        ENTRY(_operation, _OPERATION, "map", MAP, "messages", \
              UCXPOOL_WAY_MESSAGES), \
        ENTRY(_operation, _OPERATION, "ucx", UCX, "rma", UCXPOOL_WAY_RMA), \
        ENTRY(_operation, _OPERATION, "ucx", UCX, "messages", \
              UCXPOOL_WAY_MESSAGES)

static const entry_t entries[] = {
    MESSAGES("send", SEND),
    MESSAGES("recv", RECV),
    WINDOWS("read", READ),
    WINDOWS("write", WRITE),
};

#define NUM_ENTRIES (sizeof(entries) / sizeof(entries[0]))

size_t ucxpool_histogram_count(void)
{
    return NUM_ENTRIES;
}

ucxpool_status_t ucxpool_histogram_query(size_t                    index,
                                         ucxpool_histogram_attr_t *attr_p,
                                         size_t                    attr_size)
{
    if (base_missing(attr_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    if (index >= NUM_ENTRIES) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "there is no histogram %zu: the %zu histograms are "
                          "numbered from 0",
                          index, NUM_ENTRIES);
    }
    base_output(attr_p, attr_size, &entries[index].attr, sizeof(*attr_p));
    return UCXPOOL_OK;
}

ucxpool_status_t ucxpool_histogram_get(ucxpool_t *pool, const char *name,
                                       ucxpool_histogram_t *histogram_p,
                                       size_t               histogram_size)
{
    ucxpool_histogram_t histogram;

    if (base_missing(pool) || base_missing(name) || base_missing(histogram_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    for (size_t i = 0; i < NUM_ENTRIES; i++) {
        if (strcmp(entries[i].attr.name, name) == 0) {
            core_lock(pool);
            core_latency_get(&pool->latency, &entries[i].series, &histogram);
            core_unlock(pool);
            base_output(histogram_p, histogram_size, &histogram,
                        sizeof(histogram));
            return UCXPOOL_OK;
        }
    }
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "unknown histogram \"%s\": ucxpool_histogram_query() "
                      "returns the names",
                      name);
}
