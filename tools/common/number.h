/*
 * Numbers of the command line. Each returns 0, or -1 (nothing said) when the
 * text is none or out of bounds.
 */
#ifndef COMMON_NUMBER_H
#define COMMON_NUMBER_H

#include <stdint.h>

/* 1 to max, with a suffix k, m or g. */
int number_parse_size(const char *text, uint64_t max, uint64_t *size_p);

/* The same for what fits an unsigned. */
int number_parse(const char *text, uint64_t max, unsigned *number_p);

/* More than 0, at most a million. */
int number_parse_seconds(const char *text, double *seconds_p);

#endif
