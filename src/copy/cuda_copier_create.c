/* Making a copier: its streams, and its jobs in pinned memory. */
#include <config.h>

#include "base/error.h"
#include "base/math.h"
#include "copy/cuda_copier_inside.h"
#include "mem/cuda_driver.h"

#include <stdlib.h>
#include <string.h>

/* Words stand on lines of their own, so that polling one does not take another
 * from the GPU. Tiles and lists begin on one. */
#define LINE_SIZE ((size_t)64)

ucxpool_status_t copy_cuda_copier_error(const copy_cuda_copier_t *copier,
                                        CUresult result, const char *call)
{
    return mem_cuda_error(copier->device->driver, result, "%s on GPU %d (%s)",
                          call, copier->device->ordinal, copier->device->name);
}

/* Streams of each way, and how far its priority lies below the greatest. */
static const struct {
    unsigned num_streams;
    int      below;
} ways[COPY_CUDA_NUM_WAYS] = {
    [COPY_CUDA_GATHER]  = {2, 0},
    [COPY_CUDA_SCATTER] = {4, 1},
    [COPY_CUDA_LONG]    = {2, 0},
};

static void streams_destroy(copy_cuda_copier_t *copier)
{
    const mem_cuda_driver_t *driver = copier->device->driver;

    for (unsigned way = 0; way < COPY_CUDA_NUM_WAYS; way++) {
        copy_cuda_lane_t *lane = &copier->lanes[way];

        while (lane->num_streams > 0) {
            mem_cuda_ignore(
                driver,
                driver->cuStreamDestroy(lane->streams[--lane->num_streams]),
                "cuStreamDestroy");
        }
    }
}

