#include <config.h>

#include "cuda_fixture.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

cuda_stand_in_t stand_in;

bool cuda_is_real(void)
{
    const char *which = getenv("TEST_CUDA");

    return (which != NULL) && (strcmp(which, "real") == 0);
}

bool cuda_is_present(void)
{
    const mem_cuda_driver_t *driver;
    int                      status;
    pid_t                    child;

    if (!cuda_is_real()) {
        return true;
    }
    child = fork();
    if (child == 0) {
        _exit(mem_cuda_driver_get(&driver) == UCXPOOL_OK ? 0 : 1);
    }
    return (child > 0) && (waitpid(child, &status, 0) == child) &&
           WIFEXITED(status) && (WEXITSTATUS(status) == 0);
}

bool cuda_is_stand_in(void)
{
    return !cuda_is_real();
}

static void find(void *library, const char *name, void *function_p)
{
    void *function = dlsym(library, name);

    ck_assert_ptr_nonnull(function);
    memcpy(function_p, &function, sizeof(function));
}

void cuda_start(const char *configuration)
{
    void *library;

    if (cuda_is_real()) {
        unsetenv(MEM_CUDA_DRIVER_VARIABLE);
        /* Streams on one connection wait for each other, so give each its own:
         * a blocked stream of a test must not delay a pool's. */
        setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
        return;
    }
    setenv(MEM_CUDA_DRIVER_VARIABLE, CUDA_STAND_IN_PATH, 1);
    library = dlopen(CUDA_STAND_IN_PATH, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    find(library, "stand_in_configure", &stand_in.configure);
    find(library, "stand_in_count", &stand_in.count);
    find(library, "stand_in_fail", &stand_in.fail_call);
    find(library, "stand_in_has_failed", &stand_in.has_failed);
    find(library, "stand_in_step", &stand_in.step);
    find(library, "stand_in_priority", &stand_in.priority);
    find(library, "stand_in_live", &stand_in.live);
    find(library, "stand_in_bytes", &stand_in.bytes);
    find(library, "stand_in_reset_context", &stand_in.reset_context);
    stand_in.configure(configuration);
}

static const mem_cuda_driver_t *the_driver(void)
{
    const mem_cuda_driver_t *driver = NULL;

    assert_ok(mem_cuda_driver_get(&driver));
    return driver;
}

int cuda_num_devices(void)
{
    int num = 0;

    ck_assert_int_eq(the_driver()->cuDeviceGetCount(&num), CUDA_SUCCESS);
    return num;
}

static void copy(CUcontext context, CUdeviceptr target, CUdeviceptr source,
                 size_t size)
{
    const mem_cuda_driver_t *driver = the_driver();

    ck_assert_int_eq(driver->cuCtxPushCurrent(context), CUDA_SUCCESS);
    ck_assert_int_eq(driver->cuMemcpyAsync(target, source, size, NULL),
                     CUDA_SUCCESS);
    ck_assert_int_eq(driver->cuStreamSynchronize(NULL), CUDA_SUCCESS);
    ck_assert_int_eq(driver->cuCtxPopCurrent(&context), CUDA_SUCCESS);
}

void cuda_write(CUcontext context, const void *target, const void *source,
                size_t size)
{
    copy(context, (CUdeviceptr)(uintptr_t)target,
         (CUdeviceptr)(uintptr_t)source, size);
}

void cuda_read(CUcontext context, void *target, const void *source, size_t size)
{
    copy(context, (CUdeviceptr)(uintptr_t)target,
         (CUdeviceptr)(uintptr_t)source, size);
}
