#include "mem/cuda_device.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Since CUDA 11.7, streams can write words on every device. Earlier versions
 * need a kernel module option, which an attribute reports. */
#define MEM_OPS_VERSION 11070

static ucxpool_status_t no_such_device(const mem_cuda_driver_t *driver,
                                       int                      ordinal)
{
    int num = 0;

    if (driver->cuDeviceGetCount(&num) != CUDA_SUCCESS) {
        num = 0;
    }
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "GPU %d does not exist: this process has %d GPUs, "
                      "numbered from 0 (see CUDA_VISIBLE_DEVICES)",
                      ordinal, num);
}

static ucxpool_status_t attribute_get(const mem_cuda_device_t *device,
                                      CUdevice_attribute       attribute,
                                      int                     *value_p)
{
    CUresult result = device->driver->cuDeviceGetAttribute(value_p, attribute,
                                                           device->device);

    return mem_cuda_device_status(device, result, "cuDeviceGetAttribute(%d) of",
                                  (int)attribute);
}

/* Returns true if an attribute is set. Returns false for attributes that the
 * driver does not know. */
static bool attribute_is_set(const mem_cuda_device_t *device,
                             CUdevice_attribute       attribute)
{
    int value = 0;

    return (device->driver->cuDeviceGetAttribute(
                &value, attribute, device->device) == CUDA_SUCCESS) &&
           (value != 0);
}

