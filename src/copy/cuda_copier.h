/*
 * The copy engine of a GPU. It launches the copy kernel (tiles.h), or the GPU's
 * own copy engine for long contiguous copies.
 *
 * A copier owns streams and jobs. A job has pinned memory for the list and the
 * tiles of one launch. The kernel reads them there while the host fills another
 * job. A job also has a word: its stream writes a number there when the job is
 * done. The host polls this word and makes no driver call. Jobs may complete in
 * any order.
 *
 *     get -> fill entries -> start -> poll ... poll -> put
 *
 * Threads: only one thread may use a copier at a time.
 */
#ifndef COPY_CUDA_COPIER_H
#define COPY_CUDA_COPIER_H

#include "copy/plan.h"
#include "copy/tiles.h"
#include "mem/cuda_device.h"

/* --- the list of a launch ---------------------------------------------------
 * One launch of the copy kernel has a list (copy/tiles.h), which describes a
 * range of the stream.
 */

/* The shortest run of equal-length segments for which a launch uses a list of 8
 * bytes per segment. Such a run gets a separate launch, which ends with the
 * run. */
#define COPY_UNIFORM_MIN 4096u

/* A scatter that waits for a flag has a thread block on every fourth processor,
 * as if its stream were far. So the kernels that it waits for, and others, can
 * run. If it is longer than COPY_WAIT_SHORT, it has COPY_WAIT_FACTOR times as
 * many, because the copy after the wait takes longer. Two H200, one message of
 * 16 MiB: 187 to 195 GB/s without the factor, 241 with a factor of 16; 4 was
 * not measured. */
#define COPY_WAIT_SHORT  ((uint64_t)1 << 20)
#define COPY_WAIT_FACTOR 4u

typedef struct copy_launch {
    copy_table_t list;    /* the caller sets list.stream */
    uint64_t     covered; /* length in the stream, from the range's start */
    size_t       first;   /* number of the list's first segment or piece, */
                          /* if all have the same length */
} copy_launch_t;

/*
 * Fill a list with the plan's memory for the range [offset, offset + length) of
 * the stream. The list covers as much of the range as fits in `entries`, which
 * has room for at least one entry. A gather clears the padding in the covered
 * range. The range of a gather must begin at a multiple of COPY_ALIGNMENT, and
 * end at such a multiple or at the end of the stream. A scatter may have any
 * range.
 *
 * If the caller's array is pinned, the list may be a part of this array. The
 * host has then not checked the entries. The kernel checks them, and reports a
 * NULL address or a segment of another length.
 *
 * UCXPOOL_ERR_INVALID_PARAM  a piece in the list has a NULL address, or two
 *                            segments that the caller declared to have the same
 *                            length (is_unseen) differ in length; the detail
 *                            names the piece or segment
 */
ucxpool_status_t copy_launch_fill(copy_plan_t *plan, uint64_t offset,
                                  uint64_t length, bool is_gather,
                                  void *entries, size_t entries_size,
                                  copy_launch_t *launch_p);

/* --- copiers and jobs ----------------------------------------------------- */

#define COPY_KERNEL_NAME "ucxpool_copy"

typedef struct copy_cuda_copier copy_cuda_copier_t;

/* A flag: one GPU writes `number` to `word`, and another GPU waits for this
 * number. */
typedef struct copy_flag {
    uint32_t *word; /* NULL: no flag */
    uint32_t  number;
} copy_flag_t;

typedef struct copy_cuda_job {
    /* The list. The caller fills it before start, and must not change it until
     * the job is done. */
    void *entries;
    /* Pinned memory for data that the GPU cannot access. The rules for
     * `entries` apply. */
    char *bounce;
    /* True: the sender's GPU writes to blocks of the receiver's GPU. False: the
     * receiver's GPU reads the sender's blocks. copy_cuda_job_get() sets false;
     * the caller may set true before start. */
    bool is_pushed;
    /* copy_cuda_job_get() sets no flag; the caller may set one before start. A
     * gather writes the flag after its data. A scatter waits for the flag, but
     * only for a limited time: see copy_cuda_job_fault(). */
    copy_flag_t flag;
    /* Private to the copier. */
    copy_tile_t          *tiles; /* not used if all lengths are equal */
    struct copy_cuda_job *next;
    CUstream              stream; /* the stream of the current launch */
    uint32_t             *word;   /* equals `number` when the job is done */
    uint32_t             *fault;  /* follows `word`: the launch's fault */
    uint32_t              number;
    uint32_t              num_polls; /* polls since the job started */
    bool                  is_started;
} copy_cuda_job_t;

