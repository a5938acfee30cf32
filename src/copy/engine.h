/*
 * The copy engine of a pool. It copies between segments and blocks, and tracks
 * copies in flight. It does not use the structs of pools and requests. It only
 * holds the list of requests that wait for their callers' streams, which
 * core/request.h uses.
 *
 * There are two kinds of engines. The GPU engine starts a copy, which ends
 * later. The CPU engine completes a copy before its start function returns, so
 * it never has a copy in flight.
 *
 * The CUDA driver needs a current context. core_lock() makes the GPU's context
 * current in the calling thread, and core_unlock() restores the thread's
 * previous context.
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

/* The interval at which a sleeping thread checks copies and flags. */
#define COPY_LOOK_NS UINT64_C(50000)

struct copy_job;

/* Called when a copy has ended and its job was released. UCXPOOL_ERR_BUSY: the
 * copy's flag was not written in time; start the copy again. */
typedef void (*copy_job_cb_t)(struct copy_job *copy, ucxpool_status_t status);

/* One copy in flight. Embedded in the object that the copy belongs to. */
typedef struct copy_job {
    base_list_t      link;
    copy_cuda_job_t *job; /* NULL: not in flight */
    copy_job_cb_t    done;
    size_t           first; /* number of the list's first piece */
    /* Copies that the CPU makes after the GPU has finished. The array is stored
     * in the job's memory. */
    copy_entry_t *rest;
    size_t        num_rest;
    bool          streams; /* use non-temporal stores for `rest` */
    bool          is_scatter;
    unsigned      waiting; /* its part of engine.num_waiting */
} copy_job_t;

/* The data to copy: a range of a plan's stream. */
typedef struct copy_work {
    copy_plan_t *plan;
    uint64_t     offset;
    uint64_t     length;
    const void  *block;         /* address of the range's first byte */
    bool         is_gather;     /* to the block; false: from the block */
    bool         has_far_block; /* scatter: the block is on another GPU */
    bool         is_pushed;     /* the block belongs to the receiver */
    /* A flag in the receiver's memory. A gather to this memory writes the flag
     * when the data is complete. A gather with a flag must fit in one launch.
     * The scatter from this memory waits for the flag, so it may start before
     * the gather ends. */
    copy_flag_t flag;
    bool has_host_block;    /* for a scatter: the GPU cannot access the block */
    bool has_host_segments; /* the GPU cannot access some of the segments */
    bool has_gpu_segments;  /* the GPU can access some of the segments */
    /* For a gather: a trace range. The engine begins the range, and the caller
     * ends it. */
    base_range_t *range;
} copy_work_t;

typedef struct copy_engine copy_engine_t;

/* Room for the list of a launch, in pinned memory. */
typedef struct copy_room {
    void  *entries;
    size_t size;
} copy_room_t;

struct copy_engine {
    mem_cuda_device_t *device; /* NULL: copies with the CPU */
    uint32_t gpu; /* the checksum of the device's UUID; 0: no device */
    /* Not used by the CPU's engine. */
    copy_cuda_copier_t *copier;
    mem_cuda_markers_t *markers;
    base_list_t         copies;
    unsigned            num_scatters; /* scatters in `copies` */
    unsigned            num_waiting;  /* those that wait for a flag; long ones
                                         count twice */
    base_list_t marked;               /* requests, linked by stream.link */
    uint32_t    num_checks;           /* polls of markers not reached yet */
    unsigned    num_failed;           /* failed enter calls without a leave */
};

/*
 * Create an engine that copies with the CPU.
 *
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t copy_engine_create_host(copy_engine_t **engine_p);

/*
 * Create an engine for a GPU.
 *
 * device  An open device, which the engine closes. After an error, the caller
 *         still owns the device.
 *
 * Same errors as copy_cuda_copier_create().
 */
ucxpool_status_t copy_engine_create(mem_cuda_device_t *device,
                                    copy_engine_t    **engine_p);

/* Wait for the copies in flight, and destroy the engine. NULL is allowed. */
void copy_engine_destroy(copy_engine_t *engine);

/* Make the GPU's context current, or restore the thread's previous context. The
 * pool's lock must be held. NULL is allowed, for a pool that is being
 * created. */
void copy_engine_enter(copy_engine_t *engine);
void copy_engine_leave(copy_engine_t *engine);

/* Wait until no copy is in flight. The next copy_engine_progress() reports the
 * ends of the copies. */
void copy_engine_wait(const copy_engine_t *engine);

/* Returns the time at which copies in flight must be checked. They must be
 * polled, because a GPU makes no descriptor readable when a copy ends.
 * BASE_CLOCK_FOREVER: no copy is in flight. */
uint64_t copy_engine_deadline(const copy_engine_t *engine);

/* Returns true if a gather can start now. */
bool copy_engine_has_job(const copy_engine_t *engine);

