/*
 * A 64-bit hash of bytes: the same on every machine and in every run. It
 * chooses the partition of a key, and its sum over all records is the
 * order-independent checksum.
 *
 * Sixteen bytes at a time are multiplied into the state, 64 x 64 -> 128 bits,
 * and the halves folded together. The factors are kept in the fold, so that a
 * factor of 0 does not forget what came before. It is no protection against
 * somebody who chooses keys to collide.
 */
#ifndef SHUFFLE_HASH_H
#define SHUFFLE_HASH_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Different streams of hashes for keys and for whole records. */
#define HASH_SEED_KEY    0x6a09e667f3bcc909u
#define HASH_SEED_RECORD 0xbb67ae8584caa73bu

static inline uint64_t hash_load(const unsigned char *data)
{
    uint64_t word;

    memcpy(&word, data, sizeof(word));
    return le64toh(word);
}

static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64) ^ a ^
           ((b << 32) | (b >> 32));
}

static inline uint64_t hash_step(uint64_t state, uint64_t low, uint64_t high)
{
    return hash_fold(low ^ 0x9e3779b97f4a7c15u, high ^ state);
}

/* The last 0 to 15 bytes, padded with zeros; the length is in the state. */
static inline uint64_t hash_tail(uint64_t state, const unsigned char *data,
                                 size_t length)
{
    uint64_t words[2] = {0, 0};

    memcpy(words, data, length);
    return hash_step(state, le64toh(words[0]), le64toh(words[1]));
}

static inline uint64_t hash_bytes(const void *bytes, size_t length,
                                  uint64_t seed)
{
    const unsigned char *data = (const unsigned char *)bytes;
    uint64_t             one  = seed ^ ((uint64_t)length * 0xd6e8feb86659fd93u);
    uint64_t             two  = seed + 0xa0761d6478bd642fu;

    /* Two chains, so that the multiplier is not idle. */
    for (; length >= 32; data += 32, length -= 32) {
        one = hash_step(one, hash_load(data), hash_load(data + 8));
        two = hash_step(two, hash_load(data + 16), hash_load(data + 24));
    }
    if (length >= 16) {
        one = hash_step(one, hash_load(data), hash_load(data + 8));
        data += 16;
        length -= 16;
    }
    one = hash_tail(one, data, length);
    one = hash_fold(one ^ 0xe7037ed1a0b428dbu, two ^ 0x8ebc6af09c88c6e3u);
    return one ^ (one >> 29);
}

/* Partition of a key hash: its place in 0 .. num_partitions - 1. */
static inline uint32_t hash_partition(uint64_t hash, uint32_t num_partitions)
{
    return (uint32_t)(((unsigned __int128)hash * num_partitions) >> 64);
}

#endif
