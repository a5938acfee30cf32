/*
 * The work that every side of a comparison does in the same way.
 *
 *     message   count buffers of size bytes, all bytes fresh memory accesses
 *     batch     a number of messages, at most `outstanding` in flight
 *
 * The clock runs at the sender, from the first post of a batch until the
 * receiver's reply to the last message is there. The receiver replies, by the
 * same means, once all bytes of a message lie in its own buffers.
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

/* Goes from process to process as is: both run the same program. */
typedef struct work {
    uint64_t size;        /* bytes of a buffer, 1 or more                     */
    uint64_t count;       /* buffers of a message, 1 or more                  */
    uint32_t outstanding; /* messages in flight, 1 or more                    */
    uint32_t echo;        /* the reply is the whole message, not a word       */
} work_t;

static inline uint64_t work_bytes(const work_t *work)
{
    return work->size * work->count;
}

/* True when all products fit and nothing is absurd. */
static inline bool work_is_sane(const work_t *work)
{
    return (work->size >= 1) && (work->size <= WORK_MAX_BYTES) &&
           (work->count >= 1) && (work->count <= WORK_MAX_BUFFERS) &&
           (work->size <= WORK_MAX_BYTES / work->count) &&
           (work->outstanding >= 1) &&
           (work->outstanding <= WORK_MAX_OUTSTANDING) &&
           (work_bytes(work) <= WORK_MAX_BYTES / work->outstanding);
}

#endif
