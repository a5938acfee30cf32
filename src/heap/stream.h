/*
 * Streams, as the heap knows them: what was freed in each, and how far each has
 * come.
 *
 * Every free in a stream gets the stream's next number, its ticket. A fence set
 * in the stream covers all tickets until then; when it is reached, these are
 * over: what was freed with them may be used by anybody. Fences are set only
 * when another stream asks for memory.
 */
#ifndef HEAP_STREAM_H
#define HEAP_STREAM_H

#include "base/lock.h"
#include "heap/range.h"
#include "heap/small.h"
#include "mem/vmm.h"

/* Between what different threads write: two lines of a cache, since these are
 * fetched in pairs. */
#define HEAP_APART 128

typedef struct heap_stream {
    struct heap_stream *next; /* of the heap's */
    void               *handle;
    heap_index_t        index; /* free ranges of the home that were freed in
                                  it; under the heap's lock */
    uint64_t     frees;        /* the last ticket; atomic */
    uint64_t     over;         /* tickets up to it are over; atomic */
    mem_fence_t *fence;        /* NULL: none; under the heap's lock */
    uint64_t     covers;       /* tickets up to it are over when the fence is
                                  reached */

    /* What a stream's own threads need, without the heap's lock. */
    char              apart_before[HEAP_APART];
    base_lock_t       lock;
    heap_free_cache_t cache; /* large ranges */
    heap_small_t      small; /* pages for small and medium allocations */
    uint64_t          num_allocs;
    char              apart_behind[HEAP_APART];
} heap_stream_t;

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

/* A stream that is known; NULL: it is not. No lock. */
heap_stream_t *heap_streams_find(const heap_streams_t *streams, void *handle);

/* The same; it is added if need be. Under the heap's lock.
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

/* The five below are under the heap's lock. */

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

/* The same for all. */
ucxpool_status_t heap_streams_sync(heap_streams_t *streams);

#endif
