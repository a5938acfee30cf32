/*
 * The address space of a heap. In the part called the home, every physical
 * chunk has an address as long as the chunk exists. The home is divided into
 * ranges.
 *
 *     slot 0            slot 1            slot 2            slot 3
 *     | one chunk      || 2M | 2M | - |...|| -              || one chunk      |
 *
 * A slot has the size of a large chunk (HEAP_CHUNK). It is backed by one large
 * chunk, or by pages: small chunks of 2 MiB, some of which may be missing.
 *
 * Mapping 2 MiB takes the driver as long as mapping 2 GiB, so long ranges use
 * large chunks. But a chunk can be stitched only as a whole, so a single live
 * byte prevents the stitching of the whole chunk. Therefore a slot that an
 * allocation covers completely becomes one chunk, and a slot in which an
 * allocation ends becomes pages; see also heap_space_split().
 *
 * The ranges are kept in address order. A range is cut at the start and the end
 * of an allocation. Adjacent ranges are joined if both are free.
 *
 * All functions are called with the heap's lock held.
 */
#ifndef HEAP_SPACE_H
#define HEAP_SPACE_H

#include "heap/stream.h"
#include "mem/vmm.h"

/* --- chunks --------------------------------------------------------------- */

typedef struct heap_slot {
    mem_chunk_t   chunk; /* 0: backed by pages */
    mem_chunk_t  *pages; /* chunk per page, 0: no memory; NULL: none yet */
    heap_range_t *first; /* the range that contains the slot's first byte */
} heap_slot_t;

typedef struct heap_home {
    mem_vmm_t   *vmm;
    char        *address;   /* the address of offset 0 */
    uint64_t     size;      /* of the home only */
    uint64_t     slot_size; /* a power of two, at least HEAP_PAGE */
    heap_slot_t *slots;
    size_t       num_slots;
    uint64_t     reserved; /* bytes that have memory */
    uint64_t     num_chunks;
    uint64_t     num_pages;
} heap_home_t;

static inline heap_slot_t *heap_home_slot(const heap_home_t *home,
                                          uint64_t           offset)
{
    return &home->slots[offset / home->slot_size];
}

/* Returns the chunk that backs a page; 0: none. */
mem_chunk_t heap_home_chunk(const heap_home_t *home, uint64_t offset);

/* Returns the size of the physical allocation at an offset. */
static inline uint64_t heap_home_grain(const heap_home_t *home, uint64_t offset)
{
    return (heap_home_slot(home, offset)->chunk != 0) ? home->slot_size
                                                      : HEAP_PAGE;
}

typedef struct heap_space {
    heap_home_t   home;
    heap_ranges_t ranges; /* descriptors */
    base_list_t   holes;  /* unbacked ranges */
} heap_space_t;

static inline heap_range_t *heap_space_first(const heap_space_t *space)
{
    return space->home.slots[0].first;
}

/*
 * Initialize the space. The home is one hole at first.
 *
 * address    The reserved addresses of the home: `size` bytes, whole slots.
 * slot_size  A power of two, at least HEAP_PAGE.
 *
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t heap_space_init(heap_space_t *space, mem_vmm_t *vmm,
                                 void *address, uint64_t size,
                                 uint64_t slot_size);
void             heap_space_cleanup(heap_space_t *space);

/* Descriptors to prepare per call to heap_space_take(). */
#define HEAP_SPACE_TAKES 2

/* Find the range that contains an offset of the home. */
heap_range_t *heap_space_cover(const heap_space_t *space, uint64_t offset);

/*
 * Find the first chunk or page at or after *offset_p that is completely in a
 * range. *offset_p may be before the range. Returns false if not found. Only
 * complete chunks and pages can be stitched or released.
 */
bool heap_space_unit(const heap_space_t *space, const heap_range_t *range,
                     uint64_t *offset_p, uint64_t *size_p);

/*
 * Take a part of a free range, or all of it, out of the index. The caller sets
 * the state of the result. HEAP_SPACE_TAKES descriptors must have been
 * prepared.
 */
heap_range_t *heap_space_take(heap_space_t *space, heap_range_t *range,
                              uint64_t offset, uint64_t size);

/*
 * Free a range with a ticket of a stream. The range is joined with a free
 * neighbor if both belong to the same stream, or if the ticket of either has
 * completed. Returns the resulting range, which may use a neighbor's
 * descriptor.
 */
heap_range_t *heap_space_give(heap_space_t *space, heap_range_t *range,
                              heap_stream_t *stream, uint64_t ticket);

/*
 * Allocate memory for whole pages of a hole. The pages are then free, as if
 * they had been freed in `stream` with `ticket`. *range_p is the free range
 * that contains them.
 */
ucxpool_status_t heap_space_back(heap_space_t *space, heap_range_t *hole,
                                 uint64_t offset, uint64_t size,
                                 heap_stream_t *stream, uint64_t ticket,
                                 heap_range_t **range_p);

