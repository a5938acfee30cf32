/*
 * A list of texts that grows, without doubles.
 */
#ifndef INFO_WORDS_H
#define INFO_WORDS_H

#include <stddef.h>

typedef struct words {
    char **texts;
    size_t num_texts;
} words_t;

#define WORDS_EMPTY \
    { \
        NULL, 0 \
    }

/* Add `length` bytes of text, unless they are in the list. What finds no memory
 * is left out: a report shows what it can. */
void words_add(words_t *words, const char *text, size_t length);

void words_cleanup(words_t *words);

#endif
