#include "core/stats.h"

#include "base/math.h"
#include "core/channel.h"
#include "core/memory.h"
#include "ucx/reg.h"

#include <assert.h>
#include <string.h>

static uint64_t registered_bytes(const mem_regions_t *regions)
{
    uint64_t num = 0;

    for (unsigned i = 0; i < regions->num_regions; i++) {
        num += regions->regions[i].memh != NULL;
    }
    return num * regions->region_size;
}

void core_counters_add(core_counters_t *to, const core_counters_t *from)
{
    uint64_t       *sums    = &to->messages_sent;
    const uint64_t *numbers = &from->messages_sent;

    for (size_t i = 0; i < sizeof(*to) / sizeof(*sums); i++) {
        sums[i] += numbers[i];
    }
}

static void add_channels(const ucxpool_t *pool, core_counters_t *sum)
{
    for (uint32_t i = 0; i < pool->channels.table_size; i++) {
        if (pool->channels.table[i] != NULL) {
            core_counters_add(sum, &pool->channels.table[i]->counts);
        }
    }
}

static uint64_t load(const uint64_t *number)
{
    return __atomic_load_n(number, __ATOMIC_RELAXED);
}

static void add_domains(const core_domains_t *domains, core_stats_t *stats_p)
{
    const uint64_t *regions = domains->counts.num_regions;
    const uint64_t *bytes   = domains->counts.bytes;

    stats_p->verbs_domains         = load(&domains->num_domains);
    stats_p->verbs_registrations   = load(&domains->counts.num_calls);
    stats_p->verbs_registration_ns = load(&domains->counts.ns);
    stats_p->verbs_host_regions    = load(&regions[MEM_VERBS_HOST]);
    stats_p->verbs_host_bytes      = load(&bytes[MEM_VERBS_HOST]);
    stats_p->verbs_dmabuf_regions  = load(&regions[MEM_VERBS_DMABUF]);
    stats_p->verbs_dmabuf_bytes    = load(&bytes[MEM_VERBS_DMABUF]);
    stats_p->verbs_peer_regions    = load(&regions[MEM_VERBS_PEER]);
    stats_p->verbs_peer_bytes      = load(&bytes[MEM_VERBS_PEER]);
}

void core_stats_get(ucxpool_t *pool, core_stats_t *stats_p)
{
    core_lock(pool);
    *stats_p = pool->stats;
    add_channels(pool, &stats_p->counts);
    stats_p->block_size       = block_pool_block_size(pool->memory.blocks);
    stats_p->num_regions      = pool->memory.regions.num_regions;
    stats_p->registered_bytes = registered_bytes(&pool->memory.regions) +
                                registered_bytes(&pool->memory.pinned_regions);
    ucx_reg_verified(core_memory_registered(pool), &stats_p->domains_needed,
                     &stats_p->regions_verified);
    core_unlock(pool);
    add_domains(&pool->domains, stats_p);
    for (int i = 0; i < BLOCK_SHARE_LAST; i++) {
        block_pool_stats(pool->memory.blocks, (block_share_t)i,
                         &stats_p->blocks[i]);
    }
}

void core_heap_stats_get(ucxpool_t *pool, heap_stats_t *stats_p)
{
    heap_t *heap = __atomic_load_n(&pool->heap, __ATOMIC_ACQUIRE);

    memset(stats_p, 0, sizeof(*stats_p));
    if (heap != NULL) {
        heap_stats(heap, stats_p);
    }
}

/* --- latencies ------------------------------------------------------------ */

static_assert(((unsigned)UCXPOOL_WAY_RMA <= CORE_LATENCY_LAST_PATH) &&
                  ((unsigned)CORE_MODE_LAST - 1 <= CORE_LATENCY_LAST_PATH),
              "each path has a histogram");

core_latency_wire_t *core_latency_of(core_latency_t *latency,
                                     ucxpool_wire_t  wire)
{
    return &latency->wires[wire == UCXPOOL_WIRE_UCX];
}

uint64_t core_latency_sample(core_latency_t  *latency,
                             core_operation_t operation)
{
    latency->skips[operation] = true;
    return base_clock_now() | CORE_LATENCY_SAMPLE;
}

static unsigned bucket_of(uint64_t ns)
{
    unsigned bits = (ns == 0) ? 1u : 64u - (unsigned)__builtin_clzll(ns);

    return base_min(bits, UCXPOOL_HISTOGRAM_BUCKETS - 1u);
}

/* Add the operations that were not timed since the last sample. */
static void add_untimed(core_histogram_t *histogram, int64_t left)
{
    uint64_t num = (uint64_t)(histogram->armed - left);

    histogram->buckets[histogram->last_bucket] += num;
    histogram->sum += num * histogram->last_ns;
    histogram->armed = left;
}

static void add_sample(core_histogram_t *histogram, int64_t left, uint64_t ns)
{
    if (histogram->last_bucket != 0) {
        add_untimed(histogram, left);
    }
    histogram->last_ns     = ns;
    histogram->last_bucket = bucket_of(ns);
    add_untimed(histogram, left);
    histogram->num_samples++;
}

/* Returns a number from 0 to 2 * CORE_LATENCY_INTERVAL - 1. If all intervals
 * were equal, the samples could always be the same operation of an
 * application's loop. */
static int64_t draw(core_latency_t *latency)
{
    latency->random = latency->random * 1664525u + 1013904223u;
    return (latency->random >> 16) % (2 * CORE_LATENCY_INTERVAL);
}

/* Draw the number of operations before the next sample. Until the histogram has
 * a sample, this number doubles each time, because the operation that is
 * sampled may belong to another histogram. */
static void rearm(core_latency_t *latency, core_histogram_t *histogram,
                  int64_t *left)
{
    int64_t num = histogram->armed - *left;

    *left            = (histogram->last_bucket == 0) ? num - 1 : draw(latency);
    histogram->armed = num + *left;
}

void core_latency_update(core_latency_t *latency, core_latency_wire_t *wire,
                         core_operation_t operation, unsigned path,
                         uint64_t started)
{
    core_histogram_t *histogram = &wire->histograms[operation][path];
    int64_t          *left      = &wire->left[operation][path];
    uint64_t          now;
    uint64_t          ns;

    if (started == 0) {
        rearm(latency, histogram, left);
        latency->skips[operation] = false;
        return;
    }
    now = base_clock_now();
    ns  = (now > started) ? now - started : 0;
    if (started & CORE_LATENCY_SAMPLE) {
        add_sample(histogram, *left, ns);
        latency->skips[operation] &=
            histogram->num_samples >= CORE_LATENCY_FIRST;
    }
    histogram->buckets[bucket_of(ns)]++;
    histogram->sum += ns;
}

void core_latency_get(core_latency_t *latency, const core_series_t *series,
                      ucxpool_histogram_t *histogram_p)
{
    const core_latency_wire_t *wire = core_latency_of(latency, series->wire);
    core_histogram_t copy = wire->histograms[series->operation][series->path];

    add_untimed(&copy, wire->left[series->operation][series->path]);
    histogram_p->count = 0;
    histogram_p->sum   = copy.sum;
    memcpy(histogram_p->buckets, copy.buckets, sizeof(copy.buckets));
    for (size_t i = 0; i < UCXPOOL_HISTOGRAM_BUCKETS; i++) {
        histogram_p->count += copy.buckets[i];
    }
}
