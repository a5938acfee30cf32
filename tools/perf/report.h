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

#endif
