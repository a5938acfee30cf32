/* The standard output, for the output of the tool alone. UCX logs there too,
 * through the C library's stream.
 */
#ifndef COMMON_OUTPUT_H
#define COMMON_OUTPUT_H

#include <stdio.h>

/*
 * Take the standard output away from the C library's stream, which goes to the
 * standard error from now on. To be called before anything is printed. Returns
 * 0, or -1 after an error was printed.
 *
 * stream_p [out]  To print to instead, and to close.
 */
int output_take(FILE **stream_p);

/* Close a stream at the end of the program. Returns the exit code: 1, after an
 * error was printed, where not all was written (a full disk shows here); else
 * code. */
int output_end(FILE *stream, int code);

#endif
