#include <config.h>

#include "common/result_file.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* Suffixes that imply a format. */
static const char *const result_promises[] = {
    ".csv",  ".json", ".svg",  ".png",  ".pdf", ".ps", ".eps", ".jpg",
    ".jpeg", ".gif",  ".webp", ".html", ".xml", ".gz", ".xz",  ".zst"};

void result_file_ask(result_file_t *file, const char *path)
{
    file->is_asked = true;
    file->path     = (path == NULL) || (strcmp(path, "-") == 0) ? NULL : path;
}

bool result_name_ends(const char *path, const char *suffix)
{
    size_t length = strlen(path);

    return (length >= strlen(suffix)) &&
           (strcasecmp(path + length - strlen(suffix), suffix) == 0);
}

static int result_check_suffix(const result_file_t *file)
{
    for (size_t i = 0; i < sizeof(result_promises) / sizeof(result_promises[0]);
         i++) {
        if (result_name_ends(file->path, result_promises[i]) &&
            (strstr(file->suffixes, result_promises[i]) == NULL)) {
            tool_error("%s %s: this option does not write %s: give a name that "
                       "ends in %s",
                       file->option, file->path, result_promises[i] + 1,
                       file->suffixes);
            return 2;
        }
    }
    return 0;
}

/* Print the error of a result file. Returns the exit code. */
static int result_error(const result_file_t *file)
{
    tool_error("%s %s: %s%s", file->option, file->path, strerror(errno),
               (errno == ENOSPC) || (errno == EDQUOT) || (errno == EFBIG)
                   ? ": free some space, or name another file"
                   : "");
    return 1;
}

static void result_remove(const result_file_t *file)
{
    struct stat named;
    char       *path;

    if ((file->inode == 0) || (stat(file->path, &named) != 0) ||
        (named.st_dev != file->device) || (named.st_ino != file->inode)) {
        return;
    }
    /* Remove the file itself, not a link to it. */
    path = realpath(file->path, NULL);
    if (path != NULL) {
        unlink(path);
        free(path);
    }
}

static void result_note(result_file_t *file, const struct stat *status)
{
    if (S_ISREG(status->st_mode)) {
        file->device = status->st_dev;
        file->inode  = status->st_ino;
    }
}

/* Check that a file can be written. An existing file is not changed. A pipe is
 * not closed, because its reader would see an end of file. */
static int result_try(result_file_t *file)
{
    struct stat status;
    int         fd;

    file->inode = 0;
    if ((stat(file->path, &status) == 0) && !S_ISREG(status.st_mode) &&
        !S_ISDIR(status.st_mode)) {
        return access(file->path, W_OK) == 0 ? 0 : result_error(file);
    }
    file->is_new = access(file->path, F_OK) != 0;
    fd = open(file->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    if (fd < 0) {
        return result_error(file);
    }
    if (fstat(fd, &status) == 0) {
        result_note(file, &status);
    }
    close(fd);
    return 0;
}

/* Check a file against another one. Devices and pipes may be named twice. */
static int result_check_other(const result_file_t *file, const char *what,
                              const struct stat *other)
{
    if ((file->inode == 0) || (other->st_dev != file->device) ||
        (other->st_ino != file->inode)) {
        return 0;
    }
    tool_error("%s %s: this is %s: name another file", file->option, file->path,
               what);
    return 2;
}

static int result_check_pair(const result_file_t *file,
                             const result_file_t *before)
{
    struct stat status = {0};
    char        what[64];

    if (before->path == NULL) {
        return 0;
    }
    snprintf(what, sizeof(what), "the file of %s", before->option);
    status.st_dev = before->device;
    status.st_ino = before->inode;
    return result_check_other(file, what, &status);
}

static int result_check(const result_file_t *files, unsigned index,
                        const result_other_t *others, unsigned num_others)
{
    struct stat status;
    int         code = 0;

    for (unsigned i = 0; (i < index) && (code == 0); i++) {
        code = result_check_pair(&files[index], &files[i]);
    }
    for (unsigned i = 0; (i < num_others) && (code == 0); i++) {
        if ((others[i].path != NULL) && (stat(others[i].path, &status) == 0)) {
            code = result_check_other(&files[index], others[i].what, &status);
        }
    }
    return code;
}

int result_files_try(result_file_t *files, unsigned num,
                     const result_other_t *others, unsigned num_others)
{
    int code = 0;

    /* With SIGXFSZ ignored, write() fails at the file size limit. */
    signal(SIGXFSZ, SIG_IGN);
    for (unsigned i = 0; (i < num) && (code == 0); i++) {
        if (files[i].path == NULL) {
            continue;
        }
        code = result_check_suffix(&files[i]);
        if (code == 0) {
            code = result_try(&files[i]);
        }
        if (code == 0) {
            code = result_check(files, i, others, num_others);
        }
    }
    for (unsigned i = 0; i < num; i++) {
        if (files[i].is_new) {
            result_remove(&files[i]);
        }
    }
    return code != 0 ? code : -1;
}

static FILE *result_begin(result_file_t *file)
{
    FILE       *stream = fopen(file->path, "we");
    struct stat status;

    if (stream == NULL) {
        result_error(file);
    } else if (fstat(fileno(stream), &status) == 0) {
        result_note(file, &status);
    }
    return stream;
}

/* Close the stream. If is_good is false, the error has already been printed. */
static int result_end(result_file_t *file, FILE *stream, bool is_good)
{
    /* The last write that failed has set errno. */
    bool is_written = !ferror(stream) && (fflush(stream) == 0);

    if (is_good && !is_written) {
        result_error(file);
    }
    if ((fclose(stream) != 0) && is_good && is_written) {
        result_error(file);
        is_written = false;
    }
    if (!is_good || !is_written) {
        result_remove(file);
        return -1;
    }
    return 0;
}

int result_file_write(result_file_t *file,
                      int (*print)(const void *run, FILE *stream),
                      const void *run, FILE *output)
{
    FILE *stream;

    if (!file->is_asked) {
        return 0;
    }
    if (file->path == NULL) {
        if (print(run, output) != 0) {
            return -1;
        }
        return (fflush(output) == 0) && !ferror(output)
                   ? 0
                   : tool_error("standard output cannot be written: %s",
                                strerror(errno));
    }
    stream = result_begin(file);
    return stream != NULL ? result_end(file, stream, print(run, stream) == 0)
                          : -1;
}