static ucxpool_status_t switches_get(mem_cuda_device_t *device)
{
    const struct {
        CUdevice_attribute attribute;
        bool               is_possible;
        bool              *value;
    } switches[] = {
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
         device->driver->has_vmm, &device->has_vmm},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
         device->driver->has_vmm, &device->has_posix_handles},
        {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
         device->driver->has_vmm, &device->has_gpudirect_vmm},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1,
         device->driver->has_mem_ops, &device->has_mem_ops},
    };
    int              value = 0;
    ucxpool_status_t status;

    for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++) {
        status = attribute_get(device, switches[i].attribute, &value);
        if (status != UCXPOOL_OK) {
            return status;
        }
        *switches[i].value = switches[i].is_possible && (value != 0);
    }
    if (device->driver->version >= MEM_OPS_VERSION) {
        device->has_mem_ops = device->driver->has_mem_ops;
    }
    device->has_fabric_handles =
        device->has_vmm &&
        attribute_is_set(device,
                         CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
    device->has_gpudirect =
        attribute_is_set(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
    device->has_dmabuf =
        attribute_is_set(device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
    /* Integrated devices share the host's memory and have no IPC handles for
     * it. */
    device->has_ipc =
        attribute_is_set(device, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) &&
        !attribute_is_set(device, CU_DEVICE_ATTRIBUTE_INTEGRATED);
    return UCXPOOL_OK;
}

static ucxpool_status_t numbers_get(mem_cuda_device_t *device)
{
    ucxpool_status_t status;

    status = attribute_get(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                           &device->compute_major);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = attribute_get(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                           &device->compute_minor);
    if (status != UCXPOOL_OK) {
        return status;
    }
    return attribute_get(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                         &device->num_processors);
}

static ucxpool_status_t identity_get(mem_cuda_device_t *device)
{
    const mem_cuda_driver_t *driver = device->driver;
    const char              *call   = "cuDeviceGetName";
    CUresult                 result;

    result = driver->cuDeviceGetName(device->name, sizeof(device->name),
                                     device->device);
    if (result == CUDA_SUCCESS) {
        call   = "cuDeviceGetPCIBusId";
        result = driver->cuDeviceGetPCIBusId(
            device->bus_id, sizeof(device->bus_id), device->device);
    }
    if (result == CUDA_SUCCESS) {
        call   = "cuDeviceGetUuid";
        result = driver->cuDeviceGetUuid(&device->uuid, device->device);
    }
    if (result == CUDA_SUCCESS) {
        call   = "cuDeviceTotalMem";
        result = driver->cuDeviceTotalMem(&device->total_size, device->device);
    }
    if (result != CUDA_SUCCESS) {
        return mem_cuda_error(driver, result, "%s of GPU %d", call,
                              device->ordinal);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t mem_cuda_device_status(const mem_cuda_device_t *device,
                                        CUresult result, const char *format,
                                        ...)
{
    char    text[BASE_ERROR_SIZE];
    va_list args;

    if (result == CUDA_SUCCESS) {
        return UCXPOOL_OK;
    }
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return mem_cuda_error(device->driver, result, "%s GPU %d (%s)", text,
                          device->ordinal, device->name);
}

ucxpool_status_t mem_cuda_device_describe(int                ordinal,
                                          mem_cuda_device_t *device)
{
    ucxpool_status_t status;

    memset(device, 0, sizeof(*device));
    device->ordinal = ordinal;
    status          = mem_cuda_driver_get(&device->driver);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (device->driver->cuDeviceGet(&device->device, ordinal) != CUDA_SUCCESS) {
        return no_such_device(device->driver, ordinal);
    }
    status = identity_get(device);
    if (status == UCXPOOL_OK) {
        status = switches_get(device);
    }
    return (status == UCXPOOL_OK) ? numbers_get(device) : status;
}

ucxpool_status_t mem_cuda_device_open(int ordinal, mem_cuda_device_t **device_p)
{
    mem_cuda_device_t *device = calloc(1, sizeof(*device));
    ucxpool_status_t   status;

    if (device == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for GPU %d",
                          ordinal);
    }
    status = mem_cuda_device_describe(ordinal, device);
    if (status == UCXPOOL_OK) {
        status =
            mem_cuda_device_status(device,
                                   device->driver->cuDevicePrimaryCtxRetain(
                                       &device->context, device->device),
                                   "cuDevicePrimaryCtxRetain of");
    }
    if (status != UCXPOOL_OK) {
        free(device);
        return status;
    }
    *device_p = device;
    return UCXPOOL_OK;
}

void mem_cuda_device_close(mem_cuda_device_t *device)
{
    if (device != NULL) {
        mem_cuda_try(device->driver, cuDevicePrimaryCtxRelease, device->device);
        free(device);
    }
}

ucxpool_status_t mem_cuda_device_enter(const mem_cuda_device_t *device)
{
    return mem_cuda_device_status(
        device, device->driver->cuCtxPushCurrent(device->context),
        "cuCtxPushCurrent of");
}

void mem_cuda_device_leave(const mem_cuda_device_t *device)
{
    CUcontext ours;

    mem_cuda_try(device->driver, cuCtxPopCurrent, &ours);
}

CUresult mem_cuda_word_write(const mem_cuda_device_t *device, CUstream stream,
                             uint32_t *word, uint32_t number)
{
    const mem_cuda_driver_t *driver  = device->driver;
    CUdeviceptr              address = (CUdeviceptr)(uintptr_t)word;

    if (device->has_mem_ops) {
        return driver->cuStreamWriteValue32(stream, address, number,
                                            CU_STREAM_WRITE_VALUE_DEFAULT);
    }
    return driver->cuMemsetD32Async(address, number, 1, stream);
}

ucxpool_status_t mem_cuda_device_sizes(const mem_cuda_device_t *device,
                                       size_t *free_p, size_t *total_p)
{
    return mem_cuda_device_status(device,
                                  device->driver->cuMemGetInfo(free_p, total_p),
                                  "cuMemGetInfo of");
}

ucxpool_status_t mem_cuda_device_error(const mem_cuda_device_t *device,
                                       CUresult result, const char *what,
                                       size_t asked_size, size_t free_size)
{
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "%s on GPU %d (%s): CUDA_ERROR_OUT_OF_MEMORY; %zu "
                          "bytes are requested in total, %zu are free: lower "
                          "UCXPOOL_COMM_SIZE",
                          what, device->ordinal, device->name, asked_size,
                          free_size);
    }
    return mem_cuda_device_status(device, result, "%s on", what);
}

ucxpool_status_t mem_cuda_no_vmm(const mem_cuda_device_t *device,
                                 const char              *need)
{
    return base_error(UCXPOOL_ERR_UNSUPPORTED,
                      "GPU %d (%s) or its driver does not support virtual "
                      "memory, which %s",
                      device->ordinal, device->name, need);
}

CUmemAllocationProp mem_cuda_allocation_prop(const mem_cuda_device_t *device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};

    if (device->has_posix_handles) {
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    }
    prop.location.type                   = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id                     = device->device;
    prop.allocFlags.gpuDirectRDMACapable = device->has_gpudirect_vmm;
    return prop;
}

CUresult mem_cuda_access_set(const mem_cuda_device_t *device,
                             CUdeviceptr address, size_t size, bool is_writable)
{
    CUmemAccessDesc desc = {.flags = is_writable
                                         ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                         : CU_MEM_ACCESS_FLAGS_PROT_READ};

    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id   = device->device;
    return device->driver->cuMemSetAccess(address, size, &desc, 1);
}
