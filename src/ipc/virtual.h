/*
 * Sharing virtual memory of a GPU with a process of the same host, by one file
 * descriptor per allocation. The owner has mapped the allocations side by side,
 * and the peer maps them in the same way, each as a whole:
 *
 *     owner   | allocation 0 | allocation 1 | allocation 2 |
 *                   |<--------- window --------->|
 *     peer    | allocation 0 | allocation 1 | allocation 2 |
 *
 * A peer's data is not trusted: the driver maps an allocation only with its
 * true size.
 */
#ifndef IPC_VIRTUAL_H
#define IPC_VIRTUAL_H

#include "mem/cuda_device.h"

/* The part of some memory that lies in one allocation. */
typedef struct ipc_virtual_part {
    int      fd;
    uint64_t size;   /* of the allocation */
    uint64_t offset; /* in the allocation */
    uint64_t length;
} ipc_virtual_part_t;

/*
 * Export the allocations that contain memory of a caller, each with its own
 * descriptor.
 *
 * num_parts_p  [out] Number of parts, for ipc_virtual_close().
 *
 * UCXPOOL_ERR_UNSUPPORTED  some of the memory is not virtual memory
 *                          (cuMemCreate), or an allocation has no handle that
 *                          is a file descriptor
 * UCXPOOL_ERR_LIMIT        there are more than max_parts allocations
 * UCXPOOL_ERR_IO           the driver failed
 */
ucxpool_status_t ipc_virtual_export(const mem_cuda_device_t *device,
                                    const void *address, uint64_t length,
                                    ipc_virtual_part_t *parts,
                                    unsigned max_parts, unsigned *num_parts_p);
void ipc_virtual_close(const ipc_virtual_part_t *parts, unsigned num_parts);

/* Mapped allocations of a peer. */
typedef struct ipc_virtual {
    uint64_t address; /* of the first byte of the first allocation */
    uint64_t size;    /* total; 0: nothing is mapped */
} ipc_virtual_t;

/*
 * Map a peer's allocations side by side, so that kernels of the device can read
 * them, and write them if is_writable.
 *
 * parts  Sizes, and descriptors in this process, which may be closed
 *        afterwards.
 *
 * UCXPOOL_ERR_PROTOCOL     the sizes are invalid
 * UCXPOOL_ERR_UNSUPPORTED  the device cannot access the peer's device, or its
 *                          driver cannot map the memory
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t ipc_virtual_map(const mem_cuda_device_t  *device,
                                 const ipc_virtual_part_t *parts,
                                 unsigned num_parts, bool is_writable,
                                 ipc_virtual_t *mapped_p);
/* No kernel may be accessing the memory. */
void ipc_virtual_unmap(const mem_cuda_device_t *device, ipc_virtual_t *mapped);

#endif
