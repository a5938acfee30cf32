#include "copy/cuda_copier.h"

#include "base/error.h"
#include "base/math.h"
#include "copy/fault.h"
#include "mem/cuda_driver.h"
#include "mem/cuda_pinned.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* --- the list of a launch ------------------------------------------------- */

/* The maximum length of the range of a launch: the kernel's sizes have 32
 * bits. */
#define LENGTH_MAX ((uint64_t)1 << 30)

/* The list that is being filled. */
typedef struct filling {
    copy_plan_t *plan;
    const void  *entries; /* the list, or a part of the caller's array */
    uint64_t     length;  /* length of the range */
    uint64_t     done;    /* bytes of the range that the list covers */
    size_t       room;    /* maximum number of 16-byte entries */
    uint32_t     num;     /* entries in the list */
    size_t       seen;    /* entries whose address the host need not check */
} filling_t;

/* Returns true if the memory is cut into segments like the stream: both
 * positions have the same offset in a segment, and both segments have the same
 * length. */
static bool is_cut_alike(const copy_plan_t *plan)
{
    return (plan->at.segment_offset == plan->at.memory_offset) &&
           (copy_memory_length(&plan->memory, plan->at.memory) ==
            plan->runs[plan->at.run].length);
}

/* Skip runs and memory that have no bytes left. */
static void settle(copy_plan_t *plan)
{
    copy_walk_settle(plan);
    while ((plan->at.memory < plan->memory.num) &&
           (copy_memory_length(&plan->memory, plan->at.memory) == 0)) {
        plan->at.memory++;
    }
}

/* Advance the walk by `count` segments of the current run with all their
 * memory, `size` bytes of the stream. A peer may choose a range that ends in
 * the padding of the last segment. The walk then remains in this padding. */
static void pass_whole(copy_plan_t *plan, uint64_t count, uint64_t size)
{
    uint64_t stride = copy_run_stride(&plan->runs[plan->at.run]);
    uint64_t place  = plan->at.segment_offset + size;

    plan->at.offset += size;
    plan->at.index += count;
    plan->at.segment_offset = 0;
    if (place < count * stride) {
        plan->at.index--;
        plan->at.segment_offset = place - (count - 1) * stride;
    }
    plan->at.memory += count;
    plan->at.memory_offset = 0;
    settle(plan);
}

/* Count the segments of the current run that are in the range. The padding of
 * the last segment may be outside. */
static uint64_t count_whole(const filling_t *filling, const copy_run_t *run)
{
    uint64_t count = (filling->length - filling->done) / copy_run_stride(run);

    if (filling->length - filling->done - count * copy_run_stride(run) >=
        run->length) {
        count++;
    }
    return base_min(count, run->count - filling->plan->at.index);
}

/* Copy the addresses of the memory's next segments that have this length, at
 * most `max`. Returns the number of copied addresses. */
static uint64_t copy_addresses(filling_t *filling, uint64_t max,
                               uint64_t length, uint64_t *addresses)
{
    const copy_plan_t   *plan   = filling->plan;
    const copy_memory_t *memory = &plan->memory;

    if (!copy_memory_is_pieces(memory)) {
        return copy_pairs_addresses(&memory->segments[plan->at.memory], max,
                                    length, addresses);
    }
    if (memory->length != length) {
        return 0;
    }
    /* If an address is NULL, the list is not used. */
    filling->seen =
        copy_pairs_copy(&memory->addresses[plan->at.memory], max, addresses);
    return max;
}

/* Returns true if the launch can use the caller's array as its list. Returns
 * false for a short run, which shares a launch with the segments after it. */
static bool is_list(const copy_plan_t *plan, uint64_t num, uint64_t length)
{
    return plan->memory.is_pinned && (plan->memory.length == length) &&
           (num >= COPY_UNIFORM_MIN);
}

static const void *list_at(const copy_memory_t *memory, size_t i)
{
    return copy_memory_is_pieces(memory) ? (const void *)&memory->addresses[i]
                                         : (const void *)&memory->segments[i];
}

/* Fill a list with the addresses of many equal-length segments, or use the
 * caller's array. Returns false if the segments do not fit such a list. */
