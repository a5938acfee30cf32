/*
 * Loads the driver. Functions are looked up by name and API version with
 * cuGetProcAddress() (since CUDA 11.3). Without that function, they are looked
 * up by their versioned symbols.
 */
#include <config.h>

#include "mem/cuda_driver.h"

#include "base/error.h"
#include "base/log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- loading -------------------------------------------------------------- */

#define DRIVER_NAME "libcuda.so.1"

/* The API version that cuda_driver.h declares, and the oldest driver that
 * provides all required functions: CUDA 12.0 and 11.4. */
#define API_VERSION 12000
#define MIN_VERSION 11040

/* Both versions of cuGetProcAddress(). */
typedef CUresult (*get_proc_t)(const char *name, void **function_p, int version,
                               cuuint64_t flags);
typedef CUresult (*get_proc_v2_t)(const char *name, void **function_p,
                                  int version, cuuint64_t flags,
                                  int *symbol_status);

/* One attempt to fill the table. */
typedef struct loader {
    const char   *path;
    void         *library;
    get_proc_t    get_proc;
    get_proc_v2_t get_proc_v2;
    int           version;
} loader_t;

/* The driver of this process, once loaded. */
static pthread_mutex_t   driver_lock = PTHREAD_MUTEX_INITIALIZER;
static mem_cuda_driver_t the_driver;
static pid_t             driver_pid; /* 0: not loaded */

static void *find_function(const loader_t *loader, const char *name,
                           const char *symbol)
{
    void    *function = NULL;
    int      ignored  = 0;
    CUresult result;

    if (loader->get_proc_v2 != NULL) {
        result =
            loader->get_proc_v2(name, &function, loader->version, 0, &ignored);
    } else if (loader->get_proc != NULL) {
        result = loader->get_proc(name, &function, loader->version, 0);
    } else {
        return dlsym(loader->library, symbol);
    }
    return result == CUDA_SUCCESS ? function : NULL;
}

static ucxpool_status_t open_library(loader_t *loader)
{
    const char *wish = secure_getenv(MEM_CUDA_DRIVER_VARIABLE);

    loader->path    = ((wish != NULL) && (*wish != '\0')) ? wish : DRIVER_NAME;
    loader->library = dlopen(loader->path, RTLD_NOW | RTLD_LOCAL);
    if (loader->library == NULL) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "no CUDA driver: %s; install NVIDIA's driver (in a "
                          "container: pass it in from the host) or use host "
                          "memory",
                          dlerror());
    }
    return UCXPOOL_OK;
}

/* Read the version before anything else, because it determines which functions
 * are looked up. */
static ucxpool_status_t read_version(loader_t *loader)
{
    void *get_version = dlsym(loader->library, "cuDriverGetVersion");
    void *get_proc    = dlsym(loader->library, "cuGetProcAddress");
    void *get_proc_v2 = dlsym(loader->library, "cuGetProcAddress_v2");
    CUresult (*function)(int *version);

    memcpy(&function, &get_version, sizeof(function));
    memcpy(&loader->get_proc, &get_proc, sizeof(loader->get_proc));
    memcpy(&loader->get_proc_v2, &get_proc_v2, sizeof(loader->get_proc_v2));
    if ((function == NULL) || (function(&loader->version) != CUDA_SUCCESS)) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "%s is not a CUDA driver: check %s and "
                          "LD_LIBRARY_PATH, or use host memory",
                          loader->path, MEM_CUDA_DRIVER_VARIABLE);
    }
    if (loader->version < MIN_VERSION) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "%s supports CUDA %d.%d, but %d.%d is required: "
                          "install a newer driver or use host memory",
                          loader->path, loader->version / 1000,
                          loader->version % 1000 / 10, MIN_VERSION / 1000,
                          MIN_VERSION % 1000 / 10);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t missing(const loader_t *loader, const char *name)
{
    return base_error(UCXPOOL_ERR_UNSUPPORTED,
                      "%s has no %s: install a newer driver or use host "
                      "memory",
                      loader->path, name);
}

