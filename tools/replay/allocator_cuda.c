/* cuMemAlloc, each time. */
#include "replay/allocator.h"
#include "replay/ballast.h"
#include "replay/error.h"

#include <stdlib.h>

typedef struct cuda_allocator {
    allocator_t super;
    ballast_t   ballast;
} cuda_allocator_t;

static int create(const allocator_kind_t *kind, device_t *device,
                  uint64_t capacity, allocator_t **allocator_p)
{
    cuda_allocator_t *self = calloc(1, sizeof(*self));

    if (self == NULL) {
        return replay_error("out of memory");
    }
    self->super.kind   = kind;
    self->super.device = device;
    if (ballast_take(&self->ballast, device, capacity) != 0) {
        free(self);
        return -1;
    }
    *allocator_p = &self->super;
    return 0;
}

static void destroy(allocator_t *allocator)
{
    cuda_allocator_t *self = (cuda_allocator_t *)allocator;

    ballast_drop(&self->ballast, allocator->device);
    free(self);
}

static allocator_answer_t take(allocator_t *allocator, size_t size,
                               void *stream, void **address_p)
{
    device_t   *device = allocator->device;
    CUdeviceptr address;
    CUresult    result = device->gpu.driver.cuMemAlloc(&address, size);

    (void)stream;
    if (result == CUDA_SUCCESS) {
        *address_p = (void *)(size_t)address;
        return ALLOCATOR_OK;
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        return ALLOCATOR_FULL;
    }
    device_fail(device, result, "cuMemAlloc");
    return ALLOCATOR_BROKEN;
}

static allocator_answer_t give(allocator_t *allocator, void *address,
                               size_t size, void *stream)
{
    device_t *device = allocator->device;
    CUresult  result = device->gpu.driver.cuMemFree(gpu_address(address));

    (void)size;
    (void)stream;
    if (result != CUDA_SUCCESS) {
        device_fail(device, result, "cuMemFree");
        return ALLOCATOR_BROKEN;
    }
    return ALLOCATOR_OK;
}

static uint64_t reserved(allocator_t *allocator)
{
    cuda_allocator_t *self = (cuda_allocator_t *)allocator;

    return ballast_used(&self->ballast, allocator->device);
}

const allocator_kind_t allocator_cuda = {
    .name      = "cuda",
    .doc       = "the driver: cuMemAlloc()",
    .needs_gpu = true,
    .create    = create,
    .destroy   = destroy,
    .alloc     = take,
    .free      = give,
    .reserved  = reserved,
};
