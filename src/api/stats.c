/*
 * Statistics: a snapshot of the counters, and three ways to print it.
 */
#include <ucxpool/stats.h>

#include "base/error.h"
#include "base/text.h"
#include "core/domains.h"
#include "core/memory.h"
#include "ucx/reg.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

static const char *const share_names[UCXPOOL_SHARE_LAST] = {
    [UCXPOOL_SHARE_SEND] = "send",
    [UCXPOOL_SHARE_RECV] = "recv",
    [UCXPOOL_SHARE_USER] = "user",
};

static const char *const mode_names[UCXPOOL_MODE_LAST] = {
    [UCXPOOL_MODE_EAGER]       = "eager",
    [UCXPOOL_MODE_MAP_PACKED]  = "map_packed",
    [UCXPOOL_MODE_MAP_INPLACE] = "map_inplace",
    [UCXPOOL_MODE_UCX_PACKED]  = "ucx_packed",
    [UCXPOOL_MODE_UCX_INPLACE] = "ucx_inplace",
};

/* A number that stands by itself in the snapshot. */
typedef struct field {
    const char *name;
    size_t      offset;
    bool        is_gauge; /* may go down; a counter otherwise */
    const char *help;
} field_t;

#define FIELD(_member, _is_gauge, _help) \
    { \
#_member, offsetof(ucxpool_stats_t, _member), _is_gauge, _help \
    }

static const field_t fields[] = {
    FIELD(block_size, true, "Bytes of one block."),
    FIELD(num_regions, true, "Physical allocations."),
    FIELD(registered_bytes, true, "Bytes registered with UCX."),
    FIELD(registrations, false, "Calls that registered memory."),
    FIELD(registrations_after_start, false, "The same, after create."),
    FIELD(domains_needed, true, "Memory domains that must register all."),
    FIELD(regions_verified, true, "Regions that they have registered."),
    FIELD(messages_sent, false, "Messages sent."),
    FIELD(messages_received, false, "Messages received."),
    FIELD(messages_failed, false, "Requests that ended in an error."),
    FIELD(messages_refused, false, "Negative replies sent."),
    FIELD(copies_avoided_bytes, false, "Bytes sent or received in place."),
    FIELD(blocked_ns, false, "Nanoseconds that sends waited for a block."),
    FIELD(channels_open, true, "Channels that are open."),
    FIELD(channels_failed, false, "Channels that failed."),
    FIELD(handshakes_refused, false, "Peers turned away."),
    FIELD(allocations, false, "Heap allocations made by transfers."),
    FIELD(registration_ns, false, "Nanoseconds that registrations took."),
    FIELD(budget_bytes, true, "Bytes that BAR1 gives to blocks; 0: no limit."),
    FIELD(bytes_asked, true, "Bytes of blocks that were asked for."),
    FIELD(blocks_asked, true, "Blocks that were asked for."),
    FIELD(degradations, false, "Attempts to create that failed."),
    FIELD(verbs_domains, true, "Protection domains registered in."),
    FIELD(verbs_registrations, false, "Registrations with verbs."),
    FIELD(verbs_register_ns, false, "Nanoseconds that these took."),
    FIELD(verbs_host_regions, true, "Host memory's, with verbs now."),
    FIELD(verbs_host_bytes, true, "Bytes of these."),
    FIELD(verbs_dmabuf_regions, true, "A GPU's, with verbs by dmabuf now."),
    FIELD(verbs_dmabuf_bytes, true, "Bytes of these."),
    FIELD(verbs_peer_regions, true, "A GPU's, with verbs by address now."),
    FIELD(verbs_peer_bytes, true, "Bytes of these."),
};

static const char *const degraded_names[] = {
    [UCXPOOL_DEGRADED_NONE]   = "none",
    [UCXPOOL_DEGRADED_FEWER]  = "fewer",
    [UCXPOOL_DEGRADED_PINNED] = "pinned",
};

#define NUM_FIELDS (sizeof(fields) / sizeof(fields[0]))

static uint64_t value(const ucxpool_stats_t *stats, const field_t *field)
{
    uint64_t number;

    memcpy(&number, (const char *)stats + field->offset, sizeof(number));
    return number;
}

static uint64_t registered_bytes(const mem_regions_t *regions)
{
    uint64_t num = 0;

    for (unsigned i = 0; i < regions->num_regions; i++) {
        num += regions->regions[i].memh != NULL;
    }
    return num * regions->region_size;
}

