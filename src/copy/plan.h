/*
 * What the bytes of a message are, and where they lie: the lengths of its
 * segments, their memory, and plans, which lead from a byte range of the stream
 * to memory.
 */
#ifndef COPY_PLAN_H
#define COPY_PLAN_H

#include "base/math.h"

#include <ucxpool/transfer.h>

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- lengths ----------------------------------------------------------------
 * The list of a message's segment lengths, as runs of equal lengths:
 *
 *     256 256 256 256 100 0      ->      {256, 4} {100, 1} {0, 1}
 *
 * This is what a descriptor carries, and what both sides compute the stream
 * from: segment i starts at the next multiple of COPY_ALIGNMENT bytes.
 */

/* Alignment of each segment in the stream. */
#define COPY_ALIGNMENT 16u

/* Goes over the wire as is: little-endian. */
typedef struct copy_run {
    uint64_t length; /* bytes of each segment */
    uint64_t count;  /* segments, 1 or more */
} copy_run_t;

/* What a list of runs adds up to. */
typedef struct copy_totals {
    uint64_t num_segments;
    uint64_t payload_size; /* bytes without padding; the message's length */
    uint64_t stream_size;  /* with padding between segments, none at the end */
} copy_totals_t;

/* Of a message in one piece. */
static inline copy_totals_t copy_totals_of_piece(uint64_t size)
{
    copy_totals_t totals = {1, size, size};

    return totals;
}

/*
 * Count the runs of a segment list and add them up. The first max_runs of them
 * are written to `runs`, so that one look at the list is enough where these are
 * all.
 *
 * UCXPOOL_ERR_INVALID_PARAM  a NULL address with a length, or lengths that
 *                            overflow; the detail names the segment
 */
ucxpool_status_t copy_lengths_count(const ucxpool_segment_t *segments,
                                    size_t num_segments, copy_run_t *runs,
                                    size_t max_runs, size_t *num_runs_p,
                                    copy_totals_t *totals_p);

/*
 * The one run of pieces of one length, and what it adds up to. *num_runs_p is 0
 * where there are no pieces.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the sum overflows
 */
ucxpool_status_t copy_lengths_of_pieces(uint64_t length, size_t num_pieces,
                                        copy_run_t *run_p, size_t *num_runs_p,
                                        copy_totals_t *totals_p);

/*
 * Check and add up runs that a peer sent (unaligned memory is fine).
 *
 * UCXPOOL_ERR_PROTOCOL  a count of 0, or sums that overflow 2^62
 */
ucxpool_status_t copy_lengths_check(const void *runs, size_t num_runs,
                                    copy_totals_t *totals_p);

/*
 * The same of ranges, each of which is a segment. Descriptors are not looked
 * at.
 *
 * UCXPOOL_ERR_INVALID_PARAM  lengths that overflow; the detail names the range
 */
ucxpool_status_t copy_lengths_of_ranges(const ucxpool_range_t *ranges,
                                        size_t num_ranges, copy_run_t *runs,
                                        size_t max_runs, size_t *num_runs_p,
                                        copy_totals_t *totals_p);

/* Lengths of the segments from number `first` on; returns how many. */
size_t copy_lengths_expand(const copy_run_t *runs, size_t num_runs,
                           uint64_t first, size_t num_lengths, size_t *lengths);

/* --- memory -----------------------------------------------------------------
 * The memory of one side of a message, in order: a caller's segments, or its
 * pieces, which are addresses alone and have one length, or its ranges, of
 * which some are no memory but parts of files.
 *
 *     segments    {address, length} {address, length} ...
 *     pieces       address address address ...          length
 *     ranges      {address, length} {fd, offset, length} ...
 *
 * Tight loops ask once whether these are segments or pieces, and have a variant
 * for each. Ranges are gathered one by one, where files are read.
 */

typedef struct copy_memory {
    /* One of these at the most. */
    const ucxpool_segment_t *segments;
    void *const             *addresses; /* of pieces */
    const ucxpool_range_t   *ranges;
    uint64_t                 length; /* of each piece; of each segment, where
                                        it is known that all have one: else 0 */
    size_t num;                      /* segments, pieces, or ranges */
    bool is_pinned; /* a GPU can read the array of segments or pieces itself */
    bool is_unseen; /* the caller says that the segments have one length, and
                       nobody has looked: who reads the array does */
} copy_memory_t;

