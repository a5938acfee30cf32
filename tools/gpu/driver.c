#include <config.h>

#include "gpu/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_NAME "libcuda.so.1"

static const char *library_path(void)
{
    const char *path = secure_getenv(GPU_DRIVER_VARIABLE);

    return (path == NULL) || (*path == '\0') ? DRIVER_NAME : path;
}

int gpu_driver_find(void *library, const char *symbol, void *function_p,
                    char *text, size_t text_size)
{
    void *function = dlsym(library, symbol);

    if (function == NULL) {
        snprintf(text, text_size,
                 "%s has no %s: it is no CUDA driver, or too old a one",
                 library_path(), symbol);
        return -1;
    }
    memcpy(function_p, &function, sizeof(function));
    return 0;
}

void *gpu_driver_open(char *text, size_t text_size)
{
    void *library = dlopen(library_path(), RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        snprintf(text, text_size,
                 "no CUDA driver: %s; install NVIDIA's driver (in a "
                 "container: have it passed in)",
                 dlerror());
    }
    return library;
}

#define FIND(_name, _symbol, _params) \
    if (gpu_driver_find(library, _symbol, &driver->_name, text, text_size) != \
        0) { \
        return -1; \
    }

static int fill_table(gpu_driver_t *driver, void *library, char *text,
                      size_t text_size)
{
    GPU_DRIVER_CALLS(FIND)
    return 0;
}

int gpu_driver_load(gpu_driver_t *driver, char *text, size_t text_size)
{
    void    *library = gpu_driver_open(text, text_size);
    char     words[128];
    CUresult result;

    if (library == NULL) {
        return -1;
    }
    if (fill_table(driver, library, text, text_size) != 0) {
        dlclose(library);
        return -1;
    }
    result = driver->cuInit(0);
    if (result != CUDA_SUCCESS) {
        gpu_driver_words(driver, result, words, sizeof(words));
        snprintf(text, text_size, "%s does not start: %s", library_path(),
                 words);
        return -1;
    }
    return 0;
}

void gpu_driver_words(const gpu_driver_t *driver, CUresult result, char *text,
                      size_t text_size)
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
