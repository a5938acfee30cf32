/*
 * The streams of a heap: the memory that was freed in each stream, and whether
 * other streams may use this memory.
 *
 * Each free in a stream gets a ticket: the next value of the stream's counter.
 * A fence in the stream covers all tickets that were taken before the fence was
 * set. When the stream reaches the fence, these tickets have completed: any
 * stream may use memory that was freed with them. Fences are set only when
 * another stream needs memory.
 *
 * An ended stream remains known, because its pages may hold live allocations.
 * No fence is set in it, and all its tickets count as completed, including
 * future ones. If its handle is used again, for a new CUDA stream, this
 * heap_stream_t is restarted.
 */
#ifndef HEAP_STREAM_H
#define HEAP_STREAM_H

#include "base/lock.h"
#include "heap/range.h"
#include "mem/vmm.h"

typedef struct heap_stream heap_stream_t;

/* Separates data that different threads write: two cache lines, because lines
 * are fetched in pairs. */
#define HEAP_APART 128

/*
 * Medium allocations are longer than HEAP_SMALL_MAX. While memory is not tight,
 * a stream may place up to heap_t.max_mediums of them in its pages, where it
 * needs no heap lock to allocate. If all medium allocations were in pages, up
 * to 1/3 of the memory would be wasted.
 */
#define HEAP_MEDIUM_MAX ((uint64_t)1 << 20)

/* A page of the home. This descriptor is freed only when the heap is
 * destroyed. */
struct heap_page {
    struct heap_page *next;   /* among the heap's spare descriptors */
    struct heap_page *older;  /* among all descriptors of the heap */
    base_list_t       link;   /* among the pages of its owner */
    heap_range_t     *place;  /* its HEAP_SMALL range in the home */
    heap_stream_t    *stream; /* owner; atomic */
    heap_range_t     *first;  /* first range in the page */
    /* The live, cached or deferred range that begins at each unit. */
    heap_range_t *starts[HEAP_PAGE / HEAP_UNIT];
};

typedef struct heap_small {
    base_list_t       pages;
    heap_index_t      index; /* free ranges of all pages */
    heap_free_cache_t cache;
    heap_ranges_t     ranges;
    base_list_t       deferred; /* ranges freed in other streams */
    unsigned          num_pages;
    unsigned          num_empty;   /* pages without allocations */
    unsigned          num_mediums; /* live medium allocations */
} heap_small_t;

struct heap_stream {
    struct heap_stream *next; /* among the heap's streams */
    void               *handle;
    /* Free ranges of the home that were freed in the stream. Protected by the
     * heap's lock. */
    heap_index_t index;
    /* The stream has ended, so the handle belongs to no stream. Atomic; written
     * with the heap's lock held. */
    bool         is_ended;
    uint64_t     frees; /* the last ticket taken; atomic */
    uint64_t     over;  /* tickets up to this one have completed; atomic */
    mem_fence_t *fence; /* NULL: none; protected by the heap's lock */
    /* Tickets up to this one have completed when the fence is reached. */
    uint64_t covers;

    /* Protected by `lock`, so that most allocations and frees in the stream do
     * not take the heap's lock. */
    char              apart_before[HEAP_APART];
    base_lock_t       lock;
    heap_free_cache_t cache; /* large ranges */
    heap_small_t      small; /* small and medium allocations */
    uint64_t          num_allocs;
    char              apart_behind[HEAP_APART];
};

typedef struct heap_streams {
    mem_vmm_t                 *vmm;
    heap_stream_t             *all;
    size_t                     count;
    struct heap_streams_table *table; /* by handle; read without a lock */
    uint64_t                   num_waits;
    uint64_t                   num_syncs;
} heap_streams_t;

void heap_streams_init(heap_streams_t *streams, mem_vmm_t *vmm);
void heap_streams_cleanup(heap_streams_t *streams);

/* Find a known stream that has not ended. Returns NULL if not found. Takes no
 * lock. */
heap_stream_t *heap_streams_find(const heap_streams_t *streams, void *handle);