static inline copy_memory_t
copy_memory_of_segments(const ucxpool_segment_t *segments, size_t num)
{
    copy_memory_t memory = {segments, NULL, NULL, 0, num, false, false};

    return memory;
}

static inline copy_memory_t copy_memory_of_pieces(void *const *addresses,
                                                  size_t num, uint64_t length)
{
    copy_memory_t memory = {NULL, addresses, NULL, length, num, false, false};

    return memory;
}

static inline copy_memory_t copy_memory_of_ranges(const ucxpool_range_t *ranges,
                                                  size_t                 num)
{
    copy_memory_t memory = {NULL, NULL, ranges, 0, num, false, false};

    return memory;
}

static inline bool copy_memory_is_pieces(const copy_memory_t *memory)
{
    return memory->addresses != NULL;
}

/* Is it known, without a look at the array, that all have one length? */
static inline bool copy_memory_is_even(const copy_memory_t *memory)
{
    return copy_memory_is_pieces(memory) || (memory->length != 0);
}

static inline bool copy_memory_is_ranges(const copy_memory_t *memory)
{
    return memory->ranges != NULL;
}

static inline uint64_t copy_memory_length(const copy_memory_t *memory, size_t i)
{
    if (copy_memory_is_ranges(memory)) {
        return memory->ranges[i].length;
    }
    return copy_memory_is_even(memory) ? memory->length
                                       : memory->segments[i].length;
}

/* NULL where there is no memory, but a part of a file. */
static inline void *copy_memory_address(const copy_memory_t *memory, size_t i)
{
    if (copy_memory_is_ranges(memory)) {
        return (memory->ranges[i].kind == UCXPOOL_RANGE_FILE)
                   ? NULL
                   : (void *)memory->ranges[i].at.address;
    }
    return copy_memory_is_pieces(memory) ? memory->addresses[i]
                                         : memory->segments[i].address;
}

/* --- plans ------------------------------------------------------------------
 * Pure arithmetic from a byte range of the stream to memory.
 *
 *     sender's runs   [  seg 0  ][pad][ seg 1 ][pad][ seg 2 ]     the stream
 *                     0              16x            16y
 *     memory          the sender's own segments, or the receiver's, which may
 *                     be cut in any other way
 *
 * A plan walks both lists. Asking for ranges in order costs nothing extra; a
 * range that lies before the last one starts the walk anew.
 */

/* A place in both lists. */
typedef struct copy_place {
    uint64_t offset; /* in the stream */
    size_t   run;
    uint64_t index;          /* of the segment in its run */
    uint64_t segment_offset; /* in that stream segment */
    size_t   memory;         /* index in the memory's list */
    uint64_t memory_offset;  /* in that segment, or piece */
} copy_place_t;

typedef struct copy_plan {
    const copy_run_t *runs;
    size_t            num_runs;
    copy_memory_t     memory;
    copy_totals_t     totals;
    copy_place_t      at;     /* the walk's: see below */
    copy_place_t      before; /* where the range before began */
} copy_plan_t;

/*
 * The runs and the memory's list must outlive the plan. The memory holds at
 * least totals.payload_size bytes (the caller has checked that).
 */
void copy_plan_init(copy_plan_t *plan, const copy_run_t *runs, size_t num_runs,
                    const copy_totals_t *totals, const copy_memory_t *memory);

/* The memory behind a range of the stream, when it is one piece. */
typedef struct copy_extent {
    void    *address;
    uint64_t length;
} copy_extent_t;

/*
 * The longest extent of contiguous memory, with no padding inside, that starts
 * at stream offset `offset` and is at most `length` bytes long. *extent_p is
 * {NULL, n} where n bytes of padding lie at `offset`; or n bytes of a file; or
 * of a piece whose address is NULL, where the caller's list was not looked
 * through.
 */
void copy_plan_extent(copy_plan_t *plan, uint64_t offset, uint64_t length,
                      copy_extent_t *extent_p);

/* Bytes of padding that lie at `offset`; 0 where there are data, or no more. */
uint64_t copy_plan_padding(copy_plan_t *plan, uint64_t offset);

