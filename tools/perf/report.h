/*
 * Reports: what a reader or a program gets to see of results.
 */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include "perf/job.h"

#include <stdio.h>

/* One job in full. */
void report_text(const job_result_t *result, FILE *stream);

/* A table of targets, in Markdown. With buffers in a GPU's memory it has a line
 * for each job and a column for each group of sides; end: what is missing. */
void report_table_begin(const char *table, const job_result_t *result,
                        FILE *stream);
void report_table_row(const char *table, const job_result_t *result,
                      FILE *stream);
void report_table_end(const char *table, const job_result_t *results,
                      unsigned num_results, FILE *stream);

typedef struct report {
    const job_result_t *results;
    unsigned            num_results;
    const char         *plot_path;
} report_t;

/* Of a report_t. All jobs as one JSON object, or as lines of CSV. The picture
 * has the rates of all jobs that have one (else millions of messages, else
 * microseconds), as SVG, or as PNG where the path ends so. Return 0, or -1
 * after an error was printed. */
int report_json(const void *report, FILE *stream);
int report_csv(const void *report, FILE *stream);
int report_plot(const void *report, FILE *stream);

/* The command that makes this result. */
#define REPORT_COMMAND_SIZE 512
const char *report_command(const job_t *job, char text[REPORT_COMMAND_SIZE]);

/* --- what all of them tell ------------------------------------------------ */

/* A ratio as its target has it: the pool's speed by the other's, or, where a
 * target is a bound of time, its time by the other's. */
typedef struct report_ratio {
    double      value;
    double      low;
    double      high;
    double      target;  /* 0: none */
    double      aim;     /* 0: none */
    const char *verdict; /* "met", "missed", or "" */
} report_ratio_t;

report_ratio_t report_ratio(const job_result_t *result,
                            const job_ratio_t  *ratio);

/* GB/s that a side of the pool's has at least; 0: none. Verdict as above. */
double report_rate_target(const job_result_t *result, unsigned side,
                          const char **verdict_p);

/* The index of the side that uses pieces; 0: none. */
unsigned report_pieces(const job_result_t *result);

/* A time as the job's unit has it: microseconds there and back, nanoseconds,
 * millions of messages or GB/s. */
double report_figure(const job_result_t *result, double seconds);

#define REPORT_TEXT_SIZE 64

/* "65,536 x 256 B" */
const char *report_work(const work_t *work, char text[REPORT_TEXT_SIZE]);

#endif
