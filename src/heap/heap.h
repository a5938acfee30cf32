/*
 * The heap. What its functions do is told in ucxpool/heap.h, where they have
 * the same names.
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

/* Classes of sizes in the statistics: class i holds allocations of more than
 * 2^(i-1) and at most 2^i bytes. */
#define HEAP_CLASSES 48

typedef struct heap_class_stats {
    uint64_t live;       /* allocations */
    uint64_t live_bytes; /* that they use, after rounding up */
    uint64_t free;       /* free ranges of such a length */
    uint64_t free_bytes;
} heap_class_stats_t;

/*
 * A snapshot. reserved == live + free, at any moment: free counts also what
 * waits for a stream.
 */
typedef struct heap_stats {
    uint64_t limit;    /* bytes that the heap may hold */
    uint64_t reserved; /* bytes of physical memory that it holds */
    uint64_t live;     /* bytes of it in allocations, after rounding */
    uint64_t free;     /* bytes of it in none */
    uint64_t asked;    /* bytes in live allocations, as asked for */
    uint64_t peak_reserved;
    uint64_t num_live; /* allocations */

    /* The longest allocation that could be made without taking memory from
     * the driver: of one free range, and of all free pages together. */
    uint64_t largest_contiguous;
    uint64_t largest_stitchable;
    /* 1 - largest_contiguous / free, and the same of stitchable; 0 where
     * nothing is free. */
    double fragmentation;
    double fragmentation_stitched;

    uint64_t chunks;        /* physical allocations held: large ones */
    uint64_t pages;         /* and small ones, of 2 MiB */
    uint64_t stitched_live; /* allocations that are stitched now */
    uint64_t stitched_kept; /* stitched ranges that wait to be used again */
    uint64_t mapped;        /* bytes of addresses mapped, home included */
    uint64_t mappings;      /* chunks and pages, each as often as mapped */

    /* Since the start. */
    uint64_t allocations;
    uint64_t failures;
    uint64_t grows;        /* times that memory was taken */
    uint64_t stitches;     /* ranges stitched */
    uint64_t restitches;   /* allocations out of a range stitched before */
    uint64_t splits;       /* chunks split into pages */
    uint64_t stream_waits; /* times one stream was made to wait */
    uint64_t syncs;        /* times the caller had to wait for streams */
    uint64_t trimmed;      /* bytes given back */

    heap_class_stats_t classes[HEAP_CLASSES];
} heap_stats_t;

/* A part of the heap's file. */
typedef struct heap_file {
    int      fd; /* the heap's */
    uint64_t offset;
    uint64_t length;
} heap_file_t;

typedef struct heap_options {
    uint64_t    limit;       /* bytes that it may hold; 2 MiB or more */
    uint64_t    chunk_size;  /* of large chunks: a power of two, 2 to 128 MiB */
    uint64_t    alignment;   /* a power of two, 256 to 2 MiB */
    uint64_t    stitch_size; /* of the addresses for stitched ranges */
    const char *log_path;    /* NULL: no log */
} heap_options_t;

/*
 * Locks: the heap's lock comes before a stream's. Allocation and free go
 * without the former as long as a stream can serve itself.
 */
typedef struct heap {
    mem_vmm_t       *vmm;
    char            *address; /* of offset 0 */
    uint64_t         size;    /* of all addresses */
    heap_options_t   options;
    struct heap_log *log; /* NULL: none */
    /* Medium allocations that a stream may have in its pages. */
    unsigned max_mediums;
    /* Memory has been asked for over the limit, or the driver had none: until
     * some is given back, chunks are cut where an allocation ends, and pages
     * have small allocations alone. Atomic; set under the lock. */
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
    int      stitches_owed; /* in allocations: large.c */
    uint64_t num_grows;
    uint64_t num_splits;
    uint64_t trimmed;
} heap_t;

/*
 * vmm  Belongs to the heap afterwards; after an error to the caller.
 *
 * UCXPOOL_ERR_NO_MEMORY  the addresses cannot be reserved, or described
 */
ucxpool_status_t heap_create(mem_vmm_t *vmm, const heap_options_t *options,
                             heap_t **heap_p);
/* Waits for the work in streams; what is live is gone. NULL is allowed. */
void heap_destroy(heap_t *heap);

ucxpool_status_t heap_alloc(heap_t *heap, size_t size, void *stream,
                            void **address_p);
ucxpool_status_t heap_free(heap_t *heap, void *address, void *stream);
ucxpool_status_t heap_usable_size(heap_t *heap, const void *address,
                                  size_t *size_p);
ucxpool_status_t heap_stream_end(heap_t *heap, void *stream);
ucxpool_status_t heap_segments(heap_t *heap, const void *address, size_t length,
                               ucxpool_heap_segment_t *segments,
                               size_t max_segments, size_t *num_segments_p);
/* As much of a range, from its first byte on, as lies in one chunk: where in
 * the heap's file. False: there is no file, or nothing that lives. */
bool heap_file(heap_t *heap, const void *address, size_t length,
               heap_file_t *file_p);
void heap_on_failure(heap_t *heap, ucxpool_t *pool,
                     ucxpool_heap_failure_t callback, void *arg);
void heap_stats(heap_t *heap, heap_stats_t *stats_p);
/* The ranges of the home, a line each. */
void heap_print_ranges(heap_t *heap, FILE *stream);

/*
 * Its invariants: ranges lie side by side without a gap; what is backed is in a
 * range that is not a hole, and the reverse; an index has what is free, and all
 * of it; runs of what is stitched and in use are HEAP_STITCHED.
 *
 * UCXPOOL_ERR_PROTOCOL  one does not hold; the detail tells which
 */
ucxpool_status_t heap_check(heap_t *heap);

#endif
