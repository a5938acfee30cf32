/*
 * Streams, as the heap knows them: what was freed in each, and how far each has
 * come.
 *
 * Every free in a stream gets the stream's next number, its ticket. A fence set
 * in the stream covers all tickets until then; when it is reached, these are
 * over: what was freed with them may be used by anybody. Fences are set only
 * when another stream asks for memory.
 *
 * A stream that has ended is known still, since its pages may hold what is
 * live. No fence is set in it, and all its tickets are over, those to come
 * included. When its handle is named again, it is another stream's.
 */
#ifndef HEAP_STREAM_H
#define HEAP_STREAM_H

#include "base/lock.h"
#include "heap/range.h"
#include "mem/vmm.h"

typedef struct heap_stream heap_stream_t;

/* Between what different threads write: two lines of a cache, since these are
 * fetched in pairs. */
#define HEAP_APART 128

/*
 * Medium allocations, longer than HEAP_SMALL_MAX, lie in pages too as long as
 * they are few (heap_t.max_mediums) and memory is plenty, since a stream finds
 * them room there without the heap's lock. In pages alone they would waste up
 * to a third.
 */
#define HEAP_MEDIUM_MAX ((uint64_t)1 << 20)

/* A page of the home. Its descriptor is never freed before the heap is. */
struct heap_page {
    struct heap_page *next;   /* of the heap's spare descriptors */
    struct heap_page *older;  /* of all its descriptors */
    base_list_t       link;   /* among its stream's pages */
    heap_range_t     *place;  /* the HEAP_SMALL range of the home */
    heap_stream_t    *stream; /* whose it is; atomic */
    heap_range_t     *first;  /* its ranges, by address */
    /* What begins at each unit, and is live, cached or late. */
    heap_range_t *starts[HEAP_PAGE / HEAP_UNIT];
};

typedef struct heap_small {
    base_list_t       pages;
    heap_index_t      index; /* free ranges of all pages */
    heap_free_cache_t cache;
    heap_ranges_t     ranges;
    base_list_t       late; /* freed in other streams */
    unsigned          num_pages;
    unsigned          num_empty;   /* pages with nothing in them */
    unsigned          num_mediums; /* live */
} heap_small_t;

struct heap_stream {
    struct heap_stream *next; /* of the heap's */
    void               *handle;
    heap_index_t        index; /* free ranges of the home that were freed in
                                  it; under the heap's lock */
    bool is_ended;       /* the handle is no stream's; atomic, written under
                            the heap's lock */
    uint64_t     frees;  /* the last ticket; atomic */
    uint64_t     over;   /* tickets up to it are over; atomic */
    mem_fence_t *fence;  /* NULL: none; under the heap's lock */
    uint64_t     covers; /* tickets up to it are over when the fence is
                            reached */

    /* What a stream's own threads need, without the heap's lock. */
    char              apart_before[HEAP_APART];
    base_lock_t       lock;
    heap_free_cache_t cache; /* large ranges */
    heap_small_t      small; /* pages for small and medium allocations */
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

/* A stream that is known and has not ended; NULL: there is none. No lock. */
heap_stream_t *heap_streams_find(const heap_streams_t *streams, void *handle);

/* The same; it is added if need be, or begins again. Under the heap's lock.
 *
 * UCXPOOL_ERR_NO_MEMORY */
ucxpool_status_t heap_streams_get(heap_streams_t *streams, void *handle,
                                  heap_stream_t **stream_p);

/* The ticket of something freed in a stream now. */
static inline uint64_t heap_stream_ticket(heap_stream_t *stream)
{
    return __atomic_add_fetch(&stream->frees, 1, __ATOMIC_RELAXED);
}

/* May anybody use what was freed in the stream with that ticket? */
static inline bool heap_stream_is_over(const heap_stream_t *stream,
                                       uint64_t             ticket)
{
    return ticket <= __atomic_load_n(&stream->over, __ATOMIC_ACQUIRE);
}

/* May work in `user` use what was freed in `stream` with that ticket? */
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

/* The six below are under the heap's lock. */

/* Look how far a stream has come, if a fence tells. */
void heap_stream_look(heap_streams_t *streams, heap_stream_t *stream);

/* The same; where there is no fence, one is set, for this look and others. */
void heap_stream_ask(heap_streams_t *streams, heap_stream_t *stream);

/*
 * Let what comes into `user` wait for what is in `stream` now, so that all that
 * was freed there may be used by `user`.
 *
 * UCXPOOL_ERR_IO  the driver failed
 */
ucxpool_status_t heap_stream_wait(heap_streams_t *streams,
                                  heap_stream_t *stream, heap_stream_t *user);

/* Wait here for what is in a stream now: all tickets are over then. */
ucxpool_status_t heap_stream_sync(heap_streams_t *streams,
                                  heap_stream_t  *stream);

/* The same, and the stream has ended afterwards. */
ucxpool_status_t heap_stream_retire(heap_streams_t *streams,
                                    heap_stream_t  *stream);

/* Wait for what is in all streams now. */
ucxpool_status_t heap_streams_sync(heap_streams_t *streams);

/* --- small allocations ------------------------------------------------------
 * Those of up to HEAP_SMALL_MAX bytes share pages, so that one of them never
 * keeps more than a page from being stitched. A stream has pages of its own,
 * and its threads need only its lock.
 *
 * These functions are called under that lock.
 */

/*
 * Allocate from the pages there are. size is a multiple of HEAP_UNIT; asked is
 * what the caller asked for.
 *
 * UCXPOOL_OK           *range_p is live; NULL: there is no room
 * UCXPOOL_ERR_NO_MEMORY  none of the host to describe it
 */
ucxpool_status_t heap_small_take(heap_small_t *small, uint64_t size,
                                 uint64_t asked, heap_range_t **range_p);

/* UCXPOOL_ERR_NO_MEMORY: the page stays the caller's. */
ucxpool_status_t heap_small_add(heap_small_t *small, heap_stream_t *stream,
                                heap_page_t *page);

/* What begins there; NULL: nothing that is in use. */
heap_range_t *heap_small_at(const heap_page_t *page, uint64_t offset);

/* The live range that an offset lies in, or NULL. */
heap_range_t *heap_small_around(const heap_page_t *page, uint64_t offset);

/* One that was live no longer is: before it is given. */
void heap_small_end(heap_small_t *small, const heap_range_t *range);

/* Free a range that is HEAP_CACHED, in the stream of its page. */
void heap_small_give(heap_small_t *small, heap_range_t *range);

/* Free it when the other stream, that its ticket is of, is over with it. */
void heap_small_give_late(heap_small_t *small, heap_range_t *range);

/*
 * Free what was late and is over, or was freed in a stream up to a ticket that
 * this one has been made to wait for (stream may be NULL). Returns the stream
 * of one that is still late, or NULL.
 */
heap_stream_t *heap_small_settle(heap_small_t        *small,
                                 const heap_stream_t *stream, uint64_t ticket);

/* Join all that is free, and keep nothing in the cache. */
void heap_small_join(heap_small_t *small);

/* A page with nothing in it, of more than `keep` such; NULL: there is none. It
 * is no longer the stream's. */
heap_page_t *heap_small_remove(heap_small_t *small, unsigned keep);

#endif
