/*
 * A batch: what one worker sends to another at a time, chunks of several
 * buckets. It is one message of many segments of very different sizes:
 *
 *     [ directory | hashes of each chunk | ends of each chunk | bytes of ... ]
 *
 * In this order every column is aligned when the message is received into one
 * buffer.
 *
 * All of it lies in one piece of memory, the directory and then the arena, from
 * the front of which chunks are cut:
 *
 *     memory  [ directory | hashes ends bytes ][ hashes ends bytes ]...free...
 *                          chunk of bucket 2    chunk of bucket 0
 *
 * The memory may have a mirror, memory of the same size to which the sender of
 * the batch copies it; the segments of the message then are those of the
 * mirror.
 */
#ifndef SHUFFLE_BATCH_H
#define SHUFFLE_BATCH_H

#include "tools/shuffle/chunk.h"

#include <ucxpool/transfer.h>

#include <stdbool.h>

/* Goes over the wire: little-endian, as the hosts are. */
typedef struct batch_entry {
    uint32_t bucket;
    uint32_t num_records;
    uint64_t num_bytes;
} batch_entry_t;

/* The same for all batches of a worker. */
typedef struct batch_shape {
    uint32_t num_buckets;
    size_t   chunk_size;    /* bytes of records per chunk */
    uint32_t chunk_records; /* records per chunk, at most */
    size_t   arena_size;
    uint32_t max_chunks;
} batch_shape_t;

typedef struct batch {
    struct batch        *next; /* of a list of its holder */
    void                *holder;
    const batch_shape_t *shape;
    unsigned             target; /* worker */
    char                *memory;
    char                *mirror; /* of the memory, or the memory itself */
    char                *arena;
    size_t               used;  /* bytes of the arena */
    char                *large; /* memory of a record over the arena's size */
    uint32_t             num_chunks;
    size_t               num_records;
    size_t               num_bytes;
    chunk_t             *chunks;    /* max_chunks */
    size_t              *sizes;     /* room for bytes in each chunk */
    uint32_t            *open;      /* by bucket: 1 + index of its open chunk */
    batch_entry_t       *directory; /* at the front of the memory */
    ucxpool_segment_t   *segments;
} batch_t;

/*
 * The shape for about `size` bytes of records in num_buckets buckets.
 */
void batch_shape_init(batch_shape_t *shape, uint32_t num_buckets, size_t size);

/* Bytes of memory that a batch needs. A message that was received into one
 * buffer needs no more, but for a record over the arena's size. */
size_t batch_memory_size(const batch_shape_t *shape);

/* memory, mirror: batch_memory_size() bytes, borrowed, aligned to 16; mirror is
 * NULL for none. NULL without memory, with an error. */
batch_t *batch_create(const batch_shape_t *shape, char *memory, char *mirror);
void     batch_destroy(batch_t *batch);

/* Make it empty again. */
void batch_reset(batch_t *batch, unsigned target);

/*
 * Append a record with its newline. Returns 1 when it is in, 0 when the batch
 * is full (an empty one never is), -1 with an error.
 */
int batch_append(batch_t *batch, uint32_t bucket, uint64_t hash,
                 const char *record, size_t length);

/* The batch as a message; the segments belong to the batch. */
size_t batch_message_size(const batch_t *batch);
size_t batch_segments(batch_t *batch, const ucxpool_segment_t **segments_p);

/* A record over the arena's size has memory of its own, and no mirror: the
 * whole message is where it was built. */
bool batch_is_large(const batch_t *batch);

/* Bytes at the front of the memory that the segments lie in. */
size_t batch_extent(const batch_t *batch);

/*
 * Find the chunks of a message that was received into one buffer. chunks has
 * room for num_chunks. Everything is checked against the length. Returns -1
 * with an error.
 */
int batch_parse(char *message, size_t length, uint32_t num_chunks,
                chunk_t *chunks);

#endif
