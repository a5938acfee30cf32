/*
 * The CUDA driver as a table of functions, loaded with dlopen(). The same
 * binary runs on machines with and without a GPU, and tests can replace the
 * driver.
 *
 * Nothing is loaded or called before the first mem_cuda_driver_get(), so a
 * process may fork before it creates its first GPU pool.
 */
#ifndef MEM_CUDA_DRIVER_H
#define MEM_CUDA_DRIVER_H

#include "base/config.h"
#include "mem/cuda_api.h"

#include <ucxpool/status.h>

#include <stdbool.h>

/* The environment variable that names the library to load instead of the
 * default one. The variable is ignored in set-user-ID programs. */
#define MEM_CUDA_DRIVER_VARIABLE BASE_VARIABLE_CUDA_DRIVER

/*
 * The functions. Each entry has the name, the symbol of the required version
 * (for drivers without cuGetProcAddress()), true if the function is required,
 * and the parameters. Optional functions that the driver lacks are NULL; see
 * mem_cuda_driver_t.
 */
/* clang-format off */
#define MEM_CUDA_CALLS(_call) \
    _call(cuInit, "cuInit", true, (unsigned flags)) \
    _call(cuDriverGetVersion, "cuDriverGetVersion", true, (int *version)) \
    _call(cuGetErrorName, "cuGetErrorName", true, \
          (CUresult error, const char **text)) \
    _call(cuGetErrorString, "cuGetErrorString", true, \
          (CUresult error, const char **text)) \
    \
    _call(cuDeviceGetCount, "cuDeviceGetCount", true, (int *count)) \
    _call(cuDeviceGet, "cuDeviceGet", true, (CUdevice *device, int ordinal)) \
    _call(cuDeviceGetName, "cuDeviceGetName", true, \
          (char *name, int size, CUdevice device)) \
    _call(cuDeviceGetUuid, "cuDeviceGetUuid_v2", true, \
          (CUuuid *uuid, CUdevice device)) \
    _call(cuDeviceTotalMem, "cuDeviceTotalMem_v2", true, \
          (size_t *size, CUdevice device)) \
    _call(cuDeviceGetAttribute, "cuDeviceGetAttribute", true, \
          (int *value, CUdevice_attribute attribute, CUdevice device)) \
    _call(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", true, \
          (char *text, int size, CUdevice device)) \
    \
    _call(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", true, \
          (CUcontext *context, CUdevice device)) \
    _call(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", true, \
          (CUdevice device)) \
    _call(cuCtxPushCurrent, "cuCtxPushCurrent_v2", true, (CUcontext context)) \
    _call(cuCtxPopCurrent, "cuCtxPopCurrent_v2", true, (CUcontext *context)) \
    _call(cuCtxGetCurrent, "cuCtxGetCurrent", true, (CUcontext *context)) \
    _call(cuCtxGetDevice, "cuCtxGetDevice", true, (CUdevice *device)) \
    _call(cuCtxSynchronize, "cuCtxSynchronize", true, (void)) \
    \
    _call(cuMemAlloc, "cuMemAlloc_v2", true, \
          (CUdeviceptr *address, size_t size)) \
    _call(cuMemFree, "cuMemFree_v2", true, (CUdeviceptr address)) \
    _call(cuMemGetInfo, "cuMemGetInfo_v2", true, \
          (size_t *free_size, size_t *total_size)) \
    _call(cuMemGetAddressRange, "cuMemGetAddressRange_v2", true, \
          (CUdeviceptr *base, size_t *size, CUdeviceptr address)) \
    _call(cuMemHostAlloc, "cuMemHostAlloc", true, \
          (void **address, size_t size, unsigned flags)) \
    _call(cuMemFreeHost, "cuMemFreeHost", true, (void *address)) \
    _call(cuMemHostRegister, "cuMemHostRegister_v2", true, \
          (void *address, size_t size, unsigned flags)) \
    _call(cuMemHostUnregister, "cuMemHostUnregister", true, (void *address)) \
    _call(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", true, \
          (CUdeviceptr *address, void *host, unsigned flags)) \
    _call(cuMemcpyAsync, "cuMemcpyAsync", true, \
          (CUdeviceptr target, CUdeviceptr source, size_t size, \
           CUstream stream)) \
    _call(cuMemsetD32Async, "cuMemsetD32Async", true, \
          (CUdeviceptr target, unsigned value, size_t num, CUstream stream)) \
    _call(cuPointerGetAttributes, "cuPointerGetAttributes", true, \
          (unsigned num, CUpointer_attribute *attributes, void **values, \
           CUdeviceptr address)) \
    _call(cuIpcGetMemHandle, "cuIpcGetMemHandle", true, \
          (CUipcMemHandle *handle, CUdeviceptr address)) \
    _call(cuIpcOpenMemHandle, "cuIpcOpenMemHandle_v2", true, \
          (CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)) \
    _call(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", true, \
          (CUdeviceptr address)) \
    \
    _call(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", \
          false, \
          (size_t *granularity, const CUmemAllocationProp *prop, \
           CUmemAllocationGranularity_flags option)) \
    _call(cuMemAddressReserve, "cuMemAddressReserve", false, \
          (CUdeviceptr *address, size_t size, size_t alignment, \
           CUdeviceptr wish, unsigned long long flags)) \
    _call(cuMemAddressFree, "cuMemAddressFree", false, \
          (CUdeviceptr address, size_t size)) \
    _call(cuMemCreate, "cuMemCreate", false, \
          (CUmemGenericAllocationHandle *handle, size_t size, \
           const CUmemAllocationProp *prop, unsigned long long flags)) \
    _call(cuMemRelease, "cuMemRelease", false, \
          (CUmemGenericAllocationHandle handle)) \
    _call(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", false, \
          (CUmemGenericAllocationHandle *handle, void *address)) \
    _call(cuMemMap, "cuMemMap", false, \
          (CUdeviceptr address, size_t size, size_t offset, \
           CUmemGenericAllocationHandle handle, unsigned long long flags)) \
    _call(cuMemUnmap, "cuMemUnmap", false, (CUdeviceptr address, size_t size)) \
    _call(cuMemSetAccess, "cuMemSetAccess", false, \
          (CUdeviceptr address, size_t size, const CUmemAccessDesc *desc, \
           size_t num)) \
    _call(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", false, \
          (void *shareable, CUmemGenericAllocationHandle handle, \
           CUmemAllocationHandleType type, unsigned long long flags)) \
    _call(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", \
          false, \
          (CUmemGenericAllocationHandle *handle, void *shareable, \
           CUmemAllocationHandleType type)) \
    \
    _call(cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange", \
          false, \
          (void *handle, CUdeviceptr address, size_t size, \
           CUmemRangeHandleType type, unsigned long long flags)) \
    \
    _call(cuStreamCreate, "cuStreamCreate", true, \
          (CUstream *stream, unsigned flags)) \
    _call(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", true, \
          (CUstream *stream, unsigned flags, int priority)) \
    _call(cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", true, \
          (int *least, int *greatest)) \
    _call(cuStreamDestroy, "cuStreamDestroy_v2", true, (CUstream stream)) \
    _call(cuStreamSynchronize, "cuStreamSynchronize", true, \
          (CUstream stream)) \
    _call(cuStreamQuery, "cuStreamQuery", true, (CUstream stream)) \
    _call(cuStreamWaitEvent, "cuStreamWaitEvent", true, \
          (CUstream stream, CUevent event, unsigned flags)) \
    _call(cuStreamWriteValue32, "cuStreamWriteValue32_v2", false, \
          (CUstream stream, CUdeviceptr address, cuuint32_t value, \
           unsigned flags)) \
    _call(cuStreamWaitValue32, "cuStreamWaitValue32_v2", false, \
          (CUstream stream, CUdeviceptr address, cuuint32_t value, \
           unsigned flags)) \
    _call(cuEventCreate, "cuEventCreate", true, \
          (CUevent *event, unsigned flags)) \
    _call(cuEventDestroy, "cuEventDestroy_v2", true, (CUevent event)) \
    _call(cuEventRecord, "cuEventRecord", true, \
          (CUevent event, CUstream stream)) \
    _call(cuEventQuery, "cuEventQuery", true, (CUevent event)) \
    _call(cuEventSynchronize, "cuEventSynchronize", true, (CUevent event)) \
    \
    _call(cuModuleLoadData, "cuModuleLoadData", true, \
          (CUmodule *module, const void *image)) \
    _call(cuModuleUnload, "cuModuleUnload", true, (CUmodule module)) \
    _call(cuModuleGetFunction, "cuModuleGetFunction", true, \
          (CUfunction *function, CUmodule module, const char *name)) \
    _call(cuLaunchKernel, "cuLaunchKernel", true, \
          (CUfunction function, unsigned grid_x, unsigned grid_y, \
           unsigned grid_z, unsigned block_x, unsigned block_y, \
           unsigned block_z, unsigned shared_size, CUstream stream, \
           void **params, void **extra))
