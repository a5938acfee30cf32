#include <config.h>

#include "tools/shuffle/output.h"

#include "common/error.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Number of descriptors that the rest of a worker may need. */
#define OUTPUT_OTHER_FILES 256u
/* Total size of the buffers of all workers. */
#define OUTPUT_BUFFERS_SIZE ((size_t)64 * 1024 * 1024)
#define OUTPUT_BUFFER_MAX   ((size_t)64 * 1024)
/* Minimum size of a buffer. A system call takes longer than copying this many
 * bytes. */
#define OUTPUT_BUFFER_MIN ((size_t)512)
#define OUTPUT_PAGE       ((size_t)4096)

/* --- the directory -------------------------------------------------------- */

static int folder_fail(const output_folder_t *folder, const char *what)
{
    return keep_error("cannot %s output directory '%s': %s", what, folder->path,
                      strerror(errno));
}

/* Check that the directory contains nothing but files that other ranks of this
 * run may have created. */
static int folder_check_empty(const output_folder_t *folder)
{
    int            fd  = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY);
    DIR           *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    char           own[32];
    int            result = 0;

    if (dir == NULL) {
        result = folder_fail(folder, "list");
        close(fd);
        return result;
    }
    snprintf(own, sizeof(own), ".%016" PRIx64 ".tmp", folder->run);
    while ((result == 0) && ((entry = readdir(dir)) != NULL)) {
        if ((strcmp(entry->d_name, ".") != 0) &&
            (strcmp(entry->d_name, "..") != 0) &&
            (strstr(entry->d_name, own) == NULL)) {
            result = keep_error(
                "the output directory '%s' is not empty (it contains '%s'): "
                "empty it, or name another one with -o",
                folder->path, entry->d_name);
        }
    }
    closedir(dir);
    return result;
}

int output_folder_open(output_folder_t *folder, const char *path, uint64_t run)
{
    int result;

    memset(folder, 0, sizeof(*folder));
    folder->path    = path;
    folder->run     = run;
    folder->created = mkdir(path, 0777) == 0;
    if (!folder->created && (errno != EEXIST)) {
        return folder_fail(folder, "create");
    }
    folder->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0) {
        return folder_fail(folder, "open");
    }
    result = faccessat(folder->fd, ".", W_OK | X_OK, AT_EACCESS) == 0
                 ? folder_check_empty(folder)
                 : folder_fail(folder, "write into");
    if (result != 0) {
        close(folder->fd);
        if (folder->created) {
            rmdir(path);
        }
    }
    return result;
}

void output_folder_close(output_folder_t *folder)
{
    if (folder->created && folder->is_discarded) {
        /* Fails while it holds files of another process of the run. */
        rmdir(folder->path);
    }
    close(folder->fd);
    folder->fd = -1;
}

/* --- names -------------------------------------------------------------- */

typedef struct output_names {
    char temporary[48];
    char final[32];
} output_names_t;

static output_names_t output_names(const output_folder_t *folder,
                                   uint32_t               partition)
{
    output_names_t names;

    snprintf(names.temporary, sizeof(names.temporary),
             ".part-%05u.%016" PRIx64 ".tmp", partition, folder->run);
    snprintf(names.final, sizeof(names.final), "part-%05u", partition);
    return names;
}

/* Returns true if both names belong to one file. */
static bool output_is_committed(const output_folder_t *folder,
                                const output_names_t  *names)
{
    struct stat one;
    struct stat other;

    return (fstatat(folder->fd, names->temporary, &one, AT_SYMLINK_NOFOLLOW) ==
            0) &&
           (fstatat(folder->fd, names->final, &other, AT_SYMLINK_NOFOLLOW) ==
            0) &&
           (one.st_dev == other.st_dev) && (one.st_ino == other.st_ino);
}

