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
#ifndef MEM_BAR_H
#define MEM_BAR_H

#include "base/config.h"
#include "mem/nvml.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
