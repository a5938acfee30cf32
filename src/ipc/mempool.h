/*
 * Allocations of a memory pool (cuMemAllocFromPoolAsync) that are shared with a
 * process of the same host: the pool goes by a file, each allocation in it by
 * bytes that mean something to those who have the pool.
 *
 * Only pools that were made to be shared can be: CU_MEM_HANDLE_TYPE_POSIX_FILE_
 * DESCRIPTOR among their handle types. What a peer says is not believed: the
 * driver stands for it that bytes mean an allocation, and tells its size.
 */
#ifndef IPC_MEMPOOL_H
#define IPC_MEMPOOL_H

#include "ipc/share.h"
#include "mem/cuda_device.h"

/* Is it memory of a pool? */
bool ipc_mempool_has(const mem_cuda_device_t *device, const void *address);

/*
 * Of the allocation that some memory of a pool lies in.
 *
 * share     [out] Way IPC_CUDA_MEMPOOL; its descriptor is the caller's to
 *           close.
 * offset_p  [out] Where in the allocation.
 *
 * UCXPOOL_ERR_UNSUPPORTED  the pool was not made to be shared, or the driver
 *                          shares none
 * UCXPOOL_ERR_IO           the driver failed
 */
ucxpool_status_t ipc_mempool_fill(const mem_cuda_device_t *device,
                                  const void *address, uint64_t length,
                                  ipc_cuda_t *share, uint64_t *offset_p);

/* What a peer has mapped. */
typedef struct ipc_mempool {
    CUmemoryPool pool;    /* NULL: nothing is mapped */
    CUdeviceptr  address; /* of the allocation */
} ipc_mempool_t;

/*
 * Map a peer's allocation, so that kernels of the device can read and write it.
 *
 * fd  The pool's in this process; may be closed afterwards.
 *
 * UCXPOOL_ERR_PROTOCOL     it is smaller than announced
 * UCXPOOL_ERR_UNSUPPORTED  the driver shares no pools, or the device does not
 *                          reach the peer's
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t ipc_mempool_map(const mem_cuda_device_t *device,
                                 const ipc_cuda_t *share, int fd,
                                 ipc_mempool_t *mapped_p);
/* No kernel may be at work there. */
void ipc_mempool_unmap(const mem_cuda_device_t *device, ipc_mempool_t *mapped);

#endif
