#include <config.h>

#include "gpu/gpu.h"
#include "common/error.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_NAME "libcuda.so.1"
#define PAGE        ((size_t)2 << 20)

/* --- the driver ----------------------------------------------------------- */

static const char *library_path(void)
{
    const char *path = secure_getenv(GPU_DRIVER_VARIABLE);

    return (path == NULL) || (*path == '\0') ? DRIVER_NAME : path;
}

int gpu_driver_find(void *library, const char *symbol, void *function_p)
{
    void *function = dlsym(library, symbol);

    memcpy(function_p, &function, sizeof(function));
    return function != NULL
               ? 0
               : tool_error(
                     "%s has no %s: it is not a CUDA driver, or is too old",
                     library_path(), symbol);
}

void *gpu_driver_open(void)
{
    void *library = dlopen(library_path(), RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        tool_error("no CUDA driver: %s; install NVIDIA's driver (in a "
                   "container: pass it in from the host)",
                   dlerror());
    }
    return library;
}

#define FIND(_name, _symbol, _params) \
    if (gpu_driver_find(library, _symbol, &table->_name) != 0) { \
        return -1; \
    }

#define FIND_OPTIONAL(_name, _symbol, _params) \
    function = dlsym(library, _symbol); \
    memcpy(&table->_name, &function, sizeof(function));

static int fill_driver(gpu_driver_t *table, void *library)
{
    void *function;

    GPU_DRIVER_CALLS(FIND)
    GPU_POOL_CALLS(FIND_OPTIONAL)
    return 0;
}

/* Get the driver's name and description of a result: "CUDA_ERROR_OUT_OF_MEMORY,
 * out of memory". */
static void driver_words(const gpu_driver_t *driver, CUresult result,
                         char *text, size_t text_size)
{
    const char *name  = NULL;
    const char *words = NULL;

    if ((driver->cuGetErrorName(result, &name) != CUDA_SUCCESS) ||
        (driver->cuGetErrorString(result, &words) != CUDA_SUCCESS) ||
        (name == NULL) || (words == NULL)) {
        snprintf(text, text_size, "CUDA error %d", result);
    } else {
        snprintf(text, text_size, "%s, %s", name, words);
    }
}

/* Load the driver and initialize it. The driver stays loaded until the process
 * ends. A process that is forked after this call cannot use the driver. */
static int gpu_driver_load(gpu_driver_t *driver)
{
    void    *library = gpu_driver_open();
    char     words[128];
    CUresult result;

    if (library == NULL) {
        return -1;
    }
    if (fill_driver(driver, library) != 0) {
        dlclose(library);
        return -1;
    }
    result = driver->cuInit(0);
    if (result != CUDA_SUCCESS) {
        driver_words(driver, result, words, sizeof(words));
        return tool_error("cannot initialize %s: %s", library_path(), words);
    }
    return 0;
}

/* --- a GPU ---------------------------------------------------------------- */

int gpu_check(const gpu_t *gpu, CUresult result, const char *format, ...)
{
    char    what[256];
    char    words[160];
    va_list args;

    if (result == CUDA_SUCCESS) {
        return 0;
    }
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    driver_words(&gpu->driver, result, words, sizeof(words));
    return tool_error("GPU %d: %s: %s", gpu->ordinal, what, words);
}

int gpu_parse(const char *text, int *ordinal_p)
{
    char end;

    *ordinal_p = 0;
    return (strcmp(text, "cuda") == 0) ||
                   ((strncmp(text, "cuda:", 5) == 0) &&
                    isdigit((unsigned char)text[5]) &&
                    (sscanf(text + 5, "%4d%c", ordinal_p, &end) == 1) &&
                    (*ordinal_p <= GPU_MAX))
               ? 0
               : -1;
}

