#include <config.h>

#include "tools/shuffle/device.h"
#include "tools/shuffle/error.h"

#include "gpu/gpu.h"

#include <stdlib.h>

struct device {
    gpu_t    gpu;
    unsigned count;
    CUstream stream_out; /* copies to the GPU are in the GPU's own stream */
};

static int device_say_error(const device_t *device)
{
    return say_error("%s", device->gpu.error);
}

/* The number of the GPU that it is this worker's turn to have. */
static int device_choose(device_t *device, int number, unsigned turn,
                         int *number_p)
{
    gpu_t   *gpu = &device->gpu;
    CUresult result;
    int      count = 0;

    if (gpu_driver_load(&gpu->driver, gpu->error, sizeof(gpu->error)) != 0) {
        return device_say_error(device);
    }
    result = gpu->driver.cuDeviceGetCount(&count);
    if ((result != CUDA_SUCCESS) || (count < 1)) {
        return say_error("the CUDA driver shows no GPU: is one hidden by "
                         "CUDA_VISIBLE_DEVICES?");
    }
    device->count = (unsigned)count;
    *number_p     = number >= 0 ? number : (int)(turn % device->count);
    return 0;
}

static int device_init(device_t *device, int number, unsigned turn)
{
    gpu_t   *gpu = &device->gpu;
    CUresult result;

    if (device_choose(device, number, turn, &number) != 0) {
        return -1;
    }
    if (gpu_open(gpu, number) != 0) {
        return device_say_error(device);
    }
    result =
        gpu->driver.cuStreamCreate(&device->stream_out, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) {
        device->stream_out = NULL;
        gpu_fail(gpu, result, "cuStreamCreate");
        return device_say_error(device);
    }
    return 0;
}

int device_open(int number, unsigned turn, device_t **device_p)
{
    device_t *device = calloc(1, sizeof(*device));

    if (device == NULL) {
        return say_error("out of memory");
    }
    if (device_init(device, number, turn) != 0) {
        device_close(device);
        return -1;
    }
    *device_p = device;
    return 0;
}

void device_close(device_t *device)
{
    if (device == NULL) {
        return;
    }
    if (device->stream_out != NULL) {
        device->gpu.driver.cuStreamDestroy(device->stream_out);
    }
    gpu_close(&device->gpu);
    free(device);
}

int device_number(const device_t *device)
{
    return device->gpu.ordinal;
}

unsigned device_count(const device_t *device)
{
    return device->count;
}

int device_free_size(device_t *device, size_t *size_p)
{
    size_t   total;
    CUresult result = device->gpu.driver.cuMemGetInfo(size_p, &total);

    if (result != CUDA_SUCCESS) {
        gpu_fail(&device->gpu, result, "cuMemGetInfo");
        return device_say_error(device);
    }
    return 0;
}

/* --- memory ------------------------------------------------------------- */

int device_alloc(device_t *device, size_t size, char **address_p)
{
    void *address;

    if (gpu_alloc(&device->gpu, size, &address) != 0) {
        return device_say_error(device);
    }
    *address_p = address;
    return 0;
}

void device_free(device_t *device, char *address)
{
    gpu_free(&device->gpu, address);
}

int device_pin(device_t *device, size_t size, char **address_p)
{
    void *address;

    if (gpu_host_alloc(&device->gpu, size, &address) != 0) {
        return device_say_error(device);
    }
    *address_p = address;
    return 0;
}

void device_unpin(device_t *device, char *address)
{
    gpu_host_free(&device->gpu, address);
}

/* --- copies ------------------------------------------------------------- */

static int device_copy(device_t *device, char *target, const char *source,
                       size_t size, CUstream stream)
{
    gpu_t   *gpu    = &device->gpu;
    CUresult result = gpu->driver.cuMemcpyAsync(
        gpu_address(target), gpu_address(source), size, stream);

    if (result != CUDA_SUCCESS) {
        gpu_fail(gpu, result, "a copy of %zu bytes", size);
        return device_say_error(device);
    }
    return 0;
}

static int device_wait(device_t *device, CUstream stream)
{
    return gpu_wait(&device->gpu, stream) == 0 ? 0 : device_say_error(device);
}

int device_copy_in(device_t *device, char *target, const char *source,
                   size_t size)
{
    return device_copy(device, target, source, size, device->gpu.stream);
}

int device_copy_out(device_t *device, char *target, const char *source,
                    size_t size)
{
    return device_copy(device, target, source, size, device->stream_out);
}

int device_wait_in(device_t *device)
{
    return device_wait(device, device->gpu.stream);
}

int device_wait_out(device_t *device)
{
    return device_wait(device, device->stream_out);
}

void *device_stream_in(const device_t *device)
{
    return device->gpu.stream;
}
