#include <config.h>

#include "mem/cuda_join.h"

#include "base/error.h"
#include "mem/cuda_device.h"
#include "mem/cuda_driver.h"

#include <pthread.h>

#define MAX_DEVICES 64

/* Made when it is first needed; kept until the process ends, as the pools. */
typedef struct join {
    mem_cuda_device_t *device;
    CUstream           stream;
    CUevent            event;
} join_t;

static join_t          joins[MAX_DEVICES];
static pthread_mutex_t joins_lock = PTHREAD_MUTEX_INITIALIZER;

/* The first of these is made last: where it is there, all are. Within the
 * device's context. */
static ucxpool_status_t create(mem_cuda_device_t *device, join_t *join)
{
    const mem_cuda_driver_t *driver = device->driver;
    CUresult                 result;

    result = driver->cuStreamCreate(&join->stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) {
        return mem_cuda_error(driver, result, "cuStreamCreate on GPU %d",
                              device->ordinal);
    }
    result = driver->cuEventCreate(&join->event, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS) {
        mem_cuda_ignore(driver, driver->cuStreamDestroy(join->stream),
                        "cuStreamDestroy");
        return mem_cuda_error(driver, result, "cuEventCreate on GPU %d",
                              device->ordinal);
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
    status = mem_cuda_device_enter(device);
    if (status != UCXPOOL_OK) {
        goto err_close_device;
    }
    status = create(device, join);
    mem_cuda_device_leave(device);
    if (status != UCXPOOL_OK) {
        goto err_close_device;
    }
    return UCXPOOL_OK;

err_close_device:
    mem_cuda_device_close(device);
    return status;
}

/* An event may be recorded again as soon as a stream has been told to wait for
 * it: the wait is for what it was then. */
static ucxpool_status_t wait_for(const join_t *join, void *stream)
{
    const mem_cuda_driver_t *driver = join->device->driver;
    CUresult                 result;

    result = driver->cuEventRecord(join->event, stream);
    if (result == CUDA_SUCCESS) {
        result = driver->cuStreamWaitEvent(join->stream, join->event, 0);
    }
    if (result != CUDA_SUCCESS) {
        return mem_cuda_error(driver, result,
                              "waiting for stream %p on GPU %d, which uses "
                              "memory that is freed",
                              stream, join->device->ordinal);
    }
    return UCXPOOL_OK;
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
                          "there is no GPU %d: streams are joined on GPUs from "
                          "0 to %d",
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
