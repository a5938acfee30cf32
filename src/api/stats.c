/*
 * The public functions for statistics: the list of statistics, and printing the
 * statistics of a pool and its heap in three formats.
 */
#include <ucxpool/stats.h>

#include "base/error.h"
#include "base/math.h"
#include "base/text.h"
#include "core/channel.h"
#include "core/pool.h"
#include "heap/heap.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

static const char *const degraded_names[] = {
    [UCXPOOL_DEGRADED_NONE]   = "none",
    [UCXPOOL_DEGRADED_FEWER]  = "fewer",
    [UCXPOOL_DEGRADED_PINNED] = "pinned",
};

/* --- the list ------------------------------------------------------------- */

typedef struct snapshot {
    core_stats_t pool;
    heap_stats_t heap;
} snapshot_t;

typedef struct stat_entry {
    ucxpool_stat_attr_t attr;
    size_t              offset; /* in a snapshot */
} stat_entry_t;

#define ENTRY(_name, _member, _kind, _unit, _help) \
    { \
        {_name, _unit, _help, UCXPOOL_STAT_##_kind}, \
            offsetof(snapshot_t, _member) \
    }
#define POOL(_member, _kind, _unit, _help) \
    ENTRY(#_member, pool._member, _kind, _unit, _help)
#define HEAP(_member, _kind, _help) \
    ENTRY("heap_" #_member, heap._member, _kind, "", _help)
#define HEAP_BYTES(_member, _kind, _help) \
    ENTRY("heap_" #_member "_bytes", heap._member, _kind, "bytes", _help)
#define SHARE(_name, _share) \
    ENTRY("blocks_" _name, pool.blocks[_share].total, GAUGE, "", \
          "Blocks of the share."), \
        ENTRY("blocks_" _name "_free", pool.blocks[_share].free, GAUGE, "", \
              "Free blocks of the share."), \
        ENTRY("blocks_" _name "_held", pool.blocks[_share].held, GAUGE, "", \
              "Blocks of the share that are in use."), \
        ENTRY("blocks_" _name "_quarantined", pool.blocks[_share].quarantined, \
              GAUGE, "", "Blocks of the share that a peer may still read."), \
        ENTRY("blocks_" _name "_high_water", pool.blocks[_share].high_water, \
              GAUGE, "", \
              "Maximum number of the share's blocks that were not free at " \
              "one time.")
#define COUNT(_member, _unit, _help) \
    ENTRY(#_member, pool.counts._member, COUNTER, _unit, _help)
#define TRAFFIC(_name, _member, _count, _bytes_help, _count_help) \
    ENTRY(_name "_bytes", pool.counts._member.bytes, COUNTER, "bytes", \
          _bytes_help), \
        ENTRY(_name "_" _count, pool.counts._member.fragments, COUNTER, "", \
              _count_help)
#define MODE(_name, _mode) \
    TRAFFIC("sent_" _name, sent[_mode], "fragments", \
            "Bytes of messages sent (mode " _name ").", \
            "Wire operations for messages sent (mode " _name ")."), \
        TRAFFIC("received_" _name, received[_mode], "fragments", \
                "Bytes of messages received (mode " _name ").", \
                "Wire operations for messages received (mode " _name ").")
#define WAY(_name, _way) \
    TRAFFIC("read_" _name, read[_way], "operations", \
            "Bytes read from windows (way " _name ").", \
            "Window reads (way " _name ")."), \
        TRAFFIC("written_" _name, written[_way], "operations", \
                "Bytes written to windows (way " _name ").", \
                "Window writes (way " _name ").")

/* The entries of a pool, of its channels, and of its heap. */
static const stat_entry_t entries[] = {
#define NUM_POOL (3 * 5 + 28)
    SHARE("send", BLOCK_SHARE_SEND),
    SHARE("recv", BLOCK_SHARE_RECV),
    SHARE("user", BLOCK_SHARE_USER),
    ENTRY("block_size_bytes", pool.block_size, GAUGE, "bytes",
          "Bytes of one block."),
    POOL(num_regions, GAUGE, "", "Physical allocations."),
    POOL(registered_bytes, GAUGE, "bytes", "Bytes registered with UCX."),
    POOL(registrations, COUNTER, "", "Calls that registered memory."),
    POOL(registrations_after_start, COUNTER, "",
         "Calls that registered memory after the first channel was created."),
    POOL(domains_needed, GAUGE, "",
         "Memory domains that must register every region."),
    POOL(regions_verified, GAUGE, "",
         "Regions whose registration with each needed domain was verified."),
    POOL(channels_open, GAUGE, "", "Channels that are open."),
    POOL(channels_failed, COUNTER, "", "Channels that failed."),
    POOL(handshakes_refused, COUNTER, "", "Handshakes that the pool rejected."),
    POOL(allocations, COUNTER, "", "Calls of malloc() made by transfers."),
    POOL(registration_ns, COUNTER, "ns", "Time spent on registrations."),
    POOL(budget_bytes, GAUGE, "bytes",
         "Bytes of BAR1 available to blocks; 0: no limit."),
    ENTRY("blocks_asked_bytes", pool.bytes_asked, GAUGE, "bytes",
          "Bytes of blocks that were requested."),
    POOL(blocks_asked, GAUGE, "", "Blocks that were requested."),
    POOL(degradations, COUNTER, "", "Failed attempts to create the blocks."),
    POOL(verbs_domains, GAUGE, "",
         "Protection domains that regions are registered in."),
    POOL(verbs_registrations, COUNTER, "", "Registrations with verbs."),
    POOL(verbs_registration_ns, COUNTER, "ns",
         "Time spent on registrations with verbs."),
    POOL(verbs_host_regions, GAUGE, "",
         "Regions of host memory now registered with verbs."),
    POOL(verbs_host_bytes, GAUGE, "bytes",
         "Bytes of host memory now registered with verbs."),
    POOL(verbs_dmabuf_regions, GAUGE, "",
         "Regions of GPU memory now registered with verbs by dmabuf."),
    POOL(verbs_dmabuf_bytes, GAUGE, "bytes",
         "Bytes of GPU memory now registered with verbs by dmabuf."),
    POOL(verbs_peer_regions, GAUGE, "",
         "Regions of GPU memory now registered with verbs by address."),
    POOL(verbs_peer_bytes, GAUGE, "bytes",
         "Bytes of GPU memory now registered with verbs by address."),
    POOL(window_registered_bytes, GAUGE, "bytes",
         "Bytes of windows registered with UCX."),
    POOL(window_registrations, COUNTER, "",
         "Registrations of windows with UCX."),
    POOL(window_registrations_refused, COUNTER, "",
         "Registrations of windows that UCX or WINDOW_BUDGET refused."),
#define NUM_CHANNEL (9 + (CORE_MODE_LAST + CORE_NUM_WAYS - 1) * 4)
    COUNT(messages_sent, "", "Messages sent."),
    COUNT(messages_received, "", "Messages received."),
    COUNT(messages_failed, "", "Requests that failed."),
    COUNT(messages_refused, "", "Received messages answered with an error."),
    COUNT(copies_avoided_bytes, "bytes", "Bytes sent or received in place."),
    COUNT(block_waits, "", "Times that a send waited for a block."),
    COUNT(block_wait_ns, "ns", "Time that sends waited for a block."),
    COUNT(credit_waits, "",
          "Times that a short send waited for a credit of the peer."),
    COUNT(credit_wait_ns, "ns", "Time that short sends waited for a credit."),
    MODE("eager", CORE_MODE_EAGER),
    MODE("map_packed", CORE_MODE_MAP_PACKED),
    MODE("map_inplace", CORE_MODE_MAP_INPLACE),
    MODE("ucx_packed", CORE_MODE_UCX_PACKED),
    MODE("ucx_inplace", CORE_MODE_UCX_INPLACE),
    MODE("map_pushed", CORE_MODE_MAP_PUSHED),
    WAY("mapped", UCXPOOL_WAY_MAPPED),
    WAY("process", UCXPOOL_WAY_PROCESS),
    WAY("cuda", UCXPOOL_WAY_CUDA),
    WAY("rma", UCXPOOL_WAY_RMA),
    WAY("messages", UCXPOOL_WAY_MESSAGES),
#define NUM_HEAP 24
    HEAP_BYTES(limit, GAUGE, "Bytes that the heap may hold."),
    HEAP_BYTES(reserved, GAUGE,
               "Bytes of physical memory that the heap holds."),
    HEAP_BYTES(live, GAUGE, "Bytes allocated, after rounding."),
    HEAP_BYTES(free, GAUGE, "Bytes of reserved memory that are not allocated."),
    HEAP_BYTES(asked, GAUGE, "Bytes allocated, as requested."),
    HEAP_BYTES(peak_reserved, GAUGE, "Maximum number of reserved bytes."),
    HEAP(num_live, GAUGE, "Allocations that are live."),
    HEAP_BYTES(largest_contiguous, GAUGE, "Bytes of the longest free range."),
    HEAP_BYTES(largest_stitchable, GAUGE, "Total bytes of free pages."),
    HEAP(chunks, GAUGE, "Large physical allocations."),
    HEAP(pages, GAUGE, "Physical allocations of 2 MiB."),
    HEAP(stitched_live, GAUGE, "Allocations that are stitched."),
    HEAP(stitched_kept, GAUGE, "Stitched ranges kept for reuse."),
    HEAP_BYTES(mapped, GAUGE, "Bytes of address space that are mapped."),
    HEAP(mappings, GAUGE, "Mappings of chunks and pages."),
    HEAP(allocations, COUNTER, "Allocations made."),
    HEAP(failures, COUNTER, "Allocations that failed."),
    HEAP(grows, COUNTER, "Times that the heap took memory from the system."),
    HEAP(stitches, COUNTER, "Ranges stitched."),
    HEAP(restitches, COUNTER, "Allocations that reused a stitched range."),
    HEAP(splits, COUNTER, "Chunks split into pages."),
    HEAP(stream_waits, COUNTER,
         "Times that a stream was made to wait for another stream."),
    HEAP(syncs, COUNTER, "Times that a caller had to wait for a stream."),
    HEAP_BYTES(trimmed, COUNTER, "Bytes returned to the system."),
};

#define NUM_ENTRIES (sizeof(entries) / sizeof(entries[0]))

static_assert(NUM_POOL + NUM_CHANNEL + NUM_HEAP == NUM_ENTRIES,
              "each entry is counted in its section");

/* Consecutive entries. */
typedef struct section {
    const stat_entry_t *entries;
    size_t              num;
} section_t;

static const section_t all_section     = {entries, NUM_ENTRIES};
static const section_t channel_section = {&entries[NUM_POOL], NUM_CHANNEL};
static const section_t heap_section    = {&entries[NUM_POOL + NUM_CHANNEL],
                                          NUM_HEAP};

/* Ratios of the heap, which are not integers. */
static const struct {
    const char *name;
    size_t      offset; /* in a snapshot */
    const char *help;
} ratios[] = {
    {"heap_fragmentation", offsetof(snapshot_t, heap.fragmentation),
     "1 - heap_largest_contiguous_bytes / heap_free_bytes."},
    {"heap_fragmentation_stitched",
     offsetof(snapshot_t, heap.fragmentation_stitched),
     "1 - heap_largest_stitchable_bytes / heap_free_bytes."},
};

#define NUM_RATIOS (sizeof(ratios) / sizeof(ratios[0]))

static uint64_t value_of(const snapshot_t *snapshot, const stat_entry_t *entry)
{
    uint64_t number;

    memcpy(&number, (const char *)snapshot + entry->offset, sizeof(number));
    return number;
}

/* printf() would print the decimal point of the locale. */
static void print_ratio(FILE *stream, const snapshot_t *snapshot, size_t number)
{
    double   ratio;
    unsigned parts;

    memcpy(&ratio, (const char *)snapshot + ratios[number].offset,
           sizeof(ratio));
    parts = (unsigned)(ratio * 10000 + 0.5);
    fprintf(stream, "%u.%04u", parts / 10000, parts % 10000);
}

static void take_snapshot(ucxpool_t *pool, snapshot_t *snapshot)
{
    core_stats_get(pool, &snapshot->pool);
    core_heap_stats_get(pool, &snapshot->heap);
}

/* Take a snapshot of the entries of channel_section. */
static void take_channel_snapshot(const ucxpool_channel_t *channel,
                                  snapshot_t              *snapshot)
{
    memset(snapshot, 0, sizeof(*snapshot));
    core_lock(channel->pool);
    snapshot->pool.counts = channel->counts;
    core_unlock(channel->pool);
}

static ucxpool_status_t query(const section_t *section, size_t index,
                              ucxpool_stat_attr_t *attr_p, size_t attr_size)
{
    if (index >= section->num) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "there is no statistic %zu: the %zu statistics are "
                          "numbered from 0",
                          index, section->num);
    }
    base_output(attr_p, attr_size, &section->entries[index].attr,
                sizeof(*attr_p));
    return UCXPOOL_OK;
}

static void read_all(const section_t *section, const snapshot_t *snapshot,
                     uint64_t *values, size_t max_values, size_t *num_p)
{
    *num_p = base_min(max_values, section->num);
    for (size_t i = 0; i < *num_p; i++) {
        values[i] = value_of(snapshot, &section->entries[i]);
    }
}

static ucxpool_status_t get(const section_t  *section,
                            const snapshot_t *snapshot, const char *name,
                            uint64_t *value_p)
{
    for (size_t i = 0; i < section->num; i++) {
        if (strcmp(section->entries[i].attr.name, name) == 0) {
            *value_p = value_of(snapshot, &section->entries[i]);
            return UCXPOOL_OK;
        }
    }
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "unknown statistic \"%s\": ucxpool_stats_query() and "
                      "ucxpool_channel_stats_query() return the names",
                      name);
}

/* --- of a pool ------------------------------------------------------------ */

size_t ucxpool_stats_count(void)
{
    return all_section.num;
}

ucxpool_status_t ucxpool_stats_query(size_t index, ucxpool_stat_attr_t *attr_p,
                                     size_t attr_size)
{
    if (base_missing(attr_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return query(&all_section, index, attr_p, attr_size);
}

ucxpool_status_t ucxpool_stats_read(ucxpool_t *pool, uint64_t *values,
                                    size_t max_values, size_t *num_p)
{
    snapshot_t snapshot;

    if (base_missing(pool) || base_missing(values) || base_missing(num_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    take_snapshot(pool, &snapshot);
    read_all(&all_section, &snapshot, values, max_values, num_p);
    return UCXPOOL_OK;
}

ucxpool_status_t ucxpool_stats_get(ucxpool_t *pool, const char *name,
                                   uint64_t *value_p)
{
    snapshot_t snapshot;

    if (base_missing(pool) || base_missing(name) || base_missing(value_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    take_snapshot(pool, &snapshot);
    return get(&all_section, &snapshot, name, value_p);
}

/* --- of a channel --------------------------------------------------------- */

size_t ucxpool_channel_stats_count(void)
{
    return channel_section.num;
}

ucxpool_status_t ucxpool_channel_stats_query(size_t               index,
                                             ucxpool_stat_attr_t *attr_p,
                                             size_t               attr_size)
{
    if (base_missing(attr_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return query(&channel_section, index, attr_p, attr_size);
}

ucxpool_status_t ucxpool_channel_stats_read(const ucxpool_channel_t *channel,
                                            uint64_t *values, size_t max_values,
                                            size_t *num_p)
{
    snapshot_t snapshot;

    if (base_missing(channel) || base_missing(values) || base_missing(num_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    take_channel_snapshot(channel, &snapshot);
    read_all(&channel_section, &snapshot, values, max_values, num_p);
    return UCXPOOL_OK;
}

ucxpool_status_t ucxpool_channel_stats_get(const ucxpool_channel_t *channel,
                                           const char *name, uint64_t *value_p)
{
    snapshot_t snapshot;

    if (base_missing(channel) || base_missing(name) || base_missing(value_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    take_channel_snapshot(channel, &snapshot);
    return get(&channel_section, &snapshot, name, value_p);
}

/* --- as text -------------------------------------------------------------- */

static void print_text(const section_t *section, const snapshot_t *snapshot,
                       FILE *stream)
{
    for (size_t i = 0; i < section->num; i++) {
        const ucxpool_stat_attr_t *attr = &section->entries[i].attr;

        fprintf(stream, "  %-30s %" PRIu64 "%s%s\n", attr->name,
                value_of(snapshot, &section->entries[i]),
                (attr->unit[0] == '\0') ? "" : " ", attr->unit);
    }
}

static void print_pool_text(const char *name, const snapshot_t *snapshot,
                            FILE *stream)
{
    const core_stats_t *stats = &snapshot->pool;

    fprintf(stream, "pool %s\n  %-30s %s\n", name, "degraded_to",
            degraded_names[stats->degraded_to]);
    if (stats->degraded_why[0] != '\0') {
        fprintf(stream, "  %-30s %s\n", "degraded_why", stats->degraded_why);
    }
    print_text(&all_section, snapshot, stream);
}

static bool is_empty(const heap_class_stats_t *class)
{
    return (class->live == 0) && (class->free == 0);
}

static void print_heap_text(const char *name, const snapshot_t *snapshot,
                            FILE *stream)
{
    fprintf(stream, "heap of pool %s\n", name);
    print_text(&heap_section, snapshot, stream);
    for (size_t i = 0; i < NUM_RATIOS; i++) {
        fprintf(stream, "  %-30s ", ratios[i].name);
        print_ratio(stream, snapshot, i);
        fputc('\n', stream);
    }
    fprintf(stream, "  %-18s %12s %16s %12s %16s\n", "sizes up to", "live",
            "bytes", "free", "bytes");
    for (unsigned i = 0; i < HEAP_CLASSES; i++) {
        const heap_class_stats_t *class = &snapshot->heap.classes[i];

        if (!is_empty(class)) {
            fprintf(stream,
                    "  %-18" PRIu64 " %12" PRIu64 " %16" PRIu64 " %12" PRIu64
                    " %16" PRIu64 "\n",
                    UINT64_C(1) << i, class->live, class->live_bytes,
                    class->free, class->free_bytes);
        }
    }
}

/* --- as JSON -------------------------------------------------------------- */

static void print_json(const char *name, const section_t *section,
                       const snapshot_t *snapshot, FILE *stream)
{
    fputs("{\"pool\":", stream);
    base_quote_print(stream, name);
    for (size_t i = 0; i < section->num; i++) {
        fprintf(stream, ",\"%s\":%" PRIu64, section->entries[i].attr.name,
                value_of(snapshot, &section->entries[i]));
    }
}

static void print_pool_json(const char *name, const snapshot_t *snapshot,
                            FILE *stream)
{
    print_json(name, &all_section, snapshot, stream);
    fprintf(stream, ",\"degraded_to\":\"%s\",\"degraded_why\":",
            degraded_names[snapshot->pool.degraded_to]);
    base_quote_print(stream, snapshot->pool.degraded_why);
    fputs("}\n", stream);
}

static void print_heap_json(const char *name, const snapshot_t *snapshot,
                            FILE *stream)
{
    const char *comma = "";

    print_json(name, &heap_section, snapshot, stream);
    for (size_t i = 0; i < NUM_RATIOS; i++) {
        fprintf(stream, ",\"%s\":", ratios[i].name);
        print_ratio(stream, snapshot, i);
    }
    fputs(",\"classes\":[", stream);
    for (unsigned i = 0; i < HEAP_CLASSES; i++) {
        const heap_class_stats_t *class = &snapshot->heap.classes[i];

        if (!is_empty(class)) {
            fprintf(stream,
                    "%s{\"size\":%" PRIu64 ",\"live\":%" PRIu64
                    ",\"live_bytes\":%" PRIu64 ",\"free\":%" PRIu64
                    ",\"free_bytes\":%" PRIu64 "}",
                    comma, UINT64_C(1) << i, class->live, class->live_bytes,
                    class->free, class->free_bytes);
            comma = ",";
        }
    }
    fputs("]}\n", stream);
}

/* --- as OpenMetrics ------------------------------------------------------- */

static void print_family(FILE *stream, const char *name, const char *kind,
                         const char *help)
{
    fprintf(stream, "# TYPE ucxpool_%s %s\n# HELP ucxpool_%s %s\n", name, kind,
            name, help);
}

/* Print the start of a sample, up to its first label, the pool. */
static void print_sample(FILE *stream, const char *name, const char *suffix,
                         const char *pool)
{
    fprintf(stream, "ucxpool_%s%s{pool=", name, suffix);
    base_quote_print(stream, pool);
}

static void print_value(FILE *stream, uint64_t value, bool is_time)
{
    if (is_time) {
        fprintf(stream, "} %" PRIu64 ".%09" PRIu64 "\n", value / 1000000000,
                value % 1000000000);
    } else {
        fprintf(stream, "} %" PRIu64 "\n", value);
    }
}

/* Times are in seconds, the unit of OpenMetrics. */
static void print_metrics(const char *pool, const section_t *section,
                          const snapshot_t *snapshot, FILE *stream)
{
    for (size_t i = 0; i < section->num; i++) {
        const ucxpool_stat_attr_t *attr     = &section->entries[i].attr;
        bool                       is_gauge = attr->kind == UCXPOOL_STAT_GAUGE;
        bool                       is_time  = strcmp(attr->unit, "ns") == 0;
        char                       name[64];

        snprintf(name, sizeof(name), "%.*s%s",
                 (int)(strlen(attr->name) - (is_time ? strlen("_ns") : 0)),
                 attr->name, is_time ? "_seconds" : "");
        print_family(stream, name, is_gauge ? "gauge" : "counter", attr->help);
        print_sample(stream, name, is_gauge ? "" : "_total", pool);
        print_value(stream, value_of(snapshot, &section->entries[i]), is_time);
    }
}

static void print_pool_metrics(const char *pool, const snapshot_t *snapshot,
                               FILE *stream)
{
    print_metrics(pool, &all_section, snapshot, stream);
    print_family(stream, "degraded", "gauge",
                 "1 for the fallback that the pool uses, 0 for the others.");
    for (int i = 0; i <= UCXPOOL_DEGRADED_PINNED; i++) {
        print_sample(stream, "degraded", "", pool);
        fprintf(stream, ",to=\"%s\"} %d\n", degraded_names[i],
                (int)snapshot->pool.degraded_to == i);
    }
    fputs("# EOF\n", stream);
}

static void print_heap_metrics(const char *pool, const snapshot_t *snapshot,
                               FILE *stream)
{
    print_metrics(pool, &heap_section, snapshot, stream);
    for (size_t i = 0; i < NUM_RATIOS; i++) {
        print_family(stream, ratios[i].name, "gauge", ratios[i].help);
        print_sample(stream, ratios[i].name, "", pool);
        fputs("} ", stream);
        print_ratio(stream, snapshot, i);
        fputc('\n', stream);
    }
    fputs("# EOF\n", stream);
}

/* --- print ---------------------------------------------------------------- */

static void print_pool(ucxpool_t *pool, FILE *stream,
                       ucxpool_stats_format_t format)
{
    snapshot_t snapshot;

    take_snapshot(pool, &snapshot);
    if (format == UCXPOOL_STATS_JSON) {
        print_pool_json(pool->name, &snapshot, stream);
    } else if (format == UCXPOOL_STATS_OPENMETRICS) {
        print_pool_metrics(pool->name, &snapshot, stream);
    } else {
        print_pool_text(pool->name, &snapshot, stream);
    }
}

static void print_heap(ucxpool_t *pool, FILE *stream,
                       ucxpool_stats_format_t format)
{
    snapshot_t snapshot;
    heap_t    *heap;

    take_snapshot(pool, &snapshot);
    if (format == UCXPOOL_STATS_JSON) {
        print_heap_json(pool->name, &snapshot, stream);
    } else if (format == UCXPOOL_STATS_OPENMETRICS) {
        print_heap_metrics(pool->name, &snapshot, stream);
    } else {
        print_heap_text(pool->name, &snapshot, stream);
        heap = __atomic_load_n(&pool->heap, __ATOMIC_ACQUIRE);
        if (heap != NULL) {
            heap_print_ranges(heap, stream);
        }
    }
}

static char *to_string(ucxpool_t *pool, ucxpool_stats_format_t format,
                       void (*printer)(ucxpool_t *pool, FILE *stream,
                                       ucxpool_stats_format_t format))
{
    base_string_t string;

    if (base_string_open(&string) != NULL) {
        printer(pool, string.stream, format);
    }
    return base_string_close(&string);
}

char *ucxpool_stats_string(ucxpool_t *pool, ucxpool_stats_format_t format)
{
    return base_missing(pool) ? NULL : to_string(pool, format, print_pool);
}

char *ucxpool_heap_string(ucxpool_t *pool, ucxpool_stats_format_t format)
{
    return base_missing(pool) ? NULL : to_string(pool, format, print_heap);
}

void ucxpool_stats_print(ucxpool_t *pool, FILE *stream,
                         ucxpool_stats_format_t format)
{
    if (!base_missing(pool) && !base_missing(stream)) {
        print_pool(pool, stream, format);
    }
}

void ucxpool_heap_print(ucxpool_t *pool, FILE *stream,
                        ucxpool_stats_format_t format)
{
    if (!base_missing(pool) && !base_missing(stream)) {
        print_heap(pool, stream, format);
    }
}
