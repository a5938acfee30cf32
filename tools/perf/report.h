/* Reports of results, for readers and for programs. */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include "perf/job.h"

#include <stdio.h>

/* Print one job in full. */
void report_text(const job_result_t *result, FILE *stream);

typedef struct report {
    const job_result_t *results;
    unsigned            num_results;
    const char         *plot_path;
} report_t;

/* Write all jobs as one JSON object, or as a picture. The argument is a
 * report_t. The picture shows the rates of all jobs that have one
 * (otherwise millions of messages, otherwise microseconds). It is SVG, or PNG
 * if the path ends in .png. Return 0, or -1 after printing an error. */
int report_json(const void *report, FILE *stream);
int report_plot(const void *report, FILE *stream);

/* Check that gnuplot is installed. Returns 0, or -1 after printing an error. */
int report_plot_check(void);

/* The command that reproduces this result. */
#define REPORT_COMMAND_SIZE 512
const char *report_command(const job_t *job, char text[REPORT_COMMAND_SIZE]);

/* --- common to all reports ------------------------------------------------ */

/* The pool's speed divided by the other side's; for round trips, the pool's
 * time divided by the other's. */
typedef struct report_ratio {
    double value;
    double low;
    double high;
} report_ratio_t;

report_ratio_t report_ratio(const job_result_t *result,
                            const job_ratio_t  *ratio);

/* Returns a time in the job's unit: microseconds per round trip, nanoseconds,
 * millions of messages, or GB/s. */
double report_figure(const job_result_t *result, double seconds);

#define REPORT_TEXT_SIZE 64

/* Print the size of a message, for example "65,536 x 256 B". */
const char *report_work(const work_t *work, char text[REPORT_TEXT_SIZE]);

#endif
