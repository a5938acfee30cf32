/* The folder: created, checked, its files named and removed. */
#include <config.h>

#include "tools/shuffle/complaint.h"
#include "tools/shuffle/output_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void output_name_temporary(output_name_t name, uint32_t partition)
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
