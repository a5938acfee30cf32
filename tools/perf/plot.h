/*
 * The picture: a bar for each side, drawn by gnuplot.
 */
#ifndef PERF_PLOT_H
#define PERF_PLOT_H

#include "perf/job.h"

#include <stdio.h>

/* Is there a gnuplot on PATH? Says what to do when not. */
int plot_check(void);

/* Draw the rates of all jobs that have one (microseconds where none has) to a
 * stream, as SVG, or as PNG where the path of its file ends so. */
int plot_draw(const job_result_t *results, unsigned num_results,
              const char *path, FILE *stream);

#endif