static bool fill_even(filling_t *filling, uint64_t *addresses,
                      copy_form_t *form_p)
{
    copy_plan_t      *plan = filling->plan;
    const copy_run_t *run  = &plan->runs[plan->at.run];
    uint64_t          count, n;

    if ((plan->at.segment_offset != 0) || (plan->at.memory_offset != 0) ||
        (run->length > LENGTH_MAX)) {
        return false;
    }
    count =
        base_min(count_whole(filling, run), plan->memory.num - plan->at.memory);
    *form_p = COPY_UNIFORM;
    if (is_list(plan, count, run->length)) {
        if (!copy_memory_is_pieces(&plan->memory)) {
            *form_p = COPY_EVEN_SEGMENTS;
        }
        filling->entries = list_at(&plan->memory, plan->at.memory);
        filling->seen    = count; /* the kernel checks these */
        n                = count;
    } else {
        count = base_min(count, (uint64_t)filling->room * 2);
        n     = copy_addresses(filling, count, run->length, addresses);
    }
    if ((n == 0) || ((n < COPY_UNIFORM_MIN) &&
                     (n * copy_run_stride(run) < filling->length))) {
        return false;
    }
    filling->num  = (uint32_t)n;
    filling->done = base_min(n * copy_run_stride(run), filling->length);
    pass_whole(plan, n, filling->done);
    return true;
}

/* Return the rest of a segment as an entry, and advance past its padding. */
static copy_segment_t next_segment(filling_t *filling)
{
    copy_plan_t      *plan   = filling->plan;
    const copy_run_t *run    = &plan->runs[plan->at.run];
    uint64_t          left   = filling->length - filling->done;
    uint64_t          data   = run->length - plan->at.segment_offset;
    uint64_t          stride = copy_run_stride(run) - plan->at.segment_offset;
    copy_segment_t    entry  = {(uintptr_t)copy_walk_address(plan),
                                base_min(data, left)};

    stride = base_min(stride, left);
    filling->done += stride;
    if (entry.length < data) {
        plan->at.offset += stride;
        plan->at.segment_offset += stride;
        plan->at.memory_offset += stride;
        return entry;
    }
    pass_whole(plan, 1, stride);
    return entry;
}

/* Fill a list of addresses and lengths, while the memory is cut like the stream
 * (see is_cut_alike()). Returns false if the list is empty. */
static bool fill_segments(filling_t *filling, copy_segment_t *entries)
{
    if (filling->plan->at.segment_offset % COPY_ALIGNMENT != 0) {
        return false; /* the next segment would be misplaced */
    }
    while ((filling->done < filling->length) &&
           (filling->num < filling->room) && is_cut_alike(filling->plan)) {
        entries[filling->num++] = next_segment(filling);
    }
    return filling->num != 0;
}

/* Fill a list for memory of any layout: each entry contains its own offset in
 * the stream. For a gather, padding becomes an entry of zeros. */
static void fill_exact(filling_t *filling, copy_exact_t *entries,
                       bool is_gather)
{
    copy_plan_t  *plan   = filling->plan;
    uint64_t      start  = plan->at.offset;
    uint64_t      length = filling->length;
    copy_extent_t extent;

    while ((filling->done < length) && (filling->num < filling->room)) {
        copy_plan_extent(plan, start + filling->done, length - filling->done,
                         &extent);
        if ((extent.address != NULL) || is_gather) {
            entries[filling->num++] = (copy_exact_t){
                .address = (uintptr_t)extent.address,
                .length  = (uint32_t)extent.length,
                .offset  = (uint32_t)filling->done,
            };
        }
        filling->done += extent.length;
    }
}

/* Fill a list with lengths, or with offsets in the stream. */
static copy_form_t fill_uneven(filling_t *filling, void *entries,
                               bool is_gather)
{
    if (fill_segments(filling, entries)) {
        return COPY_SEGMENTS;
    }
    fill_exact(filling, entries, is_gather);
    return COPY_EXACT;
}

/* Check the caller's segments that the host puts into a list, unless they have
 * been checked. If the list is the caller's array itself, the kernel checks it
 * instead. */
