/*
 * What src/heap's files for single tasks share.
 *
 * Locks: the heap's lock comes before a stream's. Allocation and free go
 * without the former as long as a stream can serve itself.
 */
#ifndef HEAP_HEAP_INSIDE_H
#define HEAP_HEAP_INSIDE_H

#include "heap/heap.h"
#include "heap/log.h"
#include "heap/space.h"
#include "heap/range.h"
#include "heap/stitch.h"
#include "heap/stream.h"

#include <pthread.h>

struct heap {
    mem_vmm_t     *vmm;
    char          *address; /* of offset 0 */
    uint64_t       size;    /* of all addresses */
    heap_options_t options;
    heap_log_t    *log; /* NULL: none */
    /* Medium allocations that a stream may have in its pages. */
    unsigned max_mediums;
    /* Memory has been asked for over the limit: from now on chunks are cut
     * where an allocation ends, and pages have small allocations alone. Atomic;
     * set under the lock. */
    bool is_tight;

    char            apart[HEAP_APART];
    pthread_mutex_t lock;

    heap_space_t    space;
    heap_streams_t  streams;
    heap_page_map_t page_map;
    heap_stitcher_t stitcher;
    heap_page_t    *spare_pages; /* descriptors */
    heap_page_t    *all_pages;

    ucxpool_t             *pool;
    ucxpool_heap_failure_t callback;
    void                  *callback_arg;

    uint64_t peak_reserved;
    uint64_t peak_used; /* of what no stream has freed, when one was short */
    uint64_t num_failures;
    uint64_t num_found;     /* allocations that no cache served */
    int      stitches_owed; /* in allocations: find.c */
    uint64_t num_grows;
    uint64_t num_splits;
    uint64_t trimmed;
};

/* A large range, from wherever it can be had. Under the heap's lock. */

/*
 * size  A multiple of HEAP_UNIT; HEAP_PAGE with is_page: a page of the home.
 *
 * UCXPOOL_ERR_NO_MEMORY  there is none; no detail is told
 */
ucxpool_status_t heap_find(heap_t *heap, heap_stream_t *stream, uint64_t size,
                           bool is_page, heap_range_t **range_p);

/* A page, if it can be had without waiting or taking from others what they
 * have in their caches. The same result. */
ucxpool_status_t heap_find_page_soon(heap_t *heap, heap_stream_t *stream,
                                     heap_range_t **range_p);

/* Take memory from the driver so that `size` bytes lie together. *range_p is a
 * free range that is long enough; NULL: the limit does not allow it. */
ucxpool_status_t heap_grow(heap_t *heap, heap_stream_t *stream, uint64_t size,
                           bool is_page, heap_range_t **range_p);

/* Take whole pages, `size` bytes in all, wherever they are; nothing where the
 * limit does not allow it. */
ucxpool_status_t heap_grow_by(heap_t *heap, heap_stream_t *stream,
                              uint64_t size);

/* Put back into the index what streams have in their caches, and pages that
 * they do not need. */
void heap_collect(heap_t *heap, heap_stream_t *stream);
void heap_collect_all(heap_t *heap);

/* Give a stream all that the others have free, and that is over for it. */
void heap_gather(heap_t *heap, heap_stream_t *stream);

/* Wait for all streams, so that all that is free is free for anybody, and lies
 * together as the stream's (NULL: somebody's).
 *
 * UCXPOOL_ERR_IO  the driver failed */
ucxpool_status_t heap_settle(heap_t *heap, heap_stream_t *stream);

/* What is no longer used becomes free: a large range (live until now, stitched
 * or not), and a page. */
void heap_release_range(heap_t *heap, heap_range_t *range,
                        heap_stream_t *stream);
void heap_release_page(heap_t *heap, heap_page_t *page, heap_stream_t *stream);

/* A stream by its handle, known from now on; refuses what is none. */
ucxpool_status_t heap_stream_of(heap_t *heap, void *handle,
                                heap_stream_t **stream_p);

/* The offset of an address; false: not in the heap. */
bool heap_offset_of(const heap_t *heap, const void *address,
                    uint64_t *offset_p);

/* Record why an allocation for a stream fails: what is live and free, and in
 * what pieces. */
ucxpool_status_t heap_fail(heap_t *heap, uint64_t size, const void *handle,
                           ucxpool_status_t status);

#endif
