/*
 * The NVIDIA Management Library (NVML), for data that CUDA does not provide:
 * BAR1 and the driver version. The library is a table of functions, loaded with
 * dlopen().
 *
 * BAR1 is the window through which network cards, and other GPUs over PCIe,
 * access a GPU's memory. Memory that is registered with such a device occupies
 * space in BAR1. A GPU that shares the host's memory has no BAR1.
 *
 * A pool works without NVML and without BAR1, so missing data is not an error.
 */
#ifndef MEM_NVML_H
#define MEM_NVML_H

#include "base/config.h"

#include <stdint.h>

/* The environment variable that names the library to load instead of the
 * default one, like UCXPOOL_CUDA_DRIVER for the CUDA driver. */
#define MEM_NVML_LIBRARY_VARIABLE BASE_VARIABLE_NVML_LIBRARY

/* The NVML API, with the names and values of its public documentation. */
typedef enum nvmlReturn_enum {
    NVML_SUCCESS                 = 0,
    NVML_ERROR_INVALID_ARGUMENT  = 2,
    NVML_ERROR_NOT_SUPPORTED     = 3,
    NVML_ERROR_NOT_FOUND         = 6,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_UNKNOWN           = 999
} nvmlReturn_t;

typedef struct nvmlDevice_st *nvmlDevice_t;

typedef struct nvmlBAR1Memory_st {
    unsigned long long bar1Total;
    unsigned long long bar1Free;
    unsigned long long bar1Used;
} nvmlBAR1Memory_t;

/* The required functions: result, name, symbol and parameters. */
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
    void *library;
} mem_nvml_t;

/* The data that NVML reports about one GPU. */
typedef struct mem_nvml_facts {
    char     driver_version[32]; /* "580.159.03"; "" if unknown */
    uint64_t bar1_size;          /* 0: unknown or no BAR1 */
    uint64_t bar1_used;          /* by the driver and all processes */
    uint64_t bar1_free;
    char     reason[224]; /* why bar1_size is 0; else "" */
} mem_nvml_facts_t;

/*
 * Load NVML, query a GPU and unload NVML. Takes some milliseconds.
 *
 * bus_id  "0000:19:00.0", as reported by CUDA.
 */
void mem_nvml_query(const char *bus_id, mem_nvml_facts_t *facts_p);

#endif
