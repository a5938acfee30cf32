/*
 * The copy engine of a GPU: launches of the copy kernel (tiles.h), or of
 * the GPU's own engine for what is long and contiguous.
 *
 * A copier has streams of its own and some jobs. A job has room in pinned
 * memory for the list and the tiles of one launch, which the kernel reads there
 * while the host fills another job; and a word: its stream writes a number
 * there when the job is done, and the host looks at that. No call of the driver
 * is made for it. Jobs end in any order.
 *
 *     get -> fill entries -> add, add -> start -> poll ... poll -> put
 *
 * Threads: one at a time.
 */
#ifndef COPY_CUDA_COPIER_H
#define COPY_CUDA_COPIER_H

#include "copy/plan.h"
#include "copy/tiles.h"
#include "mem/cuda_device.h"

/* --- the kernels ------------------------------------------------------------
 * The kernels, compiled by the driver for one GPU. That takes a moment, so it
 * is done once for all copiers.
 */

#define COPY_KERNEL_NAME "ucxpool_copy"

typedef struct copy_cuda_kernels {
    const mem_cuda_device_t *device;
    CUmodule                 module;
    CUfunction               copy; /* COPY_KERNEL_NAME */
} copy_cuda_kernels_t;

/*
 * UCXPOOL_ERR_UNSUPPORTED  the GPU is too old for them
 * UCXPOOL_ERR_NO_MEMORY    on the GPU
 * UCXPOOL_ERR_IO           the driver failed otherwise
 */
ucxpool_status_t copy_cuda_kernels_init(const mem_cuda_device_t *device,
                                        copy_cuda_kernels_t     *kernels);
/* Nothing may be running. May be called twice. */
void copy_cuda_kernels_cleanup(copy_cuda_kernels_t *kernels);

/* --- the list of a launch ---------------------------------------------------
 * A range of the stream as the list of one launch of a GPU's copy kernel
 * (copy/tiles.h).
 */

typedef struct copy_launch {
    copy_table_t list;    /* its stream is for the caller to fill */
    uint64_t     covered; /* bytes of the stream, from the range's start */
    size_t       first;   /* number of the list's first segment or piece, */
                          /* where all have one length */
} copy_launch_t;

/*
 * Fill a list with the plan's memory behind [offset, offset + length) of the
 * stream, as far as there is room for entries: at least one fits. A gather
 * clears the padding in what was covered, if its offset is a multiple of
 * COPY_ALIGNMENT and its end is one or the stream's. A scatter takes any range.
 *
 * The list may be a part of the caller's array, where that is pinned: nobody
 * may have looked at it then, and the kernel tells of a NULL, or of a segment
 * of another length.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the address of a piece in it is NULL, or a segment
 *                            of unseen memory has another length than the
 *                            first; the detail names it
 */
ucxpool_status_t copy_launch_fill(copy_plan_t *plan, uint64_t offset,
                                  uint64_t length, bool is_gather,
                                  void *entries, size_t entries_size,
                                  copy_launch_t *launch_p);

/* --- copiers and jobs ----------------------------------------------------- */

typedef struct copy_cuda_copier copy_cuda_copier_t;

/* A word that one GPU writes and another waits for, with what it has then. */
typedef struct copy_flag {
    uint32_t *word; /* NULL: none */
    uint32_t  number;
} copy_flag_t;

typedef struct copy_cuda_job {
    /* For the caller to fill, before add; not after start until it is done. */
    void *entries;
    /* Pinned memory for what the GPU does not reach; likewise. */
    char *bounce;
    /* For the caller to set, before start; false when it is got: the sender's
     * GPU writes to blocks of the receiver's. Else the receiver's reads. */
    bool is_pushed;
    /* Likewise; none when it is got. A gather writes it when its bytes are
     * there; a scatter waits for it, but not for long: see
     * copy_cuda_job_fault(). */
    copy_flag_t flag;
    /* The copier's own. */
    copy_tile_t          *tiles;
    size_t                num_tiles;
    copy_table_t          even;      /* of one length: in place of tiles */
    uint32_t              tile_size; /* its */
    struct copy_cuda_job *next;
    CUstream              stream; /* that it was started in */
    uint32_t             *word;   /* is `number` when the job is done */
    uint32_t             *fault;  /* beside it: see copy_cuda_job_fault() */
    uint32_t              number;
    uint32_t              num_polls; /* since it was started */
    bool                  is_started;
} copy_cuda_job_t;

