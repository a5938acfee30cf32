/*
 * The memory of one end of a side: for each message in flight a list of
 * segments, and room for a reply.
 *
 *     scattered    count segments of size bytes, in random order in an arena,
 *                  with a gap of a cache line between neighbours
 *     contiguous   one segment of all bytes
 */
#ifndef PERF_BUFFERS_H
#define PERF_BUFFERS_H

#include "perf/work.h"

#include <ucxpool/transfer.h>

typedef struct buffers {
    unsigned           num_slots;    /* messages in flight                    */
    size_t             num_segments; /* of one message                        */
    ucxpool_segment_t *segments;     /* slot by slot                          */
    void              *arena;
    size_t             arena_size;
    bool               own_arena;
    uint8_t           *replies;      /* slot by slot                          */
    size_t             reply_size;   /* of each                               */
} buffers_t;

/* Bytes of the arena that buffers_init() wants. */
size_t buffers_arena_size(const work_t *work, bool scattered);

/*
 * Lay out the segments. arena: page-aligned, of buffers_arena_size() bytes,
 * and the caller's; NULL: fresh memory, all of its pages touched.
 */
int  buffers_init(buffers_t *buffers, const work_t *work, bool scattered,
                  void *arena);
void buffers_cleanup(buffers_t *buffers);

static inline ucxpool_segment_t *buffers_segments(const buffers_t *buffers,
                                                  unsigned slot)
{
    return buffers->segments + slot * buffers->num_segments;
}

static inline uint8_t *buffers_reply(const buffers_t *buffers, unsigned slot)
{
    return buffers->replies + slot * buffers->reply_size;
}

/* Overwrite everything with bytes that are none of the sender's. */
void buffers_poison(buffers_t *buffers);

/* Fill the slots with the stream of `seed`, each slot with one of its own. */
void buffers_fill(buffers_t *buffers, uint64_t seed);

/* Check them. Returns -1, with a sentence in `text`, where a byte differs. */
int buffers_verify(const buffers_t *buffers, uint64_t seed, char *text,
                   size_t text_size);

/* Check that the replies repeat what buffers_fill() wrote. */
int buffers_verify_replies(const buffers_t *buffers, uint64_t seed, char *text,
                           size_t text_size);

#endif
