/* Interface between a fuzz target and its driver. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One line that says what the last input did. check_corpus.sh compares it,
 * because a seed that is rejected at its first byte passes without testing
 * anything. */
const char *fuzz_told(void);

#endif
