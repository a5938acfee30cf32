/*
 * A worker: reads its part of the inputs, sends each record to the worker that
 * owns its partition, and writes the partitions that it owns itself.
 *
 *     inputs -> splitter -> field -> hash -> batch of its target
 *                                               | full
 *               own batch <---------------------+-----> exchange
 *                   |                                       |
 *                   +----------> store, or <----------- incoming
 *                          count, check, append to file
 *
 * One loop, one thread: after each span it looks at what has arrived; while it
 * has no batch left for a target it does nothing else.
 */
#ifndef SHUFFLE_WORKER_H
#define SHUFFLE_WORKER_H

#include "tools/shuffle/job.h"
#include "tools/shuffle/progress.h"
#include "tools/shuffle/result.h"

typedef struct worker_params {
    const job_t *job;
    unsigned     index;
    exchange_t  *exchange;  /* NULL for a lone worker */
    gpu_store_t *gpu_store; /* NULL for none */
    progress_t  *progress;
    /* Asked often. -1 with an error: end now. */
    int (*interrupt)(void *arg);
    void *interrupt_arg;
} worker_params_t;

/*
 * Do it all, but for giving the files their final names. Returns -1 with a
 * error; the files are then still there.
 */
int worker_run(const worker_params_t *params, result_t *result_p);

#endif
