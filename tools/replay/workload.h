/*
 * Workloads: traces that are made, the same ones on every machine.
 */
#ifndef REPLAY_WORKLOAD_H
#define REPLAY_WORKLOAD_H

#include "replay/trace.h"

#include <stdio.h>

/*
 * Make the workload of that name, "rmm:10000,64" for example. NULL after having
 * said what is wrong: *is_wrong_p tells whether it is the name.
 */
trace_t *workload_make(const char *text, bool *is_wrong_p);

/* Names and what they do. */
void workload_list(FILE *stream);

#endif
