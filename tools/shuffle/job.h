/*
 * The job: what the command line asks for, checked.
 */
#ifndef SHUFFLE_JOB_H
#define SHUFFLE_JOB_H

#include "tools/shuffle/batch.h"
#include "tools/shuffle/input.h"
#include "tools/shuffle/output.h"

#include <stdbool.h>

typedef struct job {
    unsigned        num_workers;
    uint32_t        num_partitions;
    unsigned        field;
    bool            compare_memcpy;
    inputs_t        inputs;
    output_folder_t folder;
} job_t;

/* Partition p belongs to worker p modulo the number of workers. */
static inline output_set_t job_partitions(const job_t *job, unsigned worker)
{
    output_set_t set = {worker, job->num_workers, job->num_partitions};

    return set;
}

/* The shape of all batches: it bounds the memory of a worker. */
void job_batch_shape(const job_t *job, batch_shape_t *shape_p);

#endif