/* What was created is in the lane also after an error. */
static ucxpool_status_t lane_create(copy_cuda_copier_t *copier,
                                    copy_cuda_way_t way, int priority)
{
    copy_cuda_lane_t *lane = &copier->lanes[way];
    CUresult          result;

    while (lane->num_streams < ways[way].num_streams) {
        result = copier->device->driver->cuStreamCreateWithPriority(
            &lane->streams[lane->num_streams], CU_STREAM_NON_BLOCKING,
            priority);
        if (result != CUDA_SUCCESS) {
            return copy_cuda_copier_error(copier, result,
                                          "cuStreamCreateWithPriority");
        }
        lane->num_streams++;
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t streams_create(copy_cuda_copier_t *copier)
{
    int              least;
    int              greatest; /* the lower the number, the greater */
    ucxpool_status_t status = UCXPOOL_OK;
    CUresult         result;

    result =
        copier->device->driver->cuCtxGetStreamPriorityRange(&least, &greatest);
    if (result != CUDA_SUCCESS) {
        return copy_cuda_copier_error(copier, result,
                                      "cuCtxGetStreamPriorityRange");
    }
    for (unsigned way = 0; (status == UCXPOOL_OK) && (way < COPY_CUDA_NUM_WAYS);
         way++) {
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

    for (unsigned way = 0; way < COPY_CUDA_NUM_WAYS; way++) {
        const copy_cuda_lane_t *lane = &copier->lanes[way];

        for (unsigned i = 0; i < lane->num_streams; i++) {
            mem_cuda_ignore(driver,
                            driver->cuStreamSynchronize(lane->streams[i]),
                            "cuStreamSynchronize");
        }
    }
}

/* Bytes of pinned memory of one job: for the word, the tiles, the list and
 * what bounces. */
static bool job_size(const copy_cuda_copier_params_t *params, size_t *size_p)
{
    size_t size;

    if (!base_mul(params->max_tiles, sizeof(copy_tile_t), &size) ||
        !base_add(size, params->entries_size, &size) ||
        !base_add(size, params->bounce_size, &size) ||
        !base_add(size, 4 * LINE_SIZE, &size)) {
        return false;
    }
    *size_p = size & ~(LINE_SIZE - 1);
    return true;
}

static ucxpool_status_t pinned_take(copy_cuda_copier_t *copier, size_t size)
{
    void    *pinned;
    CUresult result;

    result = copier->device->driver->cuMemHostAlloc(
        &pinned, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (result != CUDA_SUCCESS) {
        return copy_cuda_copier_error(copier, result,
                                      "cuMemHostAlloc for lists of copies");
    }
    copier->pinned = pinned;
    return UCXPOOL_OK;
}

static void jobs_init(copy_cuda_copier_t *copier, size_t size)
{
    size_t tiles_size = copier->max_tiles * sizeof(copy_tile_t);
    size_t list_size  = base_align_up(copier->entries_size, LINE_SIZE);
    char  *next       = copier->pinned + copier->num_jobs * LINE_SIZE;

    tiles_size = base_align_up(tiles_size, LINE_SIZE);
    memset(copier->pinned, 0, copier->num_jobs * LINE_SIZE);
    for (unsigned i = 0; i < copier->num_jobs; i++) {
        copy_cuda_job_t *job = &copier->jobs[i];

        job->word    = (uint32_t *)(void *)(copier->pinned + i * LINE_SIZE);
        job->fault   = job->word + 1;
        job->tiles   = (copy_tile_t *)(void *)next;
        job->entries = next + tiles_size;
        job->bounce  = next + tiles_size + list_size;
        next += size - LINE_SIZE;
        copy_cuda_job_put(copier, job);
    }
}

/*
 * Launch the kernel once, for nothing. The driver loads it when it is first
 * launched, and may wait for all that the GPU has to do before it does so: for
 * a caller's stream that waits for us, say.
 */
static ucxpool_status_t warm_up(copy_cuda_copier_t *copier)
{
    copy_cuda_job_t *job = copier->free_jobs;
    ucxpool_status_t status;
    CUresult         result;

    job->even = (copy_table_t){
        .form = COPY_UNIFORM, .entries = job->entries, .length = COPY_UNIT};
    job->num_tiles = 1;
    job->tile_size = COPY_UNIT;
    status = copy_cuda_job_start(copier, job, COPY_UNIFORM, COPY_UNIT, true);
    if (status != UCXPOOL_OK) {
        return status;
    }
    result = copier->device->driver->cuStreamSynchronize(job->stream);
    if (result != CUDA_SUCCESS) {
        return copy_cuda_copier_error(copier, result, "a copy of nothing");
    }
    return copy_cuda_job_poll(copier, job);
}

/* Between enter and leave. */
static ucxpool_status_t copier_init(copy_cuda_copier_t *copier, size_t size)
{
    ucxpool_status_t status;

    status = streams_create(copier);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = pinned_take(copier, size * copier->num_jobs);
    if (status != UCXPOOL_OK) {
        goto err_destroy_streams;
    }
    jobs_init(copier, size);
    status = warm_up(copier);
    if (status != UCXPOOL_OK) {
        goto err_free_pinned;
    }
    return UCXPOOL_OK;

err_free_pinned:
    streams_wait(copier);
    mem_cuda_ignore(copier->device->driver,
                    copier->device->driver->cuMemFreeHost(copier->pinned),
                    "cuMemFreeHost");
err_destroy_streams:
    streams_destroy(copier);
    return status;
}

static ucxpool_status_t params_check(const copy_cuda_copier_params_t *params,
                                     size_t                          *size_p)
{
    size_t total;

    if ((params->num_jobs == 0) || (params->entries_size == 0) ||
        (params->max_tiles == 0) || !job_size(params, size_p) ||
        !base_mul(*size_p, params->num_jobs, &total)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "a copier of %u jobs, each of %zu bytes for its list "
                          "and %zu tiles: none may be 0, nor beyond all memory",
                          params->num_jobs, params->entries_size,
                          params->max_tiles);
    }
    return UCXPOOL_OK;
}

static copy_cuda_copier_t *copier_new(const copy_cuda_kernels_t       *kernels,
                                      const copy_cuda_copier_params_t *params)
{
    copy_cuda_copier_t *copier = calloc(1, sizeof(*copier));

    if (copier == NULL) {
        return NULL;
    }
    copier->jobs = calloc(params->num_jobs, sizeof(copier->jobs[0]));
    if (copier->jobs == NULL) {
        free(copier);
        return NULL;
    }
    copier->device       = kernels->device;
    copier->kernel       = kernels->copy;
    copier->num_jobs     = params->num_jobs;
    copier->entries_size = params->entries_size;
    copier->max_tiles    = params->max_tiles;
    return copier;
}

ucxpool_status_t
copy_cuda_copier_create(const copy_cuda_kernels_t       *kernels,
                        const copy_cuda_copier_params_t *params,
                        copy_cuda_copier_t             **copier_p)
{
    copy_cuda_copier_t *copier;
    size_t              size = 0;
    ucxpool_status_t    status;

    status = params_check(params, &size);
    if (status != UCXPOOL_OK) {
        return status;
    }
    copier = copier_new(kernels, params);
    if (copier == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for a copier of %u jobs",
                          params->num_jobs);
    }
    status = mem_cuda_device_enter(copier->device);
    if (status != UCXPOOL_OK) {
        goto err_free_copier;
    }
    status = copier_init(copier, size);
    mem_cuda_device_leave(copier->device);
    if (status != UCXPOOL_OK) {
        goto err_free_copier;
    }
    *copier_p = copier;
    return UCXPOOL_OK;

err_free_copier:
    free(copier->jobs);
    free(copier);
    return status;
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
        mem_cuda_ignore(driver, driver->cuMemFreeHost(copier->pinned),
                        "cuMemFreeHost");
        mem_cuda_device_leave(copier->device);
    }
    free(copier->jobs);
    free(copier);
}
