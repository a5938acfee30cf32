/*
 * The ranges of the home, kept in the order of their addresses: cut where an
 * allocation begins and ends, and joined again where both sides are free.
 *
 * All functions are called under the heap's lock.
 */
#ifndef HEAP_SPACE_H
#define HEAP_SPACE_H

#include "heap/home.h"
#include "heap/stream.h"

typedef struct heap_space {
    heap_home_t   home;
    heap_ranges_t ranges; /* descriptors */
    heap_range_t *first;
    base_list_t   holes; /* unbacked ranges */
} heap_space_t;

/*
 * As heap_home_init(); all is one hole.
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
 * As heap_home_recut() for a slot that lies in a free range. If it has no
 * memory afterwards, it is a hole.
 */
ucxpool_status_t heap_space_recut(heap_space_t *space, heap_range_t *range,
                                  size_t slot);

#endif