#define FIND(_name, _symbol, _is_needed, _params) \
    function = find_function(&asked, #_name, _symbol); \
    if ((_is_needed) && (function == NULL)) { \
        return missing(loader, #_name); \
    } \
    memcpy(&driver->_name, &function, sizeof(driver->_name));

static ucxpool_status_t fill_table(const loader_t    *loader,
                                   mem_cuda_driver_t *driver)
{
    loader_t asked = *loader;
    void    *function;

    if (asked.version > API_VERSION) {
        asked.version = API_VERSION;
    }
    MEM_CUDA_CALLS(FIND)

    driver->version = loader->version;
    driver->has_vmm =
        (driver->cuMemGetAllocationGranularity != NULL) &&
        (driver->cuMemAddressReserve != NULL) &&
        (driver->cuMemAddressFree != NULL) && (driver->cuMemCreate != NULL) &&
        (driver->cuMemRelease != NULL) && (driver->cuMemMap != NULL) &&
        (driver->cuMemUnmap != NULL) && (driver->cuMemSetAccess != NULL) &&
        (driver->cuMemExportToShareableHandle != NULL) &&
        (driver->cuMemImportFromShareableHandle != NULL);
    driver->has_mem_ops = (driver->cuStreamWriteValue32 != NULL) &&
                          (driver->cuStreamWaitValue32 != NULL);
    return UCXPOOL_OK;
}

static ucxpool_status_t load(mem_cuda_driver_t *driver)
{
    loader_t         loader = {.path = NULL};
    ucxpool_status_t status = open_library(&loader);
    CUresult         result;

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = read_version(&loader);
    if (status != UCXPOOL_OK) {
        goto err_close;
    }
    status = fill_table(&loader, driver);
    if (status != UCXPOOL_OK) {
        goto err_close;
    }
    result = driver->cuInit(0);
    if (result != CUDA_SUCCESS) {
        /* Do not unload a driver after cuInit(), because it may have started
         * threads and installed handlers. */
        return mem_cuda_error(driver, result, "cuInit of %s", loader.path);
    }
    base_debug("%s supports CUDA %d.%d", loader.path, driver->version / 1000,
               driver->version % 1000 / 10);
    return UCXPOOL_OK;

err_close:
    dlclose(loader.library);
    return status;
}

static ucxpool_status_t get(const mem_cuda_driver_t **driver_p)
{
    mem_cuda_driver_t driver;
    ucxpool_status_t  status;

    if (driver_pid == 0) {
        memset(&driver, 0, sizeof(driver));
        status = load(&driver);
        if (status != UCXPOOL_OK) {
            return status;
        }
        the_driver = driver;
        driver_pid = getpid();
    }
    if (driver_pid != getpid()) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "process %d used CUDA before it forked this process: "
                          "fork first, then create pools on a GPU",
                          (int)driver_pid);
    }
    *driver_p = &the_driver;
    return UCXPOOL_OK;
}

ucxpool_status_t mem_cuda_driver_get(const mem_cuda_driver_t **driver_p)
{
    ucxpool_status_t status;

    pthread_mutex_lock(&driver_lock);
    status = get(driver_p);
    pthread_mutex_unlock(&driver_lock);
    return status;
}

/* --- conversion of results ------------------------------------------------ */

typedef struct translation {
    CUresult         result;
    ucxpool_status_t status;
    const char      *advice; /* NULL: the caller gives better advice */
} translation_t;

static const translation_t translations[] = {
    {CUDA_ERROR_OUT_OF_MEMORY, UCXPOOL_ERR_NO_MEMORY, NULL},
    {CUDA_ERROR_NOT_INITIALIZED, UCXPOOL_ERR_UNSUPPORTED,
     "a process cannot use CUDA if its parent used it before the fork: fork "
     "first"},
    {CUDA_ERROR_STUB_LIBRARY, UCXPOOL_ERR_UNSUPPORTED,
     "this library is only for linking: let the loader find the driver's "
     "library"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, UCXPOOL_ERR_IO,
     "another process uses the device exclusively"},
    {CUDA_ERROR_NO_DEVICE, UCXPOOL_ERR_UNSUPPORTED,
     "use host memory, or check CUDA_VISIBLE_DEVICES"},
    {CUDA_ERROR_INVALID_DEVICE, UCXPOOL_ERR_INVALID_PARAM, NULL},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, UCXPOOL_ERR_UNSUPPORTED,
     "compute capability 7.5 or later is required"},
    {CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, UCXPOOL_ERR_UNSUPPORTED, NULL},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, UCXPOOL_ERR_UNSUPPORTED,
     "install a newer driver"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, UCXPOOL_ERR_IO,
     "restart this process before it uses the device again"},
    {CUDA_ERROR_LAUNCH_FAILED, UCXPOOL_ERR_IO,
     "restart this process before it uses the device again"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, UCXPOOL_ERR_IO,
     "do not reset the device's primary context while a pool uses it"},
    {CUDA_ERROR_INVALID_CONTEXT, UCXPOOL_ERR_IO,
     "do not reset the device's primary context while a pool uses it"},
    {CUDA_ERROR_NOT_PERMITTED, UCXPOOL_ERR_PERMISSION, NULL},
    {CUDA_ERROR_NOT_SUPPORTED, UCXPOOL_ERR_UNSUPPORTED, NULL},
    {CUDA_ERROR_SYSTEM_NOT_READY, UCXPOOL_ERR_UNSUPPORTED,
     "start the machine's NVIDIA services (fabric manager)"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, UCXPOOL_ERR_UNSUPPORTED,
     "the versions of the kernel module and the driver library differ"},
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

static const char *result_name(const mem_cuda_driver_t *driver, CUresult result)
{
    const char *name = NULL;

    if ((driver->cuGetErrorName(result, &name) != CUDA_SUCCESS) ||
        (name == NULL)) {
        return "unknown error";
    }
    return name;
}

static const char *result_words(const mem_cuda_driver_t *driver,
                                CUresult                 result)
{
    const char *words = NULL;

    if ((driver->cuGetErrorString(result, &words) != CUDA_SUCCESS) ||
        (words == NULL)) {
        return "no description";
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
    /* The driver may already be shut down at process exit. */
    if ((result != CUDA_SUCCESS) && (result != CUDA_ERROR_DEINITIALIZED)) {
        base_debug("%s: %s", what, result_name(driver, result));
    }
}
