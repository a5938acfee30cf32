/*
 * Ranges of files: looked at when they are posted, and read into a block.
 *
 * A gather collects what follows in one file, and reads it by one call of the
 * system into all the places of the block where it belongs:
 *
 *     file      ....[  range 3  ][ range 4 ][     range 5     ].....
 *     block     [  range 3  ][pad][ range 4 ][pad][     range 5     ]
 */
#ifndef COPY_FILE_H
#define COPY_FILE_H

#include "copy/plan.h"

#include <sys/uio.h>

/*
 * Can these ranges be sent, as far as can be told without reading?
 *
 * UCXPOOL_ERR_INVALID_PARAM  memory without an address, a descriptor that is
 *                            not open, an offset or a length that no file has
 * UCXPOOL_ERR_UNSUPPORTED    another kind of range, or of file
 *
 * The detail names the range.
 */
ucxpool_status_t copy_file_check(const ucxpool_range_t *ranges,
                                 size_t                 num_ranges);

/* Places of a block that are read into together. */
#define COPY_FILE_PLACES 128

/* What has been collected, and is to be read. */
typedef struct copy_file_reads {
    ucxpool_status_t       status; /* after an error nothing more is read */
    const ucxpool_range_t *range;  /* the first of these */
    uint64_t               offset; /* in its file */
    uint64_t               length; /* bytes in all */
    int                    num;    /* places */
    struct iovec           places[COPY_FILE_PLACES];
} copy_file_reads_t;

static inline void copy_file_reads_init(copy_file_reads_t *reads)
{
    reads->status = UCXPOOL_OK;
    reads->num    = 0;
}

/* Let `length` bytes (1 or more) from `offset` of a range on be read to
 * `block`, by the next flush at the latest. */
void copy_file_reads_add(copy_file_reads_t *reads, const ucxpool_range_t *range,
                         uint64_t offset, uint64_t length, void *block);

/*
 * Read what has been collected.
 *
 * UCXPOOL_ERR_IO  a file could not be read, now or before; the detail has its
 *                 name, the offset and the reason
 */
ucxpool_status_t copy_file_reads_flush(copy_file_reads_t *reads);

#endif
