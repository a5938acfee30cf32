/*
 * The tally of records: how many, how many bytes (newlines included), and the
 * sum of their hashes, modulo 2^64. The sum does not depend on the order, and
 * a lost, doubled or changed record changes it.
 */
#ifndef SHUFFLE_TALLY_H
#define SHUFFLE_TALLY_H

#include "tools/shuffle/hash.h"

#include <stdbool.h>

typedef struct tally {
    uint64_t records;
    uint64_t bytes;
    uint64_t checksum;
} tally_t;

/* Count one record, its newline included in length. */
static inline void tally_record(tally_t *tally, const char *record,
                                size_t length)
{
    tally->records++;
    tally->bytes += length;
    tally->checksum += hash_bytes(record, length, HASH_SEED_RECORD);
}

static inline void tally_add(tally_t *tally, const tally_t *other)
{
    tally->records += other->records;
    tally->bytes += other->bytes;
    tally->checksum += other->checksum;
}

static inline bool tally_is_equal(const tally_t *one, const tally_t *other)
{
    return (one->records == other->records) && (one->bytes == other->bytes) &&
           (one->checksum == other->checksum);
}

#endif
