/*
 * What streams keep for themselves, and what they have freed, made available to
 * one that needs it.
 */
#include <config.h>

#include "heap/heap_inside.h"

void heap_release_range(heap_t *heap, heap_range_t *range,
                        heap_stream_t *stream)
{
    uint64_t ticket = heap_stream_ticket(stream);

    heap_page_map_remove(&heap->page_map, range);
    if (range->stitched != NULL) {
        heap_unstitch(&heap->stitcher, range, stream, ticket);
    } else {
        heap_space_give(&heap->space, range, stream, ticket);
    }
}

void heap_release_page(heap_t *heap, heap_page_t *page, heap_stream_t *stream)
{
    heap_page_map_set_page(&heap->page_map, page->place->offset, NULL);
    heap_space_give(&heap->space, page->place, stream,
                    heap_stream_ticket(stream));
    page->place       = NULL;
    page->next        = heap->spare_pages;
    heap->spare_pages = page;
}

/* All that is in no allocation, with `keep` empty pages left. */
static void collect(heap_t *heap, heap_stream_t *stream, unsigned keep)
{
    heap_range_t *ranges[HEAP_FREE_CACHE_DEPTH];
    heap_page_t  *page;
    unsigned      num;

    base_lock_take(&stream->lock);
    while ((num = heap_free_cache_empty(&stream->cache, ranges)) != 0) {
        for (unsigned i = 0; i < num; i++) {
            heap_release_range(heap, ranges[i], stream);
        }
    }
    if (keep == 0) {
        heap_small_settle(&stream->small, NULL, 0);
        heap_small_join(&stream->small);
    }
    while ((page = heap_small_remove(&stream->small, keep)) != NULL) {
        heap_release_page(heap, page, stream);
    }
    base_lock_give(&stream->lock);
}

void heap_collect(heap_t *heap, heap_stream_t *stream)
{
    collect(heap, stream, 1);
}

void heap_collect_all(heap_t *heap)
{
    for (heap_stream_t *stream = heap->streams.all; stream != NULL;
         stream                = stream->next) {
        heap_stream_look(&heap->streams, stream);
        collect(heap, stream, 0);
    }
}

/* Move what one has free to another, which may use it. */
static void move_all(heap_t *heap, heap_stream_t *from, heap_stream_t *to)
{
    uint64_t      ticket = heap_stream_ticket(to);
    heap_range_t *range;

    while ((range = heap_index_first(&from->index, 0)) != NULL) {
        bool is_over = heap_stream_is_over(from, range->ticket);

        heap_index_remove(&from->index, range);
        heap_space_give(&heap->space, range, to, is_over ? 0 : ticket);
    }
}

void heap_gather(heap_t *heap, heap_stream_t *stream)
{
    for (heap_stream_t *other = heap->streams.all; other != NULL;
         other                = other->next) {
        if ((other != stream) && (other->index.count > 0) &&
            (heap_stream_wait(&heap->streams, other, stream) == UCXPOOL_OK)) {
            move_all(heap, other, stream);
        }
    }
}

ucxpool_status_t heap_settle(heap_t *heap, heap_stream_t *stream)
{
    ucxpool_status_t status = UCXPOOL_OK;

    /* The second time what was freed late, and is over now. */
    for (int i = 0; (i < 2) && (status == UCXPOOL_OK); i++) {
        heap_collect_all(heap);
        status = heap_streams_sync(&heap->streams);
    }
    if (stream == NULL) {
        stream = heap->streams.all;
    }
    if ((status == UCXPOOL_OK) && (stream != NULL)) {
        heap_gather(heap, stream);
    }
    return status;
}
