#include <config.h>

#include "mem/cuda_marks.h"

#include "base/error.h"
#include "mem/cuda_driver.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Each word on a line of its own, so that polling one does not take another
 * from the GPU. */
#define LINE_SIZE ((size_t)64)

struct mem_cuda_marks {
    const mem_cuda_device_t *device;
    char                    *pinned; /* the words */
    unsigned                 num_marks;
    unsigned                 num_set;
    mem_cuda_mark_t         *free_marks;
    mem_cuda_mark_t          marks[];
};

static ucxpool_status_t words_take(mem_cuda_marks_t *marks)
{
    const mem_cuda_driver_t *driver = marks->device->driver;
    size_t                   size   = marks->num_marks * LINE_SIZE;
    ucxpool_status_t         status;
    void                    *pinned;
    CUresult                 result;

    status = mem_cuda_device_enter(marks->device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    result = driver->cuMemHostAlloc(
        &pinned, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    mem_cuda_device_leave(marks->device);
    if (result != CUDA_SUCCESS) {
        return mem_cuda_error(driver, result,
                              "cuMemHostAlloc of %zu bytes for marks in "
                              "streams of GPU %d (%s)",
                              size, marks->device->ordinal,
                              marks->device->name);
    }
    marks->pinned = pinned;
    memset(pinned, 0, size);
    return UCXPOOL_OK;
}

ucxpool_status_t mem_cuda_marks_create(const mem_cuda_device_t *device,
                                       unsigned                 num_marks,
                                       mem_cuda_marks_t       **marks_p)
{
    mem_cuda_marks_t *marks;
    ucxpool_status_t  status;

    assert(num_marks > 0);
    marks = calloc(1, sizeof(*marks) + num_marks * sizeof(marks->marks[0]));
    if (marks == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for %u marks",
                          num_marks);
    }
    marks->device    = device;
    marks->num_marks = num_marks;
    status           = words_take(marks);
    if (status != UCXPOOL_OK) {
        free(marks);
        return status;
    }
    for (unsigned i = num_marks; i > 0; i--) {
        mem_cuda_mark_t *mark = &marks->marks[i - 1];

        mark->word = (uint32_t *)(void *)(marks->pinned + (i - 1) * LINE_SIZE);
        mark->next = marks->free_marks;
        marks->free_marks = mark;
    }
    *marks_p = marks;
    return UCXPOOL_OK;
}

/* The words of marks that are still set are written one day: wait for all
 * streams that may. */
static void wait_for_all(const mem_cuda_marks_t *marks)
{
    const mem_cuda_driver_t *driver = marks->device->driver;

    if (marks->num_set != 0) {
        mem_cuda_ignore(driver, driver->cuCtxSynchronize(), "cuCtxSynchronize");
    }
}

void mem_cuda_marks_destroy(mem_cuda_marks_t *marks)
{
    const mem_cuda_driver_t *driver;

    if (marks == NULL) {
        return;
    }
    driver = marks->device->driver;
    if (mem_cuda_device_enter(marks->device) == UCXPOOL_OK) {
        wait_for_all(marks);
        mem_cuda_ignore(driver, driver->cuMemFreeHost(marks->pinned),
                        "cuMemFreeHost");
        mem_cuda_device_leave(marks->device);
    }
    free(marks);
}

ucxpool_status_t mem_cuda_mark_set(mem_cuda_marks_t *marks, CUstream stream,
                                   mem_cuda_mark_t **mark_p)
{
    mem_cuda_mark_t *mark = marks->free_marks;
    ucxpool_status_t status;
    CUresult         result;

    if (mark == NULL) {
        return base_error(UCXPOOL_ERR_LIMIT,
                          "%u requests wait for their streams already: post "
                          "fewer at one time, or those whose memory is ready "
                          "with UCXPOOL_STREAM_READY",
                          marks->num_marks);
    }
    status = mem_cuda_device_enter(marks->device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    mark->number++;
    result =
        mem_cuda_word_write(marks->device, stream, mark->word, mark->number);
    mem_cuda_device_leave(marks->device);
    if (result != CUDA_SUCCESS) {
        return mem_cuda_error(marks->device->driver, result,
                              "having a word written by the stream of a "
                              "request on GPU %d (%s)",
                              marks->device->ordinal, marks->device->name);
    }
    marks->free_marks = mark->next;
    marks->num_set++;
    *mark_p = mark;
    return UCXPOOL_OK;
}

bool mem_cuda_mark_is_reached(const mem_cuda_mark_t *mark)
{
    return __atomic_load_n(mark->word, __ATOMIC_ACQUIRE) == mark->number;
}

void mem_cuda_mark_put(mem_cuda_marks_t *marks, mem_cuda_mark_t *mark)
{
    assert(mem_cuda_mark_is_reached(mark));
    mark->next        = marks->free_marks;
    marks->free_marks = mark;
    marks->num_set--;
}
