/*
 * The heap's counters, printed in three ways.
 */
#include "base/error.h"
#include "base/text.h"
#include "core/pool.h"
#include "heap/heap.h"

#include <inttypes.h>
#include <string.h>

typedef struct field {
    const char *name;
    size_t      offset;
    bool        is_gauge; /* may go down; a counter otherwise */
    bool        is_ratio; /* a double */
    const char *help;
} field_t;

#define FIELD(_member, _is_gauge, _is_ratio, _help) \
    { \
#_member, offsetof(ucxpool_heap_stats_t, _member), _is_gauge, \
            _is_ratio, _help \
    }
#define GAUGE(_member, _help)   FIELD(_member, true, false, _help)
#define COUNTER(_member, _help) FIELD(_member, false, false, _help)
#define RATIO(_member, _help)   FIELD(_member, true, true, _help)

static const field_t fields[] = {
    GAUGE(limit, "Bytes that the heap may hold."),
    GAUGE(reserved, "Bytes of physical memory that it holds."),
    GAUGE(live, "Bytes in allocations, after rounding."),
    GAUGE(free, "Bytes in none."),
    GAUGE(asked, "Bytes in allocations, as asked for."),
    GAUGE(peak_reserved, "Most bytes held at one time."),
    GAUGE(num_live, "Allocations that are live."),
    GAUGE(largest_contiguous, "Bytes of the longest free range."),
    GAUGE(largest_stitchable, "Bytes of all free pages together."),
    RATIO(fragmentation, "1 - largest_contiguous / free."),
    RATIO(fragmentation_stitched, "1 - largest_stitchable / free."),
    GAUGE(chunks, "Large physical allocations."),
    GAUGE(pages, "Physical allocations of 2 MiB."),
    GAUGE(stitched_live, "Allocations that are stitched."),
    GAUGE(stitched_kept, "Stitched ranges kept to be used again."),
    GAUGE(mapped, "Bytes of addresses that are mapped."),
    GAUGE(mappings, "Mappings of chunks and pages."),
    COUNTER(allocations, "Allocations made."),
    COUNTER(failures, "Allocations that failed."),
    COUNTER(grows, "Times that memory was taken."),
    COUNTER(stitches, "Ranges stitched."),
    COUNTER(restitches, "Allocations out of a range stitched before."),
    COUNTER(recuts, "Chunks made into pages."),
    COUNTER(stream_waits, "Times that a stream was made to wait for another."),
    COUNTER(syncs, "Times that a caller had to wait for a stream."),
    COUNTER(trimmed, "Bytes given back."),
};

#define NUM_FIELDS (sizeof(fields) / sizeof(fields[0]))

static void print_value(FILE *stream, const ucxpool_heap_stats_t *stats,
                        const field_t *field)
{
    const char *at = (const char *)stats + field->offset;
    uint64_t    number;
    double      ratio;

    if (field->is_ratio) {
        memcpy(&ratio, at, sizeof(ratio));
        fprintf(stream, "%.4f", ratio);
    } else {
        memcpy(&number, at, sizeof(number));
        fprintf(stream, "%" PRIu64, number);
    }
}

static bool is_empty(const ucxpool_heap_class_stats_t *class)
{
    return (class->live == 0) && (class->free == 0);
}

static void print_text(const char *name, const ucxpool_heap_stats_t *stats,
                       FILE *stream)
{
    fprintf(stream, "heap of pool %s\n", name);
    for (size_t i = 0; i < NUM_FIELDS; i++) {
        fprintf(stream, "  %-26s ", fields[i].name);
        print_value(stream, stats, &fields[i]);
        fputc('\n', stream);
    }
    fprintf(stream, "  %-18s %12s %16s %12s %16s\n", "sizes up to", "live",
            "bytes", "free", "bytes");
    for (unsigned i = 0; i < UCXPOOL_HEAP_CLASSES; i++) {
        const ucxpool_heap_class_stats_t *class = &stats->classes[i];

        if (!is_empty(class)) {
            fprintf(stream,
                    "  %-18" PRIu64 " %12" PRIu64 " %16" PRIu64 " %12" PRIu64
                    " %16" PRIu64 "\n",
                    UINT64_C(1) << i, class->live, class->live_bytes,
                    class->free, class->free_bytes);
        }
    }
}

static void print_json(const char *name, const ucxpool_heap_stats_t *stats,
                       FILE *stream)
{
    const char *comma = "";

    fputs("{\"pool\":", stream);
    base_quote_print(stream, name);
    for (size_t i = 0; i < NUM_FIELDS; i++) {
        fprintf(stream, ",\"%s\":", fields[i].name);
        print_value(stream, stats, &fields[i]);
    }
    fputs(",\"classes\":[", stream);
    for (unsigned i = 0; i < UCXPOOL_HEAP_CLASSES; i++) {
        const ucxpool_heap_class_stats_t *class = &stats->classes[i];

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

static void print_openmetrics(const char                 *name,
                              const ucxpool_heap_stats_t *stats, FILE *stream)
{
    for (size_t i = 0; i < NUM_FIELDS; i++) {
        const field_t *field = &fields[i];

        fprintf(stream,
                "# TYPE ucxpool_heap_%s %s\n# HELP ucxpool_heap_%s %s\n",
                field->name, field->is_gauge ? "gauge" : "counter", field->name,
                field->help);
        fprintf(stream, "ucxpool_heap_%s%s{pool=", field->name,
                field->is_gauge ? "" : "_total");
        base_quote_print(stream, name);
        fputs("} ", stream);
        print_value(stream, stats, field);
        fputc('\n', stream);
    }
    fputs("# EOF\n", stream);
}

void ucxpool_heap_print(ucxpool_t *pool, FILE *stream,
                        ucxpool_stats_format_t format)
{
    heap_t              *heap;
    ucxpool_heap_stats_t stats;

    if (base_missing(pool) || base_missing(stream)) {
        return;
    }
    heap = __atomic_load_n(&pool->heap, __ATOMIC_ACQUIRE);
    ucxpool_heap_stats_get(pool, &stats);
    switch (format) {
    case UCXPOOL_STATS_JSON:
        print_json(pool->name, &stats, stream);
        break;
    case UCXPOOL_STATS_OPENMETRICS:
        print_openmetrics(pool->name, &stats, stream);
        break;
    case UCXPOOL_STATS_TEXT:
    default:
        print_text(pool->name, &stats, stream);
        if (heap != NULL) {
            heap_print_ranges(heap, stream);
        }
        break;
    }
}
