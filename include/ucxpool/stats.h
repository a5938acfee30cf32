/*
 * Statistics: counters and gauges of a pool, counters of a channel, and
 * histograms of latencies.
 */
#ifndef UCXPOOL_STATS_H
#define UCXPOOL_STATS_H

#include <ucxpool/channel.h>

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Statistics are identified by name. So programs, language bindings and
 * exporters need no struct with a field for each statistic. Names never change
 * between versions of the library, but new names may be added. Indices may
 * differ between versions, but not within a process.
 *
 *     num = ucxpool_stats_count();
 *     ucxpool_stats_read(pool, values, num, &num);
 *     for (i = 0; i < num; i++) {
 *         ucxpool_stats_query(i, &attr, sizeof(attr));
 *         printf("%s %" PRIu64 " %s\n", attr.name, values[i], attr.unit);
 *     }
 *
 * Blocks are counted separately for each share. The `send` and `recv` shares
 * are for transfers; the `user` share is for the caller (memory.h). For each
 * share, blocks_SHARE == _free + _held + _quarantined at any time.
 *
 * Bytes and fragments, sent and received, are counted separately for each
 * transfer mode. A fragment is the part of a message that one wire operation
 * carries. The modes:
 *
 *     eager                     with the message's descriptor
 *     map_packed, ucx_packed    through a block
 *     map_inplace, ucx_inplace  directly from or to the caller's memory
 *     map_pushed                through a block of the receiver (see
 *                               UCXPOOL_MAP_WAY)
 *
 * Reads and writes of windows are counted for each way (window.h): mapped,
 * process, cuda, rma, messages. If the way is `messages`, a read or write
 * consists of messages, which are also counted in the message statistics above.
 *
 * A send waits for a block if the share `send` has no free block. A short send
 * waits for a credit if the peer has not received earlier short messages. The
 * wait ends when a credit arrives, or when the library sends only the
 * descriptor of the message. A wait is counted when it begins, and its duration
 * is added when it ends.
 *
 * The names of the heap's statistics (heap.h) begin with heap_. These
 * statistics are 0 before the first allocation. heap_reserved_bytes ==
 * heap_live_bytes + heap_free_bytes. Freed memory counts as free even if work
 * in a stream may still be using it. The fragmentation of the free memory is
 * 1 - heap_largest_contiguous_bytes / heap_free_bytes, and with stitching
 * 1 - heap_largest_stitchable_bytes / heap_free_bytes.
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
 * values [out]  Array with room for max_values values. As many values as fit
 *               are written, in index order.
 * num_p  [out]  Number of values written.
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

/* --- of a channel -----------------------------------------------------------
 * The statistics of messages, waits and windows are also counted for each
 * channel, under the same names. They are available until the channel is closed
 * with ucxpool_channel_close() or ucxpool_channel_abort(), even if it has
 * failed. The pool's statistics include all channels, open or closed. A receive
 * that was posted for any channel has no channel until it matches a message. If
 * it fails before that, it is counted only for the pool.
 *
 * Statistics with map_ or ucx_ in their names count only data that was
 * transferred over that wire. All other statistics count data that was
 * transferred over the channel's wire (ucxpool_channel_query()).
 *
 * The counters of a channel take less than 1 KiB of memory.
 */

/* Returns the number of statistics of a channel. */
size_t ucxpool_channel_stats_count(void);

/*
 * Describe one statistic of channels. attr_size is sizeof(*attr_p), see
 * ucxpool.h.
 *
 * UCXPOOL_ERR_INVALID_PARAM  index is not less than
 *                            ucxpool_channel_stats_count()
 */
ucxpool_status_t ucxpool_channel_stats_query(size_t               index,
                                             ucxpool_stat_attr_t *attr_p,
                                             size_t               attr_size);

/* Read all statistics of a channel in one snapshot. Like
 * ucxpool_stats_read(). */
ucxpool_status_t ucxpool_channel_stats_read(const ucxpool_channel_t *channel,
                                            uint64_t *values, size_t max_values,
                                            size_t *num_p);

/*
 * Read one statistic of a channel.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no statistic of channels has this name, or an
 *                            argument is NULL
 */
ucxpool_status_t ucxpool_channel_stats_get(const ucxpool_channel_t *channel,
                                           const char *name, uint64_t *value_p);