/* Give a file its final name. Neither call replaces another file. */
static int output_commit_one(const output_folder_t *folder, uint32_t partition)
{
    output_names_t names = output_names(folder, partition);

    if (linkat(folder->fd, names.temporary, folder->fd, names.final, 0) == 0) {
        return 0;
    }
    /* The file system has no hard links. */
    if (((errno == EPERM) || (errno == EOPNOTSUPP) || (errno == ENOSYS) ||
         (errno == EMLINK)) &&
        (renameat2(folder->fd, names.temporary, folder->fd, names.final,
                   RENAME_NOREPLACE) == 0)) {
        return 0;
    }
    return keep_error("cannot name '%s/%s' as '%s': %s", folder->path,
                      names.temporary, names.final, strerror(errno));
}

int output_commit(const output_folder_t *folder, const output_set_t *set)
{
    output_set_t named = *set;

    for (uint32_t i = set->first; i < set->num; i += set->step) {
        if (output_commit_one(folder, i) != 0) {
            named.num = i;
            output_withdraw(folder, &named);
            return -1;
        }
    }
    return 0;
}

void output_withdraw(const output_folder_t *folder, const output_set_t *set)
{
    for (uint32_t i = set->first; i < set->num; i += set->step) {
        output_names_t names = output_names(folder, i);

        if (output_is_committed(folder, &names)) {
            unlinkat(folder->fd, names.final, 0);
        } else {
            renameat2(folder->fd, names.final, folder->fd, names.temporary,
                      RENAME_NOREPLACE);
        }
    }
}

void output_settle(const output_folder_t *folder, const output_set_t *set)
{
    for (uint32_t i = set->first; i < set->num; i += set->step) {
        unlinkat(folder->fd, output_names(folder, i).temporary, 0);
    }
}

void output_discard(output_folder_t *folder, const output_set_t *set)
{
    for (uint32_t i = set->first; i < set->num; i += set->step) {
        output_names_t names = output_names(folder, i);

        if (output_is_committed(folder, &names)) {
            unlinkat(folder->fd, names.final, 0);
        }
        unlinkat(folder->fd, names.temporary, 0);
    }
    folder->is_discarded = true;
}

/* --- the files ---------------------------------------------------------- */

static uint32_t output_partition(const output_t *output, uint32_t slot)
{
    return output->set.first + slot * output->set.step;
}

static int output_fail(const output_t *output, uint32_t slot, const char *what)
{
    return keep_error(
        "cannot %s '%s/%s': %s%s", what, output->folder->path,
        output_names(output->folder, output_partition(output, slot)).temporary,
        strerror(errno),
        (errno == ENOSPC) || (errno == EDQUOT)
            ? ": free some space, or name another directory with -o"
            : "");
}

/* Returns a descriptor, or -1 with an error. */
static int output_open(const output_t *output, uint32_t slot, int flags)
{
    output_names_t names =
        output_names(output->folder, output_partition(output, slot));
    int fd = openat(output->folder->fd, names.temporary,
                    O_WRONLY | O_CLOEXEC | flags, 0666);

    return fd >= 0 ? fd
                   : output_fail(output, slot,
                                 (flags & O_CREAT) ? "create" : "open");
}

/* Close a descriptor of output_open(), unless it stays open. Some file systems
 * report a full disk only on close. */
static int output_close(const output_t *output, uint32_t slot, int fd,
                        int result)
{
    if (fd == output->files[slot].fd) {
        return result;
    }
    return (close(fd) != 0) && (result == 0)
               ? output_fail(output, slot, "write")
               : result;
}

/* Raise the limit of open files. Returns the number of files that can stay
 * open. */
static uint32_t output_raise_limit(void)
{
    struct rlimit limit = {0, 0};

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur <= OUTPUT_OTHER_FILES) {
        return 0;
    }
    return limit.rlim_cur < OUTPUT_MAX_PARTITIONS + OUTPUT_OTHER_FILES
               ? (uint32_t)limit.rlim_cur - OUTPUT_OTHER_FILES
               : OUTPUT_MAX_PARTITIONS;
}

static size_t output_fit_buffer(uint32_t num_partitions)
{
    size_t size = OUTPUT_BUFFERS_SIZE / num_partitions;

    size = size > OUTPUT_BUFFER_MAX ? OUTPUT_BUFFER_MAX : size;
    size = size < OUTPUT_BUFFER_MIN ? OUTPUT_BUFFER_MIN : size;
    return size > OUTPUT_PAGE ? size / OUTPUT_PAGE * OUTPUT_PAGE : size;
}

