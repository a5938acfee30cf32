/*
 * The set of free blocks, as bits, taken and given back without a lock.
 *
 *     words     0000 0000 0110 1111 ...    1: free
 *     summary   0    0    1    1    ...    1: that word has a bit set
 *
 * Who takes bits must have been promised them: the pool's counts see to it
 * that never more bits are asked for than are set. So a take cannot fail; at
 * worst it looks again, because another thread has made progress meanwhile.
 *
 * The summary is a hint. A thread that is between the two steps of changing a
 * word and its summary bit may leave it wrong for a moment, so a take that
 * finds nothing by the summary looks at the words themselves.
 */
#ifndef BLOCK_BITMAP_H
#define BLOCK_BITMAP_H

#include <ucxpool/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct block_bitmap block_bitmap_t;

/*
 * All bits are set.
 *
 * num_bits  1 or more.
 *
 * UCXPOOL_ERR_NO_MEMORY  nothing is left behind
 */
ucxpool_status_t block_bitmap_create(uint32_t         num_bits,
                                     block_bitmap_t **bitmap_p);
void             block_bitmap_destroy(block_bitmap_t *bitmap);

/*
 * Clear num bits that the caller has been promised, and write their indices:
 * the lowest run of num bits where there is one, else the lowest bits.
 */
void block_bitmap_take(block_bitmap_t *bitmap, size_t num, uint32_t *indices);

/* Set a bit that is clear. */
void block_bitmap_give(block_bitmap_t *bitmap, uint32_t index);

bool block_bitmap_test(const block_bitmap_t *bitmap, uint32_t index);
/* How many bits are set, those past the end (there must be none) included. */
uint64_t block_bitmap_count(const block_bitmap_t *bitmap);

#endif