static ucxpool_status_t check_even(const filling_t *filling)
{
    const copy_plan_t   *plan   = filling->plan;
    const copy_memory_t *memory = &plan->memory;
    uint64_t             num;

    if (!memory->is_unseen) {
        return UCXPOOL_OK;
    }
    /* The range may begin and end inside a segment. */
    num = filling->length / memory->length + 2;
    return copy_fault_find(memory, plan->at.memory,
                           plan->at.memory + (size_t)num);
}

/* Check the addresses of pieces from number `first` up to an offset of the
 * stream. These addresses may not have been checked before. */
static ucxpool_status_t check_pieces(copy_plan_t *plan, size_t first,
                                     uint64_t offset)
{
    size_t end, num;

    if (!copy_memory_is_pieces(&plan->memory)) {
        return UCXPOOL_OK;
    }
    copy_walk_seek(plan, offset);
    end = plan->at.memory + (plan->at.memory_offset != 0);
    if (first >= end) {
        return UCXPOOL_OK;
    }
    num = copy_pairs_present(&plan->memory.addresses[first], end - first);
    if (num == end - first) {
        return UCXPOOL_OK;
    }
    return copy_fault_no_address(first + num);
}

ucxpool_status_t copy_launch_fill(copy_plan_t *plan, uint64_t offset,
                                  uint64_t length, bool is_gather,
                                  void *entries, size_t entries_size,
                                  copy_launch_t *launch_p)
{
    filling_t        filling = {.plan = plan, .entries = entries};
    ucxpool_status_t status;

    length         = copy_walk_clip(plan, offset, length);
    filling.length = base_min(length, LENGTH_MAX);
    filling.room   = entries_size / sizeof(copy_segment_t);
    copy_walk_seek(plan, offset);
    launch_p->list = (copy_table_t){.entries = entries};
    if (filling.length == 0) {
        launch_p->covered = 0;
        return UCXPOOL_OK;
    }
    settle(plan);
    launch_p->first       = plan->at.memory;
    launch_p->list.length = (uint32_t)plan->runs[plan->at.run].length;
    if (!fill_even(&filling, entries, &launch_p->list.form)) {
        status = check_even(&filling);
        if (status != UCXPOOL_OK) {
            return status;
        }
        launch_p->list.form = fill_uneven(&filling, entries, is_gather);
    }
    launch_p->list.entries     = filling.entries;
    launch_p->list.num_entries = filling.num;
    launch_p->list.is_padded   = filling.done % COPY_ALIGNMENT == 0;
    launch_p->covered          = filling.done;
    return check_pieces(plan, launch_p->first + filling.seen,
                        offset + filling.done);
}

/* --- copiers ----------------------------------------------------------------
 * Streams, and jobs in pinned memory.
 */

/*
 * Each kind of copy has several streams, which its jobs use in turn. So other
 * jobs can run while the last thread blocks of a launch finish and the job's
 * word is written. Long gathers do not share a stream with long scatters,
 * because a GPU has a copy engine for each direction of the PCIe link.
 *
 * Copies within this GPU have the highest priority: they are short, and a
 * peer's link is idle until they are done. Such a copy is either a gather into
 * a block that a peer will read, or a scatter from a block that a peer has
 * written and will reuse. Kernels that copy over a link have a lower priority,
 * and share the link's bandwidth. All copies have a higher priority than the
 * application's streams of default priority, if the GPU supports priorities.
 */
typedef enum way {
    WAY_NEAR,        /* this GPU's blocks: gather, or scatter of pushed data */
    WAY_WAIT,        /* scatter that waits for a flag */
    WAY_PULL,        /* scatter from a peer's block */
    WAY_PUSH,        /* gather to a peer's block */
    WAY_LONG_GATHER, /* by a copy engine */
    WAY_LONG_SCATTER,
    NUM_WAYS
} way_t;

#define MAX_STREAMS 4u

/* The streams of one kind of copy. */
typedef struct lane {
    CUstream streams[MAX_STREAMS];
    unsigned num_streams;
    unsigned num_jobs; /* jobs started; selects the next job's stream */
} lane_t;

