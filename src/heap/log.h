/*
 * A log of the calls on a heap in the format of RMM's logging adaptor, one line
 * per call. ucxpool_replay and RMM's replay benchmark read it.
 *
 *     Thread,Time,Action,Pointer,Size,Stream
 *     4711,10:15:30.123456,allocate,0x7f3c40000000,1048576,0
 *     4711,10:15:30.123460,free,0x7f3c40000000,1048576,0
 *     4711,10:15:30.123470,allocate failure,(nil),99999999999,0x55d0c0
 *
 * Lines are in the order of the calls of heap_log_write(). So that the log
 * never shows an address allocated twice, log `allocate` after the allocation,
 * and `free` before the address becomes available to other threads.
 */
#ifndef HEAP_LOG_H
#define HEAP_LOG_H

#include <ucxpool/status.h>

#include <stddef.h>

typedef enum heap_log_action {
    HEAP_LOG_ALLOC,
    HEAP_LOG_FREE,
    HEAP_LOG_FAILURE /* failed allocation, without an address */
} heap_log_action_t;

typedef struct heap_log heap_log_t;

/*
 * Create a log and truncate its file. If another log uses the file, in this or
 * another process, path.1 is used, or path.2, and so on.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the file cannot be opened or written
 * UCXPOOL_ERR_NO_MEMORY      out of memory
 */
ucxpool_status_t heap_log_create(const char *path, heap_log_t **log_p);

/* Close the log. NULL is allowed. */
void heap_log_destroy(heap_log_t *log);

void heap_log_line(heap_log_t *log, heap_log_action_t action,
                   const void *address, size_t size, const void *stream);

/* Write a line; does nothing if `log` is NULL. If a write fails, logs one
 * warning and stops writing. Any thread may call this function. */
static inline void heap_log_write(heap_log_t *log, heap_log_action_t action,
                                  const void *address, size_t size,
                                  const void *stream)
{
    if (__builtin_expect(log != NULL, 0)) {
        heap_log_line(log, action, address, size, stream);
    }
}

#endif
