#include "copy/file.h"

#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- check of ranges ------------------------------------------------------ */

/* The number of checked descriptors that are remembered during the check of a
 * list. */
#define NUM_REMEMBERED 8u

typedef struct files {
    int      fds[NUM_REMEMBERED]; /* valid descriptors; -1: none */
    unsigned next;                /* index of the next one to replace */
} files_t;

static bool files_know(const files_t *files, int fd)
{
    for (unsigned i = 0; i < NUM_REMEMBERED; i++) {
        if (files->fds[i] == fd) {
            return true;
        }
    }
    return false;
}

static const char *kind_of_file(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFIFO:
        return "a pipe";
    case S_IFSOCK:
        return "a socket";
    case S_IFDIR:
        return "a directory";
    case S_IFCHR:
        return "a character device";
    default:
        return "of an unsupported type";
    }
}

static ucxpool_status_t check_descriptor(files_t *files, int fd, size_t index)
{
    struct stat is;

    if (files_know(files, fd)) {
        return UCXPOOL_OK;
    }
    if (fstat(fd, &is) != 0) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "range %zu has the descriptor %d, which cannot be "
                          "used: %s",
                          index, fd, strerror(errno));
    }
    if (!S_ISREG(is.st_mode) && !S_ISBLK(is.st_mode)) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "range %zu has the descriptor %d, which is %s; only "
                          "regular files and block devices can be sent",
                          index, fd, kind_of_file(is.st_mode));
    }
    files->fds[files->next] = fd;
    files->next             = (files->next + 1) % NUM_REMEMBERED;
    return UCXPOOL_OK;
}

static ucxpool_status_t check_file(files_t *files, const ucxpool_range_t *range,
                                   size_t index)
{
    uint64_t end;

    if (range->fd < 0) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "range %zu has the invalid descriptor %d", index,
                          range->fd);
    }
    if ((range->at.offset < 0) ||
        !base_add((uint64_t)range->at.offset, range->length, &end) ||
        (end > INT64_MAX) || ((int64_t)(off_t)end != (int64_t)end)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "range %zu (%zu bytes at offset %lld) exceeds the "
                          "largest file size; check its offset and length",
                          index, range->length, (long long)range->at.offset);
    }
    return check_descriptor(files, range->fd, index);
}

static ucxpool_status_t check_range(files_t               *files,
                                    const ucxpool_range_t *range, size_t index)
{
    if ((range->reserved[0] != 0) || (range->reserved[1] != 0)) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "range %zu has a reserved field that is not 0; use a "
                          "newer library, or create the range with "
                          "ucxpool_range_...()",
                          index);
    }
    switch (range->kind) {
    case UCXPOOL_RANGE_MEMORY:
        if ((range->length != 0) && (range->at.address == NULL)) {
            return base_error(UCXPOOL_ERR_INVALID_PARAM,
                              "range %zu has %zu bytes and no address; set its "
                              "address, or set its length to 0",
                              index, range->length);
        }
        return UCXPOOL_OK;
    case UCXPOOL_RANGE_FILE:
        return (range->length == 0) ? UCXPOOL_OK
                                    : check_file(files, range, index);
    }
    return base_error(UCXPOOL_ERR_UNSUPPORTED,
                      "range %zu has the unknown kind %d; use a newer library, "
                      "or create the range with ucxpool_range_...()",
                      index, (int)range->kind);
}

