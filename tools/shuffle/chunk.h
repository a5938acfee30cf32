/*
 * A chunk: some records of one bucket, by columns.
 *
 *     hashes  [ h0 h1 h2 ]       of the keys
 *     ends    [ e0 e1 ]          where records end; the last ends with bytes
 *     bytes   [ record 0 \n record 1 \n record 2 \n ]
 *               0          e0          e1           num_bytes
 *
 * So a chunk of one record has no ends, and its record may be of any size.
 *
 * A bucket is what travels together: one partition, or with many of them
 * neighbouring ones of one worker. That worker parts them:
 *
 *     runs   [ partition 4 ][ partition 7 ][ partition 4 ]
 */
#ifndef SHUFFLE_CHUNK_H
#define SHUFFLE_CHUNK_H

#include "tools/shuffle/tally.h"

typedef struct chunk {
    uint32_t  bucket;
    uint32_t  num_records;
    size_t    num_bytes;
    uint64_t *hashes;
    uint32_t *ends;
    char     *bytes;
} chunk_t;

/* Records of one partition that follow each other. All 0: none yet. */
typedef struct chunk_run {
    uint32_t end; /* index of the record behind the run */
    uint32_t partition;
    size_t   offset; /* in the bytes of the chunk */
    size_t   length;
} chunk_run_t;

/*
 * Go on to the next run. Its records are counted from the bytes themselves, and
 * checked to be what the columns say: each ends where it should, with a
 * newline. Returns 1, 0 when there is none, -1 with an error.
 */
int chunk_next_run(const chunk_t *chunk, uint32_t num_partitions,
                   chunk_run_t *run, tally_t *tally);

#endif
