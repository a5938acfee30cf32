#include <config.h>

#include "two_gpu.h"

#include <stdlib.h>

void two_gpu_start(two_t *two, const char *settings)
{
    const char *last   = getenv("TEST_CUDA_DEVICES");
    int         childs = (last == NULL) ? 0 : atoi(last) - 1;

    if (!cuda_is_real()) {
        setenv(MEM_CUDA_DRIVER_VARIABLE, CUDA_STAND_IN_PATH, 1);
    }
    two_init_on(two, settings, 0, childs);
    two_check(mem_cuda_device_open(two->is_child ? childs : 0, &gpu) ==
              UCXPOOL_OK);
}
