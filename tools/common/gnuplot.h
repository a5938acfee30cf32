/*
 * A picture by gnuplot, which reads its script from us and gives the picture
 * to us: where it cannot be written, gnuplot would print it.
 */
#ifndef COMMON_GNUPLOT_H
#define COMMON_GNUPLOT_H

#include <stdio.h>
#include <sys/types.h>

typedef struct gnuplot {
    FILE *script; /* its last line draws */
    int   picture;
    pid_t pid;
} gnuplot_t;

/* Is gnuplot there, for an option? 0, or -1 after an error was printed. */
int gnuplot_check(const char *option);

/* Returns 0; or -1, with errno. */
int gnuplot_start(gnuplot_t *gnuplot);

/* The script is complete: write the picture to a stream. Returns -1 where there
 * is none; gnuplot has said why. */
int gnuplot_finish(gnuplot_t *gnuplot, FILE *stream);

/* What begins a script: the kind of picture, by the name of its file. */
void gnuplot_terminal(const char *path, unsigned width, unsigned height,
                      FILE *script);

/* Text in a string of single quotes. */
void gnuplot_quote(const char *text, FILE *script);

#endif
