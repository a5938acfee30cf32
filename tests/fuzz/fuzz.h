/*
 * What a fuzz target is to its driver.
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the input did that ran last, on one line. check_corpus.sh compares it,
 * for a seed that is refused at its first byte harms nothing, and tests
 * nothing. */
const char *fuzz_told(void);

#endif
