#include "files.h"

#include "pair.h"
#include "replace.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* --- files ---------------------------------------------------------------- */

void file_init(file_t *file, size_t size)
{
    char path[] = "/tmp/" FILE_NAME "XXXXXX";

    file->fd    = mkstemp(path);
    file->size  = size;
    file->bytes = malloc(size + 1);
    ck_assert_int_ge(file->fd, 0);
    ck_assert_int_eq(unlink(path), 0);
    pair_fill(file->bytes, size);
    ck_assert_int_eq(write(file->fd, file->bytes, size), (ssize_t)size);
}

void file_cleanup(file_t *file)
{
    close(file->fd);
    free(file->bytes);
}

uint8_t *file_message(const file_t *file, const ucxpool_range_t *ranges,
                      size_t num_ranges, size_t *length_p)
{
    size_t   length = 0;
    uint8_t *message;

    for (size_t i = 0; i < num_ranges; i++) {
        length += ranges[i].length;
    }
    message   = malloc(length + 1);
    *length_p = length;
    length    = 0;
    for (size_t i = 0; i < num_ranges; i++) {
        const ucxpool_range_t *range = &ranges[i];

        if (range->length != 0) {
            memcpy(message + length,
                   (range->kind == UCXPOOL_RANGE_FILE)
                       ? file->bytes + range->at.offset
                       : range->at.address,
                   range->length);
        }
        length += range->length;
    }
    return message;
}

static size_t some_length(size_t max)
{
    size_t length = (size_t)rand() % ((rand() % 8 == 0) ? 20000 : 300);

    return (rand() % 8 == 0) ? 0 : (length < max) ? length : max;
}

size_t file_cut(const file_t *file, uint8_t *memory, size_t memory_size,
                size_t length, ucxpool_range_t *ranges, size_t max)
{
    size_t num   = 0;
    size_t place = 0; /* in the file */

    for (size_t n; (length > 0) && (num < max); length -= n) {
        n = some_length(length);
        if ((memory != NULL) && (rand() % 3 == 0)) {
            n             = (n < memory_size) ? n : memory_size;
            ranges[num++] = ucxpool_range_memory(memory, n);
            memory += n;
            memory_size -= n;
            continue;
        }
        if ((rand() % 4 == 0) || (place + n > file->size)) {
            place = (size_t)rand() % (file->size - n);
        }
        ranges[num++] =
            ucxpool_range_file(file->fd, (int64_t)place, n, "the file");
        place += n;
    }
    return num;
}

/* --- reads ---------------------------------------------------------------- */

#define NUM_LOGGED 4096u

static struct {
    unsigned count;
    size_t   size;
    int      fds[NUM_LOGGED];
    unsigned fails; /* 0: none */
    int      error;
    size_t   max; /* 0: any */
    unsigned hooked;
    void (*hook)(void);
} reads;

void reads_reset(void)
{
    memset(&reads, 0, sizeof(reads));
}

unsigned reads_count(void)
{
    return reads.count;
}

size_t reads_size(void)
{
    return reads.size;
}

int reads_fd(unsigned i)
{
    ck_assert_uint_lt(i, NUM_LOGGED);
    return reads.fds[i];
}

void reads_fail(unsigned n, int error)
{
    reads_reset();
    reads.fails = n;
    reads.error = error;
}

void reads_disturb(size_t max)
{
    reads_reset();
    reads.max = max;
}

void reads_before(unsigned n, void (*hook)(void))
{
    reads_reset();
    reads.hooked = n;
    reads.hook   = hook;
}

/* Should the read be done? Otherwise errno is set. */
static bool begin(int fd)
{
    reads.fds[reads.count % NUM_LOGGED] = fd;
    reads.count++;
    if (reads.count == reads.hooked) {
        reads.hook();
    }
    if (reads.count == reads.fails) {
        errno = reads.error;
        return false;
    }
    if ((reads.max != 0) && (reads.count % 2 == 0)) {
        errno = EINTR;
        return false;
    }
    return true;
}

static ssize_t end(ssize_t length)
{
    reads.size += (length > 0) ? (size_t)length : 0;
    return length;
}

REPLACE(ssize_t, pread, int fd, void *bytes, size_t length, off_t offset)
{
    if (!begin(fd)) {
        return -1;
    }
    if ((reads.max != 0) && (length > reads.max)) {
        length = reads.max;
    }
    return end(__real_pread(fd, bytes, length, offset));
}

/* A shortened read ends in the first range, or in the second. */
REPLACE(ssize_t, preadv, int fd, const struct iovec *places, int num,
        off_t offset)
{
    struct iovec cut[2];

    if (!begin(fd)) {
        return -1;
    }
    if (reads.max == 0) {
        return end(__real_preadv(fd, places, num, offset));
    }
    memcpy(cut, places,
           sizeof(cut)); /* there are two; with one it would be pread() */
    if (cut[0].iov_len > reads.max) {
        cut[0].iov_len = reads.max;
        num            = 1;
    } else {
        cut[1].iov_len = (cut[1].iov_len + 1) / 2;
        num            = 2;
    }
    return end(__real_preadv(fd, cut, num, offset));
}