/*
 * Like heap_streams_find(), but adds an unknown stream and restarts an ended
 * one. Called with the heap's lock held.
 *
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t heap_streams_get(heap_streams_t *streams, void *handle,
                                  heap_stream_t **stream_p);

/* Get the ticket for a free in a stream. */
static inline uint64_t heap_stream_ticket(heap_stream_t *stream)
{
    return __atomic_add_fetch(&stream->frees, 1, __ATOMIC_RELAXED);
}

/* Returns true if any stream may use the memory whose free has this ticket. */
static inline bool heap_stream_is_over(const heap_stream_t *stream,
                                       uint64_t             ticket)
{
    return ticket <= __atomic_load_n(&stream->over, __ATOMIC_ACQUIRE);
}

/* Returns true if work in `user` may use the memory whose free in `stream` has
 * this ticket. */
static inline bool heap_stream_may_use(const heap_stream_t *user,
                                       const heap_stream_t *stream,
                                       uint64_t             ticket)
{
    return (user == stream) || heap_stream_is_over(stream, ticket);
}

static inline bool heap_stream_is_ended(const heap_stream_t *stream)
{
    return __atomic_load_n(&stream->is_ended, __ATOMIC_ACQUIRE);
}

/* The functions below are called with the heap's lock held. */

/* Update the progress of a stream if its fence has been reached. */
void heap_stream_look(heap_streams_t *streams, heap_stream_t *stream);

/* Like heap_stream_look(), but sets a fence if none is set. This call and later
 * calls then check the fence. */
void heap_stream_ask(heap_streams_t *streams, heap_stream_t *stream);

/*
 * Make future work in `user` wait for the current work in `stream`, so that
 * `user` may use all memory that was freed in `stream`.
 *
 * UCXPOOL_ERR_IO  driver error
 */
ucxpool_status_t heap_stream_wait(heap_streams_t *streams,
                                  heap_stream_t *stream, heap_stream_t *user);

/* Block until the current work in a stream has completed, and end the
 * stream. */
ucxpool_status_t heap_stream_retire(heap_streams_t *streams,
                                    heap_stream_t  *stream);

/* Block until the current work in all streams has completed. */
ucxpool_status_t heap_streams_sync(heap_streams_t *streams);

/* --- small allocations ------------------------------------------------------
 * Allocations of up to HEAP_SMALL_MAX bytes share pages, so that each
 * allocation prevents the stitching of at most one page. A stream has its own
 * pages, and its threads need only its lock.
 *
 * These functions are called with the stream's lock held.
 */

/*
 * Allocate in the existing pages. `size` is a multiple of HEAP_UNIT; `asked` is
 * the size that the caller requested.
 *
 * UCXPOOL_OK             *range_p is live; NULL: no room
 * UCXPOOL_ERR_NO_MEMORY  no host memory for descriptors
 */
ucxpool_status_t heap_small_take(heap_small_t *small, uint64_t size,
                                 uint64_t asked, heap_range_t **range_p);

/* Add a page. UCXPOOL_ERR_NO_MEMORY: the caller keeps the page. */
ucxpool_status_t heap_small_add(heap_small_t *small, heap_stream_t *stream,
                                heap_page_t *page);

/* Returns the range in use that begins at an offset, or NULL. */
heap_range_t *heap_small_at(const heap_page_t *page, uint64_t offset);

/* Returns the live range that contains an offset, or NULL. */
heap_range_t *heap_small_around(const heap_page_t *page, uint64_t offset);

/* Free a range of a page: at once if it is HEAP_CACHED, or once its ticket has
 * completed if it is HEAP_DEFERRED. */
void heap_small_give(heap_small_t *small, heap_range_t *range);

/*
 * Free deferred ranges whose ticket has completed. Also free the ranges that
 * were freed in `stream` with tickets up to `ticket`: the pages' stream has
 * been made to wait for these tickets. `stream` may be NULL. Returns the stream
 * of a range that is still deferred, or NULL.
 */
heap_stream_t *heap_small_settle(heap_small_t        *small,
                                 const heap_stream_t *stream, uint64_t ticket);

/* Empty the cache and join all free ranges. */
void heap_small_join(heap_small_t *small);

/* Remove an empty page and return it, if the stream has more than `keep` empty
 * pages. Otherwise returns NULL. */
heap_page_t *heap_small_remove(heap_small_t *small, unsigned keep);

#endif
