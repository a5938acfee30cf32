/*
 * Text functions: they clean text for output, and parse and format the values
 * of settings.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Replace each byte of a control character with '?', in place. Text in errors
 * and log lines may come from a peer or the environment. Such text must not
 * break lines or send control sequences to a terminal.
 */
void base_text_clean(char *text);

/* Copy a text, truncated to fit. The copy is always NUL-terminated. */
void base_text_copy(char *to, size_t to_size, const char *from);

/* Print a quoted string that is valid in JSON and in OpenMetrics. Invalid UTF-8
 * becomes '?'. */
void base_quote_print(FILE *stream, const char *text);

/* --- printing into a string -----------------------------------------------
 * open_memstream() does the same, but does not report that memory ran out
 * during a write to the stream.
 */

typedef struct base_string {
    FILE  *stream;
    char  *text;
    size_t length;
    bool   has_failed; /* a write found no memory */
} base_string_t;

/* Returns a stream that writes into the string. Returns NULL if out of memory.
 * In both cases, call base_string_close(). */
FILE *base_string_open(base_string_t *string);

/* Close the stream. Returns the text, which the caller must free(). Returns
 * NULL and records an error if memory ran out. */
char *base_string_close(base_string_t *string);

/* The same for a caller that continues without the text: logs the error as a
 * warning. */
char *base_string_close_or_warn(base_string_t *string);

/* --- values of settings --------------------------------------------------- */

/*
 * The parsers return false and leave the output unchanged if the text is not a
 * valid value or the value does not fit. Case is ignored. The text must contain
 * only the value.
 */

/* Size of the buffer for the base_format functions. */
#define BASE_FORMAT_SIZE 32

/*
 * Parse a size: a number of bytes, optionally with a suffix k, m, g, t (powers
 * of 1024) or b (bytes). "4m" and "4mb" are equal. "auto" gives BASE_SIZE_AUTO
 * and "inf" gives BASE_SIZE_INF. Numbers equal to these two values are
 * rejected.
 */
bool base_parse_size(const char *text, size_t *size_p);

/* Parse a time: a number with a unit (ns, us, ms, s, m, h), 0, or "inf". "inf"
 * gives UINT64_MAX, which is rejected as a number. */
bool base_parse_time(const char *text, uint64_t *ns_p);

/* Parse an unsigned decimal number. */
bool base_parse_unsigned(const char *text, unsigned *number_p);

/* Find a text in a list of words that ends with NULL, and store its index. */
bool base_parse_word(const char *text, const char *const *words,
                     unsigned *index_p);

/* Parse a truth value. True: y, yes, on, true, 1. False: n, no, off, false,
 * 0. */
bool base_parse_bool(const char *text, bool *value_p);

/* Write the shortest text that parses as the same value. */
void base_format_size(uint64_t size, char text[BASE_FORMAT_SIZE]);
void base_format_time(uint64_t ns, char text[BASE_FORMAT_SIZE]);

#endif
