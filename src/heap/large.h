/*
 * Where large ranges come from, and where they go when they are free.
 */
#ifndef HEAP_LARGE_H
#define HEAP_LARGE_H

#include "heap/heap.h"

ucxpool_status_t heap_reserve(heap_t *heap, size_t size);
ucxpool_status_t heap_trim(heap_t *heap, size_t keep_size, size_t *released_p);

/* The functions below are called under the heap's lock. */

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

/* Put back into the index what a stream has in its caches, and all its empty
 * pages but `keep`. */
void heap_collect(heap_t *heap, heap_stream_t *stream, unsigned keep);
/* The same of all streams, with no page kept. */
void heap_collect_all(heap_t *heap);

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

#endif
