#include <config.h>

#include "mem/cuda_status.h"
#include "base/error.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct translation {
    CUresult         result;
    ucxpool_status_t status;
    const char      *advice; /* NULL: the caller knows better */
} translation_t;

static const translation_t translations[] = {
    {CUDA_ERROR_OUT_OF_MEMORY, UCXPOOL_ERR_NO_MEMORY, NULL},
    {CUDA_ERROR_NOT_INITIALIZED, UCXPOOL_ERR_UNSUPPORTED,
     "a process that was forked from one that had used CUDA cannot use it: "
     "fork first"},
    {CUDA_ERROR_STUB_LIBRARY, UCXPOOL_ERR_UNSUPPORTED,
     "that library is only for linking: let the loader find the driver's"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, UCXPOOL_ERR_IO,
     "another process has the device for itself"},
    {CUDA_ERROR_NO_DEVICE, UCXPOOL_ERR_UNSUPPORTED,
     "use host memory, or look at CUDA_VISIBLE_DEVICES"},
    {CUDA_ERROR_INVALID_DEVICE, UCXPOOL_ERR_INVALID_PARAM, NULL},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, UCXPOOL_ERR_UNSUPPORTED,
     "a GPU of compute capability 7.5 or later is needed"},
    {CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, UCXPOOL_ERR_UNSUPPORTED, NULL},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, UCXPOOL_ERR_UNSUPPORTED,
     "a newer driver is needed"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, UCXPOOL_ERR_IO,
     "this process has to be started anew before it can use the device again"},
    {CUDA_ERROR_LAUNCH_FAILED, UCXPOOL_ERR_IO,
     "this process has to be started anew before it can use the device again"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, UCXPOOL_ERR_IO,
     "do not reset the device's primary context while a pool uses it"},
    {CUDA_ERROR_INVALID_CONTEXT, UCXPOOL_ERR_IO,
     "do not reset the device's primary context while a pool uses it"},
    {CUDA_ERROR_NOT_PERMITTED, UCXPOOL_ERR_PERMISSION, NULL},
    {CUDA_ERROR_NOT_SUPPORTED, UCXPOOL_ERR_UNSUPPORTED, NULL},
    {CUDA_ERROR_SYSTEM_NOT_READY, UCXPOOL_ERR_UNSUPPORTED,
     "start the machine's NVIDIA services (the fabric manager)"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, UCXPOOL_ERR_UNSUPPORTED,
     "the kernel's part of the driver is of another version"},
};

static const translation_t *find(CUresult result)
{
    static const translation_t other = {CUDA_ERROR_UNKNOWN, UCXPOOL_ERR_IO,
                                        NULL};

    for (size_t i = 0; i < sizeof(translations) / sizeof(translations[0]);
         i++) {
        if (translations[i].result == result) {
            return &translations[i];
        }
    }
    return &other;
}

ucxpool_status_t mem_cuda_status(CUresult result)
{
    return result == CUDA_SUCCESS ? UCXPOOL_OK : find(result)->status;
}

static const char *result_name(const mem_cuda_driver_t *driver, CUresult result)
{
    const char *name = NULL;

    if ((driver->cuGetErrorName(result, &name) != CUDA_SUCCESS) ||
        (name == NULL)) {
        return "an error without a name";
    }
    return name;
}

static const char *result_words(const mem_cuda_driver_t *driver,
                                CUresult                 result)
{
    const char *words = NULL;

    if ((driver->cuGetErrorString(result, &words) != CUDA_SUCCESS) ||
        (words == NULL)) {
        return "the driver has no words for it";
    }
    return words;
}

ucxpool_status_t mem_cuda_error(const mem_cuda_driver_t *driver,
                                CUresult result, const char *format, ...)
{
    const translation_t *translation = find(result);
    char                 text[BASE_ERROR_SIZE];
    va_list              args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return base_error(translation->status, "%s: %s (%d, %s)%s%s", text,
                      result_name(driver, result), (int)result,
                      result_words(driver, result),
                      translation->advice == NULL ? "" : ": ",
                      translation->advice == NULL ? "" : translation->advice);
}

void mem_cuda_ignore(const mem_cuda_driver_t *driver, CUresult result,
                     const char *what)
{
    /* At the end of a process the driver may be gone before us. */
    if ((result != CUDA_SUCCESS) && (result != CUDA_ERROR_DEINITIALIZED)) {
        base_debug("%s: %s", what, result_name(driver, result));
    }
}