/* clang-format on */

#define MEM_CUDA_MEMBER(_name, _symbol, _is_needed, _params) \
    CUresult(*_name) _params;

typedef struct mem_cuda_driver {
    MEM_CUDA_CALLS(MEM_CUDA_MEMBER)
    int  version;     /* CUDA version that the driver supports: 12040 is 12.4 */
    bool has_vmm;     /* has all virtual memory functions */
    bool has_mem_ops; /* has cuStreamWriteValue32 and cuStreamWaitValue32 */
} mem_cuda_driver_t;

/*
 * Get the driver. The first call in the process loads and initializes the
 * driver, which is never unloaded. After an error the next call tries again.
 *
 * UCXPOOL_ERR_UNSUPPORTED  no driver, the driver is too old, no device, or this
 *                          process was forked after its parent had used CUDA
 * UCXPOOL_ERR_IO           other driver error
 */
ucxpool_status_t mem_cuda_driver_get(const mem_cuda_driver_t **driver_p);

/* --- conversion of results ------------------------------------------------ */

/* Like base_error(): the format describes the failed call and its object.
 * Returns the status of the result; unknown results become UCXPOOL_ERR_IO.
 * Appends the name of the result, the driver's description, and advice if the
 * result alone is sufficient to give advice. */
ucxpool_status_t mem_cuda_error(const mem_cuda_driver_t *driver,
                                CUresult result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Log the failure of a call that cannot report an error, such as a release.
 * Does nothing if the call succeeded. */
void mem_cuda_ignore(const mem_cuda_driver_t *driver, CUresult result,
                     const char *what);

/* Call a function that cannot report an error:
 * mem_cuda_try(driver, cuMemFree, address). */
#define mem_cuda_try(_driver, _function, ...) \
    mem_cuda_ignore(_driver, (_driver)->_function(__VA_ARGS__), #_function)

#endif
