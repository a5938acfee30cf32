/*
 * Shares a GPU's virtual memory with a process on the same host. The owner has
 * mapped allocations side by side, and the peer maps them in the same way, each
 * as a whole:
 *
 *     owner   | allocation 0 | allocation 1 | allocation 2 |
 *                   |<--------- memory --------->|
 *     peer    | allocation 0 | allocation 1 | allocation 2 |
 *
 * There may be tens of thousands of allocations. The owner keeps a handle for
 * each, which uses no file descriptor. It exports the allocations as
 * descriptors, in batches, and sends each batch to the peer. The peer maps the
 * allocations of a batch, closes the descriptors, and then requests the next
 * batch.
 *
 * A peer's data is not trusted: the driver maps an allocation only with its
 * true size.
 */
#ifndef IPC_VIRTUAL_H
#define IPC_VIRTUAL_H

#include "mem/cuda_device.h"

/* The maximum number of allocations (512 GiB if each has 2 MiB), and of
 * runs. */
#define IPC_VIRTUAL_MAX      262144u
#define IPC_VIRTUAL_RUNS_MAX 128u

/* Consecutive allocations of one size. Sent over the wire as is. */
typedef struct ipc_virtual_run {
    uint64_t size; /* of each allocation */
    uint64_t count;
} ipc_virtual_run_t;

/* The allocations that contain a range of memory, in address order. The offset
 * and the used runs are sent over the wire as they are. */
typedef struct ipc_virtual_layout {
    uint64_t          offset; /* of the memory in the first allocation */
    ipc_virtual_run_t runs[IPC_VIRTUAL_RUNS_MAX];
    uint32_t          num_runs;
} ipc_virtual_layout_t;

/* Returns the number of bytes that are sent for this number of runs. */
static inline size_t ipc_virtual_layout_size(uint32_t num_runs)
{
    return offsetof(ipc_virtual_layout_t, runs) +
           num_runs * sizeof(ipc_virtual_run_t);
}

/* --- the owner's side ----------------------------------------------------- */

/* Allocations of this process, which exist until they are released. */
typedef struct ipc_virtual_memory {
    unsigned long long  *handles; /* of the driver */
    uint32_t             num;     /* allocations */
    uint32_t             max;     /* size of the array of handles */
    ipc_virtual_layout_t layout;
} ipc_virtual_memory_t;

/*
 * Retain the allocations that contain the caller's memory.
 *
 * UCXPOOL_ERR_UNSUPPORTED  some of the memory is not virtual memory
 *                          (cuMemCreate), or the first allocation cannot be
 *                          exported as a file descriptor
 * UCXPOOL_ERR_LIMIT        there are too many allocations or runs
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t ipc_virtual_retain(const mem_cuda_device_t *device,
                                    const void *address, uint64_t length,
                                    ipc_virtual_memory_t *memory);
/* May be called more than once. */
void ipc_virtual_release(const mem_cuda_device_t *device,
                         ipc_virtual_memory_t    *memory);

/*
 * Export allocations, each with its own descriptor, which the caller closes.
 *
 * first, num  The allocations, which must exist.
 *
 * UCXPOOL_ERR_UNSUPPORTED  an allocation cannot be exported as a file
 *                          descriptor
 * UCXPOOL_ERR_IO           the driver failed
 */
ucxpool_status_t ipc_virtual_export(const mem_cuda_device_t    *device,
                                    const ipc_virtual_memory_t *memory,
                                    uint32_t first, uint32_t num, int *fds);

/* --- the peer's side ------------------------------------------------------ */

/* Allocations of a peer. */
typedef struct ipc_virtual {
    uint64_t address;     /* of the first byte of the first allocation */
    uint64_t size;        /* total; 0: no addresses are reserved */
    uint64_t mapped_size; /* total size of mapped allocations */
    uint32_t num;         /* allocations */
    uint32_t num_mapped;
} ipc_virtual_t;

/*
 * Reserve addresses for a peer's allocations.
 *
 * length  Length of the memory, which must touch both the first and the last
 *         allocation.
 *
 * UCXPOOL_ERR_PROTOCOL     the layout is invalid
 * UCXPOOL_ERR_UNSUPPORTED  the device or its driver has no virtual memory
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t ipc_virtual_reserve(const mem_cuda_device_t    *device,
                                     const ipc_virtual_layout_t *layout,
                                     uint64_t length, ipc_virtual_t *range_p);

/*
 * Map the next allocations, so that kernels of the device can read them, and
 * write them if is_writable. After an error, only ipc_virtual_unmap() may be
 * called.
 *
 * fds  Descriptors in this process, which may be closed afterwards.
 *
 * UCXPOOL_ERR_UNSUPPORTED  the device cannot access the peer's device, or its
 *                          driver cannot map the memory
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t ipc_virtual_map(const mem_cuda_device_t    *device,
                                 const ipc_virtual_layout_t *layout,
                                 const int *fds, unsigned num_fds,
                                 bool is_writable, ipc_virtual_t *range);

/* Unmap the mapped allocations, and free the addresses. May be called more than
 * once. No kernel may be accessing the memory. */
void ipc_virtual_unmap(const mem_cuda_device_t *device, ipc_virtual_t *range);

#endif
