/*
 * Error reporting. The first function that knows the cause of an error records
 * it. The callers of that function only return the status.
 *
 * An error that is returned to the caller is logged at level `info` only,
 * because the caller decides whether to report it. Errors that no caller can
 * see are logged as warnings: progress and functions that return void set the
 * level with base_error_log_at().
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <ucxpool/status.h>

#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Longest error text in bytes, including the terminating NUL. */
#define BASE_ERROR_SIZE 512

/*
 * Record what failed as the calling thread's last error, and log it at the
 * thread's level. Returns `status`: `return base_error(UCXPOOL_ERR_IO, "...")`.
 */
ucxpool_status_t base_error(ucxpool_status_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns the remedy for an errno value, as "; raise ..." to append to an
 * error, or "". */
const char *base_errno_remedy(int error);

/* Like base_error(), for an errno value. Appends the text and the remedy of the
 * errno value, and returns the matching status. */
ucxpool_status_t base_error_errno(int error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Store `reason` in `text` as the detail of an error for later use. If `reason`
 * is NULL or empty, for example because a peer sent an empty text, stores a
 * generic text. Stores "" if `status` is not an error. Replaces control
 * characters. `text` may be `reason`.
 */
void base_error_detail(char *text, size_t text_size, ucxpool_status_t status,
                       const char *reason);

/* Returns true and records an error if a pointer argument is NULL:
 * `if (base_missing(pool)) { return UCXPOOL_ERR_INVALID_PARAM; }` */
#define base_missing(_pointer) \
    base_error_is_missing(_pointer, __func__, #_pointer)

void base_error_missing(const char *function, const char *name);

static inline bool base_error_is_missing(const void *pointer,
                                         const char *function, const char *name)
{
    if (__builtin_expect(pointer != NULL, 1)) {
        return false;
    }
    base_error_missing(function, name);
    return true;
}

/* Copy a struct to a caller that may have been built with another version of
 * the header. Members beyond the caller's size are not copied. Members that
 * this version does not know become 0. */
static inline void base_output(void *output, size_t output_size,
                               const void *value, size_t value_size)
{
    size_t size = (output_size < value_size) ? output_size : value_size;

    memcpy(output, value, size);
    memset((char *)output + size, 0, output_size - size);
}

/*
 * Set the level at which the calling thread's errors are logged: `warn` for
 * errors that no caller can see, `debug` for probes that are expected to fail.
 * Returns the previous level, which the caller restores.
 */
base_log_level_t base_error_log_at(base_log_level_t level);

/* Execute a statement, and log its errors at this level. */
#define base_error_do_at(_level, _statement) \
    do { \
        base_log_level_t _before = base_error_log_at(_level); \
        _statement; \
        base_error_log_at(_before); \
    } while (0)

#endif
