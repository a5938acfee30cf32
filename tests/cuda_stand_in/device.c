/* Driver initialization, devices, and their primary contexts. */
#include "state.h"

#include <stdio.h>
#include <string.h>

#define STACK_SIZE 16

struct CUctx_st contexts[MAX_DEVICES];

static _Thread_local CUcontext stack[STACK_SIZE];
static _Thread_local unsigned  stack_size;
static _Thread_local unsigned  num_pushed; /* not set by cuCtxSetCurrent() */

CUcontext current_context(void)
{
    return stack_size == 0 ? NULL : stack[stack_size - 1];
}

ENTRY(cuInit, unsigned flags)
{
    BEGIN("cuInit", NEEDS_INIT);
    return done(flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

ENTRY(cuDriverGetVersion, int *version)
{
    BEGIN("cuDriverGetVersion", NEEDS_NOTHING);
    *version = config.version;
    return done(CUDA_SUCCESS);
}

static const struct {
    CUresult    result;
    const char *name;
    const char *words;
} results[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED",
     "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE",
     "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE",
     "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT",
     "invalid device context"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE",
     "invalid resource handle"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED",
     "operation not permitted"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED",
     "operation not supported"},
};

static int find_result(CUresult result)
{
    int num = (int)(sizeof(results) / sizeof(results[0]));

    for (int i = 0; i < num; i++) {
        if (results[i].result == result) {
            return i;
        }
    }
    return -1;
}

ENTRY(cuGetErrorName, CUresult error, const char **text)
{
    BEGIN("cuGetErrorName", NEEDS_NOTHING);
    *text = find_result(error) < 0 ? NULL : results[find_result(error)].name;
    return done(*text == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

ENTRY(cuGetErrorString, CUresult error, const char **text)
{
    BEGIN("cuGetErrorString", NEEDS_NOTHING);
    *text = find_result(error) < 0 ? NULL : results[find_result(error)].words;
    return done(*text == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

ENTRY(cuDeviceGetCount, int *count)
{
    BEGIN("cuDeviceGetCount", NEEDS_INIT);
    *count = config.num_devices;
    return done(CUDA_SUCCESS);
}

static bool is_device(CUdevice device)
{
    return (device >= 0) && (device < config.num_devices);
}

ENTRY(cuDeviceGet, CUdevice *device, int ordinal)
{
    BEGIN("cuDeviceGet", NEEDS_INIT);
    FAIL_IF(!is_device(ordinal), CUDA_ERROR_INVALID_DEVICE);
    *device = ordinal;
    return done(CUDA_SUCCESS);
}

ENTRY(cuDeviceGetName, char *name, int size, CUdevice device)
{
    BEGIN("cuDeviceGetName", NEEDS_INIT);
    FAIL_IF(!is_device(device), CUDA_ERROR_INVALID_DEVICE);
    snprintf(name, (size_t)size, "%s", config.name);
    return done(CUDA_SUCCESS);
}

ENTRY(cuDeviceGetUuid_v2, CUuuid *uuid, CUdevice device)
{
    BEGIN("cuDeviceGetUuid", NEEDS_INIT);
    FAIL_IF(!is_device(device), CUDA_ERROR_INVALID_DEVICE);
    memset(uuid, 0, sizeof(*uuid));
    memcpy(uuid->bytes, "stand-in GPU", 12);
    uuid->bytes[15] = (char)(device + 1);
    return done(CUDA_SUCCESS);
}

ENTRY(cuDeviceTotalMem_v2, size_t *size, CUdevice device)
{
    BEGIN("cuDeviceTotalMem", NEEDS_INIT);
    FAIL_IF(!is_device(device), CUDA_ERROR_INVALID_DEVICE);
    *size = config.memory;
    return done(CUDA_SUCCESS);
}

static int attribute_value(CUdevice_attribute attribute)
{
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return 4;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
        return 1;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return 9;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
        return config.has_host_pointer;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1:
        return config.has_mem_ops;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        return config.has_vmm;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
        return config.has_vmm && config.has_posix;
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
        return config.has_gdr && config.has_dmabuf;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
        return config.has_gdr;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
        return config.has_vmm && (config.fabric != FABRIC_NO);
    default:
        return 0;
    }
}

ENTRY(cuDeviceGetAttribute, int *value, CUdevice_attribute attribute,
      CUdevice device)
{
    BEGIN("cuDeviceGetAttribute", NEEDS_INIT);
    FAIL_IF(!is_device(device), CUDA_ERROR_INVALID_DEVICE);
    *value = attribute_value(attribute);
    return done(CUDA_SUCCESS);
}

ENTRY(cuDeviceGetPCIBusId, char *text, int size, CUdevice device)
{
    BEGIN("cuDeviceGetPCIBusId", NEEDS_INIT);
    FAIL_IF(!is_device(device), CUDA_ERROR_INVALID_DEVICE);
    snprintf(text, (size_t)size, "0000:%02X:00.0", device + 1);
    return done(CUDA_SUCCESS);
}

ENTRY(cuDevicePrimaryCtxRetain, CUcontext *context, CUdevice device)
{
    BEGIN("cuDevicePrimaryCtxRetain", NEEDS_INIT);
    FAIL_IF(!is_device(device), CUDA_ERROR_INVALID_DEVICE);
    contexts[device].device = device;
    contexts[device].retains++;
    num_live++;
    *context = &contexts[device];
    return done(CUDA_SUCCESS);
}

ENTRY(cuDevicePrimaryCtxRelease_v2, CUdevice device)
{
    BEGIN("cuDevicePrimaryCtxRelease", NEEDS_INIT);
    FAIL_IF(!is_device(device) || (contexts[device].retains == 0),
            CUDA_ERROR_INVALID_CONTEXT);
    contexts[device].retains--;
    num_live--;
    return done(CUDA_SUCCESS);
}

ENTRY(cuCtxPushCurrent_v2, CUcontext context)
{
    BEGIN("cuCtxPushCurrent", NEEDS_INIT);
    FAIL_IF((context == NULL) || (stack_size == STACK_SIZE),
            CUDA_ERROR_INVALID_VALUE);
    FAIL_IF(context->retains == 0, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    stack[stack_size++] = context;
    num_pushed++;
    num_live++;
    return done(CUDA_SUCCESS);
}

ENTRY(cuCtxPopCurrent_v2, CUcontext *context)
{
    BEGIN("cuCtxPopCurrent", NEEDS_INIT);
    FAIL_IF(stack_size == 0, CUDA_ERROR_INVALID_CONTEXT);
    stack_size--;
    if (num_pushed != 0) {
        num_pushed--;
        num_live--;
    }
    if (context != NULL) {
        *context = stack[stack_size];
    }
    return done(CUDA_SUCCESS);
}

ENTRY(cuCtxGetCurrent, CUcontext *context)
{
    BEGIN("cuCtxGetCurrent", NEEDS_INIT);
    *context = current_context();
    return done(CUDA_SUCCESS);
}

ENTRY(cuCtxGetDevice, CUdevice *device)
{
    BEGIN("cuCtxGetDevice", NEEDS_CONTEXT);
    *device = current_context()->device;
    return done(CUDA_SUCCESS);
}

ENTRY(cuCtxSetCurrent, CUcontext context)
{
    BEGIN("cuCtxSetCurrent", NEEDS_INIT);
    if (stack_size == 0) {
        stack_size = 1;
    }
    stack[stack_size - 1] = context;
    if (context == NULL) {
        stack_size--;
    }
    return done(CUDA_SUCCESS);
}
