/*
 * The log contains the library's diagnostic messages. Messages up to the
 * level of the setting LOG_LEVEL (default: warn) are written to stderr, one per
 * line, unless the program sets a handler.
 */
#ifndef UCXPOOL_LOG_H
#define UCXPOOL_LOG_H

#include <ucxpool/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum ucxpool_log_level {
    UCXPOOL_LOG_NONE  = 0, /* log nothing; no message has this level */
    UCXPOOL_LOG_ERROR = 1, /* reserved: no message has this level yet */
    UCXPOOL_LOG_WARN  = 2, /* a failure that no call reports */
    UCXPOOL_LOG_INFO  = 3, /* errors that calls return; choices that
                              the library made */
    UCXPOOL_LOG_DEBUG = 4,
    UCXPOOL_LOG_TRACE = 5
} ucxpool_log_level_t;

/*
 * Called for each message that the level allows, in the thread that logs it.
 * Several threads may call it at the same time. The handler is also called in a
 * forked child.
 *
 * The thread may hold locks of a pool, so the handler must not call the
 * library. The handler must not wait for a thread that may be in the library or
 * may be waiting for the library. Nor must it take a lock that such a thread
 * may hold (for example Python's GIL). A safe handler stores the message for
 * another thread and returns.
 *
 * level    Never UCXPOOL_LOG_NONE.
 * message  One line of less than 1024 bytes, without a newline or other control
 *          characters; valid until the handler returns.
 * arg      As passed to ucxpool_log_set_handler().
 */
typedef void (*ucxpool_log_handler_t)(ucxpool_log_level_t level,
                                      const char *message, void *arg);

/*
 * Pass the log messages of this process to a handler instead of writing them to
 * stderr. May be called from any thread, at any time.
 *
 * handler  NULL: write to stderr again.
 * arg      Passed to the handler; the library does not read it. When this
 *          function returns, other threads may still be in the previous
 *          handler, or about to call it. So do not free the data to which the
 *          previous arg points.
 *
 * UCXPOOL_ERR_NO_MEMORY  out of memory; the previous handler stays set
 */
ucxpool_status_t ucxpool_log_set_handler(ucxpool_log_handler_t handler,
                                         void                 *arg);

/*
 * Set the level of the log for all pools of this process. If a pool is created
 * later, the level changes to LOG_LEVEL of the pool's settings. Until the first
 * pool is created or this function is called, the level is taken from the
 * environment variable UCXPOOL_LOG_LEVEL whenever settings are read
 * (ucxpool_config_read()). Before that, it is UCXPOOL_LOG_WARN.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such level; the level is unchanged
 */
ucxpool_status_t ucxpool_log_set_level(ucxpool_log_level_t level);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
