/*
 * A caller's segments as vectors of an address and a length, for loops over
 * lists that are longer than a processor's caches: these go as fast as the list
 * comes from memory.
 */
#ifndef PACK_PAIRS_H
#define PACK_PAIRS_H

#include <ucxpool/transfer.h>

#include <assert.h>
#include <stdint.h>

/* {address, length}; aligned as a segment is. */
typedef uint64_t pack_pair_t __attribute__((vector_size(16)));
typedef uint64_t pack_pair_here_t
    __attribute__((vector_size(16), aligned(8), may_alias));

static_assert(sizeof(ucxpool_segment_t) == sizeof(pack_pair_t),
              "a segment is a pair of 64 bits each");

/* Segments that lie so far ahead are asked for: the processor itself looks no
 * farther than the end of a page. */
#define PACK_PAIRS_AHEAD 192u

static inline pack_pair_t pack_pair(const ucxpool_segment_t *segment)
{
    return *(const pack_pair_here_t *)segment;
}

static inline void pack_pairs_prefetch(const ucxpool_segment_t *segment)
{
    __builtin_prefetch(segment + PACK_PAIRS_AHEAD);
    __builtin_prefetch(segment + PACK_PAIRS_AHEAD + 4);
}

#endif
