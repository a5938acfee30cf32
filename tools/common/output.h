/* The standard output, reserved for the tool's own output. UCX also logs there,
 * through the C library's stream. */
#ifndef COMMON_OUTPUT_H
#define COMMON_OUTPUT_H

#include <stdio.h>

/*
 * Redirect the C library's stdout to the standard error. To be called before
 * anything is printed. Returns 0, or -1 after an error was printed.
 *
 * stream_p [out]  The standard output, to print to and to close.
 */
int output_take(FILE **stream_p);

/* Close a stream at the end of the program. Returns code if everything was
 * written. Otherwise prints an error and returns 1; a full disk is detected
 * here. */
int output_end(FILE *stream, int code);

#endif
