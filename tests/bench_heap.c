/*
 * How much memory the heap needs, at full size but without real memory: it
 * manages addresses that are never accessed. For the traces of ucxpool_replay
 * and RMM's random workload, it reports the smallest capacity that passes, the
 * requests to the driver, and the time spent in the heap. It also runs RMM's
 * workload several times in a row, from an empty heap and from one that has
 * reserved three times the peak.
 *
 * Not installed: it measures the internal functions of ucxpool_heap_alloc().
 *
 * usage: bench_heap [CHUNK_MIB]
 */
#include "base/clock.h"
#include "base/log.h"
#include "heap/heap.h"
#include "replay/workload.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB  ((uint64_t)1 << 20)
#define STEP 0.0025 /* relative to the peak of live bytes */

/* Calls to the driver. */
typedef struct counts {
    uint64_t created, mapped, unmapped, held, most_held;
} counts_t;

static counts_t counts;

static void nothing_destroy(mem_vmm_t *vmm)
{
}

static ucxpool_status_t nothing_reserve(mem_vmm_t *vmm, size_t size,
                                        size_t alignment, void **address_p)
{
    *address_p = (void *)alignment;
    return UCXPOOL_OK;
}

static void nothing_release(mem_vmm_t *vmm, void *address, size_t size)
{
}

static ucxpool_status_t nothing_create(mem_vmm_t *vmm, size_t size,
                                       mem_chunk_t *chunk_p)
{
    *chunk_p = ++counts.created;
    counts.held += size;
    if (counts.held > counts.most_held) {
        counts.most_held = counts.held;
    }
    return UCXPOOL_OK;
}

static void nothing_destroy_chunk(mem_vmm_t *vmm, mem_chunk_t chunk,
                                  size_t size)
{
    counts.held -= size;
}

static ucxpool_status_t nothing_map(mem_vmm_t *vmm, void *address,
                                    mem_chunk_t chunk, size_t size)
{
    counts.mapped++;
    return UCXPOOL_OK;
}

static ucxpool_status_t nothing_allow(mem_vmm_t *vmm, void *address,
                                      size_t size)
{
    return UCXPOOL_OK;
}

static ucxpool_status_t nothing_unmap(mem_vmm_t *vmm, void *address,
                                      size_t size)
{
    counts.unmapped++;
    return UCXPOOL_OK;
}

static const mem_vmm_calls_t nothing_calls = {.destroy      = nothing_destroy,
                                              .reserve      = nothing_reserve,
                                              .release      = nothing_release,
                                              .chunk_create = nothing_create,
                                              .chunk_destroy =
                                                  nothing_destroy_chunk,
                                              .map   = nothing_map,
                                              .allow = nothing_allow,
                                              .unmap = nothing_unmap};

static heap_t *create(mem_vmm_t *vmm, uint64_t limit, uint64_t chunk_size)
{
    heap_options_t options = {.limit       = limit & ~(2 * MIB - 1),
                              .chunk_size  = chunk_size,
                              .alignment   = 256,
                              .stitch_size = 2 * limit};
    heap_t        *heap;

    if (heap_create(vmm, &options, &heap) != UCXPOOL_OK) {
        fprintf(stderr, "bench_heap: %s\n", ucxpool_error_detail());
        exit(EXIT_FAILURE);
    }
    return heap;
}

/* Play a trace, and free the remaining allocations. false: an allocation
 * failed. */
static bool play(const trace_t *trace, heap_t *heap, void **addresses)
{
    memset(addresses, 0, trace->num_allocations * sizeof(addresses[0]));
    for (size_t i = 0; i < trace->num_events; i++) {
        const trace_event_t *event  = &trace->events[i];
        uint32_t             number = event->allocation;
        ucxpool_status_t     status;

        status = event->is_free ? heap_free(heap, addresses[number], NULL)
                                : heap_alloc(heap, trace->sizes[number], NULL,
                                             &addresses[number]);
        if (status != UCXPOOL_OK) {
            return false;
        }
        if (event->is_free) {
            addresses[number] = NULL;
        }
    }
    for (size_t i = 0; i < trace->num_allocations; i++) {
        (void)heap_free(heap, addresses[i], NULL);
    }
    return true;
}

/* Play it on a new heap; returns the time and the counters. */
static bool try_out(const trace_t *trace, double capacity, uint64_t chunk_size,
                    void **addresses, uint64_t *time_p, heap_stats_t *stats)
{
    mem_vmm_t vmm   = {.calls = &nothing_calls, .is_host = true};
    uint64_t  limit = (uint64_t)(capacity * (double)trace->peak_live);
    heap_t   *heap  = create(&vmm, limit, chunk_size);
    uint64_t  begin;
    bool      is_passed;

    counts    = (counts_t){.created = 0};
    begin     = base_clock_now();
    is_passed = play(trace, heap, addresses);
    *time_p   = base_clock_now() - begin;
    heap_stats(heap, stats);
    heap_destroy(heap);
    return is_passed;
}

static void report(const char *name, const trace_t *trace, double capacity,
                   uint64_t time, const counts_t *calls,
                   const heap_stats_t *stats)
{
    printf("%-16s %9.2f %8.3f %8.3f %8.0f %8lu %8lu %8lu %8lu %8lu\n", name,
           (double)trace->peak_live / (double)(1024 * MIB), capacity,
           (double)calls->most_held / (double)trace->peak_live,
           (double)time / (double)trace->num_events,
           (unsigned long)calls->created, (unsigned long)calls->mapped,
           (unsigned long)calls->unmapped, (unsigned long)stats->stitches,
           (unsigned long)stats->splits);
}

