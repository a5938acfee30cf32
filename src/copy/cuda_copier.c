/* A copier's jobs: filled, started, and seen to be done. */
#include <config.h>

#include "copy/cuda_copier.h"

#include "copy/cuda_copier_inside.h"
#include "mem/cuda_driver.h"

#include <assert.h>
#include <stdint.h>

/* Only a GPU that has failed never writes its word: so seldom is the driver
 * asked whether that is so. */
#define POLLS_PER_QUERY ((uint32_t)1 << 16)

copy_cuda_job_t *copy_cuda_job_get(copy_cuda_copier_t *copier)
{
    copy_cuda_job_t *job = copier->free_jobs;

    if (job != NULL) {
        copier->free_jobs = job->next;
        job->num_tiles    = 0;
    }
    return job;
}

void copy_cuda_job_put(copy_cuda_copier_t *copier, copy_cuda_job_t *job)
{
    assert(!job->is_started);
    job->next         = copier->free_jobs;
    copier->free_jobs = job;
}

/* The kernel cuts these itself: nothing for it to read but addresses. */
static void add_even(copy_cuda_job_t *job, const copy_table_t *list,
                     uint32_t tile_size)
{
    assert(job->num_tiles == 0);
    job->even      = *list;
    job->tile_size = tile_size;
    job->num_tiles = (copy_even_size(list) + tile_size - 1) / tile_size;
}

bool copy_cuda_job_add(const copy_cuda_copier_t *copier, copy_cuda_job_t *job,
                       const copy_table_t *list, uint64_t stream_size)
{
    uint32_t tile_size = copy_tile_size(
        stream_size, (unsigned)copier->device->num_processors, list->is_far);
    size_t offset =
        (size_t)((const char *)list->entries - (const char *)job->entries);
    size_t       room  = copier->max_tiles - job->num_tiles;
    copy_tile_t *tiles = job->tiles + job->num_tiles;
    size_t       num;

    assert(!job->is_started);
    if (list->form == COPY_UNIFORM) {
        add_even(job, list, tile_size);
        return true;
    }
    assert(offset < copier->entries_size);
    num = copy_tiles_cut(list, tile_size, tiles, room);
    if (num > room) {
        return false;
    }
    /* The kernel counts from the first entry of the job. */
    for (size_t i = 0; i < num; i++) {
        tiles[i].first += (uint32_t)(offset / sizeof(copy_segment_t));
    }
    job->num_tiles += num;
    return true;
}

static CUresult launch(const copy_cuda_copier_t *copier,
                       const copy_cuda_job_t *job, copy_form_t form,
                       uint32_t length, bool is_gather)
{
    bool     is_even  = form == COPY_UNIFORM;
    uint64_t tiles    = is_even ? (uintptr_t)job->fault : (uintptr_t)job->tiles;
    uint64_t entries  = (uintptr_t)(is_even ? job->even.entries : job->entries);
    uint64_t stream   = is_even ? job->even.stream : 0;
    uint32_t size     = is_even ? copy_even_size(&job->even) : 0;
    uint32_t is_form  = (uint32_t)form;
    uint32_t gather   = is_gather ? 1 : 0;
    uint32_t tile     = job->tile_size;
    void    *params[] = {&tiles,  &entries, &is_form, &length,
                         &gather, &stream,  &size,    &tile};

    if (job->num_tiles == 0) {
        return CUDA_SUCCESS;
    }
    return copier->device->driver->cuLaunchKernel(
        copier->kernel, (unsigned)job->num_tiles, 1, 1, COPY_THREADS, 1, 1, 0,
        job->stream, params, NULL);
}

static ucxpool_status_t begin(copy_cuda_copier_t *copier, copy_cuda_job_t *job,
                              copy_cuda_way_t way)
{
    copy_cuda_lane_t *lane = &copier->lanes[way];

    assert(!job->is_started);
    /* Not the number that stands in the word: the last job's. */
    job->number++;
    *job->fault    = 0;
    job->num_polls = 0;
    job->stream    = lane->streams[lane->num_jobs++ % lane->num_streams];
    return mem_cuda_device_enter(copier->device);
}

