#include <config.h>

#include "tools/shuffle/output.h"
#include "tools/shuffle/complaint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Descriptors that the rest of a worker may need: files, sockets, memory. */
#define OUTPUT_OTHER_FILES 256u

typedef char output_name_t[32];

static void output_name_temporary(output_name_t name, uint32_t partition)
{
    snprintf(name, sizeof(output_name_t), ".part-%05u.tmp", partition);
}

static void output_name_final(output_name_t name, uint32_t partition)
{
    snprintf(name, sizeof(output_name_t), "part-%05u", partition);
}

static int output_folder_check_empty(const output_folder_t *folder)
{
    int            fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY);
    DIR           *dir;
    struct dirent *entry;
    int            result = 0;

    dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        result = complain("cannot list output folder '%s': %s", folder->path,
                          strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return result;
    }
    while ((entry = readdir(dir)) != NULL) {
        if ((strcmp(entry->d_name, ".") != 0) &&
            (strcmp(entry->d_name, "..") != 0)) {
            result = complain("output folder '%s' is not empty (it holds "
                              "'%s'): empty it or name another with -o",
                              folder->path, entry->d_name);
            break;
        }
    }
    closedir(dir);
    return result;
}

int output_folder_open(output_folder_t *folder, const char *path)
{
    folder->path    = path;
    folder->created = mkdir(path, 0777) == 0;
    if (!folder->created && (errno != EEXIST)) {
        return complain("cannot create output folder '%s': %s", path,
                        strerror(errno));
    }
    folder->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0) {
        return complain("cannot open output folder '%s': %s", path,
                        strerror(errno));
    }
    if (output_folder_check_empty(folder) != 0) {
        goto err_close;
    }
    if (faccessat(folder->fd, ".", W_OK | X_OK, AT_EACCESS) != 0) {
        complain("cannot write into output folder '%s': %s", path,
                 strerror(errno));
        goto err_close;
    }
    return 0;

err_close:
    output_folder_close(folder);
    return -1;
}

void output_folder_close(output_folder_t *folder)
{
    close(folder->fd);
    folder->fd = -1;
}

int output_commit(const output_folder_t *folder, const output_set_t *set)
{
    output_name_t temporary;
    output_name_t final;

    for (uint32_t i = set->first; i < set->num; i += set->step) {
        output_name_temporary(temporary, i);
        output_name_final(final, i);
        if (renameat(folder->fd, temporary, folder->fd, final) != 0) {
            return complain("cannot rename '%s/%s' to '%s': %s", folder->path,
                            temporary, final, strerror(errno));
        }
    }
    return 0;
}

void output_discard(const output_folder_t *folder, const output_set_t *set)
{
    output_name_t name;

    for (uint32_t i = set->first; i < set->num; i += set->step) {
        output_name_temporary(name, i);
        unlinkat(folder->fd, name, 0);
        output_name_final(name, i);
        unlinkat(folder->fd, name, 0);
    }
    if (folder->created) {
        rmdir(folder->path);
    }
}

/* One descriptor per file: ask the system for as many as it allows. */
static int output_raise_limit(uint32_t num_files)
{
    struct rlimit limit;
    rlim_t        wanted = (rlim_t)num_files + OUTPUT_OTHER_FILES;

    if ((getrlimit(RLIMIT_NOFILE, &limit) != 0) ||
        (limit.rlim_cur >= wanted)) {
        return 0;
    }
    if (limit.rlim_max < wanted) {
        return complain("%u partition files per worker are more than the "
                        "limit of %llu open files: raise it (ulimit -n), or "
                        "use fewer partitions (-p) or more workers (-w)",
                        num_files, (unsigned long long)limit.rlim_max);
    }
    limit.rlim_cur = wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return complain("cannot raise the limit of open files to %llu: %s",
                        (unsigned long long)wanted, strerror(errno));
    }
    return 0;
}

static int output_create(output_t *output, uint32_t partition)
{
    output_name_t name;
    int           fd;

    output_name_temporary(name, partition);
    fd = openat(output->folder->fd, name,
                O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        return complain("cannot create '%s/%s': %s", output->folder->path,
                        name, strerror(errno));
    }
    output->fds[output->num_files++] = fd;
    return 0;
}

int output_init(output_t *output, const output_folder_t *folder,
                const output_set_t *set)
{
    uint32_t num_files =
        set->first < set->num ?
            (set->num - set->first + set->step - 1) / set->step :
            0;

    memset(output, 0, sizeof(*output));
    output->folder = folder;
    output->set    = *set;
    if (output_raise_limit(num_files) != 0) {
        return -1;
    }
    output->fds     = calloc(num_files + 1, sizeof(*output->fds));
    output->lengths = calloc(num_files + 1, sizeof(*output->lengths));
    if ((output->fds == NULL) || (output->lengths == NULL)) {
        complain("out of memory for %u partition files", num_files);
        goto err_cleanup;
    }
    for (uint32_t i = set->first; i < set->num; i += set->step) {
        if (output_create(output, i) != 0) {
            goto err_cleanup;
        }
    }
    return 0;

err_cleanup:
    output_cleanup(output);
    return -1;
}

/* Say why a file could not be written, and what helps. */
static int output_complain(const output_t *output, uint32_t partition,
                           int error)
{
    output_name_t name;

    output_name_temporary(name, partition);
    return complain("cannot write '%s/%s': %s%s", output->folder->path, name,
                    strerror(error),
                    (error == ENOSPC) || (error == EDQUOT) ?
                        ": free some space, or name another folder with -o" :
                        "");
}

int output_append(output_t *output, uint32_t partition, const char *data,
                  size_t length)
{
    uint32_t slot = (partition - output->set.first) / output->set.step;
    ssize_t  written;

    while (length > 0) {
        written = pwrite(output->fds[slot], data, length,
                         (off_t)output->lengths[slot]);
        if (written < 0) {
            if (errno == EINTR) {
                continue;
            }
            return output_complain(output, partition, errno);
        }
        data += written;
        length -= (size_t)written;
        output->lengths[slot] += (uint64_t)written;
    }
    return 0;
}

static int output_finish_file(output_t *output, uint32_t slot)
{
    uint32_t    partition = output->set.first + slot * output->set.step;
    int         fd        = output->fds[slot];
    struct stat status;
    int         result = 0;

    if (fstat(fd, &status) != 0) {
        result = output_complain(output, partition, errno);
    } else if ((uint64_t)status.st_size != output->lengths[slot]) {
        result = complain("partition %u has %llu bytes where %llu were "
                          "written: does something else write to '%s'?",
                          partition, (unsigned long long)status.st_size,
                          (unsigned long long)output->lengths[slot],
                          output->folder->path);
    }
    output->fds[slot] = -1;
    /* Some file systems say only here that the disk is full. */
    if ((close(fd) != 0) && (result == 0)) {
        result = output_complain(output, partition, errno);
    }
    return result;
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
        if (output->fds[i] >= 0) {
            close(output->fds[i]);
        }
    }
    free(output->fds);
    free(output->lengths);
    output->fds       = NULL;
    output->lengths   = NULL;
    output->num_files = 0;
}
