#include <config.h>

#include "tools/shuffle/output.h"
#include "tools/shuffle/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Descriptors that the rest of a worker may need: files, sockets, memory. */
#define OUTPUT_OTHER_FILES 256u
/* All buffers of all workers together, however many partitions there are. */
#define OUTPUT_BUFFERS_SIZE ((size_t)64 * 1024 * 1024)
#define OUTPUT_BUFFER_MAX   ((size_t)64 * 1024)
/* A system call costs more than to copy this much. */
#define OUTPUT_BUFFER_MIN ((size_t)512)
#define OUTPUT_PAGE       ((size_t)4096)

/* --- opening ------------------------------------------------------------ */

static uint32_t output_partition(const output_t *output, uint32_t slot)
{
    return output->set.first + slot * output->set.step;
}

/* Say why a file could not be used, and what helps. */
static int output_say_error(const output_t *output, uint32_t slot,
                            const char *what, int error)
{
    output_name_t name;

    output_name_temporary(name, output_partition(output, slot));
    return say_error("cannot %s '%s/%s': %s%s", what, output->folder->path,
                     name, strerror(error),
                     (error == ENOSPC) || (error == EDQUOT)
                         ? ": free some space, or name another folder with -o"
                         : "");
}

/* Returns a descriptor, or -1 with an error. */
static int output_open(const output_t *output, uint32_t slot, int flags)
{
    output_name_t name;
    int           fd;

    output_name_temporary(name, output_partition(output, slot));
    fd = openat(output->folder->fd, name, O_WRONLY | O_CLOEXEC | flags, 0666);
    if (fd < 0) {
        output_say_error(output, slot, (flags & O_CREAT) ? "create" : "open",
                         errno);
    }
    return fd;
}

/* Some file systems say only here that the disk is full. */
static int output_close(const output_t *output, uint32_t slot, int fd)
{
    return close(fd) == 0 ? 0 : output_say_error(output, slot, "write", errno);
}

/* How many files can stay open: ask the system for as many as it allows. */
static uint32_t output_raise_limit(uint32_t num_files)
{
    struct rlimit limit;
    rlim_t        wanted = (rlim_t)num_files + OUTPUT_OTHER_FILES;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 0;
    }
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        /* What is refused here is felt below: fewer stay open. */
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= wanted) {
        return num_files;
    }
    return limit.rlim_cur > OUTPUT_OTHER_FILES
               ? (uint32_t)(limit.rlim_cur - OUTPUT_OTHER_FILES)
               : 0;
}

static int output_create(output_t *output, uint32_t slot)
{
    int fd = output_open(output, slot, O_CREAT | O_EXCL);

    if (fd < 0) {
        return -1;
    }
    output->files[slot].fd = -1;
    output->num_files++;
    if (slot < output->num_kept) {
        output->files[slot].fd = fd;
        return 0;
    }
    return output_close(output, slot, fd);
}

static size_t output_fit_buffer(uint32_t num_partitions)
{
    size_t size = OUTPUT_BUFFERS_SIZE / num_partitions;

    size = size > OUTPUT_BUFFER_MAX ? OUTPUT_BUFFER_MAX : size;
    size = size < OUTPUT_BUFFER_MIN ? OUTPUT_BUFFER_MIN : size;
    return size > OUTPUT_PAGE ? size / OUTPUT_PAGE * OUTPUT_PAGE : size;
}

int output_init(output_t *output, const output_folder_t *folder,
                const output_set_t *set)
{
    uint32_t num_files =
        set->first < set->num
            ? (set->num - set->first + set->step - 1) / set->step
            : 0;

    memset(output, 0, sizeof(*output));
    output->folder      = folder;
    output->set         = *set;
    output->num_kept    = output_raise_limit(num_files);
    output->buffer_size = output_fit_buffer(set->num);
    output->files       = calloc(num_files + 1, sizeof(*output->files));
    output->buffers     = aligned_alloc(
            OUTPUT_PAGE,
            (num_files * output->buffer_size / OUTPUT_PAGE + 1) * OUTPUT_PAGE);
    if ((output->files == NULL) || (output->buffers == NULL)) {
        say_error("out of memory for %u partition files", num_files);
        goto err_cleanup;
    }
    for (uint32_t i = 0; i < num_files; i++) {
        if (output_create(output, i) != 0) {
            goto err_cleanup;
        }
    }
    return 0;

err_cleanup:
    output_cleanup(output);
    return -1;
}

