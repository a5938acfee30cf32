#include <config.h>

#include "gpu/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_NAME "libcuda.so.1"

#define FIND(_name, _symbol, _params) \
    function = dlsym(library, _symbol); \
    if (function == NULL) { \
        snprintf(text, text_size, \
                 "%s has no %s: it is no CUDA driver, or too old a one", path, \
                 _symbol); \
        return -1; \
    } \
    memcpy(&driver->_name, &function, sizeof(driver->_name));

static int fill_table(gpu_driver_t *driver, void *library, const char *path,
                      char *text, size_t text_size)
{
    void *function;

    GPU_DRIVER_CALLS(FIND)
    return 0;
}

int gpu_driver_load(gpu_driver_t *driver, char *text, size_t text_size)
{
    const char *path = secure_getenv(GPU_DRIVER_VARIABLE);
    char        words[128];
    void       *library;
    CUresult    result;

    if ((path == NULL) || (*path == '\0')) {
        path = DRIVER_NAME;
    }
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(text, text_size,
                 "no CUDA driver: %s; install NVIDIA's driver (in a "
                 "container: have it passed in)",
                 dlerror());
        return -1;
    }
    if (fill_table(driver, library, path, text, text_size) != 0) {
        dlclose(library);
        return -1;
    }
    result = driver->cuInit(0);
    if (result != CUDA_SUCCESS) {
        gpu_driver_words(driver, result, words, sizeof(words));
        snprintf(text, text_size, "%s does not start: %s", path, words);
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
