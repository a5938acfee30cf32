/*
 * Sharing allocations of a CUDA memory pool (cuMemAllocFromPoolAsync) with a
 * process of the same host. A file descriptor shares the pool. Export data
 * shares each allocation, and is valid only in processes that have imported the
 * pool.
 *
 * Only pools created with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR among their
 * handle types can be shared. A peer's data is not trusted: the driver checks
 * that the export data names an allocation, and returns its size.
 */
#ifndef IPC_MEMPOOL_H
#define IPC_MEMPOOL_H

#include "ipc/share.h"
#include "mem/cuda_device.h"

/* Returns true if the memory belongs to a pool. */
bool ipc_mempool_has(const mem_cuda_device_t *device, const void *address);

/*
 * Describe the allocation that contains the memory.
 *
 * share     [out] Way IPC_CUDA_MEMPOOL; the caller closes its descriptor.
 * offset_p  [out] Offset of the memory in the allocation.
 *
 * UCXPOOL_ERR_UNSUPPORTED  the pool was not created for sharing, or the driver
 *                          cannot share pools
 * UCXPOOL_ERR_IO           the driver failed
 */
ucxpool_status_t ipc_mempool_fill(const mem_cuda_device_t *device,
                                  const void *address, uint64_t length,
                                  ipc_cuda_t *share, uint64_t *offset_p);

/* A mapped allocation of a peer. */
typedef struct ipc_mempool {
    CUmemoryPool pool;    /* NULL: nothing is mapped */
    CUdeviceptr  address; /* of the allocation */
} ipc_mempool_t;

/*
 * Map a peer's allocation, so that kernels of the device can read and write it.
 *
 * fd  The pool's descriptor in this process; may be closed afterwards.
 *
 * UCXPOOL_ERR_PROTOCOL     the allocation is smaller than announced
 * UCXPOOL_ERR_UNSUPPORTED  the driver cannot share pools, or the device cannot
 *                          access the peer's device
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t ipc_mempool_map(const mem_cuda_device_t *device,
                                 const ipc_cuda_t *share, int fd,
                                 ipc_mempool_t *mapped_p);
/* No kernel may be accessing the memory. */
void ipc_mempool_unmap(const mem_cuda_device_t *device, ipc_mempool_t *mapped);

#endif
