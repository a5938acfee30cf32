#include <config.h>

#include "two_gpu.h"

#include <stdlib.h>

static int last_device(void)
{
    const char *num = getenv("TEST_CUDA_DEVICES");

    return (num == NULL) ? 0 : atoi(num) - 1;
}

static void start(two_t *two, two_side_t parents, two_side_t childs)
{
    if (!cuda_is_real()) {
        setenv(MEM_CUDA_DRIVER_VARIABLE, CUDA_STAND_IN_PATH, 1);
    }
    two_init_on(two, parents, childs);
    two_check(mem_cuda_device_open(two->is_child ? childs.device : 0, &gpu) ==
              UCXPOOL_OK);
}

void two_gpu_start(two_t *two, const char *settings)
{
    start(two, (two_side_t){settings, 0},
          (two_side_t){settings, last_device()});
}

bool two_gpu_start_apart(two_t *two, const char *parents, const char *childs,
                         bool is_far)
{
    int device = !is_far ? 0 : cuda_is_real() ? last_device() : 1;

    if (is_far && (device == 0)) {
        return false;
    }
    start(two, (two_side_t){parents, 0}, (two_side_t){childs, device});
    return true;
}
