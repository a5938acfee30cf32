/*
 * A batch: what one worker sends to another at a time, chunks of several
 * buckets. It is one message of many segments of very different sizes:
 *
 *     [ directory | hashes of each chunk | ends of each chunk | bytes of ... ]
 *
 * In this order every column is aligned when the message is received into one
 * buffer.
 *
 * The chunks are cut from the front of one piece of memory, the arena:
 *
 *     arena  [ hashes ends bytes ][ hashes ends bytes ]....free....
 *             chunk of bucket 2    chunk of bucket 0
 */
#ifndef SHUFFLE_BATCH_H
#define SHUFFLE_BATCH_H

#include "tools/shuffle/chunk.h"

#include <ucxpool/transfer.h>

/* Goes over the wire: little-endian, as the hosts are. */
typedef struct batch_entry {
    uint32_t bucket;
    uint32_t num_records;
    uint64_t num_bytes;
} batch_entry_t;

/* The same for all batches of a worker. */
typedef struct batch_shape {
    uint32_t num_buckets;
    size_t   chunk_size;    /* bytes of records per chunk          */
    uint32_t chunk_records; /* records per chunk, at most          */
    size_t   arena_size;
    uint32_t max_chunks;
} batch_shape_t;

typedef struct batch {
    struct batch        *next; /* of a list of its holder */
    void                *holder;
    const batch_shape_t *shape;
    unsigned             target; /* worker */
    char                *arena;
    size_t               used;  /* bytes of the arena */
    char                *large; /* memory of a record over the arena's size */
    uint32_t             num_chunks;
    size_t               num_records;
    size_t               num_bytes;
    chunk_t             *chunks; /* max_chunks */
    size_t              *sizes;  /* room for bytes in each chunk            */
    uint32_t            *open;   /* by bucket: 1 + index of its open chunk */
    batch_entry_t       *directory;
    ucxpool_segment_t   *segments;
} batch_t;

/*
 * The shape for about `size` bytes of records in num_buckets buckets.
 */
void batch_shape_init(batch_shape_t *shape, uint32_t num_buckets, size_t size);

/* arena: arena_size bytes, borrowed, aligned to 16. NULL without memory, with a
 * complaint. */
batch_t *batch_create(const batch_shape_t *shape, char *arena);
void     batch_destroy(batch_t *batch);

/* Make it empty again. */
void batch_reset(batch_t *batch, unsigned target);

/*
 * Append a record with its newline. Returns 1 when it is in, 0 when the batch
 * is full (an empty one never is), -1 with a complaint.
 */
int batch_append(batch_t *batch, uint32_t bucket, uint64_t hash,
                 const char *record, size_t length);

/* The batch as a message; the segments belong to the batch. */
size_t batch_message_size(const batch_t *batch);
size_t batch_segments(batch_t *batch, const ucxpool_segment_t **segments_p);

/*
 * Find the chunks of a message that was received into one buffer. chunks has
 * room for num_chunks. Everything is checked against the length. Returns -1
 * with a complaint.
 */
int batch_parse(char *message, size_t length, uint32_t num_chunks,
                chunk_t *chunks);

#endif
