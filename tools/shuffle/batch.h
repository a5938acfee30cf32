/*
 * Records that move from the worker that reads them to the worker that writes
 * them: their hashes, their tally, and batches of records.
 *
 * A batch has three columns and is sent as one message of three segments:
 *
 *     hashes  [ h0 h1 h2 ]    of the keys
 *     ends    [ e0 e1 ]       where each record ends, except the last one
 *     bytes   [ record 0 \n record 1 \n record 2 \n ]
 *               0          e0          e1           num_bytes
 *
 * A sender builds a batch in memory with room for full columns. In the
 * receiver's memory, the message has no gaps. A batch of one record has no
 * ends, and the record may have any size.
 */
#ifndef SHUFFLE_BATCH_H
#define SHUFFLE_BATCH_H

#include <ucxpool/transfer.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Seeds, so that the hashes of keys and of whole records differ. */
#define HASH_SEED_KEY    0x6a09e667f3bcc909u
#define HASH_SEED_RECORD 0xbb67ae8584caa73bu

/* Returns the hash of bytes, which is the same on every machine and in every
 * run. The hash does not protect against keys that are chosen to collide. */
uint64_t hash_bytes(const void *bytes, size_t length, uint64_t seed);

/* Returns the partition of a key hash: 0 to num_partitions - 1. */
static inline uint32_t hash_partition(uint64_t hash, uint32_t num_partitions)
{
    return (uint32_t)(((unsigned __int128)hash * num_partitions) >> 64);
}

/* Counts of records. The checksum is the sum of the hashes of records modulo
 * 2^64. It does not depend on the order of the records, and a lost, doubled or
 * changed record changes it. */
typedef struct tally {
    uint64_t records;
    uint64_t bytes; /* with newlines */
    uint64_t checksum;
} tally_t;

void tally_record(tally_t *tally, const char *record, size_t length);
void tally_add(tally_t *tally, const tally_t *other);
bool tally_is_equal(const tally_t *one, const tally_t *other);

typedef struct batch {
    struct batch *next; /* of a list */
    void         *owner;
    unsigned  peer; /* the worker to which it is sent, or from which it comes */
    char     *memory;
    size_t    size;  /* room for bytes of records */
    char     *large; /* separate memory for larger contents, or NULL */
    size_t    num_records;
    size_t    num_bytes;
    uint64_t *hashes;
    uint32_t *ends;
    char     *bytes;

    ucxpool_segment_t segments[3]; /* see batch_segments() */
} batch_t;

/* Returns the bytes of memory for a batch with room for `size` bytes of
 * records, a multiple of 64. */
size_t batch_memory_size(size_t size);

/* Initialize a batch. The memory belongs to the caller and is aligned to 8
 * bytes. */
void batch_init(batch_t *batch, char *memory, size_t size);

/* Make a batch empty again, and release memory that only its last content
 * needed. */
void batch_reset(batch_t *batch);

/* Append a record with its newline. Returns 1 if the record was appended, 0 if
 * the batch is full, or -1 with an error. An empty batch has room for any
 * record. */
int batch_append(batch_t *batch, uint64_t hash, const char *record,
                 size_t length);

/* Return the length and the segments of a batch as a message. The segments
 * belong to the batch. */
size_t batch_length(const batch_t *batch);
size_t batch_segments(batch_t *batch, const ucxpool_segment_t **segments_p);

/* Prepare to receive a message at batch_place(). Returns -1 with an error. */
int   batch_prepare(batch_t *batch, uint64_t num_records, size_t length);
char *batch_place(const batch_t *batch);

/* Find the columns of the message at batch_place(). */
void batch_parse(batch_t *batch);

/* A run: consecutive records of one partition. All 0: no run yet. */
typedef struct batch_run {
    size_t   end; /* index of the record after the run */
    uint32_t partition;
    size_t   offset; /* in the bytes */
    size_t   length;
} batch_run_t;

/*
 * Find the next run. The function counts the records in the bytes themselves.
 * Each record must have its newline at the position that its column gives.
 * Returns 1, 0 after the last run, or -1 with an error.
 */
int batch_next_run(const batch_t *batch, uint32_t num_partitions,
                   batch_run_t *run, tally_t *tally);

/* A fixed number of batches, which are adjacent in memory. */
typedef struct batch_list {
    batch_t *all;
    unsigned num;
    batch_t *idle;
} batch_list_t;

/* Initialize a list. memory: num times batch_memory_size() bytes, which belong
 * to the caller. */
void batch_list_init(batch_list_t *list, char *memory, unsigned num,
                     size_t size);
void batch_list_cleanup(batch_list_t *list);

/* Returns an empty batch that is not in use, or NULL. */
batch_t *batch_list_get(batch_list_t *list);
void     batch_list_put(batch_list_t *list, batch_t *batch);

#endif