void ucxpool_stats_get(ucxpool_t *pool, ucxpool_stats_t *stats_p)
{
    uint64_t num_maps;

    if (base_missing(stats_p)) {
        return;
    }
    if (base_missing(pool)) {
        memset(stats_p, 0, sizeof(*stats_p));
        return;
    }
    num_maps = (uint64_t)pool->memory.regions.num_maps +
               pool->memory.pinned_regions.num_maps;
    core_lock(pool);
    *stats_p = pool->stats;
    core_unlock(pool);
    stats_p->block_size       = block_pool_block_size(pool->memory.blocks);
    stats_p->num_regions      = pool->memory.regions.num_regions;
    stats_p->registered_bytes = registered_bytes(&pool->memory.regions) +
                                registered_bytes(&pool->memory.pinned_regions);
    stats_p->registrations_after_start =
        num_maps - pool->memory.num_maps_at_start;
    stats_p->registrations += stats_p->registrations_after_start;
    core_domains_stats(&pool->domains, stats_p);
    ucx_reg_verified(core_memory_registered(pool), &stats_p->domains_needed,
                     &stats_p->regions_verified);
    for (int i = 0; i < UCXPOOL_SHARE_LAST; i++) {
        block_pool_stats(pool->memory.blocks, (ucxpool_share_t)i,
                         &stats_p->blocks[i]);
    }
}

static void print_text(const char *name, const ucxpool_stats_t *stats,
                       FILE *stream)
{
    fprintf(stream, "pool %s\n", name);
    for (size_t i = 0; i < NUM_FIELDS; i++) {
        fprintf(stream, "  %-26s %" PRIu64 "\n", fields[i].name,
                value(stats, &fields[i]));
    }
    fprintf(stream, "  %-26s %s\n", "degraded_to",
            degraded_names[stats->degraded_to]);
    if (stats->degraded_why[0] != '\0') {
        fprintf(stream, "  %-26s %s\n", "degraded_why", stats->degraded_why);
    }
    fprintf(stream, "  %-12s %10s %10s %10s %12s %10s\n", "blocks", "total",
            "free", "held", "quarantined", "high water");
    for (int i = 0; i < UCXPOOL_SHARE_LAST; i++) {
        const ucxpool_share_stats_t *share = &stats->blocks[i];

        fprintf(stream,
                "  %-12s %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %12" PRIu64
                " %10" PRIu64 "\n",
                share_names[i], share->total, share->free, share->held,
                share->quarantined, share->high_water);
    }
    fprintf(stream, "  %-12s %16s %12s %16s %12s\n", "mode", "bytes sent",
            "fragments", "bytes received", "fragments");
    for (int i = 0; i < UCXPOOL_MODE_LAST; i++) {
        fprintf(stream,
                "  %-12s %16" PRIu64 " %12" PRIu64 " %16" PRIu64 " %12" PRIu64
                "\n",
                mode_names[i], stats->sent[i].bytes, stats->sent[i].fragments,
                stats->received[i].bytes, stats->received[i].fragments);
    }
}

static void print_json_traffic(const char              *key,
                               const ucxpool_traffic_t *traffic, FILE *stream)
{
    fprintf(stream, ",\"%s\":{", key);
    for (int i = 0; i < UCXPOOL_MODE_LAST; i++) {
        fprintf(stream,
                "%s\"%s\":{\"bytes\":%" PRIu64 ",\"fragments\":%" PRIu64 "}",
                (i == 0) ? "" : ",", mode_names[i], traffic[i].bytes,
                traffic[i].fragments);
    }
    fputc('}', stream);
}

static void print_json(const char *name, const ucxpool_stats_t *stats,
                       FILE *stream)
{
    fputs("{\"pool\":", stream);
    base_quote_print(stream, name);
    for (size_t i = 0; i < NUM_FIELDS; i++) {
        fprintf(stream, ",\"%s\":%" PRIu64, fields[i].name,
                value(stats, &fields[i]));
    }
    fprintf(stream, ",\"degraded_to\":\"%s\",\"degraded_why\":",
            degraded_names[stats->degraded_to]);
    base_quote_print(stream, stats->degraded_why);
    fputs(",\"blocks\":{", stream);
    for (int i = 0; i < UCXPOOL_SHARE_LAST; i++) {
        const ucxpool_share_stats_t *share = &stats->blocks[i];

        fprintf(stream,
                "%s\"%s\":{\"total\":%" PRIu64 ",\"free\":%" PRIu64
                ",\"held\":%" PRIu64 ",\"quarantined\":%" PRIu64
                ",\"high_water\":%" PRIu64 "}",
                (i == 0) ? "" : ",", share_names[i], share->total, share->free,
                share->held, share->quarantined, share->high_water);
    }
    fputc('}', stream);
    print_json_traffic("sent", stats->sent, stream);
    print_json_traffic("received", stats->received, stream);
    fputs("}\n", stream);
}

static void print_family(FILE *stream, const char *name, bool is_gauge,
                         const char *help)
{
    fprintf(stream, "# TYPE ucxpool_%s %s\n# HELP ucxpool_%s %s\n", name,
            is_gauge ? "gauge" : "counter", name, help);
}

