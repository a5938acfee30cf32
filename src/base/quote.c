#include "base/quote.h"

/* Bytes of the UTF-8 letter at `text`; 0: there is none. A name that was too
 * long may have been cut inside of one. */
static unsigned letter_size(const char *text)
{
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned             size;

    if (bytes[0] < 0x80) {
        return 1;
    }
    if ((bytes[0] < 0xc2) || (bytes[0] > 0xf4)) {
        return 0;
    }
    size = (bytes[0] < 0xe0) ? 2 : (bytes[0] < 0xf0) ? 3 : 4;
    for (unsigned i = 1; i < size; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    /* Longer than needed, a half of a pair, or beyond the last letter. */
    if (((bytes[0] == 0xe0) && (bytes[1] < 0xa0)) ||
        ((bytes[0] == 0xed) && (bytes[1] > 0x9f)) ||
        ((bytes[0] == 0xf0) && (bytes[1] < 0x90)) ||
        ((bytes[0] == 0xf4) && (bytes[1] > 0x8f))) {
        return 0;
    }
    return size;
}

/* A string between quotes, as JSON and OpenMetrics both take it. */
void base_quote_print(FILE *stream, const char *text)
{
    fputc('"', stream);
    while (*text != '\0') {
        unsigned size = letter_size(text);

        if ((size == 0) || ((unsigned char)*text < ' ')) {
            fputc('?', stream);
            text++;
            continue;
        }
        if ((*text == '"') || (*text == '\\')) {
            fputc('\\', stream);
        }
        fwrite(text, 1, size, stream);
        text += size;
    }
    fputc('"', stream);
}
