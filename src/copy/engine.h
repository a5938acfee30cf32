/*
 * The engine of a pool on a GPU: what copies between segments and blocks, and
 * what is under way. It knows neither pools nor requests; those that wait for
 * their callers' streams are kept here for stream_marker.h.
 *
 * A pool of host memory has none, and copies at once.
 *
 * The driver wants a context: whoever holds the pool's lock has the GPU's
 * (xfer_lock()), and the caller's own is put back with the lock.
 */
#ifndef COPY_ENGINE_H
#define COPY_ENGINE_H

#include "base/list.h"
#include "copy/cuda_copier.h"
#include "copy/plan.h"
#include "mem/cuda_marks.h"

#include <ucxpool/transfer.h>

struct xfer_copy;

/* The copy is over, its job given back. */
typedef void (*xfer_copy_cb_t)(struct xfer_copy *copy, ucxpool_status_t status);

/* One copy under way: embedded in what it is for. */
typedef struct xfer_copy {
    base_list_t     link;
    mem_cuda_job_t *job; /* NULL: not under way */
    xfer_copy_cb_t  done;
    size_t          first; /* piece of its list, if it is one of addresses */
    /* What the processor has to copy when the GPU is done: in the job. */
    mem_copy_t *rest;
    size_t      num_rest;
    bool        is_scatter;
} xfer_copy_t;

/* What is to be copied: a range of a plan's stream. */
typedef struct xfer_work {
    pack_plan_t *plan;
    uint64_t     offset;
    uint64_t     length;
    const void  *block;         /* where the range's first byte lies */
    bool         is_gather;     /* to the block; else from there */
    bool         has_far_block; /* another GPU's */
    /* The GPU does not reach the block (of a scatter); some of the segments. */
    bool has_host_block;
    bool has_host_segments;
} xfer_work_t;

typedef struct xfer_engine {
    mem_cuda_device_t *device;
    mem_cuda_kernels_t kernels;
    mem_cuda_copier_t *copier;
    mem_cuda_marks_t  *marks;
    base_list_t        copies;
    unsigned           num_scatters; /* of them */
    base_list_t        marked;       /* requests, by their mark_link */
    uint32_t           num_looks;    /* at marks that were not reached */
    unsigned           num_failed;   /* enters that found no context */
} xfer_engine_t;

/*
 * device  Open; the engine closes it with itself. After an error it is the
 *         caller's.
 *
 * As mem_cuda_kernels_init() and mem_cuda_copier_create().
 */
ucxpool_status_t xfer_engine_create(mem_cuda_device_t *device,
                                    xfer_engine_t    **engine_p);
/* Waits for what is under way. NULL is allowed. */
void xfer_engine_destroy(xfer_engine_t *engine);

/* With the pool's lock; NULL is allowed. */
void xfer_engine_enter(xfer_engine_t *engine);
void xfer_engine_leave(xfer_engine_t *engine);

/* When to look at what is under way: nothing that a GPU does makes a descriptor
 * readable. BASE_CLOCK_FOREVER when nothing is. */
uint64_t xfer_engine_deadline(const xfer_engine_t *engine);

/*
 * Start to copy, as far as one launch goes.
 *
 * covered_p  [out] Bytes of the stream that are copied.
 *
 * UCXPOOL_OK            copy->done will be called
 * UCXPOOL_ERR_BUSY      no job is free for it: try again later
 * UCXPOOL_ERR_INVALID_PARAM  a piece of the caller's has no address
 * UCXPOOL_ERR_IO, others  the GPU failed
 */
ucxpool_status_t xfer_engine_start(xfer_engine_t *engine, xfer_copy_t *copy,
                                   const xfer_work_t *work,
                                   uint64_t          *covered_p);

/* What has been done since; NULL is allowed. */
unsigned xfer_engine_progress(xfer_engine_t *engine);

#endif
