/*
 * A job on one host: the main process starts the workers, introduces them to
 * each other, waits, compares what they read with what they wrote, and only
 * then gives the files their final names.
 *
 *     start -> all ready: go -> all done: compare, leave -> all gone: commit
 *        \______________________ any failure: abort -> all park: kill, discard
 *
 * A worker that has failed does not leave, because its connections would break
 * while others use them: UCX is loud then, and 1.13 may abort the process. It
 * waits until all do, and they are ended together.
 */
#ifndef SHUFFLE_LOCAL_H
#define SHUFFLE_LOCAL_H

#include "tools/shuffle/job.h"
#include "tools/shuffle/result.h"

/*
 * Returns 0 with num_workers results; -1 with an error; or the number of the
 * signal that ended the run. After the last two no file is left.
 */
int local_run(job_t *job, result_t *results);

#endif
