/*
 * Pictures drawn by gnuplot. It reads our script and writes the picture to us.
 * If gnuplot wrote the file itself, its errors would name its own script.
 */
#ifndef COMMON_GNUPLOT_H
#define COMMON_GNUPLOT_H

#include <stdio.h>

/* Is gnuplot installed? Called for an option. Returns 0, or -1 after an error
 * was printed. */
int gnuplot_check(const char *option);

/* The stream of a script; its last line draws. NULL after an error was
 * printed. */
FILE *gnuplot_begin(void);

/* Call when the script is complete: closes it, and writes the picture to a
 * stream. Returns 0, or -1 after an error was printed, which names the
 * picture's path. */
int gnuplot_end(FILE *script, const char *path, FILE *stream);

/* Write the first lines of a script: the picture format follows from the file
 * name. */
void gnuplot_terminal(const char *path, unsigned width, unsigned height,
                      FILE *script);

/* Write text as a single-quoted string. */
void gnuplot_quote(const char *text, FILE *script);

#endif
