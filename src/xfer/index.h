/*
 * A hash table that keeps the order of its elements: each list holds the
 * elements with the same hash. A key is a number, with or without a channel.
 * There are at least as many lists as elements, unless memory is exhausted.
 */
#ifndef XFER_INDEX_H
#define XFER_INDEX_H

#include "core/pool.h"

typedef struct xfer_index {
    base_list_t *lists;
    unsigned     num_kinds; /* of keys; each has its own lists */
    uint32_t     size;      /* lists for each kind */
    uint32_t     num;       /* elements, counted by the caller */
    uint64_t     factor;    /* of the hash; random, odd, secret */
} xfer_index_t;

/* Initialize an index. UCXPOOL_ERR_NO_MEMORY; UCXPOOL_ERR_IO: no random numbers
 * are available */
ucxpool_status_t xfer_index_init(xfer_index_t *index, unsigned num_kinds);

/* Free the lists. Also valid for a zeroed index. */
void xfer_index_cleanup(xfer_index_t *index);

/*
 * Returns the list of a key. channel: NULL if the key has none. The hash
 * depends on a random factor, so that a peer cannot choose keys with the same
 * hash. The second multiplication spreads consecutive numbers, which some
 * factors map to neighboring lists.
 */
static inline base_list_t *xfer_index_list(const xfer_index_t      *index,
                                           unsigned                 kind,
                                           const ucxpool_channel_t *channel,
                                           uint64_t                 value)
{
    uint64_t hash = (value ^ (uintptr_t)channel) * index->factor;

    hash = (hash ^ (hash >> 32)) * UINT64_C(0x9e3779b97f4a7c15);
    return &index->lists[(size_t)kind * index->size +
                         (((hash >> 32) * index->size) >> 32)];
}

/* Returns true if xfer_index_grow() would do anything. */
static inline bool xfer_index_is_full(const xfer_index_t *index)
{
    return index->num >= index->size;
}

/*
 * Make room for one more element. Returns true if the lists have been replaced
 * by empty ones; the caller must then add all elements again, without removing
 * them first. Returns false if nothing has changed.
 */
bool xfer_index_grow(xfer_index_t *index, ucxpool_t *pool);

#endif
