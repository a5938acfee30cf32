#include <config.h>

#include "copy/cuda_kernels.h"

#include "copy/kernel.h"
#include "mem/cuda_driver.h"

#include <string.h>

/* Between enter and leave. */
static ucxpool_status_t kernels_load(copy_cuda_kernels_t *kernels)
{
    const mem_cuda_device_t *device = kernels->device;
    const mem_cuda_driver_t *driver = device->driver;
    CUresult                 result;

    result = driver->cuModuleLoadData(&kernels->module, copy_kernel_ptx);
    if (result != CUDA_SUCCESS) {
        return mem_cuda_error(driver, result,
                              "compiling kernels by cuModuleLoadData for GPU "
                              "%d (%s)",
                              device->ordinal, device->name);
    }
    result = driver->cuModuleGetFunction(&kernels->copy, kernels->module,
                                         COPY_KERNEL_NAME);
    if (result != CUDA_SUCCESS) {
        mem_cuda_ignore(driver, driver->cuModuleUnload(kernels->module),
                        "cuModuleUnload");
        return mem_cuda_error(driver, result,
                              "cuModuleGetFunction of %s on GPU %d (%s)",
                              COPY_KERNEL_NAME, device->ordinal, device->name);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t copy_cuda_kernels_init(const mem_cuda_device_t *device,
                                        copy_cuda_kernels_t     *kernels)
{
    ucxpool_status_t status;

    memset(kernels, 0, sizeof(*kernels));
    kernels->device = device;
    status          = mem_cuda_device_enter(device);
    if (status != UCXPOOL_OK) {
        goto err_clear;
    }
    status = kernels_load(kernels);
    mem_cuda_device_leave(device);
    if (status != UCXPOOL_OK) {
        goto err_clear;
    }
    return UCXPOOL_OK;

err_clear:
    memset(kernels, 0, sizeof(*kernels));
    return status;
}

void copy_cuda_kernels_cleanup(copy_cuda_kernels_t *kernels)
{
    const mem_cuda_device_t *device = kernels->device;

    if (device == NULL) {
        return;
    }
    if (mem_cuda_device_enter(device) == UCXPOOL_OK) {
        mem_cuda_ignore(device->driver,
                        device->driver->cuModuleUnload(kernels->module),
                        "cuModuleUnload");
        mem_cuda_device_leave(device);
    }
    memset(kernels, 0, sizeof(*kernels));
}
