/* A copier's order with streams of the caller's. */
#include <config.h>

#include "mem/copy_cuda_inside.h"
#include "mem/cuda_status.h"

/* Let `later` wait for what is in `earlier`, whose context the event is of. */
static CUresult order(const mem_cuda_driver_t *driver, CUevent event,
                      CUstream earlier, CUstream later)
{
    CUresult result = driver->cuEventRecord(event, earlier);

    if (result == CUDA_SUCCESS) {
        result = driver->cuStreamWaitEvent(later, event, 0);
    }
    return result;
}

/* A stream of another context wants an event of that one. */
static CUresult order_after_foreign(const mem_cuda_copier_t *copier,
                                    CUcontext context, CUstream stream)
{
    const mem_cuda_driver_t *driver = copier->device->driver;
    CUevent                  event;
    CUresult                 result;

    result = driver->cuCtxPushCurrent(context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) {
        result = order(driver, event, stream, copier->stream);
        /* The driver keeps it until it has been reached. */
        mem_cuda_ignore(driver, driver->cuEventDestroy(event),
                        "cuEventDestroy");
    }
    mem_cuda_ignore(driver, driver->cuCtxPopCurrent(&context),
                    "cuCtxPopCurrent");
    return result;
}

/* Between enter and leave: 0, 1 and 2 are streams of this device. */
static CUresult order_after(const mem_cuda_copier_t *copier, CUstream stream)
{
    const mem_cuda_driver_t *driver = copier->device->driver;
    CUcontext                context;
    CUresult                 result;

    result = driver->cuStreamGetCtx(stream, &context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (context != copier->device->context) {
        return order_after_foreign(copier, context, stream);
    }
    return order(driver, copier->event, stream, copier->stream);
}

ucxpool_status_t mem_cuda_copier_after(mem_cuda_copier_t *copier,
                                       CUstream           stream)
{
    ucxpool_status_t status = mem_cuda_device_enter(copier->device);
    CUresult         result;

    if (status != UCXPOOL_OK) {
        return status;
    }
    result = order_after(copier, stream);
    mem_cuda_device_leave(copier->device);
    return result == CUDA_SUCCESS
               ? UCXPOOL_OK
               : mem_cuda_copier_error(copier, result, "waiting for a stream");
}

ucxpool_status_t mem_cuda_copier_before(mem_cuda_copier_t *copier,
                                        CUstream           stream)
{
    ucxpool_status_t status = mem_cuda_device_enter(copier->device);
    CUresult         result;

    if (status != UCXPOOL_OK) {
        return status;
    }
    result = order(copier->device->driver, copier->event, copier->stream,
                   stream);
    mem_cuda_device_leave(copier->device);
    return result == CUDA_SUCCESS
               ? UCXPOOL_OK
               : mem_cuda_copier_error(copier, result,
                                       "letting a stream wait");
}
