/* The folder: created, claimed, its files named and removed. */
#include <config.h>

#include "tools/shuffle/error.h"
#include "tools/shuffle/output_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A run that ends may take the folder away so often while this one starts. */
#define OUTPUT_FOLDER_TRIES 100u

void output_name_temporary(output_name_t name, uint32_t partition)
{
    snprintf(name, sizeof(output_name_t), ".part-%05u.tmp", partition);
}

static void output_name_final(output_name_t name, uint32_t partition)
{
    snprintf(name, sizeof(output_name_t), "part-%05u", partition);
}

/* A run that fails at the same time may remove the folder. */
static int output_folder_try(output_folder_t *folder)
{
    int result;

    folder->claim.fd = -1;
    folder->created  = mkdir(folder->path, 0777) == 0;
    if (!folder->created && (errno != EEXIST)) {
        return say_error("cannot create output folder '%s': %s", folder->path,
                         strerror(errno));
    }
    folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0) {
        return errno == ENOENT ? 1
                               : say_error("cannot open output folder '%s': %s",
                                           folder->path, strerror(errno));
    }
    if (faccessat(folder->fd, ".", W_OK | X_OK, AT_EACCESS) != 0) {
        result = say_error("cannot write into output folder '%s': %s",
                           folder->path, strerror(errno));
    } else {
        result = claim_take(&folder->claim, folder->fd, folder->path,
                            folder->id, folder->created);
    }
    if (result != 0) {
        close(folder->fd);
        if (folder->created) {
            rmdir(folder->path);
        }
    }
    return result;
}

int output_folder_open(output_folder_t *folder, const char *path,
                       const claim_id_t id)
{
    int result;

    memset(folder, 0, sizeof(*folder));
    folder->path = path;
    memcpy(folder->id, id, sizeof(folder->id));
    for (unsigned i = 0; i < OUTPUT_FOLDER_TRIES; i++) {
        result = output_folder_try(folder);
        if (result <= 0) {
            return result;
        }
    }
    return say_error("output folder '%s' is removed again and again: name "
                     "another with -o",
                     path);
}

int output_folder_join(output_folder_t *folder)
{
    close(folder->claim.fd);
    return claim_take(&folder->claim, folder->fd, folder->path, folder->id,
                      false) == 0
               ? 0
               : -1;
}

void output_folder_close(output_folder_t *folder)
{
    if (claim_drop(&folder->claim, folder->fd) && folder->is_discarded) {
        rmdir(folder->path);
    }
    close(folder->fd);
    folder->fd = -1;
}

/* --- the files ---------------------------------------------------------- */

/* Whether the final name is that of the file with the temporary one. */
static bool output_is_named(const output_folder_t *folder,
                            const char *temporary, const char *final)
{
    struct stat own;
    struct stat named;

    return (fstatat(folder->fd, temporary, &own, AT_SYMLINK_NOFOLLOW) == 0) &&
           (fstatat(folder->fd, final, &named, AT_SYMLINK_NOFOLLOW) == 0) &&
           (own.st_dev == named.st_dev) && (own.st_ino == named.st_ino);
}

/* Neither call takes a name away from another file. */
static int output_name(const output_folder_t *folder, uint32_t partition)
{
    output_name_t temporary;
    output_name_t final;

    output_name_temporary(temporary, partition);
    output_name_final(final, partition);
    if (linkat(folder->fd, temporary, folder->fd, final, 0) == 0) {
        return 0;
    }
    /* A file system without hard links. */
    if (((errno == EPERM) || (errno == EOPNOTSUPP) || (errno == ENOSYS) ||
         (errno == EMLINK)) &&
        (renameat2(folder->fd, temporary, folder->fd, final,
                   RENAME_NOREPLACE) == 0)) {
        return 0;
    }
    return say_error("cannot name '%s/%s' '%s': %s", folder->path, temporary,
                     final, strerror(errno));
}

/* The name was given by output_name(). */
static void output_take_name(const output_folder_t *folder, uint32_t partition)
{
    output_name_t temporary;
    output_name_t final;

    output_name_temporary(temporary, partition);
    output_name_final(final, partition);
    if (output_is_named(folder, temporary, final)) {
        unlinkat(folder->fd, final, 0);
    } else {
        renameat2(folder->fd, final, folder->fd, temporary, RENAME_NOREPLACE);
    }
}

int output_commit(const output_folder_t *folder, const output_set_t *set)
{
    output_set_t named = *set;

    for (uint32_t i = set->first; i < set->num; i += set->step) {
        if (output_name(folder, i) != 0) {
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
        output_take_name(folder, i);
    }
}

void output_settle(const output_folder_t *folder, const output_set_t *set)
{
    output_name_t name;

    for (uint32_t i = set->first; i < set->num; i += set->step) {
        output_name_temporary(name, i);
        unlinkat(folder->fd, name, 0);
    }
}

void output_discard(output_folder_t *folder, const output_set_t *set)
{
    output_name_t temporary;
    output_name_t final;

    for (uint32_t i = set->first; i < set->num; i += set->step) {
        output_name_temporary(temporary, i);
        output_name_final(final, i);
        if (output_is_named(folder, temporary, final)) {
            unlinkat(folder->fd, final, 0);
        }
        unlinkat(folder->fd, temporary, 0);
    }
    folder->is_discarded = true;
}
