/*
 * The work that every side of a comparison does in the same way.
 *
 *     message   count buffers of size bytes, all bytes fresh memory accesses
 *     batch     a number of messages, at most `outstanding` in flight
 *
 * The clock runs at the sender, from the first post of a batch until the
 * receiver's reply to the last message is there. The receiver replies, by the
 * same means, once all bytes of a message lie in its own buffers. Nobody
 * replies to a read or a write of a window: it is over when the sender is told
 * of its end.
 */
#ifndef PERF_WORK_H
#define PERF_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORK_MAX_OUTSTANDING 64u

/* Bounds of what a peer on another host may ask us to allocate. */
#define WORK_MAX_BUFFERS ((uint64_t)1 << 24)
#define WORK_MAX_BYTES   ((uint64_t)1 << 36)
#define WORK_MAX_DEVICE  1023

/* Bytes of a cache line: buffers start at the begin of one, unless they are
 * misaligned. */
#define WORK_LINE 64u

/* A device of host memory. */
#define WORK_HOST (-1)

typedef enum work_pageable {
    WORK_PAGEABLE_SEND = 1u << 0,
    WORK_PAGEABLE_RECV = 1u << 1
} work_pageable_t;

/* Goes from process to process as is: both run the same program. */
typedef struct work {
    uint64_t size;        /* bytes of a buffer, 1 or more */
    uint64_t count;       /* buffers of a message, 1 or more */
    uint32_t outstanding; /* messages in flight, 1 or more */
    uint32_t echo;        /* the reply is the whole message, not a word */
    uint32_t mixed;       /* lengths as work_length() has them, up to `size` */
    uint32_t misaligned;  /* bytes from a line's begin to a scattered buffer
                             of the sender's */
    uint32_t both;        /* as many go the other way at the same time */
    uint32_t pageable;   /* of work_pageable_t: whose buffers lie in host memory
                            all the same, which the GPU does not reach */
    uint32_t untold;     /* the pool asks what memory they are */
    int32_t  devices[2]; /* the GPU in which the buffers of the sender and of
                            the receiver lie; both WORK_HOST: in host memory */
} work_t;

/*
 * Bytes of a buffer, from 0. Mixed lengths are those of the columns of batches
 * of records, of 64 rows or twice as many and so on: a bitmap, then values of
 * 1, 2 and 4 bytes, offsets of strings, and values of 8 bytes, the longest of
 * which have `size` bytes.
 */
uint64_t work_length(const work_t *work, uint64_t index);

/* Bytes of a message. */
uint64_t work_bytes(const work_t *work);

static inline bool work_is_on_gpu(const work_t *work)
{
    return work->devices[0] != WORK_HOST;
}

static inline bool work_is_pageable(const work_t *work, bool is_sender)
{
    return (work->pageable &
            (is_sender ? WORK_PAGEABLE_SEND : WORK_PAGEABLE_RECV)) != 0;
}

/* True when all products fit and nothing is absurd. */
bool work_is_sane(const work_t *work);

#endif
