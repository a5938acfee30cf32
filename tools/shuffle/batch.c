#include <config.h>

#include "tools/shuffle/batch.h"
#include "tools/shuffle/error.h"

#include <stdlib.h>
#include <string.h>

#define BATCH_ALIGNMENT 16u
/* Records are seldom shorter; where they are, the columns fill first. */
#define BATCH_RECORD_SIZE 32u
#define BATCH_CHUNK_MIN   512u
#define BATCH_CHUNK_MAX   (256u * 1024)
/* More, and chunks are short; with one, a batch is full when one bucket is. */
#define BATCH_CHUNKS_PER_BUCKET 2u

_Static_assert(sizeof(batch_entry_t) == 16, "it is a wire format");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "columns are sent as they lie in memory");

static size_t batch_align(size_t size)
{
    return (size + BATCH_ALIGNMENT - 1) & ~(size_t)(BATCH_ALIGNMENT - 1);
}

/* Bytes of the arena that a chunk takes. */
static size_t batch_chunk_size(const batch_shape_t *shape, size_t num_bytes)
{
    return batch_align(shape->chunk_records * sizeof(uint64_t)) +
           batch_align(shape->chunk_records * sizeof(uint32_t)) +
           batch_align(num_bytes);
}

void batch_shape_init(batch_shape_t *shape, uint32_t num_buckets, size_t size)
{
    size_t chunk_size = size / (BATCH_CHUNKS_PER_BUCKET * (size_t)num_buckets);
    uint32_t num_chunks;

    if (chunk_size < BATCH_CHUNK_MIN) {
        chunk_size = BATCH_CHUNK_MIN;
    }
    if (chunk_size > BATCH_CHUNK_MAX) {
        chunk_size = BATCH_CHUNK_MAX;
    }
    num_chunks           = (uint32_t)(size / chunk_size);
    shape->num_buckets   = num_buckets;
    shape->chunk_size    = chunk_size;
    shape->chunk_records = (uint32_t)(chunk_size / BATCH_RECORD_SIZE);
    shape->max_chunks    = num_chunks > 0 ? num_chunks : 1;
    shape->arena_size = shape->max_chunks * batch_chunk_size(shape, chunk_size);
}

static size_t batch_directory_size(const batch_shape_t *shape)
{
    return shape->max_chunks * sizeof(batch_entry_t);
}

size_t batch_memory_size(const batch_shape_t *shape)
{
    return batch_directory_size(shape) + shape->arena_size;
}

batch_t *batch_create(const batch_shape_t *shape, char *memory, char *mirror)
{
    batch_t *batch = calloc(1, sizeof(*batch));

    if (batch == NULL) {
        goto err;
    }
    batch->shape     = shape;
    batch->memory    = memory;
    batch->mirror    = mirror != NULL ? mirror : memory;
    batch->directory = (batch_entry_t *)memory;
    batch->arena     = memory + batch_directory_size(shape);
    batch->chunks    = calloc(shape->max_chunks, sizeof(*batch->chunks));
    batch->sizes     = calloc(shape->max_chunks, sizeof(*batch->sizes));
    batch->open      = calloc(shape->num_buckets, sizeof(*batch->open));
    batch->segments =
        calloc(1 + 3 * (size_t)shape->max_chunks, sizeof(*batch->segments));
    if ((batch->chunks == NULL) || (batch->sizes == NULL) ||
        (batch->open == NULL) || (batch->segments == NULL)) {
        goto err;
    }
    return batch;

err:
    batch_destroy(batch);
    say_error("out of memory for a batch of %u chunks", shape->max_chunks);
    return NULL;
}

void batch_destroy(batch_t *batch)
{
    if (batch != NULL) {
        free(batch->large);
        free(batch->chunks);
        free(batch->sizes);
        free(batch->open);
        free(batch->segments);
        free(batch);
    }
}

void batch_reset(batch_t *batch, unsigned target)
{
    free(batch->large);
    batch->large       = NULL;
    batch->target      = target;
    batch->used        = 0;
    batch->num_chunks  = 0;
    batch->num_records = 0;
    batch->num_bytes   = 0;
    memset(batch->open, 0, batch->shape->num_buckets * sizeof(*batch->open));
}

/*
 * Open a chunk with room for `length` bytes at least. A record that is larger
 * than the arena gets memory of its own, in a batch of its own.
 */
static int batch_open_chunk(batch_t *batch, uint32_t bucket, size_t length)
{
    const batch_shape_t *shape = batch->shape;
    size_t   size   = length > shape->chunk_size ? length : shape->chunk_size;
    char    *memory = batch->arena + batch->used;
    chunk_t *chunk  = &batch->chunks[batch->num_chunks];

    if ((batch->large != NULL) || (batch->num_chunks == shape->max_chunks)) {
        return 0;
    }
    if (batch_chunk_size(shape, size) > shape->arena_size - batch->used) {
        if (batch->num_chunks > 0) {
            return 0;
        }
        batch->large = malloc(batch_chunk_size(shape, size));
        if (batch->large == NULL) {
            return say_error("out of memory for a record of %zu bytes", length);
        }
        memory = batch->large;
    } else {
        batch->used += batch_chunk_size(shape, size);
    }
    chunk->bucket      = bucket;
    chunk->num_records = 0;
    chunk->num_bytes   = 0;
    chunk->hashes      = (uint64_t *)memory;
    memory += batch_align(shape->chunk_records * sizeof(uint64_t));
    chunk->ends = (uint32_t *)memory;
    memory += batch_align(shape->chunk_records * sizeof(uint32_t));
    chunk->bytes                    = memory;
    batch->sizes[batch->num_chunks] = size;
    batch->open[bucket]             = ++batch->num_chunks;
    return 1;
}

