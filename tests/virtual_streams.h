/*
 * Streams that run only when the test steps them. Their work uses memory.
 * Posted work is checked: work that uses the same bytes as earlier work must be
 * ordered after it, by the stream, by a fence for which the stream waits, or
 * because the host has observed that the earlier work is complete. It is not
 * enough that the earlier work happens to be complete. After a violation, the
 * process prints a message and calls abort().
 *
 * A stream is created at its first use. There may be at most 64 streams. The
 * functions are not thread-safe.
 */
#ifndef TESTS_VIRTUAL_STREAMS_H
#define TESTS_VIRTUAL_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct virtual_streams virtual_streams_t;
typedef struct virtual_fence   virtual_fence_t;

/* Bytes that work uses: their identity, and the addresses that access them. */
typedef struct virtual_use {
    uint64_t    start; /* any number that identifies the first byte */
    const char *address;
    size_t      size;
} virtual_use_t;

virtual_streams_t *virtual_streams_create(void);
/* All fences must have been put. Pending work is dropped. */
void virtual_streams_destroy(virtual_streams_t *streams);

/* Post work. The function `work`, if not NULL, is called when the stream
 * executes the work. */
void virtual_streams_post(virtual_streams_t *streams, void *stream,
                          const virtual_use_t *uses, unsigned num_uses,
                          void (*work)(void *arg), void      *arg);

/* Execute the next operations of a stream. Returns their number, which is less
 * than `num` if no operation is left or the stream waits for another stream. */
unsigned virtual_streams_run(virtual_streams_t *streams, void *stream,
                             unsigned num);
/* Execute all operations of all streams. */
void virtual_streams_run_all(virtual_streams_t *streams);

/* Wait for a stream. Afterwards all its operations are complete, and the host
 * has observed this. */
void virtual_streams_sync(virtual_streams_t *streams, void *stream);

virtual_fence_t *virtual_fence_set(virtual_streams_t *streams, void *stream);
/* If this function returns true, the host has observed the completion. */
bool virtual_fence_is_reached(virtual_streams_t *streams,
                              virtual_fence_t   *fence);
void virtual_fence_wait(virtual_streams_t *streams, virtual_fence_t *fence,
                        void *stream);
void virtual_fence_sync(virtual_streams_t *streams, virtual_fence_t *fence);
void virtual_fence_put(virtual_streams_t *streams, virtual_fence_t *fence);

/* Returns true if, as far as the host has observed, work that uses these
 * addresses may be running. */
bool virtual_streams_may_use(const virtual_streams_t *streams,
                             const void *address, size_t size);

#endif
