#include "core/latency.h"

#include "base/math.h"
#include "core/stats.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

static_assert(((unsigned)UCXPOOL_WAY_RMA <= CORE_LATENCY_LAST_PATH) &&
                  ((unsigned)CORE_MODE_LAST - 1 <= CORE_LATENCY_LAST_PATH),
              "each path has a histogram");

static core_histogram_t *histogram_of(core_latency_t      *latency,
                                      const core_series_t *series)
{
    return &latency->histograms[series->operation]
                               [series->wire == UCXPOOL_WIRE_UCX][series->path];
}

/* Returns a number from 0 to 2 * CORE_LATENCY_INTERVAL - 1. If all intervals
 * were equal, the samples could always be the same operation of an
 * application's loop. */
static uint32_t draw(core_latency_t *latency)
{
    latency->random = latency->random * 1664525u + 1013904223u;
    return (latency->random >> 16) % (2 * CORE_LATENCY_INTERVAL);
}

uint64_t core_latency_sample(core_latency_t  *latency,
                             core_operation_t operation)
{
    latency->until[operation] = draw(latency);
    return base_clock_now() | CORE_LATENCY_SAMPLE;
}

static unsigned bucket_of(uint64_t ns)
{
    unsigned bits = (ns == 0) ? 1u : 64u - (unsigned)__builtin_clzll(ns);

    return base_min(bits, UCXPOOL_HISTOGRAM_BUCKETS - 1u);
}

/* Add the operations that were not timed. */
static void add_untimed(core_histogram_t *histogram, uint64_t num)
{
    histogram->buckets[histogram->last_bucket] += num;
    histogram->sum += num * histogram->last_ns;
}

static void add_sample(core_latency_t *latency, const core_series_t *series,
                       core_histogram_t *histogram, uint64_t ns)
{
    uint64_t *untimed =
        &latency->untimed[series->operation][series->wire][series->path];
    bool is_first = histogram->last_bucket == 0;

    if (!is_first) {
        add_untimed(histogram, *untimed);
    }
    histogram->last_ns     = ns;
    histogram->last_bucket = bucket_of(ns);
    if (is_first) {
        add_untimed(histogram, *untimed);
    }
    *untimed = 0;
    if (histogram->num_samples < CORE_LATENCY_FIRST) {
        histogram->num_samples++;
        latency->until[series->operation] = 0;
    }
}

void core_latency_add(core_latency_t *latency, const core_series_t *series,
                      uint64_t started)
{
    core_histogram_t *histogram = histogram_of(latency, series);
    uint64_t          now       = base_clock_now();
    uint64_t          ns        = (now > started) ? now - started : 0;

    if (started & CORE_LATENCY_SAMPLE) {
        add_sample(latency, series, histogram, ns);
    }
    histogram->buckets[bucket_of(ns)]++;
    histogram->sum += ns;
}

void core_latency_request(core_latency_t *latency, const core_series_t *series)
{
    if (histogram_of(latency, series)->last_bucket == 0) {
        latency->until[series->operation] = 0;
    }
}

void core_latency_get(core_latency_t *latency, const core_series_t *series,
                      ucxpool_histogram_t *histogram_p)
{
    core_histogram_t copy = *histogram_of(latency, series);

    add_untimed(
        &copy, latency->untimed[series->operation][series->wire][series->path]);
    histogram_p->count = 0;
    histogram_p->sum   = copy.sum;
    memcpy(histogram_p->buckets, copy.buckets, sizeof(copy.buckets));
    for (size_t i = 0; i < UCXPOOL_HISTOGRAM_BUCKETS; i++) {
        histogram_p->count += copy.buckets[i];
    }
}