int batch_append(batch_t *batch, uint32_t bucket, uint64_t hash,
                 const char *record, size_t length)
{
    uint32_t index = batch->open[bucket];
    chunk_t *chunk = &batch->chunks[index - (index > 0)];
    int      result;

    if ((index == 0) || (chunk->num_records == batch->shape->chunk_records) ||
        (length > batch->sizes[index - 1] - chunk->num_bytes)) {
        result = batch_open_chunk(batch, bucket, length);
        if (result <= 0) {
            return result;
        }
        chunk = &batch->chunks[batch->num_chunks - 1];
    }
    if (chunk->num_records > 0) {
        chunk->ends[chunk->num_records - 1] = (uint32_t)chunk->num_bytes;
    }
    chunk->hashes[chunk->num_records++] = hash;
    memcpy(chunk->bytes + chunk->num_bytes, record, length);
    chunk->num_bytes += length;
    batch->num_records++;
    batch->num_bytes += length;
    return 1;
}

size_t batch_message_size(const batch_t *batch)
{
    return batch->num_chunks * (sizeof(batch_entry_t) - sizeof(uint32_t)) +
           batch->num_records * (sizeof(uint64_t) + sizeof(uint32_t)) +
           batch->num_bytes;
}

bool batch_is_large(const batch_t *batch)
{
    return batch->large != NULL;
}

size_t batch_extent(const batch_t *batch)
{
    return batch_directory_size(batch->shape) + batch->used;
}

/* Where something is sent from. */
static void *batch_place(const batch_t *batch, const void *address)
{
    return batch_is_large(batch)
               ? (void *)address
               : batch->mirror + ((const char *)address - batch->memory);
}

size_t batch_segments(batch_t *batch, const ucxpool_segment_t **segments_p)
{
    size_t             n       = batch->num_chunks;
    ucxpool_segment_t *segment = batch->segments;

    segment[0].address = batch_place(batch, batch->directory);
    segment[0].length  = n * sizeof(*batch->directory);
    segment++;
    for (size_t i = 0; i < n; i++, segment++) {
        const chunk_t *chunk = &batch->chunks[i];

        batch->directory[i].bucket      = chunk->bucket;
        batch->directory[i].num_records = chunk->num_records;
        batch->directory[i].num_bytes   = chunk->num_bytes;
        segment[0].address              = batch_place(batch, chunk->hashes);
        segment[0].length               = chunk->num_records * sizeof(uint64_t);
        segment[n].address              = batch_place(batch, chunk->ends);
        segment[n].length      = (chunk->num_records - 1) * sizeof(uint32_t);
        segment[2 * n].address = batch_place(batch, chunk->bytes);
        segment[2 * n].length  = chunk->num_bytes;
    }
    *segments_p = batch->segments;
    return 1 + 3 * n;
}

/* Sizes of the columns of all chunks, or -1 when they cannot be. */
static int batch_measure(const batch_entry_t *directory, uint32_t num_chunks,
                         size_t length, size_t *hashes_p, size_t *ends_p)
{
    size_t rest   = length - num_chunks * sizeof(*directory);
    size_t hashes = 0;
    size_t ends   = 0;
    size_t columns;

    for (uint32_t i = 0; i < num_chunks; i++) {
        const batch_entry_t *entry = &directory[i];

        if ((entry->num_records == 0) || (entry->num_bytes > rest)) {
            return -1;
        }
        rest -= (size_t)entry->num_bytes;
        columns = entry->num_records * (size_t)12 - 4;
        if (columns > rest) {
            return -1;
        }
        rest -= columns;
        hashes += entry->num_records * sizeof(uint64_t);
        ends += (entry->num_records - 1) * sizeof(uint32_t);
    }
    *hashes_p = hashes;
    *ends_p   = ends;
    return rest == 0 ? 0 : -1;
}

int batch_parse(char *message, size_t length, uint32_t num_chunks,
                chunk_t *chunks)
{
    const batch_entry_t *directory = (const batch_entry_t *)message;
    char                *at        = message + num_chunks * sizeof(*directory);
    size_t               hashes;
    size_t               ends;

    if ((num_chunks > length / sizeof(*directory)) ||
        (batch_measure(directory, num_chunks, length, &hashes, &ends) != 0)) {
        return say_error("a batch of %zu bytes is not what its directory says",
                         length);
    }
    for (uint32_t i = 0; i < num_chunks; i++) {
        chunks[i].bucket      = directory[i].bucket;
        chunks[i].num_records = directory[i].num_records;
        chunks[i].num_bytes   = (size_t)directory[i].num_bytes;
        chunks[i].hashes      = (uint64_t *)at;
        at += directory[i].num_records * sizeof(uint64_t);
    }
    for (uint32_t i = 0; i < num_chunks; i++) {
        chunks[i].ends = (uint32_t *)at;
        at += (directory[i].num_records - 1) * sizeof(uint32_t);
    }
    for (uint32_t i = 0; i < num_chunks; i++) {
        chunks[i].bytes = at;
        at += directory[i].num_bytes;
    }
    return 0;
}
