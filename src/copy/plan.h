/*
 * The layout of a message: the lengths of its segments, their memory, and
 * plans. The stream of a message is all its segments in order, with padding
 * between them. A plan maps a byte range of the stream to memory.
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
 * A message lists its segment lengths as runs of equal lengths:
 *
 *     256 256 256 256 100 0      ->      {256, 4} {100, 1} {0, 1}
 *
 * The descriptor of a message carries these runs, and both sides compute the
 * stream from them: each segment starts at the next multiple of COPY_ALIGNMENT
 * bytes.
 */

/* Alignment of each segment in the stream. */
#define COPY_ALIGNMENT 16u

/* Sent over the wire in this layout, little-endian. */
typedef struct copy_run {
    uint64_t length; /* length of each segment */
    uint64_t count;  /* number of segments, 1 or more */
} copy_run_t;

/* The sums over a list of runs. */
typedef struct copy_totals {
    uint64_t num_segments;
    uint64_t payload_size; /* bytes without padding: the message's length */
    uint64_t stream_size;  /* with padding between segments, none at the end */
} copy_totals_t;

/* Returns the totals of a message with one segment. */
static inline copy_totals_t copy_totals_of_piece(uint64_t size)
{
    copy_totals_t totals = {1, size, size};

    return totals;
}

/*
 * Check runs that a peer sent, and compute their totals. The runs may be
 * unaligned in memory.
 *
 * UCXPOOL_ERR_PROTOCOL  a count of 0, or sums that exceed 2^62
 */
ucxpool_status_t copy_lengths_check(const void *runs, size_t num_runs,
                                    copy_totals_t *totals_p);

/* Write at most num_lengths segment lengths, from segment number `first` on.
 * Returns the number of lengths written. */
size_t copy_lengths_expand(const copy_run_t *runs, size_t num_runs,
                           uint64_t first, size_t num_lengths, size_t *lengths);

/* --- memory -----------------------------------------------------------------
 * The memory of one side of a message, in order. It has one of three forms:
 * segments; pieces, which are addresses with one common length; or ranges,
 * which are memory or parts of files.
 *
 *     segments    {address, length} {address, length} ...
 *     pieces       address address address ...          length
 *     ranges      {address, length} {fd, offset, length} ...
 *
 * Tight loops check the form once, and have a variant for segments and one for
 * pieces. Ranges are gathered one by one, because they may require reading
 * files.
 */

typedef struct copy_memory {
    size_t num; /* number of segments, pieces, or ranges */
    /* At most one of these is set. */
    const ucxpool_segment_t *segments;
    void *const             *addresses; /* of pieces */
    const ucxpool_range_t   *ranges;
    uint64_t                 length; /* of each piece, or of each segment if all
                                        are known to be equal; else 0 */
    bool is_pinned; /* a GPU can read the array of segments or pieces */
    bool is_unseen; /* the caller declared that the segments have the same
                       length; code that reads the array must check it */
} copy_memory_t;

static inline copy_memory_t
copy_memory_of_segments(const ucxpool_segment_t *segments, size_t num)
{
    copy_memory_t memory = {num, segments, NULL, NULL, 0, false, false};

    return memory;
}

static inline copy_memory_t copy_memory_of_pieces(void *const *addresses,
                                                  size_t num, uint64_t length)
{
    copy_memory_t memory = {num, NULL, addresses, NULL, length, false, false};

    return memory;
}

static inline copy_memory_t copy_memory_of_ranges(const ucxpool_range_t *ranges,
                                                  size_t                 num)
{
    copy_memory_t memory = {num, NULL, NULL, ranges, 0, false, false};

    return memory;
}

static inline bool copy_memory_is_pieces(const copy_memory_t *memory)
{
    return memory->addresses != NULL;
}

/* Returns true if it is known, without reading the array, that all segments or
 * pieces have the same length. */
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

/* Returns NULL for a part of a file. */
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

/*
 * Count the runs of the lengths of the memory's parts, and compute their
 * totals. Writes the first max_runs runs to `runs`, so that short lists of runs
 * need no second pass. Does not read the array if all lengths are known to be
 * equal.
 *
 * UCXPOOL_ERR_INVALID_PARAM  a segment that is not empty has a NULL address
 *                            (unless the array is not read), or the lengths
 *                            overflow; the detail names the segment or range
 */
ucxpool_status_t copy_lengths_count(const copy_memory_t *memory,
                                    copy_run_t *runs, size_t max_runs,
                                    size_t        *num_runs_p,
                                    copy_totals_t *totals_p);

/* --- plans ------------------------------------------------------------------
 * A plan maps a byte range of the stream to memory, by arithmetic only.
 *
 *     sender's runs   [  seg 0  ][pad][ seg 1 ][pad][ seg 2 ]     the stream
 *                     0              16x            16y
 *     memory          the sender's own segments, or the receiver's, which may
 *                     be cut in any other way
 *
 * A plan walks the list of runs and the list of memory together. Ranges that
 * are requested in order need no extra work; a range before the previous one
 * restarts the walk.
 */

/* A position in the list of runs and in the list of memory. */
typedef struct copy_place {
    uint64_t offset; /* in the stream */
    size_t   run;
    uint64_t index;          /* of the segment within its run */
    uint64_t segment_offset; /* within this stream segment */
    size_t   memory;         /* index in the memory's list */
    uint64_t memory_offset;  /* within this segment or piece */
} copy_place_t;

typedef struct copy_plan {
    const copy_run_t *runs;
    size_t            num_runs;
    copy_memory_t     memory;
    copy_totals_t     totals;
    copy_place_t      at;     /* the position of the walk */
    copy_place_t      before; /* start of the previous range */
} copy_plan_t;

