#include "replay/device.h"
#include "common/memory_left.h"
#include "replay/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of the CUDA runtime: the default stream by its other name. */
#define LEGACY_STREAM 1

int device_fail(device_t *device, CUresult result, const char *what)
{
    char words[160];

    gpu_driver_words(&device->gpu.driver, result, words, sizeof(words));
    return replay_error("GPU %d: %s: %s", device->ordinal, what, words);
}

static int make_stream(device_t *device, void **stream_p)
{
    CUstream stream;
    CUresult result =
        device->gpu.driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);

    if (result != CUDA_SUCCESS) {
        return device_fail(device, result, "no stream");
    }
    device->made[device->num_made++] = stream;
    *stream_p                        = stream;
    return 0;
}

/* The default stream is itself; each other stream of the log is one here. */
static int make_streams(device_t *device, const trace_t *trace)
{
    device->num_streams = trace->num_streams;
    device->streams     = calloc(trace->num_streams, sizeof(void *));
    device->made        = calloc(trace->num_streams, sizeof(void *));
    if ((device->streams == NULL) || (device->made == NULL)) {
        return replay_error("out of memory");
    }
    for (unsigned i = 0; i < trace->num_streams; i++) {
        if (trace->streams[i] <= LEGACY_STREAM) {
            device->streams[i] = NULL;
        } else if (device->ordinal == DEVICE_HOST) {
            device->streams[i] = (void *)(((uintptr_t)i + 1) << 8);
        } else if (make_stream(device, &device->streams[i]) != 0) {
            return -1;
        }
    }
    return 0;
}

int device_open(device_t *device, int ordinal, const trace_t *trace)
{
    memset(device, 0, sizeof(*device));
    device->ordinal = ordinal;
    if ((ordinal != DEVICE_HOST) && (gpu_open(&device->gpu, ordinal) != 0)) {
        return replay_error("%s", device->gpu.error);
    }
    if (make_streams(device, trace) != 0) {
        device_close(device);
        return -1;
    }
    return 0;
}

void device_close(device_t *device)
{
    for (unsigned i = 0; i < device->num_made; i++) {
        device->gpu.driver.cuStreamDestroy(device->made[i]);
    }
    free(device->made);
    free(device->streams);
    gpu_close(&device->gpu);
    memset(device, 0, sizeof(*device));
}

int device_enter(device_t *device)
{
    CUresult result;

    if (device->ordinal == DEVICE_HOST) {
        return 0;
    }
    result = device->gpu.driver.cuCtxSetCurrent(device->gpu.context);
    return result == CUDA_SUCCESS
               ? 0
               : device_fail(device, result, "cuCtxSetCurrent");
}

int device_settle(device_t *device)
{
    if (device->ordinal == DEVICE_HOST) {
        return 0;
    }
    for (unsigned i = 0; i < device->num_streams; i++) {
        if (gpu_wait(&device->gpu, device->streams[i]) != 0) {
            return replay_error("%s", device->gpu.error);
        }
    }
    return 0;
}

static int gpu_bytes(device_t *device, size_t *left_p, size_t *total_p)
{
    CUresult result = device->gpu.driver.cuMemGetInfo(left_p, total_p);

    return result == CUDA_SUCCESS ? 0
                                  : device_fail(device, result, "cuMemGetInfo");
}

int device_total_bytes(device_t *device, uint64_t *bytes_p)
{
    size_t left, total;

    if (device->ordinal == DEVICE_HOST) {
        *bytes_p =
            (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
        return 0;
    }
    if (gpu_bytes(device, &left, &total) != 0) {
        return -1;
    }
    *bytes_p = total;
    return 0;
}

int device_free_bytes(device_t *device, uint64_t *bytes_p)
{
    size_t left, total;

    if (device->ordinal == DEVICE_HOST) {
        return memory_left(bytes_p) == 0
                   ? 0
                   : replay_error("/proc/meminfo does not tell how much memory "
                                  "is available");
    }
    if (gpu_bytes(device, &left, &total) != 0) {
        return -1;
    }
    *bytes_p = left;
    return 0;
}
