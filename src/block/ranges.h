/*
 * A sorted table of address ranges that do not overlap, and whose they are.
 *
 *     start   0x7f00..  0x7f21..  0x7f80..
 *     end     0x7f10..  0x7f22..  0x7fa0..
 *     owner   a         b         c
 *
 * Readers take no lock: they read a version before and after, and look again
 * when a writer was there meanwhile (a sequence lock). A reader that meets
 * writers several times in a row takes the writers' lock, so that it always
 * comes to an end.
 */
#ifndef BLOCK_RANGES_H
#define BLOCK_RANGES_H

#include <ucxpool/status.h>

#include <stddef.h>
#include <stdint.h>

typedef struct block_ranges block_ranges_t;

/*
 * max_ranges  Never more at one time: the table does not grow, so that readers
 *             never see it move. May be 0.
 *
 * UCXPOOL_ERR_NO_MEMORY  nothing is left behind
 */
ucxpool_status_t block_ranges_create(size_t           max_ranges,
                                     block_ranges_t **ranges_p);
void             block_ranges_destroy(block_ranges_t *ranges);

/* The range overlaps none that is there, and owner is not NULL. */
void block_ranges_insert(block_ranges_t *ranges, const void *start, size_t size,
                         void *owner);

/*
 * Take out the range that starts at `start` and return its owner; NULL when
 * there is none. Of two threads that take out one range, one gets NULL.
 */
void *block_ranges_remove(block_ranges_t *ranges, const void *start);

/* Owner of the range that an address lies in, or NULL. */
void *block_ranges_find(block_ranges_t *ranges, const void *address);

#endif
