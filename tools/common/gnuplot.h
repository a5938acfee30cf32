/*
 * Pictures drawn by gnuplot. gnuplot reads the tool's script and returns the
 * picture to the tool, which writes the file. If gnuplot wrote the file itself,
 * its errors would name its own script.
 */
#ifndef COMMON_GNUPLOT_H
#define COMMON_GNUPLOT_H

#include <stdio.h>

/* Check that gnuplot is installed, because `option` needs it. Returns 0, or -1
 * after printing an error. */
int gnuplot_check(const char *option);

/* Open a stream for a script, whose last line must draw the picture. Returns
 * NULL after printing an error. */
FILE *gnuplot_begin(void);

/* Close a complete script, and write the picture to a stream. Returns 0, or -1
 * after printing an error that names the picture's path. */
int gnuplot_end(FILE *script, const char *path, FILE *stream);

/* Write the first lines of a script, which select the picture format from the
 * file name. */
void gnuplot_terminal(const char *path, unsigned width, unsigned height,
                      FILE *script);

/* Write text as a single-quoted string. */
void gnuplot_quote(const char *text, FILE *script);

#endif
