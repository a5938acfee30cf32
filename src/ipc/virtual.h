/*
 * Virtual memory of a GPU that is shared with a process of the same host: by
 * the files that stand for its allocations. The owner has mapped them side by
 * side, and so does the peer, as a whole:
 *
 *     owner   | allocation 0 | allocation 1 | allocation 2 |
 *                   |<--------- window --------->|
 *     peer    | allocation 0 | allocation 1 | allocation 2 |
 *
 * What a peer says is not believed: the driver maps an allocation only with its
 * true size.
 */
#ifndef IPC_VIRTUAL_H
#define IPC_VIRTUAL_H

#include "mem/cuda_device.h"

/* As much of some memory as lies in one allocation. */
typedef struct ipc_virtual_part {
    int      fd;
    uint64_t size;   /* of the allocation */
    uint64_t offset; /* in it */
    uint64_t length;
} ipc_virtual_part_t;

/*
 * The allocations behind some memory of a caller's, each with a descriptor of
 * its own.
 *
 * num_parts_p [out]  To be given to ipc_virtual_close().
 *
 * UCXPOOL_ERR_UNSUPPORTED  not all of it is virtual memory (cuMemCreate), or an
 *                          allocation has no handle that is a file
 * UCXPOOL_ERR_LIMIT        they are more than max_parts
 * UCXPOOL_ERR_IO           the driver failed
 */
ucxpool_status_t ipc_virtual_export(const mem_cuda_device_t *device,
                                    const void *address, uint64_t length,
                                    ipc_virtual_part_t *parts,
                                    unsigned max_parts, unsigned *num_parts_p);
void ipc_virtual_close(const ipc_virtual_part_t *parts, unsigned num_parts);

/* What a peer has mapped. */
typedef struct ipc_virtual {
    uint64_t address; /* of the first allocation's first byte */
    uint64_t size;    /* of all together; 0: nothing is mapped */
} ipc_virtual_t;

/*
 * Map a peer's allocations side by side, so that kernels of the device can read
 * them, and write them if wanted.
 *
 * parts  Their sizes, and their descriptors in this process, which may be
 *        closed afterwards.
 *
 * UCXPOOL_ERR_PROTOCOL     the sizes make no sense
 * UCXPOOL_ERR_UNSUPPORTED  the device does not reach the peer's (or its driver
 *                          cannot map)
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t ipc_virtual_map(const mem_cuda_device_t  *device,
                                 const ipc_virtual_part_t *parts,
                                 unsigned num_parts, bool is_writable,
                                 ipc_virtual_t *mapped_p);
/* No kernel may be at work there. */
void ipc_virtual_unmap(const mem_cuda_device_t *device, ipc_virtual_t *mapped);

#endif