/* --- writing ------------------------------------------------------------ */

static int output_write_to(output_t *output, uint32_t slot, int fd,
                           const char *data, size_t length)
{
    output_file_t *file = &output->files[slot];
    ssize_t        written;

    while (length > 0) {
        written = pwrite(fd, data, length, (off_t)file->length);
        if (written < 0) {
            if (errno == EINTR) {
                continue;
            }
            return output_say_error(output, slot, "write", errno);
        }
        data += written;
        length -= (size_t)written;
        file->length += (uint64_t)written;
    }
    return 0;
}

static int output_write(output_t *output, uint32_t slot, const char *data,
                        size_t length)
{
    int fd = output->files[slot].fd;
    int result;

    if (fd >= 0) {
        return output_write_to(output, slot, fd, data, length);
    }
    fd = output_open(output, slot, 0);
    if (fd < 0) {
        return -1;
    }
    result = output_write_to(output, slot, fd, data, length);
    if (result != 0) {
        close(fd);
        return result;
    }
    return output_close(output, slot, fd);
}

static char *output_buffer(const output_t *output, uint32_t slot)
{
    return output->buffers + slot * output->buffer_size;
}

static int output_flush(output_t *output, uint32_t slot)
{
    uint32_t fill = output->files[slot].fill;

    output->files[slot].fill = 0;
    return output_write(output, slot, output_buffer(output, slot), fill);
}

int output_append(output_t *output, uint32_t partition, const char *data,
                  size_t length)
{
    uint32_t       slot = (partition - output->set.first) / output->set.step;
    output_file_t *file = &output->files[slot];
    size_t         room = output->buffer_size - file->fill;

    if ((file->fill > 0) && (length >= room)) {
        memcpy(output_buffer(output, slot) + file->fill, data, room);
        file->fill = (uint32_t)output->buffer_size;
        if (output_flush(output, slot) != 0) {
            return -1;
        }
        data += room;
        length -= room;
    }
    if (length >= output->buffer_size) {
        return output_write(output, slot, data, length);
    }
    memcpy(output_buffer(output, slot) + file->fill, data, length);
    file->fill += (uint32_t)length;
    return 0;
}

int output_write_header(output_t *output, const char *data, size_t length)
{
    for (uint32_t i = 0; i < output->num_files; i++) {
        if (output_append(output, output_partition(output, i), data, length) !=
            0) {
            return -1;
        }
    }
    return 0;
}

/* --- the end ------------------------------------------------------------ */

static int output_check(const output_t *output, uint32_t slot, int fd)
{
    uint64_t    length = output->files[slot].length;
    struct stat status;

    if (fstat(fd, &status) != 0) {
        return output_say_error(output, slot, "write", errno);
    }
    if ((uint64_t)status.st_size == length) {
        return 0;
    }
    return say_error("partition %u has %llu bytes where %llu were written: "
                     "does something else write to '%s'?",
                     output_partition(output, slot),
                     (unsigned long long)status.st_size,
                     (unsigned long long)length, output->folder->path);
}

static int output_finish_file(output_t *output, uint32_t slot)
{
    int result = output_flush(output, slot);
    int fd     = output->files[slot].fd;

    if (result != 0) {
        return result;
    }
    output->files[slot].fd = -1;
    if (fd < 0) {
        fd = output_open(output, slot, 0);
        if (fd < 0) {
            return -1;
        }
    }
    result = output_check(output, slot, fd);
    if (result != 0) {
        close(fd);
        return result;
    }
    return output_close(output, slot, fd);
}

int output_finish(output_t *output)
{
    for (uint32_t i = 0; i < output->num_files; i++) {
        if (output_finish_file(output, i) != 0) {
            return -1;
        }
    }
    return 0;
}

void output_cleanup(output_t *output)
{
    for (uint32_t i = 0; i < output->num_files; i++) {
        if (output->files[i].fd >= 0) {
            close(output->files[i].fd);
        }
    }
    free(output->files);
    free(output->buffers);
    output->files     = NULL;
    output->buffers   = NULL;
    output->num_files = 0;
}
