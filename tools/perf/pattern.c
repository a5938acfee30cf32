#include "perf/pattern.h"
#include "common/clock.h"

#include <string.h>
#include <sys/random.h>

void pattern_init(pattern_t *pattern, uint64_t seed)
{
    pattern->state    = seed | 1;
    pattern->word     = 0;
    pattern->num_left = 0;
}

/* Marsaglia's xorshift64* (2003, 2014). */
static uint64_t next_word(pattern_t *pattern)
{
    pattern->state ^= pattern->state >> 12;
    pattern->state ^= pattern->state << 25;
    pattern->state ^= pattern->state >> 27;
    return pattern->state * UINT64_C(0x2545f4914f6cdd1d);
}

static uint8_t next_byte(pattern_t *pattern)
{
    uint8_t byte;

    if (pattern->num_left == 0) {
        pattern->word     = next_word(pattern);
        pattern->num_left = sizeof(pattern->word);
    }
    byte = (uint8_t)pattern->word;
    pattern->word >>= 8;
    pattern->num_left--;
    return byte;
}

void pattern_fill(pattern_t *pattern, void *memory, size_t length)
{
    uint8_t *bytes = memory;
    size_t   i     = 0;

    while ((i < length) && (pattern->num_left != 0)) {
        bytes[i++] = next_byte(pattern);
    }
    for (; length - i >= sizeof(uint64_t); i += sizeof(uint64_t)) {
        uint64_t word = next_word(pattern);

        memcpy(bytes + i, &word, sizeof(word));
    }
    while (i < length) {
        bytes[i++] = next_byte(pattern);
    }
}

size_t pattern_compare(pattern_t *pattern, const void *memory, size_t length)
{
    const uint8_t *bytes = memory;
    uint8_t        expected[4096];

    for (size_t i = 0; i < length; i += sizeof(expected)) {
        size_t part = length - i;

        part = part < sizeof(expected) ? part : sizeof(expected);
        pattern_fill(pattern, expected, part);
        if (memcmp(expected, bytes + i, part) != 0) {
            size_t k = 0;

            while (expected[k] == bytes[i + k]) {
                k++;
            }
            return i + k;
        }
    }
    return length;
}

uint64_t pattern_seed(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) {
        seed = clock_now() * UINT64_C(0x9e3779b97f4a7c15);
    }
    return seed;
}
