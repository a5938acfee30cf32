/*
 * What was measured, in words and for programs.
 */
#ifndef REPLAY_REPORT_H
#define REPLAY_REPORT_H

#include "replay/measure.h"

#include <stdio.h>

typedef struct report {
    const trace_t   *trace;
    const device_t  *device;
    measure_params_t params;
    uint64_t         clock_ns; /* that reading it takes */
    const measure_t *measures;
    unsigned         num_measures;
} report_t;

#define REPORT_SIZE_TEXT 32

/* "1.50 GiB". */
void report_size(uint64_t bytes, char text[REPORT_SIZE_TEXT]);

/* What a call takes in the mean of a whole run, a later one where there is. */
uint64_t report_call_ns(const report_t *report, const measure_t *measure);

/* The trace and what of it was left out; the table. */
void report_trace(const report_t *report, FILE *stream);
void report_table(const report_t *report, FILE *stream);

void report_csv(const report_t *report, FILE *stream);
void report_json(const report_t *report, FILE *stream);

#endif
