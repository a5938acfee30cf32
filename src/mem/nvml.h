/*
 * NVIDIA's management library, as far as it knows what CUDA does not tell: the
 * window through which other devices of the machine see a GPU's memory (BAR1),
 * and the version of the driver. One table of functions, filled by dlopen().
 *
 * Whether it is there or not, and whether a GPU has such a window, is nothing
 * that a pool depends on: what is missing is no error.
 */
#ifndef MEM_NVML_H
#define MEM_NVML_H

#include "base/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names another library to load, as UCXPOOL_CUDA_DRIVER does. */
#define MEM_NVML_LIBRARY_VARIABLE BASE_VARIABLE_NVML_LIBRARY

/* The library's interface, by the names and with the values of its public
 * documentation. */
typedef enum nvmlReturn_enum {
    NVML_SUCCESS                 = 0,
    NVML_ERROR_INVALID_ARGUMENT  = 2,
    NVML_ERROR_NOT_SUPPORTED     = 3,
    NVML_ERROR_NOT_FOUND         = 6,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_UNKNOWN           = 999
} nvmlReturn_t;

typedef struct nvmlDevice_st *nvmlDevice_t;

typedef enum nvmlEnableState_enum {
    NVML_FEATURE_DISABLED = 0,
    NVML_FEATURE_ENABLED  = 1
} nvmlEnableState_t;

/* Links of one GPU, at the most. */
#define NVML_NVLINK_MAX_LINKS 18

typedef struct nvmlBAR1Memory_st {
    unsigned long long bar1Total;
    unsigned long long bar1Free;
    unsigned long long bar1Used;
} nvmlBAR1Memory_t;

/* The functions that must be there: result, name, symbol and parameters. */
/* clang-format off */
#define MEM_NVML_CALLS(_call) \
    _call(nvmlReturn_t, nvmlInit, "nvmlInit_v2", (void)) \
    _call(nvmlReturn_t, nvmlShutdown, "nvmlShutdown", (void)) \
    _call(const char *, nvmlErrorString, "nvmlErrorString", \
          (nvmlReturn_t result)) \
    _call(nvmlReturn_t, nvmlSystemGetDriverVersion, \
          "nvmlSystemGetDriverVersion", (char *text, unsigned size)) \
    _call(nvmlReturn_t, nvmlDeviceGetHandleByPciBusId, \
          "nvmlDeviceGetHandleByPciBusId_v2", \
          (const char *bus_id, nvmlDevice_t *device)) \
    _call(nvmlReturn_t, nvmlDeviceGetBAR1MemoryInfo, \
          "nvmlDeviceGetBAR1MemoryInfo", \
          (nvmlDevice_t device, nvmlBAR1Memory_t *memory))
/* clang-format on */

#define MEM_NVML_MEMBER(_result, _name, _symbol, _params) \
    _result(*_name) _params;

typedef struct mem_nvml {
    MEM_NVML_CALLS(MEM_NVML_MEMBER)
    /* NULL in libraries that are older than NVLink. */
    nvmlReturn_t (*nvmlDeviceGetNvLinkState)(nvmlDevice_t device, unsigned link,
                                             nvmlEnableState_t *is_active);
    void *library;
} mem_nvml_t;

/* What it says of one GPU. */
typedef struct mem_nvml_facts {
    char     driver_version[32]; /* "580.159.03"; "" when it is not known */
    uint64_t bar1_size;          /* 0: not known, or there is none */
    uint64_t bar1_used;
    uint64_t bar1_free;
    bool     has_no_bar1; /* it says that the GPU has none */
    int      num_nvlinks; /* that are active; -1: not known */
    char     reason[160]; /* why bar1_size is 0; else "" */
} mem_nvml_facts_t;

/*
 * Load the library, ask it, and let it go. Takes some milliseconds.
 *
 * bus_id  "0000:19:00.0", as CUDA says it.
 */
void mem_nvml_query(const char *bus_id, mem_nvml_facts_t *facts_p);

#endif
