/*
 * The driver's own memory pools (cuMemAllocAsync), which drivers have from
 * CUDA 11.2 on: a table of their own, so that nothing else needs them. Names
 * and values are those of CUDA's public documentation.
 */
#ifndef GPU_POOLS_H
#define GPU_POOLS_H

#include "gpu/driver.h"

typedef struct CUmemPoolHandle_st *CUmemoryPool;

enum {
    CU_MEM_ALLOCATION_TYPE_PINNED     = 1,
    CU_MEM_LOCATION_TYPE_DEVICE       = 1,
    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
    CU_MEMPOOL_ATTR_RESERVED_CURRENT  = 5,
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

/* clang-format off */
#define GPU_POOLS_CALLS(_call) \
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

typedef struct gpu_pools {
    GPU_POOLS_CALLS(GPU_DRIVER_MEMBER)
} gpu_pools_t;

/* Find them in the driver, which gpu_driver_load() has loaded. Returns 0; or
 * -1, with a sentence in text. */
int gpu_pools_load(gpu_pools_t *pools, char *text, size_t text_size);

#endif
