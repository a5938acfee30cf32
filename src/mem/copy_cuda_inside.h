/*
 * A copier's inside, for the files that it is made of.
 */
#ifndef MEM_COPY_CUDA_INSIDE_H
#define MEM_COPY_CUDA_INSIDE_H

#include "mem/copy_cuda.h"

/*
 * Jobs take turns in streams: while the last thread blocks of one launch come
 * to their end and its word is written, others have begun. Long pieces share
 * the link, and two at a time are enough to hide their words.
 */
#define MEM_CUDA_KERNEL_STREAMS 4u
#define MEM_CUDA_LONG_STREAMS   2u
#define MEM_CUDA_NUM_STREAMS \
    (MEM_CUDA_KERNEL_STREAMS + MEM_CUDA_LONG_STREAMS)

struct mem_cuda_copier {
    const mem_cuda_device_t *device;
    CUfunction               kernel;
    CUstream                 streams[MEM_CUDA_NUM_STREAMS];
    unsigned                 num_kernels; /* started: for their turns         */
    unsigned                 num_longs;   /* pieces, likewise                 */
    char                    *pinned; /* words, then what each job has */
    size_t                   entries_size;
    size_t                   max_tiles;
    mem_cuda_job_t          *free_jobs;
    unsigned                 num_jobs;
    mem_cuda_job_t          *jobs;
};

/* Say that a call failed on the copier's device. */
ucxpool_status_t mem_cuda_copier_error(const mem_cuda_copier_t *copier,
                                       CUresult result, const char *call);

#endif
