/*
 * A chunk: some records of one partition, by columns.
 *
 *     hashes  [ h0 h1 h2 ]       of the keys
 *     ends    [ e0 e1 ]          where records end; the last ends with bytes
 *     bytes   [ record 0 \n record 1 \n record 2 \n ]
 *               0          e0          e1           num_bytes
 *
 * So a chunk of one record has no ends, and its record may be of any size.
 */
#ifndef SHUFFLE_CHUNK_H
#define SHUFFLE_CHUNK_H

#include "tools/shuffle/tally.h"

typedef struct chunk {
    uint32_t  partition;
    uint32_t  num_records;
    size_t    num_bytes;
    uint64_t *hashes;
    uint32_t *ends;
    char     *bytes;
} chunk_t;

/*
 * Count the records of a chunk from the bytes themselves, and check that they
 * are what the columns say: each record ends where it should, with a newline,
 * and its key belongs to the partition. Returns -1 with a complaint.
 */
int chunk_count(const chunk_t *chunk, uint32_t num_partitions,
                tally_t *tally);

#endif
