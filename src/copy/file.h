/*
 * Ranges of files: checked when a send is posted, and read into a block.
 *
 * A gather collects adjacent parts of one file, and reads them with one system
 * call into all their places in the block:
 *
 *     file      ....[  range 3  ][ range 4 ][     range 5     ].....
 *     block     [  range 3  ][pad][ range 4 ][pad][     range 5     ]
 */
#ifndef COPY_FILE_H
#define COPY_FILE_H

#include "copy/plan.h"

#include <sys/uio.h>

/*
 * Check ranges without reading them.
 *
 * UCXPOOL_ERR_INVALID_PARAM  memory without an address, a descriptor that is
 *                            not open, or an offset or a length that no file
 *                            can have
 * UCXPOOL_ERR_UNSUPPORTED    an unknown kind of range, or a file that is
 *                            neither a regular file nor a block device
 *
 * The detail names the range.
 */
ucxpool_status_t copy_file_check(const ucxpool_range_t *ranges,
                                 size_t                 num_ranges);

/* The maximum number of places in a block that one system call reads into. */
#define COPY_FILE_PLACES 128

/* Collected parts of a file that have not been read yet. */
typedef struct copy_file_reads {
    ucxpool_status_t       status; /* after an error, no more data is read */
    const ucxpool_range_t *range;  /* the range of the first part */
    uint64_t               offset; /* of the first part in its file */
    uint64_t               length; /* total length of the parts */
    int                    num;    /* number of places */
    struct iovec           places[COPY_FILE_PLACES];
} copy_file_reads_t;

static inline void copy_file_reads_init(copy_file_reads_t *reads)
{
    reads->status = UCXPOOL_OK;
    reads->num    = 0;
}

/* Read `length` bytes (1 or more) from `offset` of a range to `block`. The read
 * may be delayed until the next flush. */
void copy_file_reads_add(copy_file_reads_t *reads, const ucxpool_range_t *range,
                         uint64_t offset, uint64_t length, void *block);

/*
 * Read the collected parts.
 *
 * UCXPOOL_ERR_IO  a file could not be read, in this call or before; the detail
 *                 has the file's name, the offset and the reason
 */
ucxpool_status_t copy_file_reads_flush(copy_file_reads_t *reads);

#endif
