/*
 * The writer of a worker: what belongs to its partitions is counted from the
 * bytes themselves, checked, and appended to the files. With a store it is held
 * there as long as there is room.
 */
#ifndef SHUFFLE_WRITER_H
#define SHUFFLE_WRITER_H

#include "tools/shuffle/exchange.h"
#include "tools/shuffle/job.h"
#include "tools/shuffle/progress.h"

typedef struct writer {
    const job_t *job;
    unsigned     index; /* of the worker */
    progress_t  *progress;
    output_t     output;
    gpu_store_t *gpu_store; /* NULL: none */
    uint64_t     early; /* bytes of messages that were brought out of the store
                           for lack of room */
    tally_t out;        /* what was written */
} writer_t;

/* All return -1 with an error. */

int  writer_init(writer_t *writer, const job_t *job, unsigned index,
                 progress_t *progress, gpu_store_t *gpu_store);
void writer_cleanup(writer_t *writer);

/* A batch of the worker's own. It may be filled again then. */
int writer_take_batch(writer_t *writer, batch_t *batch);

/* All batches that are here. */
int writer_take_arrivals(writer_t *writer, exchange_t *exchange);

/* Write the oldest of what the store holds. Returns 1, 0 when it holds nothing,
 * -1 with an error. */
int writer_write_held(writer_t *writer);

/* No more comes, and nothing is held: everything is in the files then. */
int writer_finish(writer_t *writer);

#endif
