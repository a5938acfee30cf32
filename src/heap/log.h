/*
 * A log of what a heap is asked for, as RMM's logging adaptor writes one: a
 * line a call, which ucxpool_replay and RMM's own replay read.
 *
 *     Thread,Time,Action,Pointer,Size,Stream
 *     4711,10:15:30.123456,allocate,0x7f3c40000000,1048576,0
 *     4711,10:15:30.123460,free,0x7f3c40000000,1048576,0
 *     4711,10:15:30.123470,allocate failure,(nil),99999999999,0x55d0c0
 *
 * Lines stand in the order of the calls of heap_log_write(). So that an address
 * is never allocated twice in the log, write `allocate` behind the allocation,
 * and `free` before the address can be given to another thread.
 */
#ifndef HEAP_LOG_H
#define HEAP_LOG_H

#include <ucxpool/status.h>

#include <stddef.h>

typedef enum heap_log_action {
    HEAP_LOG_ALLOC,
    HEAP_LOG_FREE,
    HEAP_LOG_FAILURE /* of an allocation; it has no address */
} heap_log_action_t;

typedef struct heap_log heap_log_t;

/*
 * Begin a log in a file, which is emptied. Where another log is being written
 * there, by this process or another, the file is path.1, or path.2, and so on.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the file cannot be opened or written
 * UCXPOOL_ERR_NO_MEMORY      out of memory
 */
ucxpool_status_t heap_log_create(const char *path, heap_log_t **log_p);

/* Write out what is buffered, and end the log. NULL is allowed. */
void heap_log_destroy(heap_log_t *log);

void heap_log_line(heap_log_t *log, heap_log_action_t action,
                   const void *address, size_t size, const void *stream);

/* Write a line; nothing where there is no log (NULL). When the disk is full
 * that is told once, and the log ends there. Any thread may call it. */
static inline void heap_log_write(heap_log_t *log, heap_log_action_t action,
                                  const void *address, size_t size,
                                  const void *stream)
{
    if (__builtin_expect(log != NULL, 0)) {
        heap_log_line(log, action, address, size, stream);
    }
}

#endif
