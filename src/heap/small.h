/*
 * Small allocations: those of up to HEAP_SMALL_MAX bytes share pages, so that
 * one of them never keeps more than a page from being stitched. A stream has
 * pages of its own, and its threads need only its lock.
 *
 * All functions are called under that lock.
 */
#ifndef HEAP_SMALL_H
#define HEAP_SMALL_H

#include "heap/range.h"

/*
 * Medium allocations, which are longer, lie in pages too as long as they are
 * few (heap_t.max_mediums) and memory is plenty, since a stream finds them room
 * there without the heap's lock. In pages alone they would waste up to a third.
 */
#define HEAP_MEDIUM_MAX ((uint64_t)1 << 20)

struct heap_stream;

/* A page of the home. Its descriptor is never freed before the heap is. */
struct heap_page {
    struct heap_page   *next;   /* of the heap's spare descriptors */
    struct heap_page   *older;  /* of all its descriptors */
    base_list_t         link;   /* among its stream's pages */
    heap_range_t       *place;  /* the HEAP_SMALL range of the home */
    struct heap_stream *stream; /* whose it is; atomic */
    heap_range_t       *first;  /* its ranges, by address */
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

void heap_small_init(heap_small_t *small);
void heap_small_cleanup(heap_small_t *small);

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
ucxpool_status_t heap_small_add(heap_small_t *small, struct heap_stream *stream,
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
struct heap_stream *heap_small_settle(heap_small_t             *small,
                                      const struct heap_stream *stream,
                                      uint64_t                  ticket);

/* Join all that is free, and keep nothing in the cache. */
void heap_small_join(heap_small_t *small);

/* A page with nothing in it, of more than `keep` such; NULL: there is none. It
 * is no longer the stream's. */
heap_page_t *heap_small_remove(heap_small_t *small, unsigned keep);

#endif
