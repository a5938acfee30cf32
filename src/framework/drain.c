#include <config.h>

#include "framework/drain.h"

#include "mem/cuda_device.h"
#include "mem/cuda_driver.h"

#include <ucxpool/framework.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

/* --- uses ----------------------------------------------------------------- */

#define NUM_BUCKETS 1024
#define FIRST_ROOM  4
/* Addresses of allocations are multiples of this. */
#define ADDRESS_STEP 256

static framework_use_t *buckets[NUM_BUCKETS];
static pthread_mutex_t  uses_lock = PTHREAD_MUTEX_INITIALIZER;
/* Allocations in the table: where there is none, who frees takes no uses_lock.
 */
static atomic_size_t num_uses;
static atomic_bool   is_one_lost;

static framework_use_t **bucket_of(const void *address)
{
    return &buckets[((uintptr_t)address / ADDRESS_STEP) % NUM_BUCKETS];
}

/* Where a use hangs, or would. */
static framework_use_t **find_use(const void *address)
{
    framework_use_t **link = bucket_of(address);

    while ((*link != NULL) && ((*link)->address != address)) {
        link = &(*link)->next;
    }
    return link;
}

static bool has_stream(const framework_use_t *use, const void *stream)
{
    for (size_t i = 0; i < use->num_streams; i++) {
        if (use->streams[i] == stream) {
            return true;
        }
    }
    return false;
}

/* A longer one, or the first, with the streams of the one that hangs there;
 * NULL, and nothing changed, without memory. */
static framework_use_t *lengthen(framework_use_t **link, void *address)
{
    framework_use_t *old  = *link;
    size_t           room = old == NULL ? FIRST_ROOM : 2 * old->room;
    framework_use_t *use;

    use = realloc(old, sizeof(*use) + room * sizeof(use->streams[0]));
    if (use == NULL) {
        return NULL;
    }
    if (old == NULL) {
        use->next        = NULL;
        use->address     = address;
        use->num_streams = 0;
        atomic_fetch_add(&num_uses, 1);
    }
    use->room = room;
    *link     = use;
    return use;
}

void framework_uses_add(void *address, void *stream)
{
    framework_use_t **link;
    framework_use_t  *use;

    pthread_mutex_lock(&uses_lock);
    link = find_use(address);
    use  = *link;
    if ((use == NULL) || !has_stream(use, stream)) {
        if ((use == NULL) || (use->num_streams == use->room)) {
            use = lengthen(link, address);
        }
        if (use == NULL) {
            atomic_store(&is_one_lost, true);
        } else {
            use->streams[use->num_streams++] = stream;
        }
    }
    pthread_mutex_unlock(&uses_lock);
}

bool framework_uses_take(const void *address, framework_use_t **use_p)
{
    framework_use_t **link;

    *use_p = NULL;
    if (atomic_load(&num_uses) != 0) {
        pthread_mutex_lock(&uses_lock);
        link   = find_use(address);
        *use_p = *link;
        if (*link != NULL) {
            *link = (*link)->next;
            atomic_fetch_sub(&num_uses, 1);
        }
        pthread_mutex_unlock(&uses_lock);
    }
    return !atomic_load(&is_one_lost);
}

/* --- the stream that waits ------------------------------------------------ */

/* Made when it is first needed; kept until the process ends, as the pools. */
typedef struct drain {
    mem_cuda_device_t *device;
    CUstream           stream;
    CUevent            event;
} drain_t;

static drain_t         drains[UCXPOOL_FRAMEWORK_MAX_DEVICES];
static pthread_mutex_t drains_lock = PTHREAD_MUTEX_INITIALIZER;

/* The first of these is made last: where it is there, all are. Within the
 * device's context. */
static ucxpool_status_t create(mem_cuda_device_t *device, drain_t *drain)
{
    const mem_cuda_driver_t *driver = device->driver;
    CUresult                 result;

    result = driver->cuStreamCreate(&drain->stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) {
        return mem_cuda_error(driver, result, "cuStreamCreate on GPU %d",
                              device->ordinal);
    }
    result = driver->cuEventCreate(&drain->event, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS) {
        mem_cuda_ignore(driver, driver->cuStreamDestroy(drain->stream),
                        "cuStreamDestroy");
        return mem_cuda_error(driver, result, "cuEventCreate on GPU %d",
                              device->ordinal);
    }
    drain->device = device;
    return UCXPOOL_OK;
}

static ucxpool_status_t start(int ordinal, drain_t *drain)
{
    mem_cuda_device_t *device;
    ucxpool_status_t   status;

    if (drain->device != NULL) {
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
    status = create(device, drain);
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
static ucxpool_status_t wait_for(const drain_t *drain, void *stream)
{
    const mem_cuda_driver_t *driver = drain->device->driver;
    CUresult                 result;

    result = driver->cuEventRecord(drain->event, stream);
    if (result == CUDA_SUCCESS) {
        result = driver->cuStreamWaitEvent(drain->stream, drain->event, 0);
    }
    if (result != CUDA_SUCCESS) {
        return mem_cuda_error(driver, result,
                              "waiting for stream %p on GPU %d, which uses "
                              "memory that is freed",
                              stream, drain->device->ordinal);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t wait_for_all(const drain_t *drain, void *stream,
                                     void *const *streams, size_t num_streams)
{
    ucxpool_status_t status = mem_cuda_device_enter(drain->device);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = wait_for(drain, stream);
    for (size_t i = 0; (i < num_streams) && (status == UCXPOOL_OK); i++) {
        status = wait_for(drain, streams[i]);
    }
    mem_cuda_device_leave(drain->device);
    return status;
}

ucxpool_status_t framework_drain_wait(int device, void *stream,
                                      void *const *streams, size_t num_streams,
                                      void **drain_p)
{
    drain_t         *drain = &drains[device];
    ucxpool_status_t status;

    pthread_mutex_lock(&drains_lock);
    status = start(device, drain);
    if (status == UCXPOOL_OK) {
        status = wait_for_all(drain, stream, streams, num_streams);
    }
    if (status == UCXPOOL_OK) {
        *drain_p = drain->stream;
    }
    pthread_mutex_unlock(&drains_lock);
    return status;
}

void framework_drain_synchronize(int ordinal)
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
