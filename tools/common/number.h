/*
 * Numbers on the command line, and sizes in readable form. The parse functions
 * return 0, or -1 without printing an error if the text is not a number or is
 * out of bounds.
 */
#ifndef COMMON_NUMBER_H
#define COMMON_NUMBER_H

#include <stdint.h>

#define NUMBER_TEXT_SIZE 32

/* Parse a number from 1 to max, which may have a suffix k, m or g. */
int number_parse_size(const char *text, uint64_t max, uint64_t *size_p);

/* Parse the same into an unsigned. */
int number_parse(const char *text, uint64_t max, unsigned *number_p);

/* Parse a number of seconds: more than 0, at most a million. */
int number_parse_seconds(const char *text, double *seconds_p);

/* Print a number of bytes as 4m or 1.9g. */
void number_print_size(uint64_t bytes, char text[NUMBER_TEXT_SIZE]);

/* Print a number of bytes as "4 MiB" or "1.90 GiB". Returns the text. */
const char *number_print_bytes(uint64_t bytes, char text[NUMBER_TEXT_SIZE]);

/* Print 12345 as "12,345". Returns the text. */
const char *number_print_commas(uint64_t number, char text[NUMBER_TEXT_SIZE]);

/* Returns the plural ending of a noun after this number. */
static inline const char *number_plural(uint64_t num)
{
    return num == 1 ? "" : "s";
}

#endif
