/* Interface between a fuzz target and its driver. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* assert() that does not depend on NDEBUG. */
#define CHECK(_condition) \
    do { \
        if (!(_condition)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #_condition); \
            abort(); \
        } \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One line that says what the last input did. check_corpus.sh compares it,
 * because a seed that is rejected at its first byte passes without testing
 * anything. */
const char *fuzz_told(void);

#endif
