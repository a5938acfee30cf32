/*
 * Statistics: counters and gauges of a pool.
 */
#ifndef UCXPOOL_STATS_H
#define UCXPOOL_STATS_H

#include <ucxpool/pool.h>

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Statistics are identified by name, so that programs, language bindings and
 * exporters need no struct with a field per statistic. Names never change
 * between versions of the library; new ones may be added. Indices may differ
 * between versions, but not within a process.
 *
 *     num = ucxpool_stats_count();
 *     ucxpool_stats_read(pool, values, num, &num);
 *     for (i = 0; i < num; i++) {
 *         ucxpool_stats_query(i, &attr, sizeof(attr));
 *         printf("%s %" PRIu64 " %s\n", attr.name, values[i], attr.unit);
 *     }
 *
 * Blocks are counted separately for each share. The shares send and recv are
 * for transfers; the share user is for the caller (memory.h). For each share
 * blocks_SHARE_total == _free + _held + _quarantined, at any moment.
 *
 * Bytes and fragments (operations of a wire), sent and received, are counted by
 * mode: eager (with the message's descriptor), map_packed and ucx_packed
 * (through a block), map_inplace and ucx_inplace (directly from or to their
 * final place), map_pushed (through a block of the receiver, see
 * UCXPOOL_MAP_WAY).
 *
 * The names of the heap's statistics (heap.h) begin with heap_. These
 * statistics are 0 before the first allocation. heap_reserved == heap_live +
 * heap_free; memory that waits for a stream counts as free. The fragmentation
 * of the free memory is 1 - heap_largest_contiguous / heap_free, and with
 * stitching 1 - heap_largest_stitchable / heap_free.
 */

typedef enum ucxpool_stat_kind {
    UCXPOOL_STAT_COUNTER = 0, /* only grows */
    UCXPOOL_STAT_GAUGE   = 1
} ucxpool_stat_kind_t;

typedef struct ucxpool_stat_attr {
    const char         *name; /* "messages_sent" */
    const char         *unit; /* "bytes", "ns", or "" for a number */
    const char         *help; /* one sentence */
    ucxpool_stat_kind_t kind;
} ucxpool_stat_attr_t;

/* Returns the number of statistics. */
size_t ucxpool_stats_count(void);

/*
 * Describe one statistic. attr_size is sizeof(*attr_p), see ucxpool.h.
 *
 * UCXPOOL_ERR_INVALID_PARAM  index is not less than ucxpool_stats_count()
 */
ucxpool_status_t ucxpool_stats_query(size_t index, ucxpool_stat_attr_t *attr_p,
                                     size_t attr_size);

/*
 * Read all statistics of a pool in one snapshot.
 *
 * values [out]  Array of max_values; as many as fit are written, by index.
 * num_p  [out]  Number written.
 *
 * UCXPOOL_ERR_INVALID_PARAM  an argument is NULL
 */
ucxpool_status_t ucxpool_stats_read(ucxpool_t *pool, uint64_t *values,
                                    size_t max_values, size_t *num_p);

/*
 * Read one statistic.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no statistic has this name, or an argument is NULL
 */
ucxpool_status_t ucxpool_stats_get(ucxpool_t *pool, const char *name,
                                   uint64_t *value_p);

typedef enum ucxpool_stats_format {
    UCXPOOL_STATS_TEXT        = 0,
    UCXPOOL_STATS_JSON        = 1, /* one object */
    UCXPOOL_STATS_OPENMETRICS = 2  /* metric families, ends with # EOF */
} ucxpool_stats_format_t;

/* Print the pool's statistics in one snapshot; ucxpool_heap_print() prints the
 * heap's. The pool's name is a label (OpenMetrics) or a field. */
void ucxpool_stats_print(ucxpool_t *pool, FILE *stream,
                         ucxpool_stats_format_t format);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
