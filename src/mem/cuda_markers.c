#include <config.h>

#include "mem/cuda_markers.h"

#include "base/error.h"
#include "mem/cuda_driver.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Each word on a line of its own, so that polling one does not take another
 * from the GPU. */
#define LINE_SIZE ((size_t)64)

struct mem_cuda_markers {
    const mem_cuda_device_t *device;
    char                    *pinned; /* the words */
    unsigned                 num_markers;
    unsigned                 num_set;
    mem_cuda_marker_t       *free_markers;
    mem_cuda_marker_t        markers[];
};

static ucxpool_status_t words_take(mem_cuda_markers_t *markers)
{
    const mem_cuda_driver_t *driver = markers->device->driver;
    size_t                   size   = markers->num_markers * LINE_SIZE;
    ucxpool_status_t         status;
    void                    *pinned;
    CUresult                 result;

    status = mem_cuda_device_enter(markers->device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    result = driver->cuMemHostAlloc(
        &pinned, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    mem_cuda_device_leave(markers->device);
    if (result != CUDA_SUCCESS) {
        return mem_cuda_error(driver, result,
                              "cuMemHostAlloc of %zu bytes for markers in "
                              "streams of GPU %d (%s)",
                              size, markers->device->ordinal,
                              markers->device->name);
    }
    markers->pinned = pinned;
    memset(pinned, 0, size);
    return UCXPOOL_OK;
}

ucxpool_status_t mem_cuda_markers_create(const mem_cuda_device_t *device,
                                         unsigned                 num_markers,
                                         mem_cuda_markers_t     **markers_p)
{
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
    status               = words_take(markers);
    if (status != UCXPOOL_OK) {
        free(markers);
        return status;
    }
    for (unsigned i = num_markers; i > 0; i--) {
        mem_cuda_marker_t *marker = &markers->markers[i - 1];

        marker->word =
            (uint32_t *)(void *)(markers->pinned + (i - 1) * LINE_SIZE);
        marker->next          = markers->free_markers;
        markers->free_markers = marker;
    }
    *markers_p = markers;
    return UCXPOOL_OK;
}

/* The words of markers that are still set are written one day: wait for all
 * streams that may. */
static void wait_for_all(const mem_cuda_markers_t *markers)
{
    const mem_cuda_driver_t *driver = markers->device->driver;

    if (markers->num_set != 0) {
        mem_cuda_ignore(driver, driver->cuCtxSynchronize(), "cuCtxSynchronize");
    }
}

void mem_cuda_markers_destroy(mem_cuda_markers_t *markers)
{
    const mem_cuda_driver_t *driver;

    if (markers == NULL) {
        return;
    }
    driver = markers->device->driver;
    if (mem_cuda_device_enter(markers->device) == UCXPOOL_OK) {
        wait_for_all(markers);
        mem_cuda_ignore(driver, driver->cuMemFreeHost(markers->pinned),
                        "cuMemFreeHost");
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
                          "%u requests wait for their streams already: post "
                          "fewer at one time, or those whose memory is ready "
                          "with UCXPOOL_STREAM_READY",
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
        return mem_cuda_error(markers->device->driver, result,
                              "having a word written by the stream of a "
                              "request on GPU %d (%s)",
                              markers->device->ordinal, markers->device->name);
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
