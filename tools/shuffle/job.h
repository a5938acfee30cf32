/*
 * The job: what the command line asks for, checked.
 */
#ifndef SHUFFLE_JOB_H
#define SHUFFLE_JOB_H

#include "tools/shuffle/batch.h"
#include "tools/shuffle/input.h"
#include "tools/shuffle/output.h"
#include "tools/shuffle/gpu_store.h"

#include <stdbool.h>

typedef struct job {
    unsigned        num_workers;
    uint32_t        num_partitions;
    unsigned        bucket_shift; /* 2^n partitions of a worker are a bucket */
    unsigned        field;
    bool            compare_memcpy;
    bool            on_gpu;
    int             gpu;        /* -1: dealt out in turn */
    size_t          gpu_memory; /* 0: chosen */
    inputs_t        inputs;
    output_folder_t folder;
} job_t;

/* Partition p belongs to worker p modulo the number of workers. */
static inline unsigned job_worker(const job_t *job, uint32_t partition)
{
    return partition % job->num_workers;
}

/* The bucket that it shares with neighbours, of those of its worker. */
static inline uint32_t job_bucket(const job_t *job, uint32_t partition)
{
    return partition / job->num_workers >> job->bucket_shift;
}

static inline output_set_t job_partitions(const job_t *job, unsigned worker)
{
    output_set_t set = {worker, job->num_workers, job->num_partitions};

    return set;
}

/* Choose the buckets; num_workers and num_partitions are there. */
void job_choose_buckets(job_t *job);

/* The shape of all batches: it bounds the memory of a worker. */
void job_batch_shape(const job_t *job, batch_shape_t *shape_p);

/* Whether gpu_memory is enough. Returns -1 with an error. */
int job_check_gpu_memory(const job_t *job);

/*
 * Make the store of a worker, where the job wants one; otherwise it is NULL. To
 * be called in the worker's own process.
 *
 * turn  Which one it is on this host.
 *
 * Returns -1 with an error.
 */
int job_make_gpu_store(const job_t *job, unsigned turn,
                       const batch_shape_t *shape, gpu_store_t **gpu_store_p);

#endif