/* One sample: name, the pool's label, one or two labels more, the number. */
static void print_sample(FILE *stream, const char *name, bool is_gauge,
                         const char *pool, const char *labels, uint64_t number)
{
    fprintf(stream, "ucxpool_%s%s{pool=", name, is_gauge ? "" : "_total");
    base_quote_print(stream, pool);
    fprintf(stream, "%s} %" PRIu64 "\n", labels, number);
}

static void print_metrics_blocks(const char *name, const ucxpool_stats_t *stats,
                                 FILE *stream)
{
    static const struct {
        const char *state;
        size_t      offset;
    } states[] = {
        {"free", offsetof(ucxpool_share_stats_t, free)},
        {"held", offsetof(ucxpool_share_stats_t, held)},
        {"quarantined", offsetof(ucxpool_share_stats_t, quarantined)},
    };
    char     labels[64];
    uint64_t number;

    print_family(stream, "blocks", true, "Blocks by share and state.");
    for (int i = 0; i < UCXPOOL_SHARE_LAST; i++) {
        for (size_t j = 0; j < sizeof(states) / sizeof(states[0]); j++) {
            memcpy(&number, (const char *)&stats->blocks[i] + states[j].offset,
                   sizeof(number));
            snprintf(labels, sizeof(labels), ",share=\"%s\",state=\"%s\"",
                     share_names[i], states[j].state);
            print_sample(stream, "blocks", true, name, labels, number);
        }
    }
    print_family(stream, "blocks_high_water", true,
                 "Most blocks not free at one time.");
    for (int i = 0; i < UCXPOOL_SHARE_LAST; i++) {
        snprintf(labels, sizeof(labels), ",share=\"%s\"", share_names[i]);
        print_sample(stream, "blocks_high_water", true, name, labels,
                     stats->blocks[i].high_water);
    }
}

/* One sample for each thing that it can be; the one that it is has 1. */
static void print_metrics_degraded(const char            *name,
                                   const ucxpool_stats_t *stats, FILE *stream)
{
    char labels[64];

    print_family(stream, "degraded", true, "What the pool had to become.");
    for (int i = 0; i <= UCXPOOL_DEGRADED_PINNED; i++) {
        snprintf(labels, sizeof(labels), ",to=\"%s\"", degraded_names[i]);
        print_sample(stream, "degraded", true, name, labels,
                     (int)stats->degraded_to == i);
    }
}

static void print_metrics_traffic(const char *pool, const char *name,
                                  const char *help, size_t offset,
                                  const ucxpool_stats_t *stats, FILE *stream)
{
    const ucxpool_traffic_t *ways[]  = {stats->sent, stats->received};
    static const char *const words[] = {"sent", "received"};
    char                     labels[64];
    uint64_t                 number;

    print_family(stream, name, false, help);
    for (int way = 0; way < 2; way++) {
        for (int i = 0; i < UCXPOOL_MODE_LAST; i++) {
            memcpy(&number, (const char *)&ways[way][i] + offset,
                   sizeof(number));
            snprintf(labels, sizeof(labels), ",direction=\"%s\",mode=\"%s\"",
                     words[way], mode_names[i]);
            print_sample(stream, name, false, pool, labels, number);
        }
    }
}

static void print_metrics(const char *name, const ucxpool_stats_t *stats,
                          FILE *stream)
{
    for (size_t i = 0; i < NUM_FIELDS; i++) {
        print_family(stream, fields[i].name, fields[i].is_gauge,
                     fields[i].help);
        print_sample(stream, fields[i].name, fields[i].is_gauge, name, "",
                     value(stats, &fields[i]));
    }
    print_metrics_degraded(name, stats, stream);
    print_metrics_blocks(name, stats, stream);
    print_metrics_traffic(name, "bytes", "Bytes of messages, by mode.",
                          offsetof(ucxpool_traffic_t, bytes), stats, stream);
    print_metrics_traffic(name, "fragments", "Wire operations, by mode.",
                          offsetof(ucxpool_traffic_t, fragments), stats,
                          stream);
    fputs("# EOF\n", stream);
}

void ucxpool_stats_print(ucxpool_t *pool, FILE *stream,
                         ucxpool_stats_format_t format)
{
    ucxpool_stats_t stats;

    if (base_missing(pool) || base_missing(stream)) {
        return;
    }
    ucxpool_stats_get(pool, &stats);
    switch (format) {
    case UCXPOOL_STATS_JSON:
        print_json(pool->name, &stats, stream);
        break;
    case UCXPOOL_STATS_OPENMETRICS:
        print_metrics(pool->name, &stats, stream);
        break;
    default:
        print_text(pool->name, &stats, stream);
        break;
    }
}
