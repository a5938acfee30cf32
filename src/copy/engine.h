/*
 * The engine of a pool: what copies between segments and blocks, and what is
 * under way. It knows neither pools nor requests; those that wait for their
 * callers' streams are kept here for core/request.h.
 *
 * There are two. On a GPU a copy is started, and over later. The processor's is
 * over when it has been started: nothing of its is ever under way.
 *
 * The driver wants a context: whoever holds the pool's lock has the GPU's
 * (core_lock()), and the caller's own is put back with the lock.
 */
#ifndef COPY_ENGINE_H
#define COPY_ENGINE_H

#include "base/list.h"
#include "base/trace.h"
#include "copy/cuda_copier.h"
#include "copy/list.h"
#include "copy/memtypes.h"
#include "copy/plan.h"
#include "copy/tiles.h"
#include "mem/cuda_driver.h"
#include "mem/cuda_stream.h"

#include <ucxpool/pool.h>
#include <ucxpool/transfer.h>

/* --- the engine ----------------------------------------------------------- */

struct copy_job;

/* The copy is over, its job given back. UCXPOOL_ERR_BUSY: its flag was not
 * written for a while, start it again. */
typedef void (*copy_job_cb_t)(struct copy_job *copy, ucxpool_status_t status);

/* One copy under way: embedded in what it is for. */
typedef struct copy_job {
    base_list_t      link;
    copy_cuda_job_t *job; /* NULL: not under way */
    copy_job_cb_t    done;
    size_t           first; /* piece of its list, if it is one of addresses */
    /* What the processor has to copy when the GPU is done: in the job. */
    copy_entry_t *rest;
    size_t        num_rest;
    bool          streams; /* past the cache: copy_streams() */
    bool          is_scatter;
} copy_job_t;

/* What is to be copied: a range of a plan's stream. */
typedef struct copy_work {
    copy_plan_t *plan;
    uint64_t     offset;
    uint64_t     length;
    const void  *block;         /* where the range's first byte lies */
    bool         is_gather;     /* to the block; else from there */
    bool         has_far_block; /* of a scatter: another GPU's */
    bool         is_pushed;     /* the block is the receiver's */
    /* In the receiver's memory: of a gather to there, which then takes all in
     * one launch, and of the scatter from there, which may be started before
     * that is over. */
    copy_flag_t flag;
    /* The GPU does not reach the block (of a scatter); some of the segments. */
    bool has_host_block;
    bool has_host_segments;
    bool has_gpu_segments; /* it reaches some */
    /* Of a gather: begun with it, ended by the caller. */
    base_range_t *range;
} copy_work_t;

typedef struct copy_engine copy_engine_t;

/* For the list of a launch, in pinned memory. */
typedef struct copy_room {
    void  *entries;
    size_t size;
} copy_room_t;

/* What an engine is, and does: see the functions of the same names. */
typedef struct copy_engine_calls {
    ucxpool_memory_kind_t memory_kind; /* of the blocks that it copies */
    /* Copies to start before others have their turn: a launch takes so long
     * that others have ended meanwhile. */
    unsigned batch;
    /* Fragments on their way for each one of DEPTH: what is launched is over
     * later, and several are under way. */
    unsigned depth_factor;
    void (*destroy)(copy_engine_t *engine);
    void (*enter)(copy_engine_t *engine);
    void (*leave)(copy_engine_t *engine);
    void (*wait)(const copy_engine_t *engine);
    uint64_t (*deadline)(const copy_engine_t *engine);
    ucxpool_status_t (*start)(copy_engine_t *engine, copy_job_t *copy,
                              const copy_work_t *work, uint64_t *covered_p);
    ucxpool_status_t (*pairs_get)(copy_engine_t *engine, copy_job_t *copy,
                                  copy_room_t *room_p);
    ucxpool_status_t (*pairs_start)(copy_engine_t *engine, copy_job_t *copy,
                                    const copy_table_t *list, uint64_t size,
                                    bool is_to_other);
    ucxpool_status_t (*clear_flags)(copy_engine_t *engine, void *first,
                                    size_t stride, unsigned num);
    unsigned (*progress)(copy_engine_t *engine);
    ucxpool_status_t (*memtypes)(const copy_engine_t *engine,
                                 const copy_memory_t *memory,
                                 unsigned            *memtypes_p);
    bool (*is_even)(const copy_engine_t *engine, const copy_memory_t *memory,
                    bool is_told);
    bool (*takes_even)(const copy_engine_t *engine,
                       const copy_memory_t *memory);
    bool (*reaches_array)(const copy_engine_t *engine, const void *array,
                          size_t num, size_t size);
    bool (*shares_device)(const copy_engine_t *engine, const void *uuid);
} copy_engine_calls_t;

struct copy_engine {
    const copy_engine_calls_t *calls;
    /* The processor's has none of these. */
    mem_cuda_device_t  *device;
    copy_cuda_kernels_t kernels;
    copy_cuda_copier_t *copier;
    mem_cuda_markers_t *markers;
    base_list_t         copies;
    unsigned            num_scatters; /* of them */
    base_list_t         marked;       /* requests, by their marker_link */
    uint32_t            num_looks;    /* at markers that were not reached */
    unsigned            num_failed;   /* enters that found no context */
};

/*
 * The processor's.
 *
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t copy_engine_create_host(copy_engine_t **engine_p);

/*
 * A GPU's.
 *
 * device  Open; the engine closes it with itself. After an error it is the
 *         caller's.
 *
 * As copy_cuda_kernels_init() and copy_cuda_copier_create().
 */
