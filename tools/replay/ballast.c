#include "replay/ballast.h"
#include "replay/error.h"

int ballast_take(ballast_t *ballast, device_t *device, uint64_t capacity)
{
    uint64_t left;
    CUresult result;

    ballast->address = 0;
    if (device_free_bytes(device, &left) != 0) {
        return -1;
    }
    if (capacity > left) {
        return replay_error("GPU %d has %llu MiB free, and %llu are asked for",
                            device->ordinal, (unsigned long long)left >> 20,
                            (unsigned long long)capacity >> 20);
    }
    if ((capacity != 0) && (left > capacity)) {
        result =
            device->gpu.driver.cuMemAlloc(&ballast->address, left - capacity);
        if (result != CUDA_SUCCESS) {
            ballast->address = 0;
            return device_fail(device, result,
                               "all but the capacity cannot be taken away");
        }
    }
    if (device_free_bytes(device, &ballast->free_bytes) != 0) {
        ballast_drop(ballast, device);
        return -1;
    }
    return 0;
}

void ballast_drop(ballast_t *ballast, device_t *device)
{
    if (ballast->address != 0) {
        device->gpu.driver.cuMemFree(ballast->address);
        ballast->address = 0;
    }
}

uint64_t ballast_used(const ballast_t *ballast, device_t *device)
{
    uint64_t left;

    if ((device_free_bytes(device, &left) != 0) ||
        (left > ballast->free_bytes)) {
        return 0;
    }
    return ballast->free_bytes - left;
}