static void run(const char *name, uint64_t chunk_size)
{
    trace_t     *trace = workload_make(name);
    void       **addresses;
    double       low = 1, high = 1.5;
    uint64_t     time;
    heap_stats_t stats;

    if (trace == NULL) {
        exit(EXIT_FAILURE);
    }
    addresses = calloc(trace->num_allocations, sizeof(addresses[0]));
    if (addresses == NULL) {
        fprintf(stderr, "bench_heap: no memory\n");
        exit(EXIT_FAILURE);
    }
    while (high - low > STEP) {
        double middle = (low + high) / 2;

        if (try_out(trace, middle, chunk_size, addresses, &time, &stats)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    if (try_out(trace, high, chunk_size, addresses, &time, &stats)) {
        report(name, trace, high, time, &counts, &stats);
    } else {
        printf("%-16s does not pass with %.2f of its peak\n", name, high);
    }
    if (try_out(trace, 1.5, chunk_size, addresses, &time, &stats)) {
        report(name, trace, 1.5, time, &counts, &stats);
    }
    free(addresses);
    trace_destroy(trace);
}

/* --- consecutive runs with plenty of memory
 * --------------------------------- */

/* Requests to the driver in each of three runs, and the heap's own time per
 * call. */
static void report_rounds(const char *name, const trace_t *trace,
                          uint64_t reserved, uint64_t chunk_size,
                          void **addresses)
{
    mem_vmm_t    vmm  = {.calls = &nothing_calls, .is_host = true};
    heap_t      *heap = create(&vmm, 4 * trace->peak_live, chunk_size);
    heap_stats_t stats;
    bool         is_passed = heap_reserve(heap, reserved) == UCXPOOL_OK;

    printf("%-16s %9.2f %8.2f", name,
           (double)trace->peak_live / (double)(1024 * MIB),
           (double)reserved / (double)trace->peak_live);
    for (unsigned i = 0; (i < 3) && is_passed; i++) {
        uint64_t before, time;

        counts.mapped   = 0;
        counts.unmapped = 0;
        heap_stats(heap, &stats);
        before    = stats.stitches;
        time      = base_clock_now();
        is_passed = play(trace, heap, addresses);
        time      = base_clock_now() - time;
        heap_stats(heap, &stats);
        printf(" %7.0f %6lu %6lu %6lu",
               (double)time / (double)trace->num_events,
               (unsigned long)counts.mapped, (unsigned long)counts.unmapped,
               (unsigned long)(stats.stitches - before));
    }
    printf(" %8.3f%s\n", (double)stats.peak_reserved / (double)trace->peak_live,
           is_passed ? "" : " fails");
    heap_destroy(heap);
}

/* From an empty heap, and from one with three times the peak reserved. */
static void run_rounds(const char *name, uint64_t chunk_size)
{
    trace_t *trace = workload_make(name);
    void   **addresses;

    if (trace == NULL) {
        exit(EXIT_FAILURE);
    }
    addresses = calloc(trace->num_allocations, sizeof(addresses[0]));
    if (addresses == NULL) {
        fprintf(stderr, "bench_heap: no memory\n");
        exit(EXIT_FAILURE);
    }
    report_rounds(name, trace, 0, chunk_size, addresses);
    report_rounds(name, trace, 3 * trace->peak_live, chunk_size, addresses);
    free(addresses);
    trace_destroy(trace);
}

static void print_rounds_head(void)
{
    static const char *const runs[] = {"first run", "second", "third"};

    printf("\n%-16s %9s %8s", "workload", "peak GiB", "reserved");
    for (unsigned i = 0; i < 3; i++) {
        printf("   %-26s", runs[i]);
    }
    printf(" %7s\n%-35s", "held", "");
    for (unsigned i = 0; i < 3; i++) {
        printf(" %7s %6s %6s %6s", "ns/call", "map", "unmap", "stitch");
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    static const char *const names[] = {
        "trace1",      "trace2",       "trace3",         "trace4",
        "rmm:1000,4",  "rmm:1000,64",  "rmm:1000,1024",  "rmm:1000,4096",
        "rmm:10000,4", "rmm:10000,64", "rmm:10000,1024", "rmm:10000,4096"};
    enum { NUM = sizeof(names) / sizeof(names[0]), TRACES = 4 };
    uint64_t chunk_size = ((argc > 1) ? strtoull(argv[1], NULL, 10) : 32) * MIB;

    if ((chunk_size < 2 * MIB) || (chunk_size > 128 * MIB) ||
        ((chunk_size & (chunk_size - 1)) != 0)) {
        fprintf(stderr, "usage: bench_heap [CHUNK_MIB], a power of two from 2 "
                        "to 128\n");
        return 2;
    }
    base_log_set_level(BASE_LOG_NONE);
    /* Each heap's tables are new memory, as in a real program. */
    (void)mallopt(M_MMAP_THRESHOLD, (int)MIB);
    printf("%-16s %9s %8s %8s %8s %8s %8s %8s %8s %8s\n", "trace", "peak GiB",
           "capacity", "held", "ns/call", "created", "mapped", "unmapped",
           "stitched", "splits");
    for (size_t i = 0; i < NUM; i++) {
        run(names[i], chunk_size);
    }
    print_rounds_head();
    for (size_t i = TRACES; i < NUM; i++) {
        run_rounds(names[i], chunk_size);
    }
    return EXIT_SUCCESS;
}
