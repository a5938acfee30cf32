#include <config.h>

#include "tools/shuffle/job.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

/* Larger, and a batch leaves the processor's cache before it is received;
 * smaller, and the control messages cost more than the copies. */
#define JOB_BATCH_SIZE (2 * MIB)
/* With many partitions, what goes to a file at a time should not be tiny. */
#define JOB_BATCH_SLOT (16 * KIB)
/* Of all batches that a worker may have under way. With many workers it is
 * less, because each maps the memory of all others. */
#define JOB_BATCHES_FEW  (64 * MIB)
#define JOB_BATCHES_MANY (24 * MIB)
#define JOB_BATCH_MIN    (64 * KIB)

void job_batch_shape(const job_t *job, batch_shape_t *shape_p)
{
    uint32_t num_slots =
        (job->num_partitions + job->num_workers - 1) / job->num_workers;
    size_t all  = job->num_workers <= 4 ? JOB_BATCHES_FEW : JOB_BATCHES_MANY;
    size_t most = all / (3 * (size_t)job->num_workers);
    size_t size = num_slots * JOB_BATCH_SLOT;

    size = size < JOB_BATCH_SIZE ? JOB_BATCH_SIZE : size;
    size = size > most ? most : size;
    size = size < JOB_BATCH_MIN ? JOB_BATCH_MIN : size;
    batch_shape_init(shape_p, num_slots, size);
}
