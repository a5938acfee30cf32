/*
 * One GPU that a tool uses: the driver, the primary context (which the pool
 * also uses), memory, and synchronous copies.
 *
 * The part of CUDA's driver interface that the tools use is one table of
 * functions. The table is filled by dlopen(), so that a tool can be built and
 * started without a GPU. Names and values are those of CUDA's public
 * documentation. The tools use only the public headers of libucxpool, so they
 * have their own table.
 *
 * Functions that can fail return 0, or -1 after printing an error. Only the
 * thread that opened the GPU may call them, because the context is current in
 * that thread until the GPU is closed.
 */
#ifndef GPU_GPU_H
#define GPU_GPU_H

#include <stddef.h>

/* Environment variable that names another library to load. The pool also uses
 * this variable. */
#define GPU_DRIVER_VARIABLE "UCXPOOL_CUDA_DRIVER"

typedef int                 CUresult;
typedef int                 CUdevice;
typedef unsigned long long  CUdeviceptr;
typedef struct CUctx_st    *CUcontext;
typedef struct CUstream_st *CUstream;

enum { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2 };

enum { CU_STREAM_NON_BLOCKING = 0x1, CU_MEMHOSTALLOC_PORTABLE = 0x1 };

typedef struct CUmemPoolHandle_st *CUmemoryPool;

enum {
    CU_MEM_ALLOCATION_TYPE_PINNED     = 1,
    CU_MEM_LOCATION_TYPE_DEVICE       = 1,
    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
    CU_MEMPOOL_ATTR_RESERVED_HIGH     = 6
};

typedef struct CUmemPoolProps_st {
    int            allocation_type;
    int            handle_types;
    int            location_type;
    int            location_id;
    void          *security_attributes;
    size_t         max_size;
    unsigned short usage;
    unsigned char  reserved[54];
} CUmemPoolProps;

/* Every function: its name, the symbol of the required version, and its
 * parameters. */
/* clang-format off */
#define GPU_DRIVER_CALLS(_call) \
    _call(cuInit, "cuInit", (unsigned flags)) \
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
    _call(cuStreamSynchronize, "cuStreamSynchronize", (CUstream stream))

/* The driver's memory pools, from CUDA 11.2 on. NULL: the driver has none. */
#define GPU_POOL_CALLS(_call) \
    _call(cuMemPoolCreate, "cuMemPoolCreate", \
          (CUmemoryPool *pool, const CUmemPoolProps *props)) \
    _call(cuMemPoolDestroy, "cuMemPoolDestroy", (CUmemoryPool pool)) \
    _call(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", \
          (CUmemoryPool pool, int attribute, void *value)) \
    _call(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", \
          (CUmemoryPool pool, int attribute, void *value)) \
    _call(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", \
          (CUdeviceptr *address, size_t size, CUmemoryPool pool, \
           CUstream stream)) \
    _call(cuMemFreeAsync, "cuMemFreeAsync", \
          (CUdeviceptr address, CUstream stream))
/* clang-format on */

#define GPU_DRIVER_MEMBER(_name, _symbol, _params) CUresult(*_name) _params;

typedef struct gpu_driver {
    GPU_DRIVER_CALLS(GPU_DRIVER_MEMBER)
    GPU_POOL_CALLS(GPU_DRIVER_MEMBER)
} gpu_driver_t;

/* Functions that fill tables of further functions. The first one returns the
 * library, or NULL after printing an error. The second one finds a function in
 * it and writes its address to the pointer at function_p. */
void *gpu_driver_open(void);
int   gpu_driver_find(void *library, const char *symbol, void *function_p);

typedef struct gpu {
    gpu_driver_t driver;
    int          ordinal; /* the driver's number of the GPU in this process */
    char         name[64];
    CUdevice     device;
    CUcontext    context; /* NULL: not open */
    CUstream     stream;  /* stream of the copies below */
} gpu_t;

/* Parses "cuda:N" to N, and "cuda" to 0. Returns -1, without printing, if the
 * text is neither. */
#define GPU_MAX 1023
int gpu_parse(const char *text, int *ordinal_p);

/* Open a GPU. After an error, nothing needs to be closed. */
int gpu_open(gpu_t *gpu, int ordinal);
/* Close a GPU. The struct may also be zeroed. */
void gpu_close(gpu_t *gpu);

/* Allocate GPU memory in whole pages of 2 MiB. The memory shares no page with
 * other allocations, so a peer that maps it maps only this memory. */
int gpu_alloc(gpu_t *gpu, size_t size, void **address_p);
/* Free memory of gpu_alloc(). NULL is allowed. */
void gpu_free(gpu_t *gpu, void *address);

/* Allocate and free pinned host memory. */
int  gpu_host_alloc(gpu_t *gpu, size_t size, void **address_p);
void gpu_host_free(gpu_t *gpu, void *address);

/* Copy between host memory and this GPU's memory, in any combination. Waits for
 * completion. */
int gpu_copy(gpu_t *gpu, void *target, const void *source, size_t size);

/* Set all bytes. Waits for completion. */
int gpu_fill(gpu_t *gpu, void *target, unsigned char byte, size_t size);

/* Wait for the copies that were started in a stream. */
int gpu_wait(gpu_t *gpu, CUstream stream);

/* Returns 0 if a driver call succeeded. Otherwise prints the error and returns
 * -1. */
int gpu_check(const gpu_t *gpu, CUresult result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Call a function of the driver, and return as gpu_check() does. */
#define GPU_CALL(_gpu, _function, ...) \
    gpu_check((_gpu), (_gpu)->driver._function(__VA_ARGS__), #_function)

/* Converts an address to the driver's type. */
static inline CUdeviceptr gpu_address(const void *address)
{
    return (CUdeviceptr)(size_t)address;
}

#endif
