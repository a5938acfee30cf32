/*
 * Bytes that cannot be guessed: filled in by the sender, checked by the
 * receiver one by one.
 */
#ifndef PERF_PATTERN_H
#define PERF_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* A stream of bytes; the same seed gives the same stream. */
typedef struct pattern {
    uint64_t state;
    uint64_t word;     /* what is left of the last word, low byte first */
    unsigned num_left; /* its bytes */
} pattern_t;

void pattern_init(pattern_t *pattern, uint64_t seed);

/* Write the next `length` bytes of the stream. */
void pattern_fill(pattern_t *pattern, void *memory, size_t length);

/* Compare with the next `length` bytes of the stream. Returns the offset of
 * the first byte that differs, or `length`. */
size_t pattern_compare(pattern_t *pattern, const void *memory, size_t length);

/* A seed that was never used before. */
uint64_t pattern_seed(void);

#endif
