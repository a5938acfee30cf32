/*
 * The memory of one side of a message, in order: a caller's segments, or its
 * pieces, which are addresses alone and have one length.
 *
 *     segments    {address, length} {address, length} ...
 *     pieces       address address address ...          length
 *
 * Tight loops ask once which of the two it is, and have a variant for each.
 */
#ifndef COPY_MEMORY_H
#define COPY_MEMORY_H

#include <ucxpool/transfer.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct copy_memory {
    const ucxpool_segment_t *segments;  /* NULL for pieces, and for nothing */
    void *const             *addresses; /* NULL for segments */
    uint64_t                 length;    /* of each piece */
    size_t                   num;       /* segments, or pieces */
    bool                     is_pinned; /* a GPU can read `addresses` itself */
} copy_memory_t;

static inline copy_memory_t
copy_memory_of_segments(const ucxpool_segment_t *segments, size_t num)
{
    copy_memory_t memory = {segments, NULL, 0, num, false};

    return memory;
}

static inline copy_memory_t copy_memory_of_pieces(void *const *addresses,
                                                  size_t num, uint64_t length)
{
    copy_memory_t memory = {NULL, addresses, length, num, false};

    return memory;
}

static inline bool copy_memory_is_pieces(const copy_memory_t *memory)
{
    return memory->addresses != NULL;
}

static inline uint64_t copy_memory_length(const copy_memory_t *memory, size_t i)
{
    return copy_memory_is_pieces(memory) ? memory->length
                                         : memory->segments[i].length;
}

static inline void *copy_memory_address(const copy_memory_t *memory, size_t i)
{
    return copy_memory_is_pieces(memory) ? memory->addresses[i]
                                         : memory->segments[i].address;
}

#endif