struct copy_cuda_copier {
    const mem_cuda_device_t *device;
    CUmodule                 module;
    CUfunction               kernel;
    lane_t                   lanes[NUM_WAYS];
    void                    *pinned; /* the words, then each job's memory */
    size_t                   max_tiles;
    copy_cuda_job_t         *free_jobs;
    unsigned                 num_jobs;
    copy_cuda_job_t          jobs[];
};

/* Each job's word has its own cache line, so that polling one word does not
 * slow down writes to another. Tiles and lists are aligned to cache lines. */
#define LINE_SIZE ((size_t)64)

/* PTX, for cuModuleLoadData(): kernel.ptx as C strings. */
static const char kernel_ptx[] =
#include "src/copy/kernel_ptx.inc"
    ;

static void kernel_unload(const copy_cuda_copier_t *copier)
{
    mem_cuda_try(copier->device->driver, cuModuleUnload, copier->module);
}

static ucxpool_status_t kernel_load(copy_cuda_copier_t *copier)
{
    const mem_cuda_device_t *device = copier->device;
    ucxpool_status_t         status;

    status = mem_cuda_device_status(
        device, device->driver->cuModuleLoadData(&copier->module, kernel_ptx),
        "loading the copy kernel (cuModuleLoadData) on");
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = mem_cuda_device_status(
        device,
        device->driver->cuModuleGetFunction(&copier->kernel, copier->module,
                                            COPY_KERNEL_NAME),
        "cuModuleGetFunction of " COPY_KERNEL_NAME " on");
    if (status != UCXPOOL_OK) {
        kernel_unload(copier);
    }
    return status;
}

/* For each kind of copy: the number of streams, and how far their priority is
 * below the highest one. */
static const struct {
    unsigned num_streams;
    int      below;
} ways[NUM_WAYS] = {
    [WAY_NEAR] = {2, 0},        [WAY_WAIT] = {4, 0},
    [WAY_PULL] = {4, 1},        [WAY_PUSH] = {2, 1},
    [WAY_LONG_GATHER] = {2, 0}, [WAY_LONG_SCATTER] = {2, 0},
};

static bool waits_for_flag(const copy_cuda_job_t *job, bool is_gather)
{
    return !is_gather && (job->flag.word != NULL);
}

/* A write to a peer's window also uses WAY_NEAR, and so has the highest
 * priority. Such a write is not part of a pushed message, and does not wait for
 * a local copy. */
static way_t way_of(const copy_cuda_job_t *job, bool is_gather)
{
    if (waits_for_flag(job, is_gather)) {
        return WAY_WAIT;
    }
    if (is_gather != job->is_pushed) {
        return WAY_NEAR;
    }
    return is_gather ? WAY_PUSH : WAY_PULL;
}

static void streams_destroy(copy_cuda_copier_t *copier)
{
    const mem_cuda_driver_t *driver = copier->device->driver;

    for (unsigned way = 0; way < NUM_WAYS; way++) {
        lane_t *lane = &copier->lanes[way];

        while (lane->num_streams > 0) {
            mem_cuda_try(driver, cuStreamDestroy,
                         lane->streams[--lane->num_streams]);
        }
    }
}

/* Create the streams of a lane. After an error, the lane keeps the streams that
 * were created. */
static ucxpool_status_t lane_create(copy_cuda_copier_t *copier, way_t way,
                                    int priority)
{
    lane_t  *lane   = &copier->lanes[way];
    CUresult result = CUDA_SUCCESS;

    while ((result == CUDA_SUCCESS) &&
           (lane->num_streams < ways[way].num_streams)) {
        result = copier->device->driver->cuStreamCreateWithPriority(
            &lane->streams[lane->num_streams], CU_STREAM_NON_BLOCKING,
            priority);
        lane->num_streams += (result == CUDA_SUCCESS) ? 1 : 0;
    }
    return mem_cuda_device_status(copier->device, result,
                                  "cuStreamCreateWithPriority on");
}

static ucxpool_status_t streams_create(copy_cuda_copier_t *copier)
{
    int              least;
    int              greatest; /* lower numbers are higher priorities */
    ucxpool_status_t status;

    status = mem_cuda_device_status(
        copier->device,
        copier->device->driver->cuCtxGetStreamPriorityRange(&least, &greatest),
        "cuCtxGetStreamPriorityRange on");
    for (unsigned way = 0; (status == UCXPOOL_OK) && (way < NUM_WAYS); way++) {
        status = lane_create(copier, way,
                             base_min(least, greatest + ways[way].below));
    }
    if (status != UCXPOOL_OK) {
        streams_destroy(copier);
    }
    return status;
}

