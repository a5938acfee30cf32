/*
 * Reports: what a reader or a program gets to see of results.
 */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include "perf/job.h"

#include <stdio.h>

/* One job in full. */
void report_text(const job_result_t *result, FILE *stream);

/* The lines of a table of targets, in Markdown. */
void report_table_begin(const char *table, FILE *stream);
void report_table_row(const job_result_t *result, FILE *stream);

/* The same of a table of buffers in a GPU's memory; end: what is missing. */
void report_gpu_begin(const char *table, const job_result_t *result,
                      FILE *stream);
void report_gpu_row(const job_result_t *result, FILE *stream);
void report_gpu_end(const job_result_t *results, unsigned num_results,
                    FILE *stream);

/* All jobs as one object, or as lines with a heading. */
void report_json(const job_result_t *results, unsigned num_results,
                 FILE *stream);
void report_csv(const job_result_t *results, unsigned num_results,
                FILE *stream);

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

void report_ratio_get(const job_result_t *result, const job_ratio_t *ratio,
                      report_ratio_t *ratio_p);

/* GB/s that a side of the pool's has at least; 0: none. Verdict as above. */
double report_rate_target(const job_result_t *result, unsigned side,
                          const char **verdict_p);

/* The side by pieces, beside the pool's first; 0: there is none. */
unsigned report_pieces(const job_result_t *result);

#define REPORT_TEXT_SIZE 64

/* "64 MiB", "256 B" */
const char *report_size(uint64_t size, char text[REPORT_TEXT_SIZE]);

/* "65,536" */
const char *report_number(uint64_t n, char text[REPORT_TEXT_SIZE]);

/* "65,536 x 256 B" */
const char *report_work(const work_t *work, char text[REPORT_TEXT_SIZE]);

/* The command that makes this result. */
void report_command(const job_t *job, FILE *stream);

#endif
