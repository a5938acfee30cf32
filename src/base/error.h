/*
 * Errors: the first function that knows a cause says it, everyone else only
 * returns the status.
 *
 * A caller who is returned an error decides what to say of it, so the log has
 * it at level `info` only. What nobody is returned is a warning: progress and
 * functions without a result are bracketed by base_error_log_at().
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <ucxpool/status.h>

#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Bytes of the longest sentence that is kept, its final 0 included. */
#define BASE_ERROR_SIZE 512

/*
 * Record what failed as the calling thread's last error, log it at the thread's
 * level, and return status: `return base_error(UCXPOOL_ERR_IO, "...")`.
 */
ucxpool_status_t base_error(ucxpool_status_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for the system's errno: its text and a status that fits it. */
ucxpool_status_t base_error_errno(int error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * The detail of an error, for those who look later: `reason`, or that there is
 * none where it is NULL or empty, as a peer's may be. "" for what is no error.
 * Control characters are replaced. `text` may be `reason`.
 */
void base_error_detail(char *text, size_t text_size, ucxpool_status_t status,
                       const char *reason);

/* Does a caller's pointer fail that must be there? Then that is the error:
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

/* Fill a struct of the caller, who may have been built with another version of
 * the header: what the struct has no room for is left out, what we do not know
 * is 0. */
static inline void base_output(void *output, size_t output_size,
                               const void *value, size_t value_size)
{
    size_t size = (output_size < value_size) ? output_size : value_size;

    memcpy(output, value, size);
    memset((char *)output + size, 0, output_size - size);
}

/*
 * The level at which the calling thread's errors are logged from now on: `warn`
 * for those that nobody is returned, `debug` for what is only asked and may
 * well be answered by an error. Returns the level that it was, to be put back.
 */
base_log_level_t base_error_log_at(base_log_level_t level);

#endif
