#include <config.h>

#include "heap/log.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HEADER "Thread,Time,Action,Pointer,Size,Stream\n"

/* Maximum number of logs that may use the same path at one time. */
#define MAX_LOGS 1000

struct heap_log {
    int  fd;
    bool is_over; /* atomic: a write failed */
};

/* Open and lock a file. Returns 0 or an errno value; EWOULDBLOCK if another log
 * has the lock. */
static int open_log(const char *path, int *fd_p)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    int error;

    if (fd < 0) {
        return errno;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        error = errno;
        close(fd);
        return error;
    }
    *fd_p = fd;
    return 0;
}

/* Open the first of path, path.1, path.2 ... that is not locked. */
static int open_free(const char *path, int *fd_p)
{
    char where[PATH_MAX];
    int  error = open_log(path, fd_p);

    for (unsigned i = 1; (i < MAX_LOGS) && (error == EWOULDBLOCK); i++) {
        if (snprintf(where, sizeof(where), "%s.%u", path, i) >= PATH_MAX) {
            return ENAMETOOLONG;
        }
        error = open_log(where, fd_p);
    }
    return error;
}

/* Truncate a file. Does nothing for pipes and terminals. */
static int empty(int fd)
{
    struct stat is;

    if (fstat(fd, &is) != 0) {
        return errno;
    }
    return S_ISREG(is.st_mode) && (ftruncate(fd, 0) != 0) ? errno : 0;
}

/* Write a line at once, so that it is not lost if the process crashes. Each
 * line is written with one system call, so that lines of different threads do
 * not interleave. */
static void write_line(heap_log_t *log, const char *line, size_t length)
{
    while (length > 0) {
        ssize_t written = write(log->fd, line, length);

        if (written >= 0) {
            line += written;
            length -= (size_t)written;
        } else if (errno != EINTR) {
            if (!__atomic_exchange_n(&log->is_over, true, __ATOMIC_RELAXED)) {
                base_warn("cannot write UCXPOOL_HEAP_LOG: %s; the heap log is "
                          "incomplete",
                          strerror(errno));
            }
            return;
        }
    }
}

ucxpool_status_t heap_log_create(const char *path, heap_log_t **log_p)
{
    heap_log_t *log = calloc(1, sizeof(*log));
    int         error;

    if (log == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for the heap log");
    }
    error = open_free(path, &log->fd);
    if (error != 0) {
        goto err_free;
    }
    error = empty(log->fd);
    if (error != 0) {
        goto err_close;
    }
    write_line(log, HEADER, sizeof(HEADER) - 1);
    *log_p = log;
    return UCXPOOL_OK;

err_close:
    close(log->fd);
err_free:
    free(log);
    return base_error(
        UCXPOOL_ERR_INVALID_PARAM,
        "cannot write UCXPOOL_HEAP_LOG=%s: %s; set it to a writable file", path,
        strerror(error));
}

void heap_log_destroy(heap_log_t *log)
{
    if (log != NULL) {
        close(log->fd);
        free(log);
    }
}

/* Format a pointer. `null` is the text for NULL, which printf() and C++ streams
 * print differently. */
static void format_pointer(const void *pointer, const char *null, char *text,
                           size_t text_size)
{
    if (pointer == NULL) {
        snprintf(text, text_size, "%s", null);
    } else {
        snprintf(text, text_size, "%p", pointer);
    }
}

void heap_log_line(heap_log_t *log, heap_log_action_t action,
                   const void *address, size_t size, const void *stream)
{
    static const char *const words[] = {
        [HEAP_LOG_ALLOC]   = "allocate",
        [HEAP_LOG_FREE]    = "free",
        [HEAP_LOG_FAILURE] = "allocate failure",
    };
    char            pointer[24], name[24], clock[16], line[192];
    struct timespec now;
    struct tm       local;
    int             length;

    if (__atomic_load_n(&log->is_over, __ATOMIC_RELAXED)) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(clock, sizeof(clock), "%H:%M:%S", &local);
    format_pointer(address, "(nil)", pointer, sizeof(pointer));
    format_pointer(stream, "0", name, sizeof(name));
    length = snprintf(line, sizeof(line), "%d,%s.%06ld,%s,%s,%zu,%s\n",
                      (int)gettid(), clock, now.tv_nsec / 1000, words[action],
                      pointer, size, name);
    write_line(log, line, (size_t)length);
}
