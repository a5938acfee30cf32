/*
 * Errors: the first function that knows a cause says it, everyone else only
 * returns the status.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <ucxpool/status.h>

#include "base/log.h"

/* Bytes of the longest sentence that is kept, its final 0 included. */
#define BASE_ERROR_SIZE 512

/*
 * Record what failed as the calling thread's last error, log it at level
 * `warn`, and return status: `return base_error(UCXPOOL_ERR_IO, "...")`.
 */
ucxpool_status_t base_error(ucxpool_status_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for the system's errno: its text and a status that fits it. */
ucxpool_status_t base_error_errno(int error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * The level at which the calling thread's errors are logged from now on, for
 * what is only asked and may well be answered by an error. Returns the level
 * that it was, to be put back.
 */
base_log_level_t base_error_log_at(base_log_level_t level);

#endif