/*
 * Release the memory of one chunk or page of a free range, which becomes a
 * hole.
 *
 * UCXPOOL_ERR_NO_MEMORY  no host memory for descriptors
 * UCXPOOL_ERR_IO         driver error
 */
ucxpool_status_t heap_space_release(heap_space_t *space, heap_range_t *range,
                                    uint64_t offset, uint64_t size);

/*
 * Replace the chunk of a slot in a free range with pages. The chunk must not be
 * mapped elsewhere, and no running work may use it. If the slot has no memory
 * afterwards, it becomes a hole.
 */
ucxpool_status_t heap_space_split(heap_space_t *space, heap_range_t *range,
                                  size_t slot);

/* --- stitched ranges ---------------------------------------------------------
 * A stitched range maps separate chunks and pages of the home a second time,
 * contiguously.
 *
 *     home      | a |///| b |///| c |        ///: in use
 *     stitched  | a | b | c |
 *
 * While a stitched range is in use, its runs in the home are HEAP_STITCHED, so
 * that no memory is in use at two addresses. When the stitched range is freed,
 * its runs become free like any other range, and the mapping is kept. If all
 * runs are still free when a suitable size is requested, the mapping is reused
 * without a driver call. If there is no room for a new stitched range, the kept
 * range that has been unused for the longest time is unmapped.
 *
 * A stitched range may use only a part of its last run. Other allocations can
 * then use the rest of the last chunk of this run.
 *
 * All functions are called with the heap's lock held.
 */

/* A contiguous part of the home: chunks or pages, mapped as a whole. */
typedef struct heap_run {
    uint64_t home; /* offset in the home */
    uint64_t size;
} heap_run_t;

typedef struct heap_stitched {
    base_list_t    link;   /* in the stitcher's list, sorted by offset */
    uint64_t       offset; /* beyond the home's end */
    uint64_t       size;   /* mapped bytes */
    heap_range_t  *range;  /* live or cached; NULL: kept, not in use */
    heap_stream_t *stream; /* if not in use: the last user */
    uint64_t       ticket;
    uint64_t       turn; /* if not in use: larger if freed later */
    size_t         num_mappings;
    size_t         num_runs;
    heap_run_t     runs[];
} heap_stitched_t;

typedef struct heap_stitcher {
    heap_space_t *space;
    uint64_t      begin; /* stitched ranges have offsets from begin to end */
    uint64_t      end;
    base_list_t   all;
    uint64_t      turns;
    uint64_t      num_stitches; /* since creation */
    uint64_t      num_restitches;
} heap_stitcher_t;

void heap_stitcher_init(heap_stitcher_t *stitcher, heap_space_t *space,
                        uint64_t begin, uint64_t end);
void heap_stitcher_cleanup(heap_stitcher_t *stitcher);

/* Returns the number of bytes that could be stitched from the free ranges of a
 * stream. */
uint64_t heap_stitchable(const heap_space_t  *space,
                         const heap_stream_t *stream);

/*
 * Stitch free ranges of the stream.
 *
 * size           A multiple of HEAP_UNIT.
 * max_mappings   Maximum number of mappings to create.
 * range_p [out]  A range of `size` bytes, which the caller must mark as live.
 *                NULL if there is not enough memory, or if the range would need
 *                too many mappings.
 *
 * UCXPOOL_ERR_NO_MEMORY  no host memory, or no room for mappings
 * UCXPOOL_ERR_IO         driver error
 */
ucxpool_status_t heap_stitch(heap_stitcher_t *stitcher, heap_stream_t *stream,
                             uint64_t size, size_t max_mappings,
                             heap_range_t **range_p);

/* Reuse a kept mapping. *range_p is NULL with UCXPOOL_OK if none fits. */
ucxpool_status_t heap_restitch(heap_stitcher_t *stitcher, heap_stream_t *stream,
                               uint64_t size, heap_range_t **range_p);

/* Free a stitched range with a ticket of a stream. The descriptor *range
 * becomes unused. */
void heap_unstitch(heap_stitcher_t *stitcher, heap_range_t *range,
                   heap_stream_t *stream, uint64_t ticket);

/*
 * Unmap kept stitched ranges that contain a part of the home. The part must be
 * free, and its ticket must have completed.
 *
 * UCXPOOL_ERR_BUSY  a stitched range in use contains the part
 * UCXPOOL_ERR_IO    driver error: the part may still be mapped
 */
ucxpool_status_t heap_stitcher_purge(heap_stitcher_t *stitcher, uint64_t offset,
                                     uint64_t size);

/* Find the stitched range in use that contains an offset. Returns NULL if not
 * found. */
const heap_stitched_t *heap_stitched_around(const heap_stitcher_t *stitcher,
                                            uint64_t               offset);

#endif
