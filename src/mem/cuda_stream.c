#include "mem/cuda_stream.h"

#include "base/error.h"
#include "mem/cuda_driver.h"
#include "mem/cuda_pinned.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* --- markers -------------------------------------------------------------- */

/* Each word is in a separate cache line, so that polling one word does not slow
 * down the GPU's writes to other words. */
#define LINE_SIZE ((size_t)64)

struct mem_cuda_markers {
    const mem_cuda_device_t *device;
    void                    *pinned; /* the words of all markers */
    unsigned                 num_markers;
    unsigned                 num_set;
    mem_cuda_marker_t       *free_markers;
    mem_cuda_marker_t        markers[];
};

ucxpool_status_t mem_cuda_markers_create(const mem_cuda_device_t *device,
                                         unsigned                 num_markers,
                                         mem_cuda_markers_t     **markers_p)
{
    size_t              size = num_markers * LINE_SIZE;
    mem_cuda_markers_t *markers;
    ucxpool_status_t    status;

    assert(num_markers > 0);
    markers =
        calloc(1, sizeof(*markers) + num_markers * sizeof(markers->markers[0]));
    if (markers == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for %u markers",
                          num_markers);
    }
    markers->device      = device;
    markers->num_markers = num_markers;
    status =
        mem_cuda_pinned_take(device, size, "stream markers", &markers->pinned);
    if (status != UCXPOOL_OK) {
        free(markers);
        return status;
    }
    memset(markers->pinned, 0, size);
    for (unsigned i = num_markers; i > 0; i--) {
        mem_cuda_marker_t *marker = &markers->markers[i - 1];

        marker->word = (uint32_t *)markers->pinned +
                       (i - 1) * LINE_SIZE / sizeof(uint32_t);
        marker->next          = markers->free_markers;
        markers->free_markers = marker;
    }
    *markers_p = markers;
    return UCXPOOL_OK;
}

void mem_cuda_markers_destroy(mem_cuda_markers_t *markers)
{
    const mem_cuda_driver_t *driver;

    if (markers == NULL) {
        return;
    }
    driver = markers->device->driver;
    if (mem_cuda_device_enter(markers->device) == UCXPOOL_OK) {
        /* The work of all streams still writes to pending markers. */
        if (markers->num_set != 0) {
            mem_cuda_ignore(driver, driver->cuCtxSynchronize(),
                            "cuCtxSynchronize");
        }
        mem_cuda_try(driver, cuMemFreeHost, markers->pinned);
        mem_cuda_device_leave(markers->device);
    }
    free(markers);
}

