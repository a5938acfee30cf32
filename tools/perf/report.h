/* Reports of results, for readers and for programs. */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include "perf/job.h"

#include <stdio.h>

/* Print one job in full. */
void report_text(const job_result_t *result, FILE *stream);

/* Write all jobs as one JSON object. */
void report_json(const job_result_t *results, unsigned num_results,
                 FILE *stream);

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

#endif