/* The work has been posted, with this result; let the word follow. */
static ucxpool_status_t finish(copy_cuda_copier_t *copier, copy_cuda_job_t *job,
                               CUresult result, const char *call)
{
    const mem_cuda_driver_t *driver = copier->device->driver;

    if (result == CUDA_SUCCESS) {
        call   = "having a word written";
        result = mem_cuda_word_write(copier->device, job->stream, job->word,
                                     job->number);
    }
    if (result != CUDA_SUCCESS) {
        /* Something may be under way that no word will tell of. */
        mem_cuda_ignore(driver, driver->cuStreamSynchronize(job->stream),
                        "cuStreamSynchronize");
    }
    mem_cuda_device_leave(copier->device);
    job->is_started = result == CUDA_SUCCESS;
    return result == CUDA_SUCCESS
               ? UCXPOOL_OK
               : copy_cuda_copier_error(copier, result, call);
}

ucxpool_status_t copy_cuda_job_start(copy_cuda_copier_t *copier,
                                     copy_cuda_job_t *job, copy_form_t form,
                                     uint32_t length, bool is_gather)
{
    ucxpool_status_t status =
        begin(copier, job, is_gather ? COPY_CUDA_GATHER : COPY_CUDA_SCATTER);

    if (status != UCXPOOL_OK) {
        return status;
    }
    return finish(copier, job, launch(copier, job, form, length, is_gather),
                  "cuLaunchKernel of a copy");
}

ucxpool_status_t copy_cuda_job_start_long(copy_cuda_copier_t *copier,
                                          copy_cuda_job_t *job, void *target,
                                          const void *source, size_t length)
{
    ucxpool_status_t status = begin(copier, job, COPY_CUDA_LONG);
    CUresult         result;

    if (status != UCXPOOL_OK) {
        return status;
    }
    result = copier->device->driver->cuMemcpyAsync(
        (CUdeviceptr)(uintptr_t)target, (CUdeviceptr)(uintptr_t)source, length,
        job->stream);
    return finish(copier, job, result, "cuMemcpyAsync");
}

/* A word that does not come: is the GPU still well? */
static ucxpool_status_t stream_query(const copy_cuda_copier_t *copier,
                                     CUstream                  stream)
{
    ucxpool_status_t status;
    CUresult         result;

    status = mem_cuda_device_enter(copier->device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    result = copier->device->driver->cuStreamQuery(stream);
    mem_cuda_device_leave(copier->device);
    if ((result == CUDA_SUCCESS) || (result == CUDA_ERROR_NOT_READY)) {
        return UCXPOOL_INPROGRESS;
    }
    return copy_cuda_copier_error(copier, result, "a copy");
}

ucxpool_status_t copy_cuda_job_poll(copy_cuda_copier_t *copier,
                                    copy_cuda_job_t    *job)
{
    ucxpool_status_t status = UCXPOOL_INPROGRESS;

    if (!job->is_started) {
        return UCXPOOL_OK;
    }
    if (__atomic_load_n(job->word, __ATOMIC_ACQUIRE) == job->number) {
        status = UCXPOOL_OK;
    } else if (++job->num_polls % POLLS_PER_QUERY == 0) {
        status = stream_query(copier, job->stream);
    }
    job->is_started = status == UCXPOOL_INPROGRESS;
    return status;
}

uint32_t copy_cuda_job_fault(const copy_cuda_job_t *job)
{
    return *job->fault;
}

ucxpool_status_t copy_cuda_copier_check(const copy_cuda_copier_t *copier)
{
    ucxpool_status_t status =
        stream_query(copier, copier->lanes[COPY_CUDA_GATHER].streams[0]);

    return (status == UCXPOOL_INPROGRESS) ? UCXPOOL_OK : status;
}
