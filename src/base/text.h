/*
 * Text: what may be printed of it, what it resembles, and values of settings
 * from it and back.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Replace each byte of a control character by '?', in place. Text in errors and
 * log lines may come from a peer or the environment; it must neither break a
 * line nor speak to a terminal.
 */
void base_text_clean(char *text);

/* Copy a text, or as much of it as fits; its end is a 0 always. */
void base_text_copy(char *to, size_t to_size, const char *from);

/*
 * How many letters must be changed, added, dropped or swapped with their
 * neighbour to turn one text into the other; case does not count. Texts longer
 * than BASE_TEXT_DISTANCE_MAX differ by SIZE_MAX from everything.
 */
#define BASE_TEXT_DISTANCE_MAX 63

size_t base_text_distance(const char *a, const char *b);

/* Print a string between quotes, as JSON and OpenMetrics both take it. What is
 * no letter of UTF-8 becomes '?'. */
void base_quote_print(FILE *stream, const char *text);

/* --- values of settings --------------------------------------------------- */

/*
 * Values of settings: from text, and back.
 *
 * Functions that read return false when the text is not such a value, or when
 * the value does not fit; the output is then untouched. Letters may be upper or
 * lower case. Nothing but the value may stand in the text.
 */

/* Room for any text that a base_format function writes. */
#define BASE_FORMAT_SIZE 32

/*
 * A size: a number of bytes, or with a suffix k, m, g, t (powers of 1024) or b
 * (bytes); "4m" and "4mb" are the same. "auto" gives BASE_SIZE_AUTO and "inf"
 * BASE_SIZE_INF; a number that large is refused.
 */
bool base_parse_size(const char *text, size_t *size_p);

/*
 * A time: a number with a unit (ns, us, ms, s, m, h), 0, or "inf", which gives
 * UINT64_MAX; a number that large is refused.
 */
bool base_parse_time(const char *text, uint64_t *ns_p);

/* A number, decimal, without sign. */
bool base_parse_unsigned(const char *text, unsigned *number_p);

/* A number of percent, 0 to 100; a % may follow. */
bool base_parse_percent(const char *text, unsigned *percent_p);

/* The index of the text in a list of words that ends with NULL. */
bool base_parse_word(const char *text, const char *const *words,
                     unsigned *index_p);

/* y, yes, on, true, 1 and n, no, off, false, 0. */
bool base_parse_bool(const char *text, bool *value_p);

/* The shortest text that is read as the same value. */
void base_format_size(uint64_t size, char text[BASE_FORMAT_SIZE]);
void base_format_time(uint64_t ns, char text[BASE_FORMAT_SIZE]);

#endif
