/*
 * The memory of one end of a side. For each message in flight there is a list
 * of segments and room for a reply.
 *
 *     scattered    count segments of size bytes, in random order in an arena,
 *                  with a gap of a cache line between neighbors
 *     contiguous   one segment of all bytes
 *
 * A reply is a word in host memory, or a whole message after the slots:
 *
 *     arena   [ slot 0 ][ slot 1 ] ... [ reply 0 ][ reply 1 ] ...
 *
 * The arena is in host memory or in GPU memory. Functions return 0, or -1 after
 * printing an error. Only the inline functions are called while the clock runs.
 */
#ifndef PERF_BUFFERS_H
#define PERF_BUFFERS_H

#include "gpu/gpu.h"
#include "perf/job.h"

#include <ucxpool/transfer.h>

typedef struct memory {
    int    device;      /* WORK_HOST: host memory */
    bool   is_pageable; /* host memory, even if a GPU is used */
    gpu_t  gpu;         /* open unless device is WORK_HOST */
    void  *mirror;      /* pinned; grows */
    size_t mirror_size;
} memory_t;

int  memory_init(memory_t *memory, int device, bool is_pageable);
void memory_cleanup(memory_t *memory);

static inline bool memory_is_on_gpu(const memory_t *memory)
{
    return (memory->gpu.context != NULL) && !memory->is_pageable;
}

/* Allocate and free memory. All pages of new memory have been touched. */
int  memory_alloc(memory_t *memory, size_t size, void **address_p);
void memory_free(memory_t *memory, void *address, size_t size);

/* Allocate a list of `num` entries, pinned if the buffers are in GPU memory.
 * Returns NULL after an error. */
void *memory_list_alloc(memory_t *memory, size_t num, size_t size);
void  memory_list_free(memory_t *memory, void *list);

/* Copy a few bytes, which arrived in another way, from host memory. */
int memory_put(memory_t *memory, void *address, const void *source,
               size_t size);

typedef struct buffers {
    memory_t          *memory;       /* memory of the arena */
    unsigned           num_slots;    /* messages in flight */
    size_t             num_segments; /* segments of one message */
    size_t             size;         /* size of one message */
    ucxpool_segment_t *segments;     /* slot by slot */
    void             **addresses;    /* addresses of the segments */
    void              *arena;
    size_t             arena_size;
    size_t             slot_size; /* distance between slots */
    size_t             shift;     /* offset from the segments of the peer */
    bool               own_arena;
    bool               is_echo;
    uint64_t           words[WORK_MAX_OUTSTANDING]; /* replies */
} buffers_t;

/* Returns the size of the arena that buffers_init() needs. */
size_t buffers_arena_size(const work_t *work, bool is_scattered);

/*
 * Lay out the segments.
 *
 * shift  Offset in bytes of the segments from those of the peer.
 * arena  Memory of the caller with buffers_arena_size() bytes, starting at a
 *        page boundary. NULL: buffers_init() allocates memory.
 */
int  buffers_init(buffers_t *buffers, memory_t *memory, const work_t *work,
                  bool is_scattered, size_t shift, void *arena);
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

/* Returns the offset, in the other end's arena, of an address of this end. Both
 * arenas have the same layout. */
static inline uint64_t buffers_peer_offset(const buffers_t *buffers,
                                           const void      *address)
{
    return (uint64_t)((const char *)address - (const char *)buffers->arena) -
           buffers->shift;
}

/* Return the buffer of a reply, and its size. */
void  *buffers_reply(buffers_t *buffers, unsigned slot);
size_t buffers_reply_size(const buffers_t *buffers);

/* Returns a seed that has not been used before. */
uint64_t buffers_seed(void);

/* Overwrite all memory with bytes that the sender never sends. */
int buffers_poison(buffers_t *buffers);

/* Fill the slots with pseudo-random bytes of `seed`, different in each slot. */
int buffers_fill(buffers_t *buffers, uint64_t seed);

/* Check the bytes of the slots, or that the replies repeat what buffers_fill()
 * wrote. Returns -1, after printing an error, if a byte differs. side: name of
 * the side, for the error. */
int buffers_verify(buffers_t *buffers, uint64_t seed, bool of_replies,
                   const char *side);

#endif
