#include "base/log.h"

#include "base/error.h"
#include "base/text.h"

#include <ucxpool/log.h>

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Longest message in bytes, including the terminating NUL. */
#define MESSAGE_SIZE 1024

/* Value of log_level until a pool or the application sets a level. */
#define UNSET UINT_MAX

static _Atomic unsigned log_level     = UNSET;
static _Atomic unsigned initial_level = BASE_LOG_WARN;

static const char *const level_names[] = {
    [BASE_LOG_NONE] = "NONE",   [BASE_LOG_ERROR] = "ERROR",
    [BASE_LOG_WARN] = "WARN",   [BASE_LOG_INFO] = "INFO",
    [BASE_LOG_DEBUG] = "DEBUG", [BASE_LOG_TRACE] = "TRACE",
};

void base_log_set_level(base_log_level_t level)
{
    atomic_store_explicit(&log_level, level, memory_order_relaxed);
}

void base_log_set_initial_level(base_log_level_t level)
{
    atomic_store_explicit(&initial_level, level, memory_order_relaxed);
}

base_log_level_t base_log_get_level(void)
{
    unsigned level = atomic_load_explicit(&log_level, memory_order_relaxed);

    if (level == UNSET) {
        level = atomic_load_explicit(&initial_level, memory_order_relaxed);
    }
    return (base_log_level_t)level;
}

_Static_assert(((int)UCXPOOL_LOG_NONE == (int)BASE_LOG_NONE) &&
                   ((int)UCXPOOL_LOG_ERROR == (int)BASE_LOG_ERROR) &&
                   ((int)UCXPOOL_LOG_WARN == (int)BASE_LOG_WARN) &&
                   ((int)UCXPOOL_LOG_INFO == (int)BASE_LOG_INFO) &&
                   ((int)UCXPOOL_LOG_DEBUG == (int)BASE_LOG_DEBUG) &&
                   ((int)UCXPOOL_LOG_TRACE == (int)BASE_LOG_TRACE),
               "public levels equal internal levels");

/* A handler in the list of all handlers; the last one is in use. Handlers are
 * never freed, because another thread may be about to call one. */
typedef struct receiver {
    ucxpool_log_handler_t handler; /* NULL: stderr */
    void                 *arg;
    struct receiver      *before;
} receiver_t;

static _Atomic(receiver_t *) last_receiver;

ucxpool_status_t ucxpool_log_set_handler(ucxpool_log_handler_t handler,
                                         void                 *arg)
{
    receiver_t *receiver = malloc(sizeof(*receiver));

    if (receiver == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for the log handler");
    }
    receiver->handler = handler;
    receiver->arg     = arg;
    receiver->before  = atomic_load(&last_receiver);
    while (!atomic_compare_exchange_weak(&last_receiver, &receiver->before,
                                         receiver)) {
    }
    return UCXPOOL_OK;
}

ucxpool_status_t ucxpool_log_set_level(ucxpool_log_level_t level)
{
    if ((unsigned)level > UCXPOOL_LOG_TRACE) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "invalid log level %d: pass one of UCXPOOL_LOG_*",
                          (int)level);
    }
    base_log_set_level((base_log_level_t)level);
    return UCXPOOL_OK;
}

/* Write a line with one system call, so that lines from several threads and
 * processes do not interleave on a terminal. A line that cannot be written is
 * lost. */
static void write_line(const char *line, size_t length)
{
    ssize_t written;

    do {
        written = write(STDERR_FILENO, line, length);
    } while ((written < 0) && (errno == EINTR));
}

static void write_message(base_log_level_t level, const char *message)
{
    char line[MESSAGE_SIZE + 64];
    int  length = snprintf(line, sizeof(line), "ucxpool[%d] %s: %s\n",
                           (int)getpid(), level_names[level], message);

    write_line(line, (size_t)length);
}

void base_log_write(base_log_level_t level, const char *format, ...)
{
    const receiver_t *receiver    = atomic_load(&last_receiver);
    int               saved_errno = errno;
    char              message[MESSAGE_SIZE];
    va_list           args;

    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    base_text_clean(message);
    if ((receiver != NULL) && (receiver->handler != NULL)) {
        receiver->handler((ucxpool_log_level_t)level, message, receiver->arg);
    } else {
        write_message(level, message);
    }
    errno = saved_errno;
}
