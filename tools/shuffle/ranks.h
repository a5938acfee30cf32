/*
 * A job under a launcher: each process is one worker, and rank 0 also compares
 * what was read with what was written. They talk by notes through the pool:
 *
 *     rank i -> 0   result          rank 0 -> i   verdict: commit or discard
 *     rank i -> 0   committed       rank 0 -> i   verdict: leave or discard
 *
 * Each rank gives the files of its own partitions their final names, in its
 * own folder.
 */
#ifndef SHUFFLE_RANKS_H
#define SHUFFLE_RANKS_H

#include "tools/shuffle/job.h"
#include "tools/shuffle/launcher.h"
#include "tools/shuffle/result.h"

/*
 * Returns 0, on rank 0 with num_workers results; -1 with an error; or the
 * number of the signal that ended the run. After the last two no file is left
 * in this rank's folder.
 */
int ranks_run(job_t *job, launcher_t *launcher, result_t *results);

#endif