static void streams_wait(const copy_cuda_copier_t *copier)
{
    const mem_cuda_driver_t *driver = copier->device->driver;

    for (unsigned way = 0; way < NUM_WAYS; way++) {
        const lane_t *lane = &copier->lanes[way];

        for (unsigned i = 0; i < lane->num_streams; i++) {
            mem_cuda_try(driver, cuStreamSynchronize, lane->streams[i]);
        }
    }
}

/* The sizes of the parts of a job's pinned memory. */
typedef struct job_sizes {
    size_t tiles;
    size_t entries;
    size_t bounce;
} job_sizes_t;

static job_sizes_t job_sizes(const copy_cuda_copier_params_t *params)
{
    return (job_sizes_t){
        .tiles =
            base_align_up(params->max_tiles * sizeof(copy_tile_t), LINE_SIZE),
        .entries = base_align_up(params->entries_size, LINE_SIZE),
        .bounce  = base_align_up(params->bounce_size, LINE_SIZE),
    };
}

static void jobs_init(copy_cuda_copier_t *copier, const job_sizes_t *sizes)
{
    char *words = copier->pinned;
    char *next  = words + copier->num_jobs * LINE_SIZE;

    memset(words, 0, copier->num_jobs * LINE_SIZE);
    for (unsigned i = 0; i < copier->num_jobs; i++) {
        copy_cuda_job_t *job = &copier->jobs[i];

        job->word    = (uint32_t *)(void *)(words + i * LINE_SIZE);
        job->fault   = job->word + 1;
        job->tiles   = (copy_tile_t *)(void *)next;
        job->entries = next + sizes->tiles;
        job->bounce  = next + sizes->tiles + sizes->entries;
        next += sizes->tiles + sizes->entries + sizes->bounce;
        copy_cuda_job_put(copier, job);
    }
}

static ucxpool_status_t warm_up(copy_cuda_copier_t *copier);

/* The caller must call mem_cuda_device_enter() before and
 * mem_cuda_device_leave() after. */
static ucxpool_status_t copier_init(copy_cuda_copier_t *copier,
                                    const job_sizes_t  *sizes)
{
    size_t size = LINE_SIZE + sizes->tiles + sizes->entries + sizes->bounce;
    ucxpool_status_t status = kernel_load(copier);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = streams_create(copier);
    if (status != UCXPOOL_OK) {
        goto err_unload_kernel;
    }
    status = mem_cuda_pinned_take(copier->device, size * copier->num_jobs,
                                  "lists of copies", &copier->pinned);
    if (status != UCXPOOL_OK) {
        goto err_destroy_streams;
    }
    jobs_init(copier, sizes);
    status = warm_up(copier);
    if (status != UCXPOOL_OK) {
        goto err_free_pinned;
    }
    return UCXPOOL_OK;

err_free_pinned:
    streams_wait(copier);
    mem_cuda_try(copier->device->driver, cuMemFreeHost, copier->pinned);
err_destroy_streams:
    streams_destroy(copier);
err_unload_kernel:
    kernel_unload(copier);
    return status;
}

ucxpool_status_t
copy_cuda_copier_create(const mem_cuda_device_t         *device,
                        const copy_cuda_copier_params_t *params,
                        copy_cuda_copier_t             **copier_p)
{
    const job_sizes_t   sizes = job_sizes(params);
    copy_cuda_copier_t *copier;
    ucxpool_status_t    status;

    copier =
        calloc(1, sizeof(*copier) + params->num_jobs * sizeof(copier->jobs[0]));
    if (copier == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for a copier of %u jobs",
                          params->num_jobs);
    }
    copier->device    = device;
    copier->num_jobs  = params->num_jobs;
    copier->max_tiles = params->max_tiles;
    mem_cuda_device_do(device, status, copier_init(copier, &sizes));
    if (status != UCXPOOL_OK) {
        free(copier);
        return status;
    }
    *copier_p = copier;
    return UCXPOOL_OK;
}