/* --- the walk of a plan -----------------------------------------------------
 * For the files of this folder.
 *
 * It stands at a byte of the stream, plan->at.offset, and says where that is in
 * both lists:
 *
 *     at.run, at.index, at.segment_offset    segment of the stream. Padding
 *                                            belongs to the segment before it:
 *                                            segment_offset >= its length
 *     at.memory, at.memory_offset            the next byte of memory to be used
 *
 * A segment takes its "stride" of the stream, its length with the padding that
 * follows. Whole runs and the segments of a run are passed by arithmetic, so a
 * peer's run of 2^40 segments costs as much as one of 1.
 */

/* Bytes that a segment of a run takes in the stream, if another one follows. */
static inline uint64_t copy_run_stride(const copy_run_t *run)
{
    return base_align_up(run->length, COPY_ALIGNMENT);
}

/* Do the segments of a run follow each other in the stream without padding? */
static inline bool copy_run_is_dense(const copy_run_t *run)
{
    return (run->length % COPY_ALIGNMENT) == 0;
}

/* Bytes from a place in a run up to the next padding, or the run's end. */
static inline uint64_t copy_run_data(const copy_run_t *run, uint64_t index,
                                     uint64_t segment_offset)
{
    uint64_t count = copy_run_is_dense(run) ? run->count - index : 1;

    return count * run->length - segment_offset;
}

/* The next byte of memory. As a number, because a piece that nobody has looked
 * at may be NULL. */
static inline char *copy_walk_address(const copy_plan_t *plan)
{
    return (
        char *)((uintptr_t)copy_memory_address(&plan->memory, plan->at.memory) +
                plan->at.memory_offset);
}

/* Bytes of a range that lie within the stream. */
static inline uint64_t copy_walk_clip(const copy_plan_t *plan, uint64_t offset,
                                      uint64_t length)
{
    assert(offset <= plan->totals.stream_size);
    return base_min(length, plan->totals.stream_size - offset);
}

/*
 * Go to a place of the stream, from the start if it lies before the walk's.
 * The walk then stands in a segment that is not empty (or its padding), and in
 * memory that is not empty if there are bytes left; or behind the last run.
 */
void copy_walk_seek(copy_plan_t *plan, uint64_t offset);

/* --- passes over a list -----------------------------------------------------
 * Passes over a caller's list of segments, each as quick as the list comes from
 * memory: a list of 100,000 is as much work for the processor as what it tells
 * of is for the GPU.
 */

/*
 * How many of the segments, from the first one on, have this length, and an
 * address that is not NULL?
 */
size_t copy_pairs_alike(const ucxpool_segment_t *segments, size_t num_segments,
                        uint64_t length);

/*
 * The addresses of the segments, from the first one on, that have this length;
 * returns how many.
 */
size_t copy_pairs_addresses(const ucxpool_segment_t *segments,
                            size_t num_segments, uint64_t length,
                            uint64_t *addresses);

/*
 * The sum of the lengths. False when that cannot be said so quickly: an address
 * is NULL, or the lengths are near to what a number holds.
 */
bool copy_pairs_sum(const ucxpool_segment_t *segments, size_t num_segments,
                    uint64_t *sum_p);

/* How many of the addresses, from the first one on, are not NULL? */
size_t copy_pairs_present(void *const *addresses, size_t num_addresses);

/*
 * How many of the segments, from the first one on, lie whole in [start, start +
 * size)? The same of pieces. Fewer are said where that cannot be said quickly.
 */
size_t copy_pairs_inside(const ucxpool_segment_t *segments, size_t num_segments,
                         uint64_t start, uint64_t size);
size_t copy_pairs_within(void *const *addresses, size_t num_addresses,
                         uint64_t length, uint64_t start, uint64_t size);

/*
 * How many of the segments, from the first one on, have this length, over 0,
 * and lie whole in [start, start + size)? Fewer are said where that cannot be
 * said quickly.
 */
size_t copy_pairs_even(const ucxpool_segment_t *segments, size_t num_segments,
                       uint64_t length, uint64_t start, uint64_t size);

/* Copy addresses up to the first NULL, which the same pass finds; returns how
 * many these are. More may be written, but no more than num_addresses. */
size_t copy_pairs_copy(void *const *addresses, size_t num_addresses,
                       uint64_t *copies);

#endif
