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

/* Suffixes that promise what a file holds. */
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

static int result_check_suffix(const result_file_t *file, char *error)
{
    for (size_t i = 0; i < sizeof(result_promises) / sizeof(result_promises[0]);
         i++) {
        if (result_name_ends(file->path, result_promises[i]) &&
            (strstr(file->suffixes, result_promises[i]) == NULL)) {
            snprintf(error, RESULT_ERROR_SIZE,
                     "%s %s: this option does not write %s: give a name that "
                     "ends in %s",
                     file->option, file->path, result_promises[i] + 1,
                     file->suffixes);
            return 2;
        }
    }
    return 0;
}

static int result_say_error(const result_file_t *file, char *error)
{
    snprintf(error, RESULT_ERROR_SIZE, "%s %s: %s%s", file->option, file->path,
             strerror(errno),
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
    /* The file itself, not a link to it. */
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

/* An existing file is not changed; and the reader of a pipe would take a close
 * for the end. */
static int result_try(result_file_t *file, char *error)
{
    struct stat status;
    int         fd;

    file->inode = 0;
    if ((stat(file->path, &status) == 0) && !S_ISREG(status.st_mode) &&
        !S_ISDIR(status.st_mode)) {
        return access(file->path, W_OK) == 0 ? 0
                                             : result_say_error(file, error);
    }
    file->is_new = access(file->path, F_OK) != 0;
    fd = open(file->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    if (fd < 0) {
        return result_say_error(file, error);
    }
    if (fstat(fd, &status) == 0) {
        result_note(file, &status);
    }
    close(fd);
    return 0;
}

/* Devices and pipes may be named twice. */
static int result_check_other(const result_file_t *file, const char *what,
                              const struct stat *other, char *error)
{
    if ((file->inode == 0) || (other->st_dev != file->device) ||
        (other->st_ino != file->inode)) {
        return 0;
    }
    snprintf(error, RESULT_ERROR_SIZE, "%s %s: this is %s: name another file",
             file->option, file->path, what);
    return 2;
}

static int result_check_pair(const result_file_t *file,
                             const result_file_t *before, char *error)
{
    struct stat status = {0};
    char        what[64];

    if (before->path == NULL) {
        return 0;
    }
    snprintf(what, sizeof(what), "the file of %s", before->option);
    status.st_dev = before->device;
    status.st_ino = before->inode;
    return result_check_other(file, what, &status, error);
}

static int result_check(const result_file_t *files, unsigned index,
                        const result_other_t *others, unsigned num_others,
                        char *error)
{
    struct stat status;
    int         code = 0;

    for (unsigned i = 0; (i < index) && (code == 0); i++) {
        code = result_check_pair(&files[index], &files[i], error);
    }
    for (unsigned i = 0; (i < num_others) && (code == 0); i++) {
        if ((others[i].path != NULL) && (stat(others[i].path, &status) == 0)) {
            code = result_check_other(&files[index], others[i].what, &status,
                                      error);
        }
    }
    return code;
}

int result_files_try(result_file_t *files, unsigned num,
                     const result_other_t *others, unsigned num_others,
                     char error[RESULT_ERROR_SIZE])
{
    int code = 0;

    /* A file over the limit is an error of write(). */
    signal(SIGXFSZ, SIG_IGN);
    for (unsigned i = 0; (i < num) && (code == 0); i++) {
        if (files[i].path == NULL) {
            continue;
        }
        code = result_check_suffix(&files[i], error);
        if (code == 0) {
            code = result_try(&files[i], error);
        }
        if (code == 0) {
            code = result_check(files, i, others, num_others, error);
        }
    }
    for (unsigned i = 0; i < num; i++) {
        if (files[i].is_new) {
            result_remove(&files[i]);
        }
    }
    return code;
}

FILE *result_file_begin(result_file_t *file, char error[RESULT_ERROR_SIZE])
{
    FILE       *stream = fopen(file->path, "we");
    struct stat status;

    if (stream == NULL) {
        result_say_error(file, error);
    } else if (fstat(fileno(stream), &status) == 0) {
        result_note(file, &status);
    }
    return stream;
}

int result_file_end(result_file_t *file, FILE *stream, bool is_good,
                    char error[RESULT_ERROR_SIZE])
{
    int code = 0;

    /* What the last write that failed has said. */
    if (!is_good || ferror(stream) || (fflush(stream) != 0)) {
        code = -1;
    }
    if (is_good && (code != 0)) {
        result_say_error(file, error);
    }
    if ((fclose(stream) != 0) && (code == 0)) {
        result_say_error(file, error);
        code = -1;
    }
    if (code != 0) {
        result_remove(file);
    }
    return code;
}

int result_file_write(result_file_t *file,
                      int (*print)(const void *run, FILE *stream),
                      const void *run, FILE *output)
{
    char  error[RESULT_ERROR_SIZE];
    FILE *stream;
    bool  is_good;

    if (!file->is_asked) {
        return 0;
    }
    if (file->path == NULL) {
        if (print(run, output) != 0) {
            return -1;
        }
        return (fflush(output) == 0) && !ferror(output)
                   ? 0
                   : tool_error("standard output cannot be written");
    }
    stream = result_file_begin(file, error);
    if (stream == NULL) {
        return tool_error("%s", error);
    }
    is_good = print(run, stream) == 0;
    if (result_file_end(file, stream, is_good, error) != 0) {
        return is_good ? tool_error("%s", error) : -1;
    }
    return 0;
}
