/*
 * From an address to the range that begins there, without a lock.
 *
 * For each 2 MiB of addresses: the few ranges that begin in them (large ones
 * are long enough for that), or the page of small allocations that they are.
 * The owner of a live allocation may look for it; nobody changes its entry
 * meanwhile.
 */
#ifndef HEAP_STARTS_H
#define HEAP_STARTS_H

#include "heap/small.h"

/* Of ranges longer than HEAP_SMALL_MAX, so many begin in a page at most. */
#define HEAP_STARTS_MAX (HEAP_PAGE / HEAP_SMALL_MAX)

typedef struct heap_start {
    uint64_t      key;   /* offset + 1; 0: none; atomic */
    heap_range_t *range; /* atomic */
} heap_start_t;

typedef struct heap_starts_page {
    heap_page_t *small; /* atomic */
    heap_start_t starts[HEAP_STARTS_MAX];
} heap_starts_page_t;

typedef struct heap_starts {
    heap_starts_page_t *pages;
    size_t              num_pages;
} heap_starts_t;

/*
 * size  Of the addresses; whole pages.
 *
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t heap_starts_init(heap_starts_t *starts, uint64_t size);
void             heap_starts_cleanup(heap_starts_t *starts);

/* A large range, or NULL. */
heap_range_t *heap_starts_find(const heap_starts_t *starts, uint64_t offset);
/* The page of small allocations that an offset lies in, or NULL. */
heap_page_t *heap_starts_page(const heap_starts_t *starts, uint64_t offset);

/* Under the heap's lock. */

/* Nothing begins in these whole pages, whose memory is new. Their entries are
 * written, so that the system gives memory for them now, when it takes long
 * anyway, and not when something is allocated there. */
void heap_starts_open(heap_starts_t *starts, uint64_t offset, uint64_t size);
void heap_starts_add(heap_starts_t *starts, heap_range_t *range);
void heap_starts_remove(heap_starts_t *starts, const heap_range_t *range);
void heap_starts_set_page(heap_starts_t *starts, uint64_t offset,
                          heap_page_t *page);

#endif
