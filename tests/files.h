/*
 * Files of random bytes, and messages made of ranges of these files. The
 * linker's --wrap redirects pread() and preadv(), so that a test can make them
 * fail.
 */
#ifndef TESTS_FILES_H
#define TESTS_FILES_H

#include <ucxpool/transfer.h>

#include <stddef.h>
#include <stdint.h>

/* The file is already unlinked, so it is deleted when it is closed. */
typedef struct file {
    int      fd;
    size_t   size;
    uint8_t *bytes; /* content of the file */
} file_t;

/* The prefix of the name of an unlinked file. */
#define FILE_NAME "ucxpool-test-"

void file_init(file_t *file, size_t size);
void file_cleanup(file_t *file);

/* Returns the bytes of a message of ranges, in order. The caller frees them. */
uint8_t *file_message(const file_t *file, const ucxpool_range_t *ranges,
                      size_t num_ranges, size_t *length_p);

/*
 * Build a message of about `length` bytes from random parts of a file and of
 * memory (NULL: only of the file). Some ranges are adjacent, and some are
 * empty. Returns the number of ranges.
 */
size_t file_cut(const file_t *file, uint8_t *memory, size_t memory_size,
                size_t length, ucxpool_range_t *ranges, size_t max);

static inline ucxpool_status_t
send_ranges(ucxpool_channel_t *channel, const ucxpool_range_t *ranges,
            size_t count, uint64_t tag, const ucxpool_request_params_t *params,
            ucxpool_request_t **request_p)
{
    ucxpool_data_t data = ucxpool_source_ranges(ranges, count);

    return ucxpool_send(channel, &data, tag, params, request_p);
}

/* --- reads ------------------------------------------------------------------
 * The following settings and counts apply until reads_reset().
 */

void reads_reset(void);

/* Return the number of reads, and the number of bytes read. */
unsigned reads_count(void);
size_t   reads_size(void);

/* Returns the descriptor of the i-th read. */
int reads_fd(unsigned i);

/* Make the n-th call (from 1) fail. */
void reads_fail(unsigned n, int error);

/* Limit each call to this many bytes, and make every second call fail as if a
 * signal had interrupted it. */
void reads_disturb(size_t max);

/* Call the hook before the n-th call. */
void reads_before(unsigned n, void (*hook)(void));

#endif