ucxpool_status_t copy_engine_create(mem_cuda_device_t *device,
                                    copy_engine_t    **engine_p);

/* Waits for what is under way. NULL is allowed. */
void copy_engine_destroy(copy_engine_t *engine);

/* With the pool's lock; NULL, of a pool that is being made, is allowed. */
void copy_engine_enter(copy_engine_t *engine);
void copy_engine_leave(copy_engine_t *engine);

/* Until what is under way is over; the next progress says so. */
void copy_engine_wait(const copy_engine_t *engine);

/* When to look at what is under way: nothing that a GPU does makes a descriptor
 * readable. BASE_CLOCK_FOREVER when nothing is. */
uint64_t copy_engine_deadline(const copy_engine_t *engine);

/*
 * Copy, or start to, as far as one launch goes.
 *
 * covered_p  [out] Bytes of the stream that are copied.
 *
 * UCXPOOL_OK            all that is covered has been copied; copy->done is not
 *                       called
 * UCXPOOL_INPROGRESS    copy->done will be called
 * UCXPOOL_ERR_BUSY      no job is free for it: try again later
 * UCXPOOL_ERR_INVALID_PARAM  a piece of the caller's has no address
 * UCXPOOL_ERR_IO        a file of the caller's could not be read
 * UCXPOOL_ERR_IO, others  the GPU failed
 */
ucxpool_status_t copy_engine_start(copy_engine_t *engine, copy_job_t *copy,
                                   const copy_work_t *work,
                                   uint64_t          *covered_p);

/*
 * Copy between pairs of pieces, of which the other ones are a peer's. In two
 * steps: room for a list in a job, which the caller fills, and the launch.
 * After an error of either there is no job.
 *
 * copy->first  The number of the list's first piece, for an error.
 * list         Of COPY_PAIRS or COPY_EVEN_PAIRS, in that room; or of
 *              COPY_EVEN_PLACES, wherever it lies, at which nobody need have
 *              looked.
 * size         Bytes of all pairs.
 * is_to_other  From the addresses to their other sides; else the other way.
 *
 * UCXPOOL_OK, UCXPOOL_INPROGRESS  of the first; of the second: copy->done will
 *                                 be called
 * UCXPOOL_ERR_BUSY         no job is free for it: try again later
 * UCXPOOL_ERR_UNSUPPORTED  the engine is the processor's
 * UCXPOOL_ERR_IO, others   the GPU failed
 */
ucxpool_status_t copy_engine_pairs_get(copy_engine_t *engine, copy_job_t *copy,
                                       copy_room_t *room_p);
ucxpool_status_t copy_engine_pairs_start(copy_engine_t      *engine,
                                         copy_job_t         *copy,
                                         const copy_table_t *list,
                                         uint64_t size, bool is_to_other);

/* What was filled is not wanted. */
void copy_engine_pairs_put(copy_engine_t *engine, copy_job_t *copy);

/*
 * Let flags have the number 0, before anybody writes them: waits for what is
 * under way.
 *
 * UCXPOOL_ERR_UNSUPPORTED  the engine is the processor's
 * UCXPOOL_ERR_IO, others   the GPU failed
 */
ucxpool_status_t copy_engine_clear_flags(copy_engine_t *engine, void *first,
                                         size_t stride, unsigned num);

/* What has been done since. */
unsigned copy_engine_progress(copy_engine_t *engine);

static inline unsigned copy_engine_batch(const copy_engine_t *engine)
{
    return engine->calls->batch;
}

static inline unsigned copy_engine_depth_factor(const copy_engine_t *engine)
{
    return engine->calls->depth_factor;
}

static inline ucxpool_memory_kind_t
copy_engine_memory_kind(const copy_engine_t *engine)
{
    return engine->calls->memory_kind;
}

/*
 * What the caller's memory is, together: copy_memtype_t, any of them ored; 0
 * where the engine need not know.
 *
 * UCXPOOL_ERR_UNSUPPORTED    a part of it is on a GPU that this one does not
 *                            reach
 * UCXPOOL_ERR_INVALID_PARAM  there is no memory; the detail tells where
 * UCXPOOL_ERR_IO             the driver failed
 */
ucxpool_status_t copy_engine_memtypes(const copy_engine_t *engine,
                                      const copy_memory_t *memory,
                                      unsigned            *memtypes_p);

/*
 * Have many short segments one length, over 0, and lie they in one allocation
 * that a kernel reaches? One pass over the array; with is_told the caller
 * answers for where they lie. Always false for the processor, for a short
 * array, and for long segments, of which the bytes take the time.
 */
bool copy_engine_is_even(const copy_engine_t *engine,
                         const copy_memory_t *memory, bool is_told);

/* The same where the caller says so: is a kernel to find out? It reads the
 * array then, where that is pinned and long. */
bool copy_engine_takes_even(const copy_engine_t *engine,
                            const copy_memory_t *memory);

/* May a kernel read an array itself, of so many entries of `size` bytes? A
 * short one is not worth the question. */
bool copy_engine_reaches_array(const copy_engine_t *engine, const void *array,
                               size_t num, size_t size);

/* The same of the array of the pieces' addresses, or of segments that are known
 * to have one length. */
bool copy_engine_reaches_list(const copy_engine_t *engine,
                              const copy_memory_t *memory);

/* Does a peer copy with the same device? uuid: the peer's GPU, 16 bytes. */
bool copy_engine_shares_device(const copy_engine_t *engine, const void *uuid);

#endif
