#include <config.h>

#include "base/error.h"

#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char             last_error[BASE_ERROR_SIZE];
static _Thread_local base_log_level_t log_level = BASE_LOG_INFO;

const char *ucxpool_error_detail(void)
{
    return last_error;
}

base_log_level_t base_error_log_at(base_log_level_t level)
{
    base_log_level_t before = log_level;

    log_level = level;
    return before;
}

/* The text is made aside first: its arguments may be the last error itself. */
static void set_last_error(char *text)
{
    base_text_clean(text);
    memcpy(last_error, text, strlen(text) + 1);
    base_log(log_level, "%s", last_error);
}

ucxpool_status_t base_error(ucxpool_status_t status, const char *format, ...)
{
    int     saved_errno = errno;
    char    text[BASE_ERROR_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);

    set_last_error(text);
    errno = saved_errno;
    return status;
}

void base_error_missing(const char *function, const char *name)
{
    (void)base_error(UCXPOOL_ERR_INVALID_PARAM, "%s(): %s is NULL", function,
                     name);
}

static ucxpool_status_t errno_status(int error)
{
    switch (error) {
    case ENOMEM:
        return UCXPOOL_ERR_NO_MEMORY;
    case EACCES:
    case EPERM:
        return UCXPOOL_ERR_PERMISSION;
    case EADDRINUSE:
        return UCXPOOL_ERR_ADDRESS_IN_USE;
    case ETIMEDOUT:
        return UCXPOOL_ERR_TIMED_OUT;
    case ENOSYS:
    case EOPNOTSUPP:
        return UCXPOOL_ERR_UNSUPPORTED;
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return UCXPOOL_ERR_PEER_LOST;
    default:
        return UCXPOOL_ERR_IO;
    }
}

ucxpool_status_t base_error_errno(int error, const char *format, ...)
{
    int     saved_errno = errno;
    char    text[BASE_ERROR_SIZE];
    char    reason[128];
    size_t  length;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);

    length = strlen(text);
    snprintf(text + length, sizeof(text) - length, ": %s",
             strerror_r(error, reason, sizeof(reason)));
    set_last_error(text);
    errno = saved_errno;
    return errno_status(error);
}