typedef struct copy_cuda_copier_params {
    unsigned num_jobs;     /* that may be under way at one time */
    size_t   entries_size; /* bytes of a job's list */
    size_t   max_tiles;    /* of a job */
    size_t   bounce_size;  /* of a job; may be 0 */
} copy_cuda_copier_params_t;

/*
 * kernels  Outlive the copier, as does their device.
 *
 * UCXPOOL_ERR_INVALID_PARAM  a parameter is 0 that may not, or beyond all
 *                            memory
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t
copy_cuda_copier_create(const copy_cuda_kernels_t       *kernels,
                        const copy_cuda_copier_params_t *params,
                        copy_cuda_copier_t             **copier_p);
/* Until what is under way is over. */
void copy_cuda_copier_wait(const copy_cuda_copier_t *copier);
/* Waits for what is under way. NULL is allowed. */
void copy_cuda_copier_destroy(copy_cuda_copier_t *copier);

/* An empty job, or NULL when all are in use. */
copy_cuda_job_t *copy_cuda_job_get(copy_cuda_copier_t *copier);
/* One that is not under way. */
void copy_cuda_job_put(copy_cuda_copier_t *copier, copy_cuda_job_t *job);

/*
 * Cut a list into tiles for this job. There may be several in one job, with a
 * stream each (blocks that do not lie side by side, say), all of one form that
 * is not of one length.
 *
 * list         Its entries lie in job->entries; those of one length may
 *              lie in any pinned memory.
 * stream_size  Bytes of the streams of all lists of the job, by which the
 *              tiles' size is chosen.
 *
 * False when there is no room for so many tiles; then nothing is added.
 */
bool copy_cuda_job_add(const copy_cuda_copier_t *copier, copy_cuda_job_t *job,
                       const copy_table_t *list, uint64_t stream_size);

/*
 * Let the kernel do the job.
 *
 * form, length  Of all lists that were added.
 * is_gather     From the pieces to the streams; else the other way.
 *
 * Every address is one of the device, of host memory that is pinned, or of a
 * peer's memory that is mapped here. Pieces that are written do not overlap.
 *
 * UCXPOOL_ERR_IO and others  the driver failed; the job is not under way,
 *                            though some of its bytes may have been copied
 */
ucxpool_status_t copy_cuda_job_start(copy_cuda_copier_t *copier,
                                     copy_cuda_job_t *job, copy_form_t form,
                                     uint32_t length, bool is_gather);

/*
 * Let the GPU's copy engine copy one piece: the fastest way for a long one
 * between GPUs. A flag is written, and cannot be waited for. Errors as for
 * start.
 */
ucxpool_status_t copy_cuda_job_start_long(copy_cuda_copier_t *copier,
                                          copy_cuda_job_t *job, void *target,
                                          const void *source, size_t length);

/*
 * UCXPOOL_OK          every byte has been copied, and the host sees what went
 *                     to host memory
 * UCXPOOL_INPROGRESS  not yet
 * others              the GPU has failed, and nothing on it will work again in
 *                     this process
 */
ucxpool_status_t copy_cuda_job_poll(copy_cuda_copier_t *copier,
                                    copy_cuda_job_t    *job);

/*
 * Of a job that is done: COPY_LATE if it waited for its flag in vain, and is to
 * be started again; or, of addresses or segments of one length, the number of
 * an entry that was NULL, from 1 on; 0 if none was. Where one was, other bytes
 * may have been copied to wrong places of the stream, or of the pieces.
 */
uint32_t copy_cuda_job_fault(const copy_cuda_job_t *job);

/*
 * Write 0 to words of this GPU's memory, `stride` bytes apart, and wait for it.
 *
 * UCXPOOL_ERR_IO and others  the driver failed
 */
ucxpool_status_t copy_cuda_copier_clear(copy_cuda_copier_t *copier, void *first,
                                        size_t stride, unsigned num);

/*
 * Is the GPU well? Asked while another stream than the copier's is waited for.
 *
 * Errors as for poll.
 */
ucxpool_status_t copy_cuda_copier_check(const copy_cuda_copier_t *copier);

#endif