ucxpool_status_t copy_file_check(const ucxpool_range_t *ranges,
                                 size_t                 num_ranges)
{
    files_t          files;
    ucxpool_status_t status;

    memset(&files, -1, sizeof(files.fds));
    files.next = 0;
    for (size_t i = 0; i < num_ranges; i++) {
        status = check_range(&files, &ranges[i], i);
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    return UCXPOOL_OK;
}

/* --- the name of a file --------------------------------------------------- */

/* Only the end of a longer name is reported, to leave room in the request's
 * detail for the rest of the message. */
#define NAME_MAX_SAID 60u

typedef struct name {
    char text[NAME_MAX_SAID + 4];
} name_t;

static void set_name(name_t *name, const char *text)
{
    size_t length = strlen(text);

    if (length > NAME_MAX_SAID) {
        snprintf(name->text, sizeof(name->text), "...%s",
                 text + length - NAME_MAX_SAID);
    } else {
        snprintf(name->text, sizeof(name->text), "%s", text);
    }
    base_text_clean(name->text);
}

/* Returns the caller's name for the file, or the path that /proc has for it. */
static const char *name_of(const ucxpool_range_t *range, name_t *name)
{
    char    link[64];
    char    path[4096];
    ssize_t length;

    if (range->name != NULL) {
        set_name(name, range->name);
        return name->text;
    }
    snprintf(link, sizeof(link), "/proc/self/fd/%d", range->fd);
    length = readlink(link, path, sizeof(path) - 1);
    if (length > 0) {
        path[length] = '\0';
        set_name(name, path);
    } else {
        snprintf(name->text, sizeof(name->text), "descriptor %d", range->fd);
    }
    return name->text;
}

/* --- reads ---------------------------------------------------------------- */

static bool follows(const copy_file_reads_t *reads,
                    const ucxpool_range_t *range, uint64_t offset)
{
    return (range->fd == reads->range->fd) &&
           ((uint64_t)range->at.offset + offset ==
            reads->offset + reads->length);
}

/* Add a place in the block. Extends the last place if the new one is adjacent.
 * Returns false if there is no room. */
static bool add_place(copy_file_reads_t *reads, void *block, size_t length)
{
    struct iovec *last = &reads->places[reads->num - 1];

    if ((char *)last->iov_base + last->iov_len == (char *)block) {
        last->iov_len += length;
        return true;
    }
    if (reads->num == COPY_FILE_PLACES) {
        return false;
    }
    reads->places[reads->num++] = (struct iovec){block, length};
    return true;
}

void copy_file_reads_add(copy_file_reads_t *reads, const ucxpool_range_t *range,
                         uint64_t offset, uint64_t length, void *block)
{
    if ((reads->num != 0) && follows(reads, range, offset) &&
        add_place(reads, block, (size_t)length)) {
        reads->length += length;
        return;
    }
    if (copy_file_reads_flush(reads) != UCXPOOL_OK) {
        return;
    }
    reads->range     = range;
    reads->offset    = (uint64_t)range->at.offset + offset;
    reads->length    = length;
    reads->places[0] = (struct iovec){block, (size_t)length};
    reads->num       = 1;
}

static ucxpool_status_t read_failed(const copy_file_reads_t *reads, int error)
{
    name_t name;

    return base_error(
        UCXPOOL_ERR_IO, "cannot read %s: %llu bytes at offset %llu: %s",
        name_of(reads->range, &name), (unsigned long long)reads->length,
        (unsigned long long)reads->offset, strerror(error));
}

static ucxpool_status_t file_ended(const copy_file_reads_t *reads)
{
    name_t name;

    return base_error(UCXPOOL_ERR_IO,
                      "%s is too short: no data at offset %llu, where %llu "
                      "bytes were expected",
                      name_of(reads->range, &name),
                      (unsigned long long)reads->offset,
                      (unsigned long long)reads->length);
}

/* Count `length` bytes as read, and skip the places that are full. */
static struct iovec *pass(copy_file_reads_t *reads, struct iovec *place,
                          size_t length)
{
    reads->offset += length;
    reads->length -= length;
    while ((length != 0) && (length >= place->iov_len)) {
        length -= place->iov_len;
        place++;
        reads->num--;
    }
    if (length != 0) {
        place->iov_base = (char *)place->iov_base + length;
        place->iov_len -= length;
    }
    return place;
}

/* Read into the remaining places. For one place, pread() is faster than
 * preadv(). */
static ssize_t read_places(const copy_file_reads_t *reads,
                           const struct iovec      *places)
{
    int   fd     = reads->range->fd;
    off_t offset = (off_t)reads->offset;

    return (reads->num == 1)
               ? pread(fd, places->iov_base, places->iov_len, offset)
               : preadv(fd, places, reads->num, offset);
}

ucxpool_status_t copy_file_reads_flush(copy_file_reads_t *reads)
{
    struct iovec *place = reads->places;
    ssize_t       length;

    while ((reads->status == UCXPOOL_OK) && (reads->num != 0)) {
        length = read_places(reads, place);
        if (length > 0) {
            place = pass(reads, place, (size_t)length);
        } else if (length == 0) {
            reads->status = file_ended(reads);
        } else if (errno != EINTR) {
            reads->status = read_failed(reads, errno);
        }
    }
    reads->num = 0;
    return reads->status;
}
