/*
 * The summary at the end of a run, as text or as one JSON object.
 */
#ifndef SHUFFLE_SUMMARY_H
#define SHUFFLE_SUMMARY_H

#include "tools/shuffle/job.h"
#include "tools/shuffle/result.h"

#include <stdio.h>

typedef struct summary {
    const job_t    *job;
    const result_t *results; /* by worker */
    uint64_t        elapsed_ns;
} summary_t;

void summary_print_text(const summary_t *summary, FILE *stream);
void summary_print_json(const summary_t *summary, FILE *stream);

#endif