typedef struct copy_cuda_copier_params {
    unsigned num_jobs;     /* maximum number of jobs in flight; at least 1 */
    size_t   entries_size; /* size of a job's list, in bytes */
    size_t   max_tiles;    /* maximum number of tiles of a job */
    size_t   bounce_size;  /* size of a job's `bounce`, in bytes; may be 0 */
} copy_cuda_copier_params_t;

/*
 * Create a copier. The driver compiles the copy kernel, which is slow.
 *
 * device  Must outlive the copier.
 *
 * UCXPOOL_ERR_UNSUPPORTED  the GPU is too old for the kernel
 * UCXPOOL_ERR_NO_MEMORY    the host or the GPU is out of memory
 * UCXPOOL_ERR_IO           another failure of the driver
 */
ucxpool_status_t
copy_cuda_copier_create(const mem_cuda_device_t         *device,
                        const copy_cuda_copier_params_t *params,
                        copy_cuda_copier_t             **copier_p);
/* Wait until no job is in flight. */
void copy_cuda_copier_wait(const copy_cuda_copier_t *copier);
/* Wait until no job is in flight, and destroy the copier. NULL is allowed. */
void copy_cuda_copier_destroy(copy_cuda_copier_t *copier);

/* Returns an empty job, or NULL if all are in use. */
copy_cuda_job_t *copy_cuda_job_get(copy_cuda_copier_t *copier);
/* Returns true if a job is free. */
bool copy_cuda_copier_has_job(const copy_cuda_copier_t *copier);
/* Put back a job that is not in flight. */
void copy_cuda_job_put(copy_cuda_copier_t *copier, copy_cuda_job_t *job);

/*
 * Start the job with the copy kernel.
 *
 * list       The entries are in job->entries. Entries of equal-length pieces
 *            may be in any pinned memory.
 * size       Bytes of all pieces, with their padding. Determines the size of
 *            the tiles.
 * is_gather  True: copy from the pieces to the stream. False: copy from the
 *            stream to the pieces.
 *
 * Every address must be in the device's memory, in pinned host memory, or in a
 * peer's memory that is mapped here. Pieces that are written must not overlap.
 *
 * UCXPOOL_ERR_LIMIT          the list needs more than max_tiles tiles
 * UCXPOOL_ERR_IO and others  the driver failed; the job is not in flight, but
 *                            some bytes may have been copied
 */
ucxpool_status_t copy_cuda_job_start(copy_cuda_copier_t *copier,
                                     copy_cuda_job_t    *job,
                                     const copy_table_t *list, uint64_t size,
                                     bool is_gather);

/*
 * Copy one piece with the GPU's copy engine: the fastest way for a long copy
 * between GPUs. `piece` and `stream` are addresses. The job may write a flag,
 * but cannot wait for one. Returns the same errors as copy_cuda_job_start().
 */
ucxpool_status_t copy_cuda_job_start_long(copy_cuda_copier_t *copier,
                                          copy_cuda_job_t *job, uint64_t piece,
                                          uint64_t stream, size_t length,
                                          bool is_gather);

/*
 * Check whether the job is done.
 *
 * UCXPOOL_OK          all bytes have been copied; those in host memory are
 *                     visible to the host
 * UCXPOOL_INPROGRESS  not done yet
 * others              the GPU has failed, and cannot be used again in this
 *                     process
 */
ucxpool_status_t copy_cuda_job_poll(copy_cuda_copier_t *copier,
                                    copy_cuda_job_t    *job);

/*
 * Returns the fault of a job that is done. 0: no fault. COPY_LATE: the job's
 * flag was not set in time; start the job again. Otherwise the result is the
 * number of an invalid entry, counted from 1. It is ORed with COPY_OTHER or
 * COPY_BEYOND (copy/tiles.h), unless the entry's address is NULL. Only lists of
 * equal lengths are checked. After such a fault, bytes may have been copied to
 * wrong places in the stream or in the pieces.
 */
uint32_t copy_cuda_job_fault(const copy_cuda_job_t *job);

/*
 * Write 0 to `num` words of this GPU's memory, `stride` bytes apart, and wait
 * for completion.
 *
 * UCXPOOL_ERR_IO and others  the driver failed
 */
ucxpool_status_t copy_cuda_copier_clear(copy_cuda_copier_t *copier, void *first,
                                        size_t stride, unsigned num);

/*
 * Check that the GPU has not failed, for a caller that waits for a stream other
 * than the copier's. Returns the same errors as copy_cuda_job_poll().
 */
ucxpool_status_t copy_cuda_copier_check(const copy_cuda_copier_t *copier);

#endif
