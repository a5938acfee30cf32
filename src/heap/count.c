/*
 * Statistics: counted by a walk over all ranges, so that allocation and free
 * need not count.
 */
#include <config.h>

#include "heap/heap_inside.h"

#include "base/error.h"
#include "base/math.h"

#include <inttypes.h>
#include <string.h>

#define MIB ((double)(1 << 20))

static ucxpool_heap_class_stats_t *class_of(ucxpool_heap_stats_t *stats,
                                            uint64_t              size)
{
    unsigned number =
        (size > 1) ? 64u - (unsigned)__builtin_clzll(size - 1) : 0;

    return &stats->classes[base_min(number, UCXPOOL_HEAP_CLASSES - 1u)];
}

static void count_live(ucxpool_heap_stats_t *stats, const heap_range_t *range)
{
    uint64_t asked                    = heap_range_asked(range);
    ucxpool_heap_class_stats_t *class = class_of(stats, asked);

    class->live++;
    class->live_bytes += range->size;
    stats->live += range->size;
    stats->asked += asked;
    stats->num_live++;
}

static void count_free(ucxpool_heap_stats_t *stats, const heap_range_t *range)
{
    ucxpool_heap_class_stats_t *class = class_of(stats, range->size);

    class->free++;
    class->free_bytes += range->size;
    stats->largest_contiguous =
        base_max(stats->largest_contiguous, range->size);
}

static void count(ucxpool_heap_stats_t *stats, const heap_range_t *range)
{
    switch (heap_range_state(range)) {
    case HEAP_LIVE:
        count_live(stats, range);
        break;
    case HEAP_FREE:
    case HEAP_CACHED:
    case HEAP_LATE:
        count_free(stats, range);
        break;
    default:
        break;
    }
}

static void count_pages(const heap_small_t *small, ucxpool_heap_stats_t *stats)
{
    const heap_page_t *page;

    base_list_for_each(page, &small->pages, heap_page_t, link) {
        for (const heap_range_t *range = page->first; range != NULL;
             range                     = range->after) {
            count(stats, range);
        }
    }
}

static void count_streams(heap_t *heap, ucxpool_heap_stats_t *stats)
{
    for (heap_stream_t *stream = heap->streams.all; stream != NULL;
         stream                = stream->next) {
        base_lock_take(&stream->lock);
        count_pages(&stream->small, stats);
        stats->allocations += stream->num_allocs;
        base_lock_give(&stream->lock);
        stats->largest_stitchable += heap_stitchable(&heap->space, stream);
    }
}

/* In use, they are no ranges of the home. */
static void count_stitched(const heap_t *heap, ucxpool_heap_stats_t *stats)
{
    const heap_stitched_t *stitched;

    base_list_for_each(stitched, &heap->stitcher.all, heap_stitched_t, link) {
        if (stitched->range != NULL) {
            count(stats, stitched->range);
        }
    }
}

static void copy_counters(const heap_t *heap, ucxpool_heap_stats_t *stats)
{
    const heap_home_t *home = &heap->space.home;

    stats->limit         = heap->options.limit;
    stats->reserved      = home->reserved;
    stats->peak_reserved = heap->peak_reserved;
    stats->chunks        = home->num_chunks;
    stats->pages         = home->num_pages;
    stats->stitched_live = heap->stitcher.num_live;
    stats->stitched_kept = heap->stitcher.num_kept;
    stats->mapped        = home->reserved + heap->stitcher.mapped;
    stats->mappings =
        home->num_chunks + home->num_pages + heap->stitcher.num_mappings;
    stats->allocations  = heap->num_found;
    stats->failures     = heap->num_failures;
    stats->grows        = heap->num_grows;
    stats->stitches     = heap->stitcher.num_stitches;
    stats->restitches   = heap->stitcher.num_restitches;
    stats->recuts       = heap->num_splits;
    stats->stream_waits = heap->streams.num_waits;
    stats->syncs        = heap->streams.num_syncs;
    stats->trimmed      = heap->trimmed;
}

/* Under the heap's lock. */
static void take_stats(heap_t *heap, ucxpool_heap_stats_t *stats)
{
    memset(stats, 0, sizeof(*stats));
    copy_counters(heap, stats);
    for (const heap_range_t *range = heap->space.first; range != NULL;
         range                     = range->after) {
        count(stats, range);
    }
    count_streams(heap, stats);
    count_stitched(heap, stats);
    stats->free = stats->reserved - stats->live;
    stats->largest_stitchable =
        base_max(stats->largest_stitchable, stats->largest_contiguous);
    if (stats->free > 0) {
        double bytes = (double)stats->free;

        stats->fragmentation = 1 - (double)stats->largest_contiguous / bytes;
        stats->fragmentation_stitched =
            1 - (double)stats->largest_stitchable / bytes;
    }
}

void heap_stats(heap_t *heap, ucxpool_heap_stats_t *stats_p)
{
    pthread_mutex_lock(&heap->lock);
    heap_collect_all(heap);
    take_stats(heap, stats_p);
    pthread_mutex_unlock(&heap->lock);
}

/* What to change: the limit, if it is that. */
static const char *advice(const ucxpool_heap_stats_t *stats, uint64_t size)
{
    return (size <= stats->limit - stats->reserved)
               ? "and no more memory can be had: free some, here or elsewhere"
               : "raise MEMORY_LIMIT, or free memory";
}

ucxpool_status_t heap_fail(heap_t *heap, uint64_t size, const void *handle,
                           ucxpool_status_t status)
{
    ucxpool_heap_stats_t stats;
    char                 cause[160] = "";

    if (status != UCXPOOL_ERR_NO_MEMORY) {
        snprintf(cause, sizeof(cause), "%s; ", ucxpool_error_detail());
    }
    pthread_mutex_lock(&heap->lock);
    heap->num_failures++;
    take_stats(heap, &stats);
    pthread_mutex_unlock(&heap->lock);
    heap_log_write(heap->log, HEAP_LOG_FAILURE, NULL, size, handle);
    return base_error(
        status,
        "%sthe heap has no %.1f MiB: of at most %.1f MiB it "
        "holds %.1f, live %.1f (%" PRIu64 " allocations), free "
        "%.1f, of which %.1f in one piece and %.1f in whole "
        "chunks; %s",
        cause, (double)size / MIB, (double)stats.limit / MIB,
        (double)stats.reserved / MIB, (double)stats.live / MIB, stats.num_live,
        (double)stats.free / MIB, (double)stats.largest_contiguous / MIB,
        (double)stats.largest_stitchable / MIB, advice(&stats, size));
}

static const char *const state_words[] = {
    [HEAP_UNBACKED] = "hole", [HEAP_FREE] = "free",      [HEAP_LIVE] = "live",
    [HEAP_CACHED] = "free",   [HEAP_PIECE] = "stitched", [HEAP_SMALL] = "small",
    [HEAP_LATE] = "free",     [HEAP_SPARE] = "spare"};

void heap_print_ranges(heap_t *heap, FILE *stream)
{
    pthread_mutex_lock(&heap->lock);
    for (const heap_range_t *range = heap->space.first; range != NULL;
         range                     = range->after) {
        fprintf(stream, "%p %14" PRIu64 " %s\n",
                (void *)(heap->address + range->offset), range->size,
                state_words[heap_range_state(range)]);
    }
    pthread_mutex_unlock(&heap->lock);
}
