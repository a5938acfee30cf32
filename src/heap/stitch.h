/*
 * Stitched ranges: chunks and pages of the home that lie apart, mapped a second
 * time side by side.
 *
 *     home      | a |///| b |///| c |///        ///: somebody else's
 *     stitched  | a | b | c |
 *
 * While one is in use, its runs in the home are HEAP_STITCHED, so that nothing
 * is used by two addresses. Afterwards they are free like any other range, and
 * the mapping is kept: if they are all free once more when such a size is asked
 * for, the mapping is used again, which costs the driver nothing. What has not
 * been used for the longest time goes when there is no room for another.
 *
 * The last run may be used in part, so that what is left of its last chunk is
 * not lost.
 *
 * All functions are called under the heap's lock.
 */
#ifndef HEAP_STITCH_H
#define HEAP_STITCH_H

#include "heap/space.h"

/* A part of the home that is mapped as a whole: chunks or pages in a row. */
typedef struct heap_run {
    uint64_t home; /* offset */
    uint64_t size;
} heap_run_t;

typedef struct heap_stitched {
    base_list_t    link;   /* by offset */
    uint64_t       offset; /* behind the home */
    uint64_t       size;   /* mapped */
    heap_range_t  *range;  /* live or cached; NULL: kept, and in no use */
    heap_stream_t *stream; /* not in use: the last that used it */
    uint64_t       ticket;
    uint64_t       turn; /* not in use: since when */
    size_t         num_runs;
    heap_run_t     runs[];
} heap_stitched_t;

typedef struct heap_stitcher {
    heap_space_t *space;
    char         *address; /* of offset 0, in the home */
    uint64_t      begin;   /* offsets of the addresses for stitched ranges */
    uint64_t      end;
    base_list_t   all;
    uint64_t      turns;
    size_t        num_live;
    size_t        num_kept;
    uint64_t      mapped;       /* bytes */
    uint64_t      num_mappings; /* chunks and pages */
    uint64_t      num_stitches; /* ever */
    uint64_t      num_restitches;
} heap_stitcher_t;

void heap_stitcher_init(heap_stitcher_t *stitcher, heap_space_t *space,
                        uint64_t begin, uint64_t end);
void heap_stitcher_cleanup(heap_stitcher_t *stitcher);

/* Bytes that could be stitched of what a stream has free. */
uint64_t heap_stitchable(const heap_space_t  *space,
                         const heap_stream_t *stream);

/*
 * Stitch what the stream has free.
 *
 * size           A multiple of HEAP_UNIT.
 * max_mappings   More are not made.
 * range_p [out]  Of `size` bytes, to become live; NULL: there is not enough,
 *                or too many mappings would be needed.
 *
 * UCXPOOL_ERR_NO_MEMORY  none of the host; or no room for mappings
 * UCXPOOL_ERR_IO         the driver failed
 */
ucxpool_status_t heap_stitch(heap_stitcher_t *stitcher, heap_stream_t *stream,
                             uint64_t size, size_t max_mappings,
                             heap_range_t **range_p);

/* The same with a mapping that is kept; UCXPOOL_OK and NULL: none fits. */
ucxpool_status_t heap_restitch(heap_stitcher_t *stitcher, heap_stream_t *stream,
                               uint64_t size, heap_range_t **range_p);

/* Give back a range of these, with a ticket of a stream. It describes nothing
 * afterwards. */
void heap_unstitch(heap_stitcher_t *stitcher, heap_range_t *range,
                   heap_stream_t *stream, uint64_t ticket);

/*
 * Unmap what is kept and has a part of the home in it, which is free, and over.
 *
 * UCXPOOL_ERR_BUSY  a part is mapped behind what somebody uses
 * UCXPOOL_ERR_IO    the driver failed: it may still be mapped
 */
ucxpool_status_t heap_stitcher_purge(heap_stitcher_t *stitcher, uint64_t offset,
                                     uint64_t size);

/* The stitched range in use that an offset lies in, or NULL. */
const heap_stitched_t *heap_stitched_around(const heap_stitcher_t *stitcher,
                                            uint64_t               offset);

#endif
