/*
 * A picture by gnuplot, which reads a script of ours and writes the picture to
 * us: where gnuplot itself writes a file, its errors name its own script.
 */
#ifndef COMMON_GNUPLOT_H
#define COMMON_GNUPLOT_H

#include <stdio.h>

/* Is gnuplot there, for an option? 0, or -1 after an error was printed. */
int gnuplot_check(const char *option);

/* The stream of a script; its last line draws. NULL after an error was
 * printed. */
FILE *gnuplot_begin(void);

/* The script is complete: close it, and write the picture to a stream. Returns
 * 0, or -1 after an error was printed, which names the picture's path. */
int gnuplot_end(FILE *script, const char *path, FILE *stream);

/* What begins a script: the kind of picture, by the name of its file. */
void gnuplot_terminal(const char *path, unsigned width, unsigned height,
                      FILE *script);

/* Text in a string of single quotes. */
void gnuplot_quote(const char *text, FILE *script);

#endif