ucxpool_status_t mem_cuda_marker_set(mem_cuda_markers_t *markers,
                                     CUstream            stream,
                                     mem_cuda_marker_t **mark_p)
{
    mem_cuda_marker_t *marker = markers->free_markers;
    ucxpool_status_t   status;
    CUresult           result;

    if (marker == NULL) {
        return base_error(UCXPOOL_ERR_LIMIT,
                          "%u requests already wait for their streams: post "
                          "fewer at a time, or pass UCXPOOL_STREAM_READY for "
                          "memory that is ready",
                          markers->num_markers);
    }
    status = mem_cuda_device_enter(markers->device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    marker->number++;
    result = mem_cuda_word_write(markers->device, stream, marker->word,
                                 marker->number);
    mem_cuda_device_leave(markers->device);
    if (result != CUDA_SUCCESS) {
        return mem_cuda_device_status(
            markers->device, result,
            "setting a marker in the stream of a request on");
    }
    markers->free_markers = marker->next;
    markers->num_set++;
    *mark_p = marker;
    return UCXPOOL_OK;
}

bool mem_cuda_marker_is_reached(const mem_cuda_marker_t *marker)
{
    return __atomic_load_n(marker->word, __ATOMIC_ACQUIRE) == marker->number;
}

void mem_cuda_marker_put(mem_cuda_markers_t *markers, mem_cuda_marker_t *marker)
{
    assert(mem_cuda_marker_is_reached(marker));
    marker->next          = markers->free_markers;
    markers->free_markers = marker;
    markers->num_set--;
}

/* --- joined streams ------------------------------------------------------- */

#define MAX_DEVICES 64

/* The library's stream on a device, created on first use and kept until the
 * process ends. */
typedef struct join {
    mem_cuda_device_t *device;
    CUstream           stream;
    CUevent            event;
} join_t;

static join_t          joins[MAX_DEVICES];
static pthread_mutex_t joins_lock = PTHREAD_MUTEX_INITIALIZER;

/* Create the stream and the event. Sets join->device last: if it is set, all
 * members are set. Call between enter and leave. */
static ucxpool_status_t create(mem_cuda_device_t *device, join_t *join)
{
    const mem_cuda_driver_t *driver = device->driver;
    CUresult                 result;

    result = driver->cuStreamCreate(&join->stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) {
        return mem_cuda_device_status(device, result, "cuStreamCreate on");
    }
    result = driver->cuEventCreate(&join->event, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS) {
        mem_cuda_try(driver, cuStreamDestroy, join->stream);
        return mem_cuda_device_status(device, result, "cuEventCreate on");
    }
    join->device = device;
    return UCXPOOL_OK;
}

static ucxpool_status_t start(int ordinal, join_t *join)
{
    mem_cuda_device_t *device;
    ucxpool_status_t   status;

    if (join->device != NULL) {
        return UCXPOOL_OK;
    }
    status = mem_cuda_device_open(ordinal, &device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    mem_cuda_device_do(device, status, create(device, join));
    if (status != UCXPOOL_OK) {
        mem_cuda_device_close(device);
    }
    return status;
}

/* Make the join's stream wait for `stream`. The event can be recorded again at
 * once, because cuStreamWaitEvent() waits for the work captured by the previous
 * cuEventRecord(). */
static ucxpool_status_t wait_for(const join_t *join, void *stream)
{
    const mem_cuda_driver_t *driver = join->device->driver;
    CUresult result = driver->cuEventRecord(join->event, stream);

    if (result == CUDA_SUCCESS) {
        result = driver->cuStreamWaitEvent(join->stream, join->event, 0);
    }
    return mem_cuda_device_status(join->device, result,
                                  "waiting for stream %p, which uses the "
                                  "memory to be freed, on",
                                  stream);
}

static ucxpool_status_t wait_for_all(const join_t *join, void *stream,
                                     void *const *streams, size_t num_streams)
{
    ucxpool_status_t status = mem_cuda_device_enter(join->device);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = wait_for(join, stream);
    for (size_t i = 0; (i < num_streams) && (status == UCXPOOL_OK); i++) {
        status = wait_for(join, streams[i]);
    }
    mem_cuda_device_leave(join->device);
    return status;
}

ucxpool_status_t mem_cuda_join(int device, void *stream, void *const *streams,
                               size_t num_streams, void **stream_p)
{
    join_t          *join;
    ucxpool_status_t status;

    if ((device < 0) || (device >= MAX_DEVICES)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "invalid GPU %d: streams can be joined on GPUs 0 to "
                          "%d",
                          device, MAX_DEVICES - 1);
    }
    join = &joins[device];
    pthread_mutex_lock(&joins_lock);
    status = start(device, join);
    if (status == UCXPOOL_OK) {
        status = wait_for_all(join, stream, streams, num_streams);
    }
    if (status == UCXPOOL_OK) {
        *stream_p = join->stream;
    }
    pthread_mutex_unlock(&joins_lock);
    return status;
}

void mem_cuda_synchronize(int ordinal)
{
    mem_cuda_device_t *device;

    if (mem_cuda_device_open(ordinal, &device) != UCXPOOL_OK) {
        return;
    }
    if (mem_cuda_device_enter(device) == UCXPOOL_OK) {
        mem_cuda_ignore(device->driver, device->driver->cuCtxSynchronize(),
                        "cuCtxSynchronize");
        mem_cuda_device_leave(device);
    }
    mem_cuda_device_close(device);
}
