/*
 * The log: what the library has to say that no call returns. It is lines on
 * stderr, of the level that the setting LOG_LEVEL allows (default: warn), until
 * a program takes them itself.
 */
#ifndef UCXPOOL_LOG_H
#define UCXPOOL_LOG_H

#include <ucxpool/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum ucxpool_log_level {
    UCXPOOL_LOG_NONE  = 0, /* of no message; as a limit: nothing is logged */
    UCXPOOL_LOG_ERROR = 1, /* the program cannot go on as it wants to */
    UCXPOOL_LOG_WARN  = 2, /* something failed, and nobody is returned it */
    UCXPOOL_LOG_INFO  = 3, /* what calls return as errors; what was decided */
    UCXPOOL_LOG_DEBUG = 4,
    UCXPOOL_LOG_TRACE = 5
} ucxpool_log_level_t;

/*
 * Called for each message that the level allows, in the thread that has
 * something to say, in several at one time, and also in a forked child.
 *
 * Locks of a pool may be held. It therefore must not call the library, nor wait
 * for a thread that may be in the library or wait for it: it takes no lock that
 * such a thread holds (the GIL of Python, for one). It puts the message where
 * another finds it, and returns.
 *
 * level    Never UCXPOOL_LOG_NONE.
 * message  One line without its end, of less than 1024 bytes, without control
 *          characters; valid until the handler returns.
 * arg      What ucxpool_log_set_handler() was given.
 */
typedef void (*ucxpool_log_handler_t)(ucxpool_log_level_t level,
                                      const char *message, void *arg);

/*
 * Give the messages of this process to a handler, in place of stderr. From any
 * thread, at any time.
 *
 * handler  NULL: stderr again.
 * arg      The library does not look at it. Other threads may still be in the
 *          handler before when this returns, or just about to call it: what its
 *          arg points to stays.
 *
 * UCXPOOL_ERR_NO_MEMORY  out of memory; the handler before stays
 */
ucxpool_status_t ucxpool_log_set_handler(ucxpool_log_handler_t handler,
                                         void                 *arg);

/*
 * Set the level from here on, for all pools of this process. A pool that is
 * created sets that of its settings. Before either, what ucxpool_config_read()
 * finds in the environment counts.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such level; nothing was changed
 */
ucxpool_status_t ucxpool_log_set_level(ucxpool_log_level_t level);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
