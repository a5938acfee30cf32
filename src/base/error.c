#include <config.h>

#include "base/error.h"

#include "base/text.h"

#include <ucxpool/private.h>
#include <ucxpool/version.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* --- statuses ------------------------------------------------------------- */

static const char *const names[] = {
    [-UCXPOOL_OK]                 = "success",
    [-UCXPOOL_ERR_INVALID_PARAM]  = "invalid parameter",
    [-UCXPOOL_ERR_NO_MEMORY]      = "out of memory",
    [-UCXPOOL_ERR_NO_BLOCKS]      = "no free blocks",
    [-UCXPOOL_ERR_UNSUPPORTED]    = "not supported",
    [-UCXPOOL_ERR_IO]             = "input/output error",
    [-UCXPOOL_ERR_CANCELED]       = "canceled",
    [-UCXPOOL_ERR_TIMED_OUT]      = "timed out",
    [-UCXPOOL_ERR_PEER_LOST]      = "peer lost",
    [-UCXPOOL_ERR_REFUSED]        = "refused by the peer",
    [-UCXPOOL_ERR_TRUNCATED]      = "message truncated",
    [-UCXPOOL_ERR_NO_MESSAGE]     = "no message",
    [-UCXPOOL_ERR_BUSY]           = "busy",
    [-UCXPOOL_ERR_PERMISSION]     = "permission denied",
    [-UCXPOOL_ERR_PROTOCOL]       = "protocol error",
    [-UCXPOOL_ERR_CHECKSUM]       = "checksum error",
    [-UCXPOOL_ERR_ADDRESS_IN_USE] = "address in use",
    [-UCXPOOL_ERR_CLOSED]         = "closed",
    [-UCXPOOL_ERR_LIMIT]          = "over a limit",
};

#define NUM_NAMES ((int)(sizeof(names) / sizeof(names[0])))

const char *ucxpool_status_string(ucxpool_status_t status)
{
    int index = -(int)status;

    if (status == UCXPOOL_INPROGRESS) {
        return "in progress";
    }
    if ((index < 0) || (index >= NUM_NAMES)) {
        return "unknown status";
    }
    return names[index];
}

unsigned ucxpool_version(void)
{
    return UCXPOOL_VERSION;
}

const char *ucxpool_version_string(void)
{
    return PACKAGE_VERSION;
}

/* --- errors --------------------------------------------------------------- */

static _Thread_local char last_error[BASE_ERROR_SIZE];
/* Every round of progress sets the level. The initial-exec model avoids a
 * function call for each access. */
static _Thread_local base_log_level_t log_level
    __attribute__((tls_model("initial-exec"))) = BASE_LOG_INFO;

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

/* Clean `text` and store it as the last error. `text` must not be
 * last_error. */
static void set_last_error(char *text)
{
    base_text_clean(text);
    memcpy(last_error, text, strlen(text) + 1);
    base_log(log_level, "%s", last_error);
}

static void set_error(const char *format, va_list args)
{
    int  saved_errno = errno;
    char text[BASE_ERROR_SIZE];

    vsnprintf(text, sizeof(text), format, args);
    set_last_error(text);
    errno = saved_errno;
}

ucxpool_status_t base_error(ucxpool_status_t status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    set_error(format, args);
    va_end(args);
    return status;
}

ucxpool_status_t ucxpool_error_set(ucxpool_status_t status, const char *format,
                                   ...)
{
    va_list args;

    va_start(args, format);
    set_error(format, args);
    va_end(args);
    return status;
}

_Static_assert(((int)UCXPOOL_ERROR_LEVEL_WARN == (int)BASE_LOG_WARN) &&
                   ((int)UCXPOOL_ERROR_LEVEL_INFO == (int)BASE_LOG_INFO) &&
                   ((int)UCXPOOL_ERROR_LEVEL_DEBUG == (int)BASE_LOG_DEBUG),
               "error levels equal log levels");

ucxpool_error_level_t ucxpool_error_set_level(ucxpool_error_level_t level)
{
    return (ucxpool_error_level_t)base_error_log_at((base_log_level_t)level);
}

void base_error_detail(char *text, size_t text_size, ucxpool_status_t status,
                       const char *reason)
{
    if (status >= UCXPOOL_OK) {
        text[0] = '\0';
    } else if ((reason == NULL) || (reason[0] == '\0')) {
        snprintf(text, text_size, "%s; no reason was given",
                 ucxpool_status_string(status));
    } else if (reason != text) {
        snprintf(text, text_size, "%s", reason);
    }
    base_text_clean(text);
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

const char *base_errno_remedy(int error)
{
    switch (error) {
    case EMFILE:
        return "; raise the limit of open files (ulimit -n)";
    case ENFILE:
        return "; raise fs.file-max";
    default:
        return "";
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
    snprintf(text + length, sizeof(text) - length, ": %s%s",
             strerror_r(error, reason, sizeof(reason)),
             base_errno_remedy(error));
    set_last_error(text);
    errno = saved_errno;
    return errno_status(error);
}