/* --- latencies --------------------------------------------------------------
 * A pool has one histogram of latencies for each combination of operation, wire
 * and way. The operations are send, recv, read and write. The way is how the
 * bytes are transferred. The ways of sends and receives are eager, packed,
 * inplace and pushed, as in the names of statistics. For reads and writes, the
 * way is one of the ways listed in window.h. If the data of a message is
 * transferred in several ways, the latency is counted for the last way used.
 *
 * The latency is the time from the post of an operation to its end, before its
 * callback is called. An eager send ends when its bytes have been copied, so
 * its latency does not include their transfer. The latency of a receive
 * includes the time until the message arrives. Only successful operations are
 * counted.
 *
 * Reading the clock for each short message would be too slow. All sends, reads
 * and writes of 64 KiB or more are timed. Other operations are sampled: often
 * at first, and later about one in 128. An operation that is not timed is
 * counted with the latency of the last sample of its histogram. So `count` is
 * exact, but the distribution is an estimate. The histograms of a pool take
 * about 20 KiB of memory.
 *
 *     for (i = 0; i < ucxpool_histogram_count(); i++) {
 *         ucxpool_histogram_query(i, &attr, sizeof(attr));
 *         ucxpool_histogram_get(pool, attr.name, &histogram,
 *                               sizeof(histogram));
 *     }
 */

#define UCXPOOL_HISTOGRAM_BUCKETS 40

typedef struct ucxpool_histogram_attr {
    const char *name;      /* "send_map_eager"; never changes */
    const char *operation; /* "send", "recv", "read" or "write" */
    const char *wire;      /* "map" or "ucx" */
    const char *way;
} ucxpool_histogram_attr_t;

typedef struct ucxpool_histogram {
    uint64_t count; /* operations: the sum of the buckets */
    uint64_t sum;   /* sum of the latencies, in nanoseconds */
    /*
     * Bucket i > 0 counts the operations that took at least 2^(i-1) and less
     * than 2^i nanoseconds. The last bucket also counts all longer operations.
     * Bucket 0 counts the operations that ended before the histogram's first
     * sample. When this sample is taken, they are moved to the bucket of the
     * sample. Until then, sum does not include them.
     */
    uint64_t buckets[UCXPOOL_HISTOGRAM_BUCKETS];
} ucxpool_histogram_t;

/* Returns the number of histograms. */
size_t ucxpool_histogram_count(void);

/*
 * Describe one histogram. attr_size is sizeof(*attr_p), see ucxpool.h.
 *
 * UCXPOOL_ERR_INVALID_PARAM  index is not less than ucxpool_histogram_count()
 */
ucxpool_status_t ucxpool_histogram_query(size_t                    index,
                                         ucxpool_histogram_attr_t *attr_p,
                                         size_t                    attr_size);

/*
 * Read one histogram of a pool in one snapshot. histogram_size is
 * sizeof(*histogram_p), see ucxpool.h.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no histogram has this name, or an argument is NULL
 */
ucxpool_status_t ucxpool_histogram_get(ucxpool_t *pool, const char *name,
                                       ucxpool_histogram_t *histogram_p,
                                       size_t               histogram_size);

/* --- printing ------------------------------------------------------------- */

/*
 * Each format has all statistics, under the names of ucxpool_stats_query().
 * The names end with the unit, if there is one: _bytes or _ns.
 *
 *     text         a line with the pool's name, then a line
 *                  "  NAME VALUE UNIT" for each statistic
 *     JSON         one object without nested objects: {"pool":"...",
 *                  "NAME":VALUE, ...}
 *     OpenMetrics  a family ucxpool_NAME for each statistic, with the label
 *                  pool. As OpenMetrics requires, samples of counters are named
 *                  ucxpool_NAME_total, and times are in seconds: NAME_ns
 *                  becomes NAME_seconds
 *
 * The fields degraded_to ("none", "fewer" or "pinned") and degraded_why of
 * ucxpool_attr_t are also printed, although they are not statistics. In
 * OpenMetrics, ucxpool_degraded{to="..."} is 1 for the fallback that the pool
 * uses, and 0 for the others.
 */
typedef enum ucxpool_stats_format {
    UCXPOOL_STATS_TEXT        = 0,
    UCXPOOL_STATS_JSON        = 1,
    UCXPOOL_STATS_OPENMETRICS = 2 /* ends with # EOF */
} ucxpool_stats_format_t;

/*
 * Return a snapshot of the pool's statistics as a string. The string does not
 * contain latencies (ucxpool_histogram_get()) or the statistics of channels
 * (ucxpool_channel_stats_read()).
 *
 * format  An unknown format is treated as UCXPOOL_STATS_TEXT.
 *
 * Returns the text, which the caller must release with ucxpool_string_free().
 * Returns NULL if pool is NULL or memory ran out; ucxpool_error_detail() has
 * the cause.
 */
char *ucxpool_stats_string(ucxpool_t *pool, ucxpool_stats_format_t format);

/* Print the text of ucxpool_stats_string() to a stream. */
void ucxpool_stats_print(ucxpool_t *pool, FILE *stream,
                         ucxpool_stats_format_t format);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
