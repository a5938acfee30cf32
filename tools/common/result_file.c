#include <config.h>

#include "common/result_file.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void result_file_ask(result_file_t *file, const char *path)
{
    file->is_asked = true;
    file->path     = (path == NULL) || (strcmp(path, "-") == 0) ? NULL : path;
}

static int result_error(const result_file_t *file)
{
    return tool_error("%s %s: %s%s", file->option, file->path, strerror(errno),
                      (errno == ENOSPC) || (errno == EDQUOT) || (errno == EFBIG)
                          ? ": free some space, or name another file"
                          : "");
}

bool result_file_is(const result_file_t *file, const char *other)
{
    struct stat one, two;

    if ((file->path == NULL) || (other == NULL)) {
        return false;
    }
    if (stat(file->path, &one) != 0) {
        return strcmp(file->path, other) == 0;
    }
    return (stat(other, &two) == 0) && S_ISREG(one.st_mode) &&
           (one.st_dev == two.st_dev) && (one.st_ino == two.st_ino);
}

int result_file_try(const result_file_t *file)
{
    struct stat status;
    bool        is_link;
    int         fd;

    /* With SIGXFSZ ignored, write() fails at the file size limit. */
    signal(SIGXFSZ, SIG_IGN);
    if (file->path == NULL) {
        return 0;
    }
    if (stat(file->path, &status) == 0) {
        if (S_ISDIR(status.st_mode)) {
            errno = EISDIR;
            return result_error(file);
        }
        return access(file->path, W_OK) == 0 ? 0 : result_error(file);
    }
    is_link = lstat(file->path, &status) == 0;
    fd      = open(file->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) {
        return result_error(file);
    }
    close(fd);
    if (!is_link) {
        unlink(file->path);
    }
    return 0;
}

/* Close the stream. If is_good is false, the error has already been printed. */
static int result_end(const result_file_t *file, FILE *stream, bool is_good)
{
    struct stat status;
    bool        is_written = !ferror(stream) && (fflush(stream) == 0);

    /* The last write that failed has set errno. */
    is_written = (fclose(stream) == 0) && is_written;
    if (is_good && is_written) {
        return 0;
    }
    if (is_good) {
        result_error(file);
    }
    if ((lstat(file->path, &status) == 0) && S_ISREG(status.st_mode)) {
        unlink(file->path);
    }
    return -1;
}

int result_file_write(const result_file_t *file,
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
    stream = fopen(file->path, "we");
    return stream != NULL ? result_end(file, stream, print(run, stream) == 0)
                          : result_error(file);
}
