/*
 * A run of ucxpool_shuffle.
 *
 *     inputs -> reader -> the worker that owns the partition
 *                              | this one      | another: its batch, when full
 *                              |               v
 *                              |           exchange -> batches of the others
 *                              v                            |
 *                              |<---------------------------'
 *                              |  count, check
 *                              v
 *                        output -> names, when all results agree -> summary
 *
 * local.c runs all workers on this host. ranks.c runs one worker in a process
 * that mpirun or srun has started. Partition p belongs to worker p modulo the
 * number of workers.
 */
#ifndef SHUFFLE_JOB_H
#define SHUFFLE_JOB_H

#include "tools/shuffle/exchange.h"
#include "tools/shuffle/input.h"
#include "tools/shuffle/output.h"

#include <stdio.h>

/* The options, after they have been checked. */
typedef struct job {
    unsigned        num_workers;
    uint32_t        num_partitions;
    unsigned        field;
    size_t          batch_size; /* bytes of records */
    inputs_t        inputs;
    output_folder_t folder;
} job_t;

/* Returns the partitions of a worker. */
static inline output_set_t job_partitions(const job_t *job, unsigned worker)
{
    output_set_t set = {worker, job->num_workers, job->num_partitions};

    return set;
}

/* The result of one worker. */
typedef struct result {
    tally_t           in;           /* records read */
    tally_t           out;          /* records counted when written */
    uint64_t          num_added;    /* newlines that were added */
    uint64_t          max_resident; /* bytes of memory */
    exchange_report_t exchange;
} result_t;

typedef struct worker_params {
    const job_t *job;
    unsigned     index;
    exchange_t  *exchange; /* NULL for a lone worker */
    /* Called often. If it returns -1 with an error, the worker ends. */
    int (*interrupt)(void *arg);
    void *interrupt_arg;
} worker_params_t;

/* The functions below that return an int return -1 with an error. */

/* Choose the size of a batch, which limits the memory of a worker. */
void worker_choose_batch(job_t *job);

/* Create the exchange of a worker, in the worker's own process; NULL for a lone
 * worker. */
int worker_prepare(worker_params_t *params);

/* Do all of a worker's work, except for the final names of the files. */
int worker_run(const worker_params_t *params, result_t *result_p);

/*
 * Run the job with one process per worker. Returns 0 with the results, -1 with
 * an error, or the number of the signal that ended the run. Unless it returns
 * 0, no file is left.
 */
int local_run(job_t *job, result_t *results);

/* Functions that run the job as one worker of a launcher. */
bool ranks_are_launched(void);
/* run_p [out]  An id that is the same in all ranks. */
int  ranks_init(unsigned *rank_p, unsigned *num_ranks_p, uint64_t *run_p);
int  ranks_run(job_t *job, result_t *results);
void ranks_cleanup(void);

/*
 * End all ranks after a failure, unless a signal ends them. Waits some seconds,
 * so that the other workers stop before any connection breaks. When a
 * connection breaks, UCX logs errors, and UCX 1.13 aborts processes that use
 * the connection.
 */
void ranks_abort(int status, int signal_number);

/* Check that all records were written. */
int results_check(const result_t *results, unsigned num_workers);

void summary_print_text(const job_t *job, const result_t *results,
                        uint64_t elapsed_ns, FILE *stream);
void summary_print_json(const job_t *job, const result_t *results,
                        uint64_t elapsed_ns, FILE *stream);

#endif