void copy_cuda_copier_wait(const copy_cuda_copier_t *copier)
{
    if (mem_cuda_device_enter(copier->device) == UCXPOOL_OK) {
        streams_wait(copier);
        mem_cuda_device_leave(copier->device);
    }
}

void copy_cuda_copier_destroy(copy_cuda_copier_t *copier)
{
    const mem_cuda_driver_t *driver;

    if (copier == NULL) {
        return;
    }
    driver = copier->device->driver;
    if (mem_cuda_device_enter(copier->device) == UCXPOOL_OK) {
        streams_wait(copier);
        streams_destroy(copier);
        mem_cuda_try(driver, cuMemFreeHost, copier->pinned);
        kernel_unload(copier);
        mem_cuda_device_leave(copier->device);
    }
    free(copier);
}

/* --- jobs ----------------------------------------------------------------- */

/* A GPU that has failed never writes the word of a job. So the driver is
 * queried after this many polls. */
#define POLLS_PER_QUERY ((uint32_t)1 << 16)

copy_cuda_job_t *copy_cuda_job_get(copy_cuda_copier_t *copier)
{
    copy_cuda_job_t *job = copier->free_jobs;

    if (job != NULL) {
        copier->free_jobs = job->next;
        job->is_pushed    = false;
        job->flag         = (copy_flag_t){.word = NULL};
    }
    return job;
}

bool copy_cuda_copier_has_job(const copy_cuda_copier_t *copier)
{
    return copier->free_jobs != NULL;
}

void copy_cuda_job_put(copy_cuda_copier_t *copier, copy_cuda_job_t *job)
{
    assert(!job->is_started);
    job->next         = copier->free_jobs;
    copier->free_jobs = job;
}

/* The tiles of a launch: `num` thread blocks, one per tile. The kernel computes
 * the tiles of a list of equal-length pieces, and reads only addresses. */
typedef struct job_tiles {
    uint32_t size; /* of each tile, in bytes of the stream */
    size_t   num;
} job_tiles_t;

/* Cut a list into tiles. Returns false if the job has no room for the tiles. */
static bool cut(const copy_cuda_copier_t *copier, const copy_cuda_job_t *job,
                const copy_table_t *list, uint64_t size, bool is_gather,
                job_tiles_t *tiles_p)
{
    unsigned num_processors = (unsigned)copier->device->num_processors;

    if (waits_for_flag(job, is_gather) && (size > COPY_WAIT_SHORT)) {
        num_processors *= COPY_WAIT_FACTOR;
    }
    tiles_p->size = copy_tile_size(size, num_processors, list->is_far);
    if (copy_is_even(list->form)) {
        tiles_p->num =
            (copy_even_size(list) + tiles_p->size - 1) / tiles_p->size;
        return true;
    }
    tiles_p->num =
        copy_tiles_cut(list, tiles_p->size, job->tiles, copier->max_tiles);
    return tiles_p->num <= copier->max_tiles;
}

/* The kernel itself writes the job's word at the end of a scatter of one tile,
 * which is faster: the driver writes it after the kernel has ended. */
static bool writes_word(const job_tiles_t *tiles, bool is_gather)
{
    return !is_gather && (tiles->num == 1);
}

static CUresult launch_kernel(const copy_cuda_copier_t *copier,
                              const copy_cuda_job_t    *job,
                              const copy_table_t       *list,
                              const job_tiles_t *job_tiles, bool is_gather)
{
    bool     is_even    = copy_is_even(list->form);
    bool     has_places = list->form == COPY_EVEN_PLACES;
    uint64_t tiles =
        has_places ? (uintptr_t)list->offsets : (uintptr_t)job->tiles;
    uint64_t entries  = (uintptr_t)list->entries;
    uint64_t stream   = is_even ? list->stream : 0;
    uint32_t size     = is_even ? copy_even_size(list) : 0;
    uint32_t form     = (uint32_t)list->form;
    uint32_t length   = list->length;
    uint32_t gather   = is_gather ? 1 : 0;
    uint32_t tile     = job_tiles->size;
    uint64_t fault    = (uintptr_t)job->fault;
    uint64_t awaited  = is_gather ? 0 : (uintptr_t)job->flag.word;
    uint32_t mark     = job->flag.number;
    uint64_t limit    = has_places ? list->limit : 0;
    bool     is_alone = writes_word(job_tiles, is_gather);
    uint64_t done     = is_alone ? (uintptr_t)job->word : 0;
    uint32_t number   = job->number;
    void    *params[] = {&tiles,  &entries, &form, &length, &gather,
                         &stream, &size,    &tile, &fault,  &awaited,
                         &mark,   &limit,   &done, &number};

    if (job_tiles->num == 0) {
        return CUDA_SUCCESS;
    }
    return copier->device->driver->cuLaunchKernel(
        copier->kernel, (unsigned)job_tiles->num, 1, 1, COPY_THREADS, 1, 1, 0,
        job->stream, params, NULL);
}

