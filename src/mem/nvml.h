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

/* --- BAR1 ----------------------------------------------------------------- */

/*
 * BAR1 of a GPU: the window through which network cards, and other GPUs over
 * PCIe, reach its memory. What is registered with such a device takes room in
 * it.
 *
 * NVIDIA's management library knows its size and how much is taken. Where that
 * library is not there, the kernel knows the size: it is the second PCI
 * resource of the device. A GPU that shares its memory with the processor has
 * no such window; that is no error.
 */

/* Names a folder to read in place of /sys. Programs that run with the rights of
 * somebody else ignore it. */
#define MEM_BAR_SYSFS_VARIABLE BASE_VARIABLE_SYSFS

typedef enum mem_bar_source {
    MEM_BAR_UNKNOWN = 0, /* size is 0; the reason tells why */
    MEM_BAR_NVML    = 1,
    MEM_BAR_SYSFS   = 2, /* used is not known, and 0 */
    MEM_BAR_NONE    = 3  /* this GPU has no window */
} mem_bar_source_t;

typedef struct mem_bar {
    mem_bar_source_t source;
    uint64_t         size;
    uint64_t         used;               /* by the driver and all processes */
    uint64_t         free;               /* size, where used is not known */
    int              num_nvlinks;        /* active; -1: not known */
    char             driver_version[32]; /* "": not known */
    /* Why it was not the management library that told; else "". */
    char reason[224];
} mem_bar_t;

/*
 * Ask the library, then the kernel. Takes some milliseconds.
 *
 * bus_id  "0000:19:00.0", as CUDA says it.
 */
void mem_bar_query(const char *bus_id, mem_bar_t *bar_p);

#endif
