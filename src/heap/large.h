/* Allocates and frees large ranges. */
#ifndef HEAP_LARGE_H
#define HEAP_LARGE_H

#include "heap/heap.h"

ucxpool_status_t heap_reserve(heap_t *heap, size_t size);
ucxpool_status_t heap_trim(heap_t *heap, size_t keep_size, size_t *released_p);

/* The functions below are called with the heap's lock held. */

/*
 * Find a range for an allocation, or add memory for it.
 *
 * size     A multiple of HEAP_UNIT; HEAP_PAGE if is_page.
 * is_page  Find a range that is one page of the home.
 *
 * UCXPOOL_ERR_NO_MEMORY  not enough memory; no error detail is recorded
 */
ucxpool_status_t heap_find(heap_t *heap, heap_stream_t *stream, uint64_t size,
                           bool is_page, heap_range_t **range_p);

/* Find a page without blocking and without emptying the caches of other
 * streams. Same errors as heap_find(). */
ucxpool_status_t heap_find_page_soon(heap_t *heap, heap_stream_t *stream,
                                     heap_range_t **range_p);

/* Move a stream's cached ranges and empty pages to the stream's index, where
 * any search finds them. The stream keeps `keep` empty pages. */
void heap_collect(heap_t *heap, heap_stream_t *stream, unsigned keep);
/* Like heap_collect() for all streams, without keeping any page. */
void heap_collect_all(heap_t *heap);

/*
 * Wait for all streams, so that any stream may use all free memory. Then move
 * all free ranges to `stream` (NULL: to any stream) and join them.
 *
 * UCXPOOL_ERR_IO  driver error
 */
ucxpool_status_t heap_settle(heap_t *heap, heap_stream_t *stream);

/* heap_release_range() frees a large range that was live, stitched or not.
 * heap_release_page() frees a page of small allocations. */
void heap_release_range(heap_t *heap, heap_range_t *range,
                        heap_stream_t *stream);
void heap_release_page(heap_t *heap, heap_page_t *page, heap_stream_t *stream);

#endif