static int output_create(output_t *output, uint32_t slot)
{
    int fd = output_open(output, slot, O_CREAT | O_EXCL);

    output->files[slot].fd = slot < output->num_kept ? fd : -1;
    output->num_files++;
    return fd >= 0 ? output_close(output, slot, fd, 0) : -1;
}

int output_init(output_t *output, const output_folder_t *folder,
                const output_set_t *set)
{
    uint32_t num    = set->first < set->num
                          ? (set->num - set->first + set->step - 1) / set->step
                          : 0;
    int      result = 0;

    memset(output, 0, sizeof(*output));
    output->folder      = folder;
    output->set         = *set;
    output->num_kept    = output_raise_limit();
    output->buffer_size = output_fit_buffer(set->num);
    output->files       = calloc(num + 1, sizeof(*output->files));
    output->buffers     = aligned_alloc(
            OUTPUT_PAGE,
            (num * output->buffer_size / OUTPUT_PAGE + 1) * OUTPUT_PAGE);
    if ((output->files == NULL) || (output->buffers == NULL)) {
        result = keep_error("out of memory for %u partition files", num);
    }
    for (uint32_t i = 0; (i < num) && (result == 0); i++) {
        result = output_create(output, i);
    }
    if (result != 0) {
        output_cleanup(output);
    }
    return result;
}

static int output_write_all(output_t *output, uint32_t slot, int fd,
                            const char *data, size_t length)
{
    output_file_t *file = &output->files[slot];
    ssize_t        written;

    while (length > 0) {
        written = pwrite(fd, data, length, (off_t)file->length);
        if (written >= 0) {
            data += written;
            length -= (size_t)written;
            file->length += (uint64_t)written;
        } else if (errno != EINTR) {
            return output_fail(output, slot, "write");
        }
    }
    return 0;
}

static int output_write(output_t *output, uint32_t slot, const char *data,
                        size_t length)
{
    int fd = output->files[slot].fd;

    if ((fd < 0) && ((fd = output_open(output, slot, 0)) < 0)) {
        return -1;
    }
    return output_close(output, slot, fd,
                        output_write_all(output, slot, fd, data, length));
}

static char *output_buffer(const output_t *output, uint32_t slot)
{
    return output->buffers + slot * output->buffer_size;
}

static int output_flush(output_t *output, uint32_t slot)
{
    uint32_t fill = output->files[slot].fill;

    output->files[slot].fill = 0;
    return fill > 0
               ? output_write(output, slot, output_buffer(output, slot), fill)
               : 0;
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
    int result = 0;

    for (uint32_t i = 0; (i < output->num_files) && (result == 0); i++) {
        result =
            output_append(output, output_partition(output, i), data, length);
    }
    return result;
}

static int output_check(const output_t *output, uint32_t slot, int fd)
{
    uint64_t    length = output->files[slot].length;
    struct stat status;

    if (fstat(fd, &status) != 0) {
        return output_fail(output, slot, "write");
    }
    if ((uint64_t)status.st_size == length) {
        return 0;
    }
    return keep_error("partition %u has %llu bytes, but %llu were written: "
                      "check that nothing else writes to '%s'",
                      output_partition(output, slot),
                      (unsigned long long)status.st_size,
                      (unsigned long long)length, output->folder->path);
}

static int output_finish_file(output_t *output, uint32_t slot)
{
    int fd;

    if (output_flush(output, slot) != 0) {
        return -1;
    }
    fd                     = output->files[slot].fd;
    output->files[slot].fd = -1;
    if ((fd < 0) && ((fd = output_open(output, slot, 0)) < 0)) {
        return -1;
    }
    return output_close(output, slot, fd, output_check(output, slot, fd));
}

int output_finish(output_t *output)
{
    int result = 0;

    for (uint32_t i = 0; (i < output->num_files) && (result == 0); i++) {
        result = output_finish_file(output, i);
    }
    return result;
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
    memset(output, 0, sizeof(*output));
}
