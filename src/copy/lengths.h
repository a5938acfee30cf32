/*
 * The list of a message's segment lengths, as runs of equal lengths:
 *
 *     256 256 256 256 100 0      ->      {256, 4} {100, 1} {0, 1}
 *
 * This is what a descriptor carries, and what both sides compute the stream
 * from: segment i starts at the next multiple of COPY_ALIGNMENT bytes.
 */
#ifndef COPY_LENGTHS_H
#define COPY_LENGTHS_H

#include <ucxpool/transfer.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Lengths of the segments from number `first` on; returns how many. */
size_t copy_lengths_expand(const copy_run_t *runs, size_t num_runs,
                           uint64_t first, size_t num_lengths, size_t *lengths);

#endif
