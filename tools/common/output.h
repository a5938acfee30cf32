/* Functions that reserve the standard output for the tool's own output. UCX
 * logs to the C library's stdout, which is redirected. */
#ifndef COMMON_OUTPUT_H
#define COMMON_OUTPUT_H

#include <stdio.h>

/*
 * Redirect the C library's stdout to the standard error. Call this before
 * anything is printed. Returns 0, or -1 after an error was printed.
 *
 * stream_p [out]  The standard output, for the caller to write to and to close.
 */
int output_take(FILE **stream_p);

/* Close a stream at the end of the program. Returns `code` if everything was
 * written. Otherwise, for example if the disk is full, prints an error and
 * returns 1. */
int output_end(FILE *stream, int code);

#endif
