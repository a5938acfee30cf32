/* A memory pool of the driver, which keeps what it has. */
#include "gpu/pools.h"
#include "replay/allocator.h"
#include "replay/ballast.h"
#include "replay/error.h"

#include <stdlib.h>

typedef struct async_allocator {
    allocator_t  super;
    gpu_pools_t  calls;
    ballast_t    ballast;
    CUmemoryPool pool;
} async_allocator_t;

static int make_pool(async_allocator_t *self)
{
    device_t      *device    = self->super.device;
    uint64_t       threshold = UINT64_MAX;
    CUmemPoolProps props     = {
            .allocation_type = CU_MEM_ALLOCATION_TYPE_PINNED,
            .location_type   = CU_MEM_LOCATION_TYPE_DEVICE,
            .location_id     = device->gpu.device,
    };
    CUresult result = self->calls.cuMemPoolCreate(&self->pool, &props);

    if (result != CUDA_SUCCESS) {
        return device_fail(device, result, "cuMemPoolCreate");
    }
    result = self->calls.cuMemPoolSetAttribute(
        self->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
    if (result != CUDA_SUCCESS) {
        self->calls.cuMemPoolDestroy(self->pool);
        return device_fail(device, result, "cuMemPoolSetAttribute");
    }
    return 0;
}

static int create(const allocator_kind_t *kind, device_t *device,
                  uint64_t capacity, allocator_t **allocator_p)
{
    async_allocator_t *self = calloc(1, sizeof(*self));
    char               text[512];

    if (self == NULL) {
        return replay_error("out of memory");
    }
    self->super.kind   = kind;
    self->super.device = device;
    if (gpu_pools_load(&self->calls, text, sizeof(text)) != 0) {
        replay_error("%s", text);
        goto err_free;
    }
    if (ballast_take(&self->ballast, device, capacity) != 0) {
        goto err_free;
    }
    if (make_pool(self) != 0) {
        goto err_drop_ballast;
    }
    *allocator_p = &self->super;
    return 0;

err_drop_ballast:
    ballast_drop(&self->ballast, device);
err_free:
    free(self);
    return -1;
}

static void destroy(allocator_t *allocator)
{
    async_allocator_t *self = (async_allocator_t *)allocator;

    self->calls.cuMemPoolDestroy(self->pool);
    ballast_drop(&self->ballast, allocator->device);
    free(self);
}

static allocator_answer_t take(allocator_t *allocator, size_t size,
                               void *stream, void **address_p)
{
    async_allocator_t *self = (async_allocator_t *)allocator;
    CUdeviceptr        address;
    CUresult           result =
        self->calls.cuMemAllocFromPoolAsync(&address, size, self->pool, stream);

    if (result == CUDA_SUCCESS) {
        *address_p = (void *)(size_t)address;
        return ALLOCATOR_OK;
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        return ALLOCATOR_FULL;
    }
    device_fail(allocator->device, result, "cuMemAllocFromPoolAsync");
    return ALLOCATOR_BROKEN;
}

static allocator_answer_t give(allocator_t *allocator, void *address,
                               size_t size, void *stream)
{
    async_allocator_t *self = (async_allocator_t *)allocator;
    CUresult result = self->calls.cuMemFreeAsync(gpu_address(address), stream);

    (void)size;
    if (result != CUDA_SUCCESS) {
        device_fail(allocator->device, result, "cuMemFreeAsync");
        return ALLOCATOR_BROKEN;
    }
    return ALLOCATOR_OK;
}

static uint64_t attribute(allocator_t *allocator, int which)
{
    async_allocator_t *self  = (async_allocator_t *)allocator;
    uint64_t           value = 0;
    CUresult           result =
        self->calls.cuMemPoolGetAttribute(self->pool, which, &value);

    if (result != CUDA_SUCCESS) {
        device_fail(allocator->device, result, "cuMemPoolGetAttribute");
        return 0;
    }
    return value;
}

static uint64_t reserved(allocator_t *allocator)
{
    return attribute(allocator, CU_MEMPOOL_ATTR_RESERVED_CURRENT);
}

static uint64_t peak_reserved(allocator_t *allocator)
{
    return attribute(allocator, CU_MEMPOOL_ATTR_RESERVED_HIGH);
}

const allocator_kind_t allocator_async = {
    .name          = "async",
    .doc           = "a memory pool of the driver: cuMemAllocAsync(), release "
                     "threshold unlimited",
    .needs_gpu     = true,
    .create        = create,
    .destroy       = destroy,
    .alloc         = take,
    .free          = give,
    .reserved      = reserved,
    .peak_reserved = peak_reserved,
};
