/*
 * A GPU: its primary context, which is shared with the rest of the process, and
 * its capabilities.
 *
 * Calls that need a context must be made between mem_cuda_device_enter() and
 * mem_cuda_device_leave(), which restores the caller's context.
 */
#ifndef MEM_CUDA_DEVICE_H
#define MEM_CUDA_DEVICE_H

#include "mem/cuda_driver.h"

#include <stdint.h>

typedef struct mem_cuda_device {
    const mem_cuda_driver_t *driver;
    int                      ordinal; /* CUDA ordinal in this process */
    CUdevice                 device;
    CUcontext                context; /* retained until close */
    char                     name[64];
    char                     bus_id[16]; /* "0000:19:00.0" */
    CUuuid                   uuid;
    size_t                   total_size; /* of the device memory */
    int                      num_processors;
    bool                     has_vmm;
    bool has_posix_handles;  /* VMM memory can be exported as files */
    bool has_fabric_handles; /* VMM memory can be exported to other hosts, if
                                that is permitted */
    bool has_gpudirect_vmm;  /* a NIC can access VMM memory */
    bool has_mem_ops;        /* a stream can write a word to memory */
    /* For reports only. */
    int  compute_major, compute_minor;
    bool has_ipc;       /* cuMemAlloc memory has IPC handles */
    bool has_gpudirect; /* a NIC can access cuMemAlloc memory */
    bool has_dmabuf;    /* memory can be exported as dmabuf */
} mem_cuda_device_t;

/*
 * Query a device's properties and capabilities. Creates no context, so do not
 * call mem_cuda_device_enter() or mem_cuda_device_close() for this device.
 *
 * Errors: see mem_cuda_device_open().
 */
ucxpool_status_t mem_cuda_device_describe(int                ordinal,
                                          mem_cuda_device_t *device);

/*
 * Load the driver if necessary and retain the device's primary context. After
 * an error nothing is retained.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such device
 * UCXPOOL_ERR_UNSUPPORTED    no driver, see mem_cuda_driver_get()
 * UCXPOOL_ERR_NO_MEMORY      no memory for a context on the device
 * UCXPOOL_ERR_IO             other driver error
 */
ucxpool_status_t mem_cuda_device_open(int                 ordinal,
                                      mem_cuda_device_t **device_p);
/* Release the context and free the device. NULL is allowed. */
void mem_cuda_device_close(mem_cuda_device_t *device);

/*
 * Enter makes the device's context current on the calling thread. Leave
 * restores the previous context.
 *
 * UCXPOOL_ERR_IO  the context has been destroyed
 */
ucxpool_status_t mem_cuda_device_enter(const mem_cuda_device_t *device);
void             mem_cuda_device_leave(const mem_cuda_device_t *device);

/* Evaluate an expression between enter and leave. _status becomes its value, or
 * the error of enter. */
#define mem_cuda_device_do(_device, _status, _expression) \
    do { \
        _status = mem_cuda_device_enter(_device); \
        if (_status == UCXPOOL_OK) { \
            _status = (_expression); \
            mem_cuda_device_leave(_device); \
        } \
    } while (0)

/* Call a function of the driver that cannot report an error, between enter and
 * leave. Does nothing if enter fails. */
#define mem_cuda_device_try(_device, _function, ...) \
    do { \
        if (mem_cuda_device_enter(_device) == UCXPOOL_OK) { \
            mem_cuda_try((_device)->driver, _function, __VA_ARGS__); \
            mem_cuda_device_leave(_device); \
        } \
    } while (0)

/*
 * Make a stream write a number to a word in pinned memory after all work
 * submitted to the stream so far. Call between enter and leave.
 */
CUresult mem_cuda_word_write(const mem_cuda_device_t *device, CUstream stream,
                             uint32_t *word, uint32_t number);

/* Get the free and the total size of the device memory, in bytes. Call between
 * enter and leave. */
ucxpool_status_t mem_cuda_device_sizes(const mem_cuda_device_t *device,
                                       size_t *free_p, size_t *total_p);

/* Report that the GPU or its driver has no virtual memory. `need` follows
 * "which". Returns UCXPOOL_ERR_UNSUPPORTED. */
ucxpool_status_t mem_cuda_no_vmm(const mem_cuda_device_t *device,
                                 const char              *need);

/* Returns the properties for allocating physical memory on the device. Memory
 * with these properties can be exported as a file and accessed by a NIC, if the
 * device supports that. */
CUmemAllocationProp mem_cuda_allocation_prop(const mem_cuda_device_t *device);

/* Give the device read access to the mappings in a range, and write access if
 * is_writable. Each call has a fixed cost, and a smaller cost per allocation in
 * the range. */
CUresult mem_cuda_access_set(const mem_cuda_device_t *device,
                             CUdeviceptr address, size_t size,
                             bool is_writable);

/*
 * Convert the result of a call of the driver. Returns UCXPOOL_OK for
 * CUDA_SUCCESS. Otherwise records an error like mem_cuda_error(). The format
 * ends before the device, which is appended: "cuMemMap of %zu bytes on".
 */
ucxpool_status_t mem_cuda_device_status(const mem_cuda_device_t *device,
                                        CUresult result, const char *format,
                                        ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Record why the memory of a pool could not be allocated.
 *
 * what        The call and its purpose.
 * asked_size  Total size of all regions, in bytes.
 * free_size   Free bytes on the device before the first allocation.
 */
ucxpool_status_t mem_cuda_device_error(const mem_cuda_device_t *device,
                                       CUresult result, const char *what,
                                       size_t asked_size, size_t free_size);

#endif
