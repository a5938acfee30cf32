/*
 * Streams that run only when the test steps them, in which work uses memory.
 * Posted work is checked: work that uses the same bytes as other work must be
 * ordered after it, by its stream, by a fence that its stream waits for, or
 * because the host has observed the completion of the other. It is not enough
 * that the other happens to be complete. Any violation ends the process by
 * abort(), with a message.
 *
 * Streams are created when they are first named, 64 at most. Not thread-safe.
 */
#ifndef TESTS_VIRTUAL_STREAMS_H
#define TESTS_VIRTUAL_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct virtual_streams virtual_streams_t;
typedef struct virtual_fence   virtual_fence_t;

/* Bytes used by work: their location, and the addresses that access them. */
typedef struct virtual_use {
    uint64_t    start; /* any number that identifies the first byte */
    const char *address;
    size_t      size;
} virtual_use_t;

virtual_streams_t *virtual_streams_create(void);
/* All fences have been put. Pending work is dropped. */
void virtual_streams_destroy(virtual_streams_t *streams);

/* Post work; `work`, if any, is called when the stream executes it. */
void virtual_streams_post(virtual_streams_t *streams, void *stream,
                          const virtual_use_t *uses, unsigned num_uses,
                          void (*work)(void *arg), void      *arg);

/* Execute the next operations of a stream; returns how many. Fewer than
 * requested if the stream ends or waits for another. */
unsigned virtual_streams_run(virtual_streams_t *streams, void *stream,
                             unsigned num);
/* Execute all operations of all streams. */
void virtual_streams_run_all(virtual_streams_t *streams);

/* Wait for a stream: all its operations are complete, and observed to be. */
void virtual_streams_sync(virtual_streams_t *streams, void *stream);

virtual_fence_t *virtual_fence_set(virtual_streams_t *streams, void *stream);
/* If it returns true, the completion has been observed. */
bool virtual_fence_is_reached(virtual_streams_t *streams,
                              virtual_fence_t   *fence);
void virtual_fence_wait(virtual_streams_t *streams, virtual_fence_t *fence,
                        void *stream);
void virtual_fence_sync(virtual_streams_t *streams, virtual_fence_t *fence);
void virtual_fence_put(virtual_streams_t *streams, virtual_fence_t *fence);

/* As far as observed, may work that uses these addresses be running? */
bool virtual_streams_may_use(const virtual_streams_t *streams,
                             const void *address, size_t size);

#endif