static ucxpool_status_t begin(copy_cuda_copier_t *copier, copy_cuda_job_t *job,
                              way_t way)
{
    lane_t *lane = &copier->lanes[way];

    assert(!job->is_started);
    /* Use a new number, because the word still has the number of the previous
     * launch. */
    job->number++;
    *job->fault    = 0;
    job->num_polls = 0;
    job->stream    = lane->streams[lane->num_jobs++ % lane->num_streams];
    return mem_cuda_device_enter(copier->device);
}

/* Post the writes that follow the work of a job: first of the flag, if a gather
 * has one, and then of the job's word. *call_p names the last write for
 * errors. */
static CUresult write_words(const copy_cuda_copier_t *copier,
                            const copy_cuda_job_t *job, bool is_gather,
                            const char **call_p)
{
    CUresult result = CUDA_SUCCESS;

    if (is_gather && (job->flag.word != NULL)) {
        *call_p = "writing a copy's flag";
        result  = mem_cuda_word_write(copier->device, job->stream,
                                      job->flag.word, job->flag.number);
    }
    if (result == CUDA_SUCCESS) {
        *call_p = "writing a copy's completion word";
        result  = mem_cuda_word_write(copier->device, job->stream, job->word,
                                      job->number);
    }
    return result;
}

/* Called after the work of a job was posted with this result. `call` names the
 * work for errors. */
static ucxpool_status_t finish(copy_cuda_copier_t *copier, copy_cuda_job_t *job,
                               bool is_gather, bool is_alone, CUresult result,
                               const char *call)
{
    if ((result == CUDA_SUCCESS) && !is_alone) {
        result = write_words(copier, job, is_gather, &call);
    }
    if (result != CUDA_SUCCESS) {
        /* Work may be in flight, but no word will report its end. */
        mem_cuda_try(copier->device->driver, cuStreamSynchronize, job->stream);
    }
    mem_cuda_device_leave(copier->device);
    job->is_started = result == CUDA_SUCCESS;
    return mem_cuda_device_status(copier->device, result, "%s on", call);
}

static ucxpool_status_t start(copy_cuda_copier_t *copier, copy_cuda_job_t *job,
                              const copy_table_t *list,
                              const job_tiles_t *tiles, bool is_gather)
{
    ucxpool_status_t status = begin(copier, job, way_of(job, is_gather));

    if (status != UCXPOOL_OK) {
        return status;
    }
    return finish(copier, job, is_gather, writes_word(tiles, is_gather),
                  launch_kernel(copier, job, list, tiles, is_gather),
                  "cuLaunchKernel of a copy");
}

ucxpool_status_t copy_cuda_job_start(copy_cuda_copier_t *copier,
                                     copy_cuda_job_t    *job,
                                     const copy_table_t *list, uint64_t size,
                                     bool is_gather)
{
    job_tiles_t tiles;

    if (!cut(copier, job, list, size, is_gather, &tiles)) {
        return base_error(UCXPOOL_ERR_LIMIT,
                          "%llu bytes in %u pieces are too many for one launch "
                          "of the copy kernel; if they are a message, lower "
                          "UCXPOOL_FRAG_SIZE",
                          (unsigned long long)size, list->num_entries);
    }
    return start(copier, job, list, &tiles, is_gather);
}

