/*
 * One GPU: its primary context, which others in the process use too, and what
 * it can do.
 *
 * Calls that need a context are made between enter and leave, which put the
 * caller's own back.
 */
#ifndef MEM_CUDA_DEVICE_H
#define MEM_CUDA_DEVICE_H

#include "mem/cuda_driver.h"

#include <stdint.h>

typedef struct mem_cuda_device {
    const mem_cuda_driver_t *driver;
    int                      ordinal; /* as the process counts its devices */
    CUdevice                 device;
    CUcontext                context; /* retained until close */
    char                     name[64];
    char                     bus_id[16]; /* "0000:19:00.0" */
    CUuuid                   uuid;
    size_t                   total_size; /* of its memory */
    int                      num_processors;
    bool                     has_vmm;
    bool                     has_posix_handles;  /* of VMM memory: files */
    bool                     has_fabric_handles; /* to other hosts; may still
                                                    not be permitted */
    bool has_gpudirect_vmm;                      /* a NIC reaches VMM memory */
    bool has_mem_ops;                            /* a stream can write a word */
    /* For people. */
    int  compute_major, compute_minor;
    bool has_ipc;       /* cuMemAlloc's memory has handles for peers */
    bool has_gpudirect; /* a NIC reaches cuMemAlloc's memory */
    bool has_dmabuf;    /* by files that any driver of the kernel knows */
} mem_cuda_device_t;

/*
 * What a device is and can do. No context is made, so that there is nothing to
 * enter and nothing to close.
 *
 * Errors are those of mem_cuda_device_open().
 */
ucxpool_status_t mem_cuda_device_describe(int                ordinal,
                                          mem_cuda_device_t *device);

/*
 * Load the driver where that has not been done, and retain the device's primary
 * context. After an error nothing is left.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such device
 * UCXPOOL_ERR_UNSUPPORTED    no driver, see mem_cuda_driver_get()
 * UCXPOOL_ERR_NO_MEMORY      no room for a context on the device
 * UCXPOOL_ERR_IO             the driver failed otherwise
 */
ucxpool_status_t mem_cuda_device_open(int                 ordinal,
                                      mem_cuda_device_t **device_p);
/* NULL is allowed. */
void mem_cuda_device_close(mem_cuda_device_t *device);

/*
 * Make the device's context the thread's current one, and put back what was.
 *
 * UCXPOOL_ERR_IO  somebody has destroyed the context
 */
ucxpool_status_t mem_cuda_device_enter(const mem_cuda_device_t *device);
void             mem_cuda_device_leave(const mem_cuda_device_t *device);

/*
 * Let a word in pinned memory become a number when a stream has done all that
 * is in it now. Between enter and leave.
 */
CUresult mem_cuda_word_write(const mem_cuda_device_t *device, CUstream stream,
                             uint32_t *word, uint32_t number);

/*
 * Bytes of its memory that are free. Between enter and leave.
 */
ucxpool_status_t mem_cuda_device_free_size(const mem_cuda_device_t *device,
                                           size_t                  *size_p);

/* Give back reserved addresses at which nothing is mapped. */
void mem_cuda_range_free(const mem_cuda_driver_t *driver, CUdeviceptr address,
                         size_t size);

/*
 * The error of a call that wanted memory for a pool.
 *
 * what         The call and what it was for.
 * asked, free  Bytes, of all regions, and on the device before the first.
 */
ucxpool_status_t mem_cuda_device_error(const mem_cuda_device_t *device,
                                       CUresult result, const char *what,
                                       size_t asked_size, size_t free_size);

#endif
