/*
 * Passes over a caller's list of segments, each as quick as the list comes from
 * memory: a list of 100,000 is as much work for the processor as what it tells
 * of is for the GPU.
 */
#ifndef COPY_PAIRS_H
#define COPY_PAIRS_H

#include <ucxpool/transfer.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Copy addresses up to the first NULL, which the same pass finds; returns how
 * many these are. More may be written, but no more than num_addresses. */
size_t copy_pairs_copy(void *const *addresses, size_t num_addresses,
                       uint64_t *copies);

#endif
