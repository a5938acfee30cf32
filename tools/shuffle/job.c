#include <config.h>

#include "tools/shuffle/job.h"
#include "tools/shuffle/error.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

/* Larger, and a batch leaves the processor's cache before it is received;
 * smaller, and the control messages cost more than the copies. */
#define JOB_BATCH_SIZE (2 * MIB)
/* Of all batches that a worker may have under way. With many workers it is
 * less, because each maps the memory of all others. */
#define JOB_BATCHES_FEW  (64 * MIB)
#define JOB_BATCHES_MANY (24 * MIB)
#define JOB_BATCH_MIN    (64 * KIB)
/* More, and what a batch holds of each is too short to be sent in place. */
#define JOB_BUCKETS_MAX 4u

/* Partitions of the worker that has most. */
static uint32_t job_num_slots(const job_t *job)
{
    return (job->num_partitions + job->num_workers - 1) / job->num_workers;
}

void job_choose_buckets(job_t *job)
{
    job->bucket_shift = 0;
    while ((job_num_slots(job) - 1) >> job->bucket_shift >= JOB_BUCKETS_MAX) {
        job->bucket_shift++;
    }
}

void job_batch_shape(const job_t *job, batch_shape_t *shape_p)
{
    uint32_t num_buckets = ((job_num_slots(job) - 1) >> job->bucket_shift) + 1;
    size_t   all  = job->num_workers <= 4 ? JOB_BATCHES_FEW : JOB_BATCHES_MANY;
    size_t   most = all / (3 * (size_t)job->num_workers);
    size_t   size = JOB_BATCH_SIZE;

    size = size > most ? most : size;
    size = size < JOB_BATCH_MIN ? JOB_BATCH_MIN : size;
    batch_shape_init(shape_p, num_buckets, size);
}

int job_check_gpu_memory(const job_t *job)
{
    batch_shape_t shape;
    size_t        least;

    job_batch_shape(job, &shape);
    least = gpu_store_least_size(&shape);
    if ((job->gpu_memory == 0) || (job->gpu_memory >= least)) {
        return 0;
    }
    return say_error(
        "--device-memory: %zu bytes are too few for the batches of "
        "a worker: give %zum or more",
        job->gpu_memory, least / MIB + 1);
}

int job_make_gpu_store(const job_t *job, unsigned turn,
                       const batch_shape_t *shape, gpu_store_t **gpu_store_p)
{
    gpu_store_params_t params = {0};

    *gpu_store_p = NULL;
    if (!job->on_gpu) {
        return 0;
    }
    params.gpu         = job->gpu;
    params.turn        = turn;
    params.num_workers = job->num_workers;
    params.shape       = shape;
    params.most        = job->gpu_memory;
    params.num_bytes   = job->inputs.size;
    return gpu_store_create(&params, gpu_store_p);
}
