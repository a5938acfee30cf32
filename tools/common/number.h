/*
 * Numbers on the command line, and sizes as people write them. The parse
 * functions return 0, or -1 without printing if the text is not a number or is
 * out of bounds.
 */
#ifndef COMMON_NUMBER_H
#define COMMON_NUMBER_H

#include <stdint.h>

#define NUMBER_TEXT_SIZE 32

/* 1 to max, with a suffix k, m or g. */
int number_parse_size(const char *text, uint64_t max, uint64_t *size_p);

/* The same for an unsigned. */
int number_parse(const char *text, uint64_t max, unsigned *number_p);

/* More than 0, at most a million. */
int number_parse_seconds(const char *text, double *seconds_p);

/* Bytes as 4m or 1.9g. */
void number_print_size(uint64_t bytes, char text[NUMBER_TEXT_SIZE]);

/* 12345 as "12,345". Returns the text. */
const char *number_print_commas(uint64_t number, char text[NUMBER_TEXT_SIZE]);

/* The plural ending of a noun after this number. */
static inline const char *number_plural(uint64_t num)
{
    return num == 1 ? "" : "s";
}

#endif
