/*
 * A copier's inside, for the files that it is made of.
 */
#ifndef COPY_CUDA_COPIER_INSIDE_H
#define COPY_CUDA_COPIER_INSIDE_H

#include "copy/cuda_copier.h"

/*
 * Jobs take turns in the streams of their kind: while the last thread blocks of
 * one launch come to their end and its word is written, others have begun.
 * Scatters and long pieces share a link. A gather is short, and a peer's link
 * stands idle until it is done: so it goes before scatters, and both before
 * what callers do at the default priority, where the GPU knows priorities.
 */
typedef enum copy_cuda_way {
    COPY_CUDA_GATHER,
    COPY_CUDA_SCATTER,
    COPY_CUDA_LONG, /* by the copy engine, either way */
    COPY_CUDA_NUM_WAYS
} copy_cuda_way_t;

#define COPY_CUDA_MAX_STREAMS 4u

/* The streams of one way. */
typedef struct copy_cuda_lane {
    CUstream streams[COPY_CUDA_MAX_STREAMS];
    unsigned num_streams;
    unsigned num_jobs; /* started: for the turns */
} copy_cuda_lane_t;

struct copy_cuda_copier {
    const mem_cuda_device_t *device;
    CUfunction               kernel;
    copy_cuda_lane_t         lanes[COPY_CUDA_NUM_WAYS];
    char                    *pinned; /* words, then what each job has */
    size_t                   entries_size;
    size_t                   max_tiles;
    copy_cuda_job_t         *free_jobs;
    unsigned                 num_jobs;
    copy_cuda_job_t         *jobs;
};

/* Say that a call failed on the copier's device. */
ucxpool_status_t copy_cuda_copier_error(const copy_cuda_copier_t *copier,
                                        CUresult result, const char *call);

#endif
