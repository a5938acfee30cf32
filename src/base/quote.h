/*
 * Text between quotes.
 */
#ifndef BASE_QUOTE_H
#define BASE_QUOTE_H

#include <stdio.h>

/* Print a string between quotes, as JSON and OpenMetrics both take it. What is
 * no letter of UTF-8 becomes '?'. */
void base_quote_print(FILE *stream, const char *text);

#endif
