/*
 * The part of the CUDA driver's interface that the tools use, as one table of
 * functions. It is filled by dlopen(), so that a tool needs no GPU to be built
 * or started. Names and values are those of CUDA's public documentation.
 *
 * The tools know the library by its public headers only, and so have a table of
 * their own.
 */
#ifndef GPU_DRIVER_H
#define GPU_DRIVER_H

#include <stddef.h>

/* Names another library to load, as it does for the pool itself. */
#define GPU_DRIVER_VARIABLE "UCXPOOL_CUDA_DRIVER"

typedef int                 CUresult;
typedef int                 CUdevice;
typedef unsigned long long  CUdeviceptr;
typedef struct CUctx_st    *CUcontext;
typedef struct CUstream_st *CUstream;

enum {
    CUDA_SUCCESS             = 0,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_READY     = 600
};

enum {
    CU_STREAM_NON_BLOCKING             = 0x1,
    CU_MEMHOSTALLOC_PORTABLE           = 0x1,
    CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 0x1
};

/* A handle by which another process opens an allocation. */
typedef struct CUipcMemHandle_st {
    char reserved[64];
} CUipcMemHandle;

/* Every function: its name, the symbol of the version that is meant, and its
 * parameters. */
/* clang-format off */
#define GPU_DRIVER_CALLS(_call) \
    _call(cuInit, "cuInit", (unsigned flags)) \
    _call(cuDriverGetVersion, "cuDriverGetVersion", (int *version)) \
    _call(cuGetErrorName, "cuGetErrorName", \
          (CUresult error, const char **text)) \
    _call(cuGetErrorString, "cuGetErrorString", \
          (CUresult error, const char **text)) \
    _call(cuDeviceGetCount, "cuDeviceGetCount", (int *count)) \
    _call(cuDeviceGet, "cuDeviceGet", (CUdevice *device, int ordinal)) \
    _call(cuDeviceGetName, "cuDeviceGetName", \
          (char *name, int size, CUdevice device)) \
    _call(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", \
          (CUcontext *context, CUdevice device)) \
    _call(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", \
          (CUdevice device)) \
    _call(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext context)) \
    _call(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr *address, size_t size)) \
    _call(cuMemFree, "cuMemFree_v2", (CUdeviceptr address)) \
    _call(cuMemGetInfo, "cuMemGetInfo_v2", \
          (size_t *free_size, size_t *total_size)) \
    _call(cuMemHostAlloc, "cuMemHostAlloc", \
          (void **address, size_t size, unsigned flags)) \
    _call(cuMemFreeHost, "cuMemFreeHost", (void *address)) \
    _call(cuMemcpyAsync, "cuMemcpyAsync", \
          (CUdeviceptr target, CUdeviceptr source, size_t size, \
           CUstream stream)) \
    _call(cuMemsetD8Async, "cuMemsetD8Async", \
          (CUdeviceptr target, unsigned char value, size_t size, \
           CUstream stream)) \
    _call(cuStreamCreate, "cuStreamCreate", \
          (CUstream *stream, unsigned flags)) \
    _call(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream stream)) \
    _call(cuStreamSynchronize, "cuStreamSynchronize", (CUstream stream)) \
    _call(cuStreamQuery, "cuStreamQuery", (CUstream stream)) \
    _call(cuIpcGetMemHandle, "cuIpcGetMemHandle", \
          (CUipcMemHandle *handle, CUdeviceptr address)) \
    _call(cuIpcOpenMemHandle, "cuIpcOpenMemHandle_v2", \
          (CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)) \
    _call(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", (CUdeviceptr address))
/* clang-format on */

#define GPU_DRIVER_MEMBER(_name, _symbol, _params) CUresult(*_name) _params;

typedef struct gpu_driver {
    GPU_DRIVER_CALLS(GPU_DRIVER_MEMBER)
} gpu_driver_t;

/*
 * Load the driver and initialize it. It stays loaded for ever. A process that
 * was forked from one that had called this cannot use it.
 *
 * text [out]  After -1: a sentence that says what is wrong and what to do.
 *
 * Returns 0 or -1.
 */
int gpu_driver_load(gpu_driver_t *driver, char *text, size_t text_size);

/* For tables of further functions: the library; and a function of it, whose
 * pointer is written to where function_p points. NULL or -1, with a sentence in
 * text, where there is none. */
void *gpu_driver_open(char *text, size_t text_size);
int   gpu_driver_find(void *library, const char *symbol, void *function_p,
                      char *text, size_t text_size);

/* The driver's name of a result and its own words: "CUDA_ERROR_OUT_OF_MEMORY,
 * out of memory". */
void gpu_driver_words(const gpu_driver_t *driver, CUresult result, char *text,
                      size_t text_size);

#endif
