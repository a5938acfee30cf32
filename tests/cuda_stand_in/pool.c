/* The driver's memory pools. Each allocation is taken from the device; freed
 * memory is not kept. */
#include "state.h"

#include <stdlib.h>
#include <string.h>

#ifndef STAND_IN_WITHOUT_POOLS

/* As in tools/gpu/gpu.h; the library does not use these. */
enum { ATTRIBUTE_THRESHOLD = 4, ATTRIBUTE_CURRENT = 5, ATTRIBUTE_HIGH = 6 };

struct props {
    int type, handle_types, location_type, location_id;
};

typedef struct CUmemPoolHandle_st {
    int        device;
    cuuint64_t threshold;
    cuuint64_t reserved;
    cuuint64_t high;
} * CUmemoryPool;

ENTRY(cuMemPoolCreate, CUmemoryPool *pool, const struct props *props)
{
    CUmemoryPool made;

    BEGIN("cuMemPoolCreate", NEEDS_INIT);
    FAIL_IF((props->type != 1) || (props->location_type != 1) ||
                (props->location_id >= config.num_devices),
            CUDA_ERROR_INVALID_VALUE);
    made = calloc(1, sizeof(*made));
    FAIL_IF(made == NULL, CUDA_ERROR_OUT_OF_MEMORY);
    made->device = props->location_id;
    num_live++;
    *pool = made;
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemPoolDestroy, CUmemoryPool pool)
{
    BEGIN("cuMemPoolDestroy", NEEDS_INIT);
    free(pool);
    num_live--;
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemPoolSetAttribute, CUmemoryPool pool, int attribute, void *value)
{
    BEGIN("cuMemPoolSetAttribute", NEEDS_INIT);
    FAIL_IF(attribute != ATTRIBUTE_THRESHOLD, CUDA_ERROR_INVALID_VALUE);
    pool->threshold = *(cuuint64_t *)value;
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemPoolGetAttribute, CUmemoryPool pool, int attribute, void *value)
{
    BEGIN("cuMemPoolGetAttribute", NEEDS_INIT);
    *(cuuint64_t *)value = attribute == ATTRIBUTE_CURRENT ? pool->reserved
                           : attribute == ATTRIBUTE_HIGH  ? pool->high
                                                          : pool->threshold;
    return done(CUDA_SUCCESS);
}

/* The pool of an allocation, in the order of cuMemFreeAsync(). */
typedef struct owned {
    struct owned *next;
    CUdeviceptr   address;
    CUmemoryPool  pool;
} owned_t;

static owned_t *owners;

ENTRY(cuMemAllocFromPoolAsync, CUdeviceptr *address, size_t size,
      CUmemoryPool pool, CUstream stream)
{
    size_t     whole = (size + GRANULARITY - 1) & ~(GRANULARITY - 1);
    backing_t *backing;
    owned_t   *owned;

    BEGIN("cuMemAllocFromPoolAsync", NEEDS_CONTEXT);
    FAIL_IF((size == 0) || (whole < size), CUDA_ERROR_INVALID_VALUE);
    backing = backing_create(pool->device, whole);
    FAIL_IF(backing == NULL, CUDA_ERROR_OUT_OF_MEMORY);
    *address = mapping_create(backing, MAPPING_POOL, GRANULARITY);
    FAIL_IF(*address == 0, CUDA_ERROR_OUT_OF_MEMORY);
    owned = malloc(sizeof(*owned));
    if (owned == NULL) {
        abort();
    }
    *owned = (owned_t){owners, *address, pool};
    owners = owned;
    pool->reserved += whole;
    pool->high = pool->reserved > pool->high ? pool->reserved : pool->high;
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemFreeAsync, CUdeviceptr address, CUstream stream)
{
    owned_t  **link = &owners;
    owned_t   *owned;
    mapping_t *mapping;

    BEGIN("cuMemFreeAsync", NEEDS_CONTEXT);
    while ((*link != NULL) && ((*link)->address != address)) {
        link = &(*link)->next;
    }
    owned = *link;
    FAIL_IF(owned == NULL, CUDA_ERROR_INVALID_VALUE);
    stream_work(~0u);
    mapping = mapping_at(address);
    owned->pool->reserved -= mapping->size;
    mapping_destroy(mapping);
    *link = owned->next;
    free(owned);
    return done(CUDA_SUCCESS);
}

#endif
