#include "info/words.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool contains(const words_t *words, const char *text)
{
    for (size_t i = 0; i < words->num_texts; i++) {
        if (strcmp(words->texts[i], text) == 0) {
            return true;
        }
    }
    return false;
}

void words_add(words_t *words, const char *text, size_t length)
{
    char  *copy = strndup(text, length);
    char **texts;

    if ((copy == NULL) || contains(words, copy)) {
        goto err_free_copy;
    }
    texts = realloc(words->texts, (words->num_texts + 1) * sizeof(*texts));
    if (texts == NULL) {
        goto err_free_copy;
    }
    texts[words->num_texts++] = copy;
    words->texts              = texts;
    return;

err_free_copy:
    free(copy);
}

void words_cleanup(words_t *words)
{
    for (size_t i = 0; i < words->num_texts; i++) {
        free(words->texts[i]);
    }
    free(words->texts);
    words->texts     = NULL;
    words->num_texts = 0;
}
