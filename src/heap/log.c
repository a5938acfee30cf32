#include <config.h>

#include "heap/log.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
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

/* LINE_SIZE exceeds the length of any line. BUFFER_SIZE is the size of the
 * buffer. */
#define LINE_SIZE   192
#define BUFFER_SIZE ((size_t)64 << 10)

struct heap_log {
    pthread_mutex_t mutex; /* protects all members below */
    int             fd;
    bool            is_over; /* a write failed */
    time_t          second;  /* the second that clock[] shows */
    char            clock[16];
    size_t          num_bytes; /* bytes in the buffer */
    char            path[PATH_MAX];
    char            buffer[BUFFER_SIZE];
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
static int open_free(const char *path, heap_log_t *log)
{
    int error = EWOULDBLOCK;
    int length;

    for (unsigned i = 0; (i < MAX_LOGS) && (error == EWOULDBLOCK); i++) {
        length = i == 0
                     ? snprintf(log->path, sizeof(log->path), "%s", path)
                     : snprintf(log->path, sizeof(log->path), "%s.%u", path, i);
        if ((length < 0) || ((size_t)length >= sizeof(log->path))) {
            return ENAMETOOLONG;
        }
        error = open_log(log->path, &log->fd);
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

static void write_out(heap_log_t *log)
{
    const char *bytes = log->buffer;
    size_t      left  = log->num_bytes;

    while (!log->is_over && (left > 0)) {
        ssize_t written = write(log->fd, bytes, left);

        if (written >= 0) {
            bytes += written;
            left -= (size_t)written;
        } else if (errno != EINTR) {
            log->is_over = true;
            base_warn("cannot write %s: %s; the heap log is incomplete",
                      log->path, strerror(errno));
        }
    }
    log->num_bytes = 0;
}

ucxpool_status_t heap_log_create(const char *path, heap_log_t **log_p)
{
    heap_log_t *log = calloc(1, sizeof(*log));
    int         error;

    if (log == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for the heap log");
    }
    error = open_free(path, log);
    if (error != 0) {
        goto err_free;
    }
    error = empty(log->fd);
    if (error != 0) {
        goto err_close;
    }
    pthread_mutex_init(&log->mutex, NULL);
    log->second = -1;
    memcpy(log->buffer, HEADER, sizeof(HEADER) - 1);
    log->num_bytes = sizeof(HEADER) - 1;
    *log_p         = log;
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
        write_out(log);
        close(log->fd);
        pthread_mutex_destroy(&log->mutex);
        free(log);
    }
}

/* Format the time of day if the second has changed. */
static void update_clock(heap_log_t *log, time_t second)
{
    struct tm local;

    if (second != log->second) {
        log->second = second;
        localtime_r(&second, &local);
        strftime(log->clock, sizeof(log->clock), "%H:%M:%S", &local);
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

/* Add a line: thread, time and the call. */
static void add_line(heap_log_t *log, const char *call)
{
    struct timespec now;
    int             length;

    clock_gettime(CLOCK_REALTIME, &now);
    update_clock(log, now.tv_sec);
    length =
        snprintf(log->buffer + log->num_bytes, LINE_SIZE, "%d,%s.%06ld,%s\n",
                 (int)gettid(), log->clock, now.tv_nsec / 1000, call);
    log->num_bytes += (size_t)length;
}

void heap_log_line(heap_log_t *log, heap_log_action_t action,
                   const void *address, size_t size, const void *stream)
{
    static const char *const words[] = {
        [HEAP_LOG_ALLOC]   = "allocate",
        [HEAP_LOG_FREE]    = "free",
        [HEAP_LOG_FAILURE] = "allocate failure",
    };
    char pointer[24], name[24], call[LINE_SIZE / 2];

    format_pointer(address, "(nil)", pointer, sizeof(pointer));
    format_pointer(stream, "0", name, sizeof(name));
    snprintf(call, sizeof(call), "%s,%s,%zu,%s", words[action], pointer, size,
             name);
    pthread_mutex_lock(&log->mutex);
    if (!log->is_over) {
        if (log->num_bytes + LINE_SIZE > BUFFER_SIZE) {
            write_out(log);
        }
        add_line(log, call);
    }
    pthread_mutex_unlock(&log->mutex);
}