/*
 * The runs and the memory's list must outlive the plan. The caller must have
 * checked that the memory has at least totals.payload_size bytes.
 */
void copy_plan_init(copy_plan_t *plan, const copy_run_t *runs, size_t num_runs,
                    const copy_totals_t *totals, const copy_memory_t *memory);

/* The contiguous memory of a range of the stream. */
typedef struct copy_extent {
    void    *address;
    uint64_t length;
} copy_extent_t;

/*
 * Find the longest extent of contiguous memory without padding that starts at
 * `offset` of the stream, of at most `length` bytes. *extent_p is {NULL, n} for
 * n bytes of padding or of a file. If the caller's list has not been checked,
 * *extent_p is also {NULL, n} for a piece whose address is NULL.
 */
void copy_plan_extent(copy_plan_t *plan, uint64_t offset, uint64_t length,
                      copy_extent_t *extent_p);

/* Returns the bytes of padding at `offset`; 0 if there is data at `offset`, or
 * if `offset` is the end of the stream. */
uint64_t copy_plan_padding(copy_plan_t *plan, uint64_t offset);

/* --- the walk of a plan -----------------------------------------------------
 * These functions are only for files in this directory.
 *
 * The walk is at a byte of the stream, plan->at.offset, and has the positions
 * of this byte in the lists of runs and memory:
 *
 *     at.run, at.index, at.segment_offset    segment of the stream. Padding
 *                                            belongs to the segment before it:
 *                                            segment_offset >= its length
 *     at.memory, at.memory_offset            the next byte of memory to use
 *
 * The stride of a segment is its length in the stream with the padding that
 * follows. The walk skips whole runs, and segments within a run, by arithmetic.
 * So a peer's run of 2^40 segments takes no more time than a run of one
 * segment.
 */

/* Returns the bytes of the stream from the start of a segment of a run to the
 * start of the next one. */
static inline uint64_t copy_run_stride(const copy_run_t *run)
{
    return base_align_up(run->length, COPY_ALIGNMENT);
}

/* Returns true if the segments of a run are contiguous in the stream, without
 * padding. */
static inline bool copy_run_is_dense(const copy_run_t *run)
{
    return (run->length % COPY_ALIGNMENT) == 0;
}

/* Returns the bytes from a position in a run to the next padding or the end of
 * the run. */
static inline uint64_t copy_run_data(const copy_run_t *run, uint64_t index,
                                     uint64_t segment_offset)
{
    uint64_t count = copy_run_is_dense(run) ? run->count - index : 1;

    return count * run->length - segment_offset;
}

/* Returns the address of the next byte of memory. It is computed as an integer,
 * because an unchecked address may be NULL. */
static inline char *copy_walk_address(const copy_plan_t *plan)
{
    return (
        char *)((uintptr_t)copy_memory_address(&plan->memory, plan->at.memory) +
                plan->at.memory_offset);
}

/* Returns the number of bytes of a range that are within the stream. */
static inline uint64_t copy_walk_clip(const copy_plan_t *plan, uint64_t offset,
                                      uint64_t length)
{
    assert(offset <= plan->totals.stream_size);
    return base_min(length, plan->totals.stream_size - offset);
}

/* Skip runs that have no bytes left. */
static inline void copy_walk_settle(copy_plan_t *plan)
{
    while ((plan->at.run < plan->num_runs) &&
           ((plan->at.index == plan->runs[plan->at.run].count) ||
            (plan->runs[plan->at.run].length == 0))) {
        plan->at.run++;
        plan->at.index = 0;
    }
}

/*
 * Move the walk to an offset of the stream; restart the walk if the offset is
 * before the previous range. Afterwards, the walk is after the last run, or in
 * a nonempty segment or its padding. If bytes remain, at.memory is also the
 * index of an entry with a nonzero length.
 */
void copy_walk_seek(copy_plan_t *plan, uint64_t offset);

/* --- passes over a list -----------------------------------------------------
 * These functions pass over a caller's list of segments as fast as memory
 * allows. Their speed is important: for 100,000 segments, the CPU needs as much
 * time for the list as the GPU for the data. */

/*
 * Copy the addresses of the leading segments that have this length. Returns how
 * many.
 */
size_t copy_pairs_addresses(const ucxpool_segment_t *segments,
                            size_t num_segments, uint64_t length,
                            uint64_t *addresses);

/*
 * Sum up the lengths. Returns false if this fast pass cannot compute the sum,
 * because an address is NULL or the sum may overflow.
 */
bool copy_pairs_sum(const ucxpool_segment_t *segments, size_t num_segments,
                    uint64_t *sum_p);

/* Count the leading addresses that are not NULL. */
size_t copy_pairs_present(void *const *addresses, size_t num_addresses);

/*
 * Count the leading segments (or pieces) that are within [start, start + size).
 * The result is a lower bound.
 */
size_t copy_pairs_inside(const ucxpool_segment_t *segments, size_t num_segments,
                         uint64_t start, uint64_t size);
size_t copy_pairs_within(void *const *addresses, size_t num_addresses,
                         uint64_t length, uint64_t start, uint64_t size);

/* The size of a range that begins at address 1 and contains all memory with
 * untagged addresses: a segment that is not NULL is within the range. */
#define COPY_ANYWHERE ((uint64_t)1 << 61)

/*
 * Count the leading segments that have this length, and are within [start,
 * start + size). The result may be too low.
 */
size_t copy_pairs_even(const ucxpool_segment_t *segments, size_t num_segments,
                       uint64_t length, uint64_t start, uint64_t size);

/* Copy addresses up to the first NULL, in one pass. Returns how many there are.
 * May write more entries, up to num_addresses. */
size_t copy_pairs_copy(void *const *addresses, size_t num_addresses,
                       uint64_t *copies);

#endif
