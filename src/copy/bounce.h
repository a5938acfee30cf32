/*
 * What a GPU does not reach goes through a job's pinned memory: pageable host
 * memory among the segments, and bytes that came with an active message.
 *
 *     bounce    | as the range of the stream: segments | a block's bytes |
 *
 * The processor copies from host segments before a gather, and to them after a
 * scatter. Pinned segments of such a message are taken for host memory too.
 */
#ifndef COPY_BOUNCE_H
#define COPY_BOUNCE_H

#include "copy/engine.h"
#include "copy/launch.h"

#include <assert.h>

/* Bytes of the stream that one copy takes then. */
#define COPY_BOUNCE_HALF ((size_t)512 << 10)

/* The list then has this share of its room; behind it stands what is left to
 * copy. */
#define COPY_BOUNCE_SHARE 3u
#define COPY_BOUNCE_LIST  ((size_t)320 << 10)

static_assert(sizeof(copy_entry_t) * 2 <=
                  sizeof(copy_segment_t) * COPY_BOUNCE_SHARE,
              "each entry of the list has room for a copy that is left");

/* Let the entries of host segments lead to the job's memory: a gather's bytes
 * are there afterwards, a scatter's are left to copy in `copy`. */
void copy_bounce_segments(const mem_cuda_driver_t *driver, copy_cuda_job_t *job,
                          copy_launch_t *launch, bool is_gather,
                          copy_job_t *copy);

/* Put a block's bytes there; returns their address. */
uint64_t copy_bounce_block(copy_cuda_job_t *job, const void *block,
                           uint64_t length);

#endif
