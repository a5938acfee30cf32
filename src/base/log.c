#include <config.h>

#include "base/log.h"

#include "base/math.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Bytes of the longest line, with its end. */
#define LINE_SIZE 1024

static _Atomic unsigned log_level = BASE_LOG_WARN;

static const char *const level_names[] = {
    [BASE_LOG_NONE] = "NONE",   [BASE_LOG_ERROR] = "ERROR",
    [BASE_LOG_WARN] = "WARN",   [BASE_LOG_INFO] = "INFO",
    [BASE_LOG_DEBUG] = "DEBUG", [BASE_LOG_TRACE] = "TRACE",
};

void base_log_set_level(base_log_level_t level)
{
    atomic_store_explicit(&log_level, level, memory_order_relaxed);
}

base_log_level_t base_log_get_level(void)
{
    return (base_log_level_t)atomic_load_explicit(&log_level,
                                                  memory_order_relaxed);
}

/* A line goes out in one write, so that those of several threads and processes
 * on one terminal do not mix. What cannot be written is lost. */
static void write_line(const char *line, size_t length)
{
    ssize_t written;

    do {
        written = write(STDERR_FILENO, line, length);
    } while ((written < 0) && (errno == EINTR));
}

void base_log_write(base_log_level_t level, const char *format, ...)
{
    int     saved_errno = errno;
    char    line[LINE_SIZE];
    size_t  length;
    va_list args;

    snprintf(line, sizeof(line), "ucxpool[%d] %s: ", (int)getpid(),
             level_names[level]);
    length = strlen(line);

    va_start(args, format);
    /* One byte is kept back for the end of the line. */
    vsnprintf(line + length, sizeof(line) - 1 - length, format, args);
    va_end(args);

    base_text_clean(line);
    length         = strlen(line);
    line[length++] = '\n';
    write_line(line, length);
    errno = saved_errno;
}
