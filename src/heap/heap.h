/*
 * The heap of a pool. ucxpool/heap.h documents the functions of the same name.
 */
#ifndef HEAP_HEAP_H
#define HEAP_HEAP_H

#include "heap/range.h"
#include "heap/space.h"
#include "heap/stream.h"
#include "mem/vmm.h"

#include <ucxpool/heap.h>

#include <pthread.h>
#include <stdio.h>

/* Size classes of the statistics: class i holds allocations of more than
 * 2^(i-1) and at most 2^i bytes. */
#define HEAP_CLASSES 48

typedef struct heap_class_stats {
    uint64_t live;       /* number of live allocations */
    uint64_t live_bytes; /* bytes, after rounding up */
    uint64_t free;       /* number of free ranges in this class */
    uint64_t free_bytes;
} heap_class_stats_t;

/*
 * A snapshot. reserved == live + free always holds: `free` includes freed
 * memory that work in a stream may still use.
 */
typedef struct heap_stats {
    uint64_t limit;    /* maximum size of the heap */
    uint64_t reserved; /* bytes of physical memory held */
    uint64_t live;  /* reserved bytes in live allocations, after rounding up */
    uint64_t free;  /* reserved bytes that are not in live allocations */
    uint64_t asked; /* bytes in live allocations, as requested */
    uint64_t peak_reserved;
    uint64_t num_live; /* number of live allocations */

    /* The largest allocations that are possible without more memory from the
     * driver: in one free range, and stitched from free chunks and pages. */
    uint64_t largest_contiguous;
    uint64_t largest_stitchable;
    /* 1 - largest_contiguous / free, and the same for stitchable; 0 if no
     * memory is free. */
    double fragmentation;
    double fragmentation_stitched;

    uint64_t chunks;        /* large physical allocations held */
    uint64_t pages;         /* small physical allocations of 2 MiB held */
    uint64_t stitched_live; /* live stitched allocations */
    uint64_t stitched_kept; /* stitched ranges kept for reuse */
    uint64_t mapped;        /* bytes of mapped address space, including the
                               home */
    uint64_t mappings;      /* mappings of chunks and pages */

    /* Totals since creation. */
    uint64_t allocations;
    uint64_t failures;
    uint64_t grows;        /* times memory was allocated from the driver */
    uint64_t stitches;     /* ranges stitched */
    uint64_t restitches;   /* allocations from a kept stitched range */
    uint64_t splits;       /* chunks split into pages */
    uint64_t stream_waits; /* times a stream had to wait for another */
    uint64_t syncs;        /* times a caller had to wait for a stream */
    uint64_t trimmed;      /* bytes released to the driver */

    heap_class_stats_t classes[HEAP_CLASSES];
} heap_stats_t;

/* A part of the heap's file. */
typedef struct heap_file {
    int      fd; /* owned by the heap */
    uint64_t offset;
    uint64_t length;
} heap_file_t;

typedef struct heap_options {
    uint64_t    limit;      /* maximum heap size; at least 2 MiB */
    uint64_t    chunk_size; /* of a large chunk: a power of two, 2 to 128 MiB */
    uint64_t    alignment;  /* a power of two, 256 bytes to 2 MiB */
    uint64_t    stitch_size; /* bytes of address space for stitched ranges */
    const char *log_path;    /* NULL: no log */
} heap_options_t;

/*
 * Lock order: the heap's lock before a stream's lock. Allocation and free do
 * not take the heap's lock if the stream's caches and pages suffice.
 */
typedef struct heap {
    mem_vmm_t       *vmm;
    char            *address; /* the address of offset 0 */
    uint64_t         size;    /* of the whole address range */
    heap_options_t   options;
    struct heap_log *log; /* NULL: none */
    /* Maximum number of medium allocations in the pages of one stream. */
    unsigned max_mediums;
    /* Set when an allocation exceeded the limit or the driver was out of
     * memory; cleared when memory is released to the driver. While is_tight is
     * set, chunks are split at the ends of allocations, and pages hold small
     * allocations only. Atomic; set with the heap's lock held. */
    bool is_tight;

    char            apart[HEAP_APART];
    pthread_mutex_t lock;

    heap_space_t    space;
    heap_streams_t  streams;
    heap_page_map_t page_map;
    heap_stitcher_t stitcher;
    heap_page_t    *spare_pages; /* unused descriptors */
    heap_page_t    *all_pages;

    ucxpool_t                     *pool;
    ucxpool_heap_failure_handler_t handler;
    void                          *handler_arg;

    /* The limit, peak_reserved and the totals; the other members are 0.
     * `allocations` counts only those that no cache served. */
    heap_stats_t counted;
    /* Peak of the bytes in use, that is, not freed in any stream. Sampled when
     * heap_find() finds no free range that is long enough. */
    uint64_t peak_used;
    int      stitches_owed; /* high if the heap stitches often: see large.c */
} heap_t;

/*
 * Create a heap. On success the heap owns `vmm`; after an error the caller
 * still owns it.
 *
 * UCXPOOL_ERR_NO_MEMORY  no address space, or no host memory for the
 *                        bookkeeping
 */
ucxpool_status_t heap_create(mem_vmm_t *vmm, const heap_options_t *options,
                             heap_t **heap_p);
/* Destroy the heap. Waits for the work in all streams. Live allocations become
 * invalid. NULL is allowed. */
void heap_destroy(heap_t *heap);

ucxpool_status_t heap_alloc(heap_t *heap, size_t size, void *stream,
                            void **address_p);
ucxpool_status_t heap_free(heap_t *heap, void *address, void *stream);
ucxpool_status_t heap_reserve(heap_t *heap, size_t size);
ucxpool_status_t heap_trim(heap_t *heap, size_t keep_size, size_t *released_p);
ucxpool_status_t heap_usable_size(heap_t *heap, const void *address,
                                  size_t *size_p);
ucxpool_status_t heap_stream_end(heap_t *heap, void *stream);
ucxpool_status_t heap_segments(heap_t *heap, const void *address, size_t length,
                               ucxpool_heap_segment_t *segments,
                               size_t max_segments, size_t *num_segments_p);
/* Get the part of the heap's file that backs the start of a range. The part
 * ends where the range, the allocation or the chunk ends, whichever is first.
 * Returns false if there is no file, or if the range is not live. */
bool heap_file(heap_t *heap, const void *address, size_t length,
               heap_file_t *file_p);
void heap_set_failure_handler(heap_t *heap, ucxpool_t *pool,
                              ucxpool_heap_failure_handler_t handler,
                              void                          *arg);
void heap_stats(heap_t *heap, heap_stats_t *stats_p);
/* Print the ranges of the home, one per line. */
void heap_print_ranges(heap_t *heap, FILE *stream);

/*
 * Check the invariants: ranges are contiguous; a page is backed if and only if
 * its range is not a hole; the indexes contain exactly the free ranges; the
 * runs of stitched ranges in use are HEAP_STITCHED.
 *
 * UCXPOOL_ERR_PROTOCOL  an invariant is violated; the detail says which
 */
ucxpool_status_t heap_check(heap_t *heap);

/* --- finding and freeing ranges: large.c -------------------------------------
 * These functions are called with the heap's lock held.
 */

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
