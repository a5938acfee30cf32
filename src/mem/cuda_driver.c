/*
 * Loading the driver. Functions are asked for by name and version of the
 * interface where the driver can be asked (from CUDA 11.3); before, the symbol
 * carries the version.
 */
#include <config.h>

#include "mem/cuda_driver.h"
#include "base/error.h"
#include "base/log.h"
#include "mem/cuda_status.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRIVER_NAME "libcuda.so.1"

/* The version of the interface that is declared in cuda_driver.h, and the
 * oldest driver that knows all that must be there: CUDA 12.0 and 11.4. */
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

/* The driver of this process, once it is loaded. */
static pthread_mutex_t   driver_lock = PTHREAD_MUTEX_INITIALIZER;
static mem_cuda_driver_t the_driver;
static pid_t             driver_pid; /* 0: not loaded */

/* An object pointer as a function pointer, which only POSIX allows. */
static void *find_symbol(const loader_t *loader, const char *symbol)
{
    return dlsym(loader->library, symbol);
}

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
        return find_symbol(loader, symbol);
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
                          "container: have it passed in), or use host memory",
                          dlerror());
    }
    return UCXPOOL_OK;
}

/* The version decides which functions are meant, so it is asked first. */
static ucxpool_status_t read_version(loader_t *loader)
{
    void *get_version = find_symbol(loader, "cuDriverGetVersion");
    void *get_proc    = find_symbol(loader, "cuGetProcAddress");
    void *get_proc_v2 = find_symbol(loader, "cuGetProcAddress_v2");
    CUresult (*function)(int *version);

    memcpy(&function, &get_version, sizeof(function));
    memcpy(&loader->get_proc, &get_proc, sizeof(loader->get_proc));
    memcpy(&loader->get_proc_v2, &get_proc_v2, sizeof(loader->get_proc_v2));
    if ((function == NULL) || (function(&loader->version) != CUDA_SUCCESS)) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "%s is no CUDA driver: look at %s and "
                          "LD_LIBRARY_PATH, or use host memory",
                          loader->path, MEM_CUDA_DRIVER_VARIABLE);
    }
    if (loader->version < MIN_VERSION) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "%s serves CUDA %d.%d, and %d.%d is needed: install "
                          "a newer driver, or use host memory",
                          loader->path, loader->version / 1000,
                          loader->version % 1000 / 10, MIN_VERSION / 1000,
                          MIN_VERSION % 1000 / 10);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t missing(const loader_t *loader, const char *name)
{
    return base_error(UCXPOOL_ERR_UNSUPPORTED,
                      "%s has no %s: install a newer driver, or use host "
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

static ucxpool_status_t initialize(const loader_t          *loader,
                                   const mem_cuda_driver_t *driver)
{
    CUresult result = driver->cuInit(0);

    if (result != CUDA_SUCCESS) {
        return mem_cuda_error(driver, result, "cuInit of %s", loader->path);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t load(mem_cuda_driver_t *driver)
{
    loader_t         loader = {.path = NULL};
    ucxpool_status_t status;

    status = open_library(&loader);
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
    status = initialize(&loader, driver);
    if (status != UCXPOOL_OK) {
        /* A driver that has begun is not to be unloaded: it may have left
         * threads and handlers behind. */
        return status;
    }
    base_debug("%s serves CUDA %d.%d", loader.path, driver->version / 1000,
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
                          "process %d had used CUDA before this one was forked "
                          "from it: fork first, then make pools on a GPU",
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