/*
 * Launch the kernel once, without data. The driver loads a kernel at its first
 * launch, and may first wait for all work of the GPU. That work may include
 * application streams that wait for this library.
 */
static ucxpool_status_t warm_up(copy_cuda_copier_t *copier)
{
    copy_cuda_job_t   *job  = copier->free_jobs;
    const copy_table_t list = {
        .form = COPY_UNIFORM, .entries = job->entries, .length = COPY_UNIT};
    const job_tiles_t tiles  = {COPY_UNIT, 1};
    ucxpool_status_t  status = start(copier, job, &list, &tiles, true);

    if (status == UCXPOOL_OK) {
        status = mem_cuda_device_status(
            copier->device,
            copier->device->driver->cuStreamSynchronize(job->stream),
            "the first launch of the copy kernel on");
    }
    return (status == UCXPOOL_OK) ? copy_cuda_job_poll(copier, job) : status;
}

ucxpool_status_t copy_cuda_job_start_long(copy_cuda_copier_t *copier,
                                          copy_cuda_job_t *job, uint64_t piece,
                                          uint64_t stream, size_t length,
                                          bool is_gather)
{
    ucxpool_status_t status =
        begin(copier, job, is_gather ? WAY_LONG_GATHER : WAY_LONG_SCATTER);
    CUresult result;

    if (status != UCXPOOL_OK) {
        return status;
    }
    result = copier->device->driver->cuMemcpyAsync(is_gather ? stream : piece,
                                                   is_gather ? piece : stream,
                                                   length, job->stream);
    return finish(copier, job, true, false, result, "cuMemcpyAsync");
}

/* Check that the GPU has not failed. Called if a word has not been written for
 * a long time. */
static ucxpool_status_t check_gpu(const copy_cuda_copier_t *copier,
                                  CUstream                  stream)
{
    CUresult         result;
    ucxpool_status_t status = mem_cuda_device_enter(copier->device);

    if (status != UCXPOOL_OK) {
        return status;
    }
    result = copier->device->driver->cuStreamQuery(stream);
    mem_cuda_device_leave(copier->device);
    return (result == CUDA_ERROR_NOT_READY)
               ? UCXPOOL_OK
               : mem_cuda_device_status(copier->device, result, "a copy on");
}

ucxpool_status_t copy_cuda_job_poll(copy_cuda_copier_t *copier,
                                    copy_cuda_job_t    *job)
{
    ucxpool_status_t status = UCXPOOL_OK;

    if (job->is_started &&
        (__atomic_load_n(job->word, __ATOMIC_ACQUIRE) != job->number)) {
        if (++job->num_polls % POLLS_PER_QUERY == 0) {
            status = check_gpu(copier, job->stream);
        }
        if (status == UCXPOOL_OK) {
            return UCXPOOL_INPROGRESS;
        }
    }
    job->is_started = false;
    return status;
}

uint32_t copy_cuda_job_fault(const copy_cuda_job_t *job)
{
    return *job->fault;
}

/* Writes each word separately, without a memset. At the first memset, the
 * driver would load a kernel, and might first wait for other work. */
ucxpool_status_t copy_cuda_copier_clear(copy_cuda_copier_t *copier, void *first,
                                        size_t stride, unsigned num)
{
    const mem_cuda_device_t *device = copier->device;
    CUstream                 stream = copier->lanes[WAY_NEAR].streams[0];
    CUresult                 result = CUDA_SUCCESS;
    ucxpool_status_t         status = mem_cuda_device_enter(device);

    if (status != UCXPOOL_OK) {
        return status;
    }
    for (unsigned i = 0; (i < num) && (result == CUDA_SUCCESS); i++) {
        uint32_t *word = (uint32_t *)(void *)((char *)first + i * stride);

        result = mem_cuda_word_write(device, stream, word, 0);
    }
    if (result == CUDA_SUCCESS) {
        result = device->driver->cuStreamSynchronize(stream);
    }
    mem_cuda_device_leave(device);
    return mem_cuda_device_status(device, result, "clearing flags on");
}

ucxpool_status_t copy_cuda_copier_check(const copy_cuda_copier_t *copier)
{
    return check_gpu(copier, copier->lanes[WAY_NEAR].streams[0]);
}
