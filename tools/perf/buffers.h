/*
 * The memory of one end of a side: for each message in flight a list of
 * segments, and room for a reply.
 *
 *     scattered    count segments of size bytes, in random order in an arena,
 *                  with a gap of a cache line between neighbours
 *     contiguous   one segment of all bytes
 *
 * A reply is a word in host memory, or a whole message behind the slots:
 *
 *     arena   [ slot 0 ][ slot 1 ] ... [ reply 0 ][ reply 1 ] ...
 */
#ifndef PERF_BUFFERS_H
#define PERF_BUFFERS_H

#include "perf/memory.h"
#include "perf/work.h"

#include <ucxpool/transfer.h>

typedef struct buffers {
    memory_t          *memory;       /* in which the arena lies */
    unsigned           num_slots;    /* messages in flight */
    size_t             num_segments; /* of one message */
    size_t             size;         /* bytes of one message */
    ucxpool_segment_t *segments;     /* slot by slot */
    void             **addresses;    /* of these */
    void              *arena;
    size_t             arena_size;
    size_t             slot_size; /* from one slot to the next */
    size_t             shift;     /* of segments against those of the peer */
    bool               own_arena;
    bool               is_echo;
    uint64_t           words[WORK_MAX_OUTSTANDING]; /* replies */
} buffers_t;

/* What an end asks for. */
typedef struct buffers_params {
    memory_t *memory;
    work_t    work;
    bool      is_sender;
    bool      is_scattered;
    /* Of buffers_arena_size() bytes, from a page's begin on, and the caller's.
     * NULL: fresh memory. */
    void *arena;
} buffers_params_t;

/* Bytes of the arena that buffers_init() wants. */
size_t buffers_arena_size(const work_t *work, bool is_scattered);

/* Lay out the segments. */
int  buffers_init(buffers_t *buffers, const buffers_params_t *params);
void buffers_cleanup(buffers_t *buffers);

static inline ucxpool_segment_t *buffers_segments(const buffers_t *buffers,
                                                  unsigned         slot)
{
    return buffers->segments + slot * buffers->num_segments;
}

static inline void **buffers_addresses(const buffers_t *buffers, unsigned slot)
{
    return buffers->addresses + slot * buffers->num_segments;
}

/* Where a reply comes to, and its bytes. */
void  *buffers_reply(buffers_t *buffers, unsigned slot);
size_t buffers_reply_size(const buffers_t *buffers);

/* Overwrite everything with bytes that are none of the sender's. */
int buffers_poison(buffers_t *buffers);

/* Fill the slots with the stream of `seed`, each slot with one of its own. */
int buffers_fill(buffers_t *buffers, uint64_t seed);

/* Check them. Returns -1, with a sentence in `text`, where a byte differs. */
int buffers_verify(buffers_t *buffers, uint64_t seed, char *text,
                   size_t text_size);

/* Check that the replies repeat what buffers_fill() wrote. */
int buffers_verify_replies(buffers_t *buffers, uint64_t seed, char *text,
                           size_t text_size);

#endif
