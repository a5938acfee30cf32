/*
 * The ways of the GPU's copy engine: the sender copies into the receiver's
 * memory, which it has mapped by a CUDA IPC handle, and an answer that repeats
 * the message goes back in the same way. This is what the link can do.
 */
#ifndef PERF_COPY_END_H
#define PERF_COPY_END_H

#include "perf/control.h"
#include "perf/end.h"
#include "perf/job.h"

/*
 * Create an end; both processes call this, and have the same outcome.
 *
 * end_p [out]   NULL where the two cannot copy to each other.
 * reason [out]  Then: why.
 *
 * Returns 0 or -1, the error said.
 */
int copy_end_create(control_t *control, const end_params_t *params,
                    end_t **end_p, char reason[JOB_REASON_SIZE]);

#endif