static int find_device(gpu_t *gpu)
{
    int num = 0;

    if (GPU_CALL(gpu, cuDeviceGetCount, &num) != 0) {
        return -1;
    }
    if ((gpu->ordinal < 0) || (gpu->ordinal >= num)) {
        return tool_error("GPU %d does not exist: this process has %d GPUs, "
                          "numbered from 0 (see CUDA_VISIBLE_DEVICES)",
                          gpu->ordinal, num);
    }
    if (GPU_CALL(gpu, cuDeviceGet, &gpu->device, gpu->ordinal) != 0) {
        return -1;
    }
    return GPU_CALL(gpu, cuDeviceGetName, gpu->name, sizeof(gpu->name),
                    gpu->device);
}

int gpu_open(gpu_t *gpu, int ordinal)
{
    memset(gpu, 0, sizeof(*gpu));
    gpu->ordinal = ordinal;
    if ((gpu_driver_load(&gpu->driver) != 0) || (find_device(gpu) != 0)) {
        return -1;
    }
    if (GPU_CALL(gpu, cuDevicePrimaryCtxRetain, &gpu->context, gpu->device) !=
        0) {
        gpu->context = NULL;
        return -1;
    }
    if (GPU_CALL(gpu, cuCtxSetCurrent, gpu->context) != 0) {
        goto err_release_context;
    }
    if (GPU_CALL(gpu, cuStreamCreate, &gpu->stream, CU_STREAM_NON_BLOCKING) !=
        0) {
        goto err_leave_context;
    }
    return 0;

err_leave_context:
    gpu->driver.cuCtxSetCurrent(NULL);
err_release_context:
    gpu->driver.cuDevicePrimaryCtxRelease(gpu->device);
    gpu->context = NULL;
    return -1;
}

void gpu_close(gpu_t *gpu)
{
    if (gpu->context != NULL) {
        gpu->driver.cuStreamDestroy(gpu->stream);
        gpu->driver.cuCtxSetCurrent(NULL);
        gpu->driver.cuDevicePrimaryCtxRelease(gpu->device);
        gpu->context = NULL;
    }
}

int gpu_alloc(gpu_t *gpu, size_t size, void **address_p)
{
    size_t      whole = (size + PAGE - 1) / PAGE * PAGE;
    size_t      left  = 0;
    size_t      total = 0;
    CUdeviceptr address;
    CUresult    result;

    result = gpu->driver.cuMemAlloc(&address, whole);
    if (result != CUDA_SUCCESS) {
        gpu->driver.cuMemGetInfo(&left, &total);
        return gpu_check(
            gpu, result,
            "cannot allocate %zu bytes of its memory (%zu of %zu are free)",
            whole, left, total);
    }
    *address_p = (void *)(size_t)address;
    return 0;
}

void gpu_free(gpu_t *gpu, void *address)
{
    if (address != NULL) {
        gpu->driver.cuMemFree(gpu_address(address));
    }
}

int gpu_host_alloc(gpu_t *gpu, size_t size, void **address_p)
{
    return gpu_check(
        gpu,
        gpu->driver.cuMemHostAlloc(address_p, size, CU_MEMHOSTALLOC_PORTABLE),
        "cannot allocate %zu bytes of pinned host memory", size);
}

void gpu_host_free(gpu_t *gpu, void *address)
{
    if (address != NULL) {
        gpu->driver.cuMemFreeHost(address);
    }
}

int gpu_wait(gpu_t *gpu, CUstream stream)
{
    return gpu_check(gpu, gpu->driver.cuStreamSynchronize(stream),
                     "a copy or kernel failed");
}

int gpu_copy(gpu_t *gpu, void *target, const void *source, size_t size)
{
    return GPU_CALL(gpu, cuMemcpyAsync, gpu_address(target),
                    gpu_address(source), size, gpu->stream) != 0
               ? -1
               : gpu_wait(gpu, gpu->stream);
}

int gpu_fill(gpu_t *gpu, void *target, unsigned char byte, size_t size)
{
    return GPU_CALL(gpu, cuMemsetD8Async, gpu_address(target), byte, size,
                    gpu->stream) != 0
               ? -1
               : gpu_wait(gpu, gpu->stream);
}