/*
 * Copy, or start to copy, as much as one launch can.
 *
 * covered_p  [out] Bytes of the stream that are copied.
 *
 * UCXPOOL_OK                 all covered bytes have been copied; copy->done is
 *                            not called
 * UCXPOOL_INPROGRESS         copy->done will be called
 * UCXPOOL_ERR_BUSY           no job is free: try again later
 * UCXPOOL_ERR_INVALID_PARAM  a piece has a NULL address
 * UCXPOOL_ERR_IO             a file could not be read, or the GPU failed
 * others                     the GPU failed
 */
ucxpool_status_t copy_engine_start(copy_engine_t *engine, copy_job_t *copy,
                                   const copy_work_t *work,
                                   uint64_t          *covered_p);

/*
 * Copy between pairs of pieces with a GPU engine; the second piece of each pair
 * belongs to a peer. copy_engine_pairs_get() gets a job with room for a list,
 * which the caller fills. copy_engine_pairs_start() launches the copy. If
 * either fails, the copy has no job.
 *
 * copy->first  The number of the list's first piece, for errors.
 * list         A COPY_PAIRS or COPY_EVEN_PAIRS list in this room, or a
 *              COPY_EVEN_PLACES list in any pinned memory. The entries of a
 *              COPY_EVEN_PLACES list need not be checked.
 * size         Bytes of all pairs.
 * is_to_other  True: copy from the addresses to their other sides. False: copy
 *              from the other sides to the addresses.
 *
 * UCXPOOL_OK              copy_engine_pairs_get() has succeeded
 * UCXPOOL_INPROGRESS      copy_engine_pairs_start() has succeeded: copy->done
 *                         will be called
 * UCXPOOL_ERR_BUSY        no job is free: try again later
 * UCXPOOL_ERR_IO, others  the GPU failed
 */
ucxpool_status_t copy_engine_pairs_get(copy_engine_t *engine, copy_job_t *copy,
                                       copy_room_t *room_p);
ucxpool_status_t copy_engine_pairs_start(copy_engine_t      *engine,
                                         copy_job_t         *copy,
                                         const copy_table_t *list,
                                         uint64_t size, bool is_to_other);

/* Release the room without a launch. */
void copy_engine_pairs_put(copy_engine_t *engine, copy_job_t *copy);

/* Release the jobs of copies that have ended, and call copy->done for each of
 * these copies. Returns the number of ended copies. */
unsigned copy_engine_progress(copy_engine_t *engine);

/* Returns the number of copies to start before the pool does other work. It is
 * 1 on a GPU, because earlier copies have already ended when a launch
 * returns. */
static inline unsigned copy_engine_batch(const copy_engine_t *engine)
{
    return (engine->device == NULL) ? 64 : 1;
}

/* The maximum number of fragments in flight is DEPTH times this factor. The
 * factor is higher for a GPU, because several launches are in flight and end
 * later. */
static inline unsigned copy_engine_depth_factor(const copy_engine_t *engine)
{
    return (engine->device == NULL) ? 1 : 2;
}

/* Returns the kind of memory of the pool's blocks. */
static inline ucxpool_memory_kind_t
copy_engine_memory_kind(const copy_engine_t *engine)
{
    return (engine->device == NULL) ? UCXPOOL_MEMORY_HOST : UCXPOOL_MEMORY_CUDA;
}

/*
 * Find the types of the caller's memory: ORed copy_memtype_t values, or 0 if
 * the engine does not need the types.
 *
 * UCXPOOL_ERR_UNSUPPORTED    some of the memory is on a GPU that this GPU
 *                            cannot access
 * UCXPOOL_ERR_INVALID_PARAM  there is no memory at an address; see the detail
 * UCXPOOL_ERR_IO             the driver failed
 */
ucxpool_status_t copy_engine_memtypes(const copy_engine_t *engine,
                                      const copy_memory_t *memory,
                                      unsigned            *memtypes_p);

/*
 * Returns true if many short segments have the same nonzero length and are in
 * one allocation that a kernel can access. To find out, this function reads the
 * whole array once. is_declared: the caller declared the location of the
 * segments. Always returns false for the CPU engine, for a short array, and for
 * long segments. Copying long segments takes so long that the pass would save
 * nothing.
 */
bool copy_engine_is_even(const copy_engine_t *engine,
                         const copy_memory_t *memory, bool is_declared);

/* For segments that the caller declared to have equal lengths: returns true if
 * a kernel should check the lengths. The kernel then reads the array, which
 * must be pinned and long. */
bool copy_engine_takes_even(const copy_engine_t *engine,
                            const copy_memory_t *memory);

/* Returns true if a kernel can read an array of `num` entries of `size` bytes.
 * Returns false for a short array, for which the query is too expensive. */
bool copy_engine_reaches_array(const copy_engine_t *engine, const void *array,
                               size_t num, size_t size);

/* Like copy_engine_reaches_array(), for the array of addresses of pieces, or of
 * segments that are known to have the same length. */
bool copy_engine_reaches_list(const copy_engine_t *engine,
                              const copy_memory_t *memory);

#endif
