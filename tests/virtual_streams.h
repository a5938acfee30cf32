/*
 * Streams that go on only when a test says so, in which work uses memory. What
 * is posted is checked: work that uses the same bytes as other work must be
 * ordered behind it, by their stream, by a fence that its stream waits for, or
 * by somebody who has seen that the other is done. That it happens to be done
 * is not enough. Whatever breaks this ends the process by abort(), with a
 * sentence.
 *
 * Streams come into being when they are named, 64 at most. Not thread-safe.
 */
#ifndef TESTS_VIRTUAL_STREAMS_H
#define TESTS_VIRTUAL_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct virtual_streams virtual_streams_t;
typedef struct virtual_fence   virtual_fence_t;

/* Bytes that work uses: where they are, and through which addresses. */
typedef struct virtual_use {
    uint64_t    start; /* any number that names the first byte */
    const char *address;
    size_t      size;
} virtual_use_t;

virtual_streams_t *virtual_streams_create(void);
/* All fences have been put. What was posted and not done is not done. */
void virtual_streams_destroy(virtual_streams_t *streams);

/* Post work; `work`, if any, is called when the stream comes to it. */
void virtual_streams_post(virtual_streams_t *streams, void *stream,
                          const virtual_use_t *uses, unsigned num_uses,
                          void (*work)(void *arg), void      *arg);

/* Do the next operations of a stream; how many were done: fewer when there are
 * no more, or when it waits for another. */
unsigned virtual_streams_run(virtual_streams_t *streams, void *stream,
                             unsigned num);
/* Do all operations of all streams. */
void virtual_streams_run_all(virtual_streams_t *streams);

/* Wait for a stream: all in it is done, and seen to be. */
void virtual_streams_sync(virtual_streams_t *streams, void *stream);

virtual_fence_t *virtual_fence_set(virtual_streams_t *streams, void *stream);
/* Where it is true it has been seen. */
bool virtual_fence_is_reached(virtual_streams_t *streams,
                              virtual_fence_t   *fence);
void virtual_fence_wait(virtual_streams_t *streams, virtual_fence_t *fence,
                        void *stream);
void virtual_fence_sync(virtual_streams_t *streams, virtual_fence_t *fence);
void virtual_fence_put(virtual_streams_t *streams, virtual_fence_t *fence);

/* May work be running, as far as anybody has seen, that uses these
 * addresses? */
bool virtual_streams_may_use(const virtual_streams_t *streams,
                             const void *address, size_t size);

#endif
