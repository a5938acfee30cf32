/*
 * Files of random bytes, and messages of ranges of them. The linker's --wrap
 * puts pread() and preadv() in the way of the real ones that a test can make go
 * wrong.
 */
#ifndef TESTS_FILES_H
#define TESTS_FILES_H

#include <ucxpool/transfer.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* It has no name any more, so that nothing is left of it. */
typedef struct file {
    int      fd;
    size_t   size;
    uint8_t *bytes; /* what is in it */
} file_t;

/* The name that it had begins so. */
#define FILE_NAME "ucxpool-test-"

void file_init(file_t *file, size_t size);
void file_cleanup(file_t *file);

/* What a message of ranges holds, one after the other; to be freed. */
uint8_t *file_message(const file_t *file, const ucxpool_range_t *ranges,
                      size_t num_ranges, size_t *length_p);

/*
 * Cut a message of about `length` bytes out of a file and of memory (NULL: of
 * the file alone), at random: ranges that follow each other, others, and such
 * without bytes. Returns how many.
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
 * All that follows holds until reads_reset().
 */

void reads_reset(void);

/* How many there were. */
unsigned reads_count(void);
size_t   reads_size(void);

/* Which file the i-th read of them was of. */
int reads_fd(unsigned i);

/* Make the n-th call (from 1) fail. */
void reads_fail(unsigned n, int error);

/* Read at most so many bytes in a call, and let a signal interrupt each second
 * one. */
void reads_disturb(size_t max);

/* Called before the n-th call. */
void reads_before(unsigned n, void (*hook)(void));

#endif
