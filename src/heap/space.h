/*
 * The address space: the home, whose addresses every physical chunk has for as
 * long as it exists, and the ranges in it.
 *
 *     slot 0            slot 1            slot 2            slot 3
 *     | one chunk      || 2M | 2M | - |...|| -              || one chunk      |
 *
 * A slot is as long as a large chunk (HEAP_CHUNK), and is backed by one of
 * these, or by pages: small chunks of 2 MiB, any of which may be missing.
 *
 * Which of the two? The driver takes as long to map 2 MiB as to map 2 GiB, so
 * that long ranges are made of large chunks; but a chunk is mapped elsewhere
 * only as a whole, so that one live byte keeps all of it from being stitched.
 * So a slot that an allocation covers wholly becomes one chunk, and one in
 * which an allocation ends becomes pages; see also heap_space_split().
 *
 * The ranges are kept in the order of their addresses: cut where an allocation
 * begins and ends, and joined again where both sides are free.
 *
 * All functions are called under the heap's lock.
 */
#ifndef HEAP_SPACE_H
#define HEAP_SPACE_H

#include "heap/stream.h"
#include "mem/vmm.h"

/* --- chunks --------------------------------------------------------------- */

/* Pages of a slot, at most: a bit each. */
#define HEAP_SLOT_PAGES 64

typedef struct heap_slot {
    mem_chunk_t   chunk;  /* 0: pages */
    mem_chunk_t  *pages;  /* of each page; NULL: none yet */
    uint64_t      backed; /* a bit for each page that there is memory for */
    heap_range_t *first;  /* the range that the slot's first byte lies in */
} heap_slot_t;

typedef struct heap_home {
    mem_vmm_t   *vmm;
    char        *address;   /* of offset 0 */
    uint64_t     size;      /* of the home alone */
    uint64_t     slot_size; /* a power of two, HEAP_PAGE or more */
    heap_slot_t *slots;
    size_t       num_slots;
    uint64_t     reserved; /* bytes that there is memory for */
    uint64_t     num_chunks;
    uint64_t     num_pages;
} heap_home_t;

static inline heap_slot_t *heap_home_slot(const heap_home_t *home,
                                          uint64_t           offset)
{
    return &home->slots[offset / home->slot_size];
}

/* How much of a slot is one physical allocation, from that page on? */
static inline uint64_t heap_home_grain(const heap_home_t *home, uint64_t offset)
{
    return (heap_home_slot(home, offset)->chunk != 0) ? home->slot_size
                                                      : HEAP_PAGE;
}

typedef struct heap_space {
    heap_home_t   home;
    heap_ranges_t ranges; /* descriptors */
    heap_range_t *first;
    base_list_t   holes; /* unbacked ranges */
} heap_space_t;

/*
 * address    The home's, which is reserved: `size` bytes, whole slots.
 * slot_size  A power of two, HEAP_PAGE to HEAP_SLOT_PAGES times that.
 *
 * All is one hole.
 *
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t heap_space_init(heap_space_t *space, mem_vmm_t *vmm,
                                 void *address, uint64_t size,
                                 uint64_t slot_size);
void             heap_space_cleanup(heap_space_t *space);

/* Descriptors that the calls of take() to follow need, each. */
#define HEAP_SPACE_TAKES 2

/* The range that an offset of the home lies in. */
heap_range_t *heap_space_cover(const heap_space_t *space, uint64_t offset);

/*
 * The first chunk or page that lies in a range as a whole, at *offset_p or
 * behind; false: there is none. They are what can be stitched or given back.
 */
bool heap_space_unit(const heap_space_t *space, const heap_range_t *range,
                     uint64_t *offset_p, uint64_t *size_p);

/*
 * Take a part out of a free range, or all of it. What is taken has left the
 * index, and is to become something. HEAP_SPACE_TAKES descriptors are prepared.
 */
heap_range_t *heap_space_take(heap_space_t *space, heap_range_t *range,
                              uint64_t offset, uint64_t size);

/*
 * A range is free from now on, with that ticket of that stream. It is joined
 * with its neighbours where they are free for the same users, and may be
 * described by one of them afterwards: the result.
 */
heap_range_t *heap_space_give(heap_space_t *space, heap_range_t *range,
                              heap_stream_t *stream, uint64_t ticket);

/*
 * Take memory for whole pages of a hole. They are free afterwards, as if they
 * had been given with that ticket. *range_p is the free range that they lie in.
 */
ucxpool_status_t heap_space_back(heap_space_t *space, heap_range_t *hole,
                                 uint64_t offset, uint64_t size,
                                 heap_stream_t *stream, uint64_t ticket,
                                 heap_range_t **range_p);

/*
 * Give memory of a free range back: whole pages, and whole slots where they are
 * one chunk. What could be given back is a hole afterwards.
 *
 * UCXPOOL_ERR_NO_MEMORY  none of the host to describe it
 * UCXPOOL_ERR_IO         the driver failed
 */
ucxpool_status_t heap_space_release(heap_space_t *space, heap_range_t *range,
                                    uint64_t offset, uint64_t size,
                                    uint64_t *done_p);

/*
 * Back a slot that is one chunk, and lies in a free range, by pages instead.
 * Nothing of it may be mapped elsewhere, and no work be running in it. If it
 * has no memory afterwards, it is a hole.
 */
ucxpool_status_t heap_space_split(heap_space_t *space, heap_range_t *range,
                                  size_t slot);

/* --- stitched ranges ---------------------------------------------------------
 * Chunks and pages of the home that lie apart, mapped a second time side by
 * side.
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
