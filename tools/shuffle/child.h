/*
 * A worker's process, on one host.
 */
#ifndef SHUFFLE_CHILD_H
#define SHUFFLE_CHILD_H

#include "tools/shuffle/shared.h"
#include "tools/shuffle/job.h"

#include <sys/types.h>

typedef struct child_params {
    const job_t    *job;
    unsigned        index;
    shared_place_t *shared;
    int             socket; /* to the main process */
    pid_t           parent;
} child_params_t;

/* Be that worker. Returns the exit status. */
int child_main(const child_params_t *params);

#endif
