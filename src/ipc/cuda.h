/*
 * Shares regions of GPU memory with a process of the same user on the same
 * host. An owner announces its regions, and a peer maps them once.
 *
 * Memory from cuMemAlloc() has an IPC handle, a byte string that the peer's
 * driver opens. The handle of a region of cuMemCreate() is a file descriptor.
 * The peer takes it from the owner's process (pidfd_getfd, if ptrace rules
 * allow), or the owner passes it over a socket (ipc/socket.h).
 *
 * A peer's data is not trusted. The driver checks handles, and this module
 * checks sizes. If a CUDA kernel read past the end of a mapping, this process
 * could no longer use its GPU.
 */
#ifndef IPC_CUDA_H
#define IPC_CUDA_H

#include "ipc/host.h"
#include "mem/cuda_device.h"
#include "mem/region.h"

typedef enum ipc_cuda_way {
    IPC_CUDA_IPC  = 1, /* handle is a CUDA IPC handle */
    IPC_CUDA_FILE = 2  /* fd is the owner's descriptor */
} ipc_cuda_way_t;

/* A region. Sent over the wire as is. */
typedef struct ipc_cuda {
    uint8_t  uuid[16]; /* of the GPU */
    uint64_t size;
    uint32_t way; /* ipc_cuda_way_t */
    int32_t  fd;  /* descriptor number in the owner's process; -1: none */
    uint8_t  handle[64];
} ipc_cuda_t;

/*
 * Describe a region of this process. If the function creates a descriptor, the
 * descriptor is closed together with the regions.
 *
 * UCXPOOL_ERR_UNSUPPORTED  this kind of memory has no GPU handle (pinned host
 *                          memory is shared as host memory), or the GPU cannot
 *                          export memory as file descriptors
 * UCXPOOL_ERR_IO           the driver failed
 */
ucxpool_status_t ipc_cuda_fill(mem_regions_t *regions, unsigned index,
                               ipc_cuda_t *share);

/*
 * Describe the allocation that contains the caller's memory.
 *
 * offset_p  [out] Offset of the memory in the allocation.
 *
 * UCXPOOL_ERR_UNSUPPORTED  the memory is not part of a single cuMemAlloc()
 * UCXPOOL_ERR_IO           the driver failed
 */
ucxpool_status_t ipc_cuda_fill_memory(const mem_cuda_device_t *device,
                                      const void *address, uint64_t length,
                                      ipc_cuda_t *share, uint64_t *offset_p);

/*
 * Take the descriptor of a region from the owner's process.
 *
 * UCXPOOL_ERR_PROTOCOL     the number is invalid
 * UCXPOOL_ERR_PERMISSION   the system does not allow it
 * UCXPOOL_ERR_UNSUPPORTED  a kernel before 5.6, or another PID namespace
 * UCXPOOL_ERR_PEER_LOST    the process has ended
 */
ucxpool_status_t ipc_cuda_import(const ipc_host_t *host,
                                 const ipc_cuda_t *share, int *fd_p);

/*
 * Map a peer's regions, which have the same size, side by side. Kernels of the
 * device can then read them, and write them if is_written is true. CUDA's IPC
 * handles always allow both.
 *
 * share        Description of any of the regions; with IPC_CUDA_IPC there is
 *              only one.
 * fds          IPC_CUDA_FILE: the regions' descriptors in this process, which
 *              may be closed afterwards.
 * num_regions  1 or more.
 *
 * UCXPOOL_ERR_PROTOCOL     the announcement is invalid, or the memory is
 *                          smaller than announced
 * UCXPOOL_ERR_UNSUPPORTED  the device cannot access the peer's device, or its
 *                          driver cannot map the memory
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t ipc_cuda_map(const mem_cuda_device_t *device,
                              const ipc_cuda_t *share, const int *fds,
                              unsigned num_regions, bool is_written,
                              const void **address_p);
/* No kernel may be accessing the memory. */
void ipc_cuda_unmap(const mem_cuda_device_t *device, const ipc_cuda_t *share,
                    unsigned num_regions, const void *address);

/*
 * Let a device read regions of host memory that ipc_map() has mapped. After an
 * error, the device cannot read any of them.
 *
 * UCXPOOL_ERR_NO_MEMORY    the system does not allow so much locked memory
 * UCXPOOL_ERR_UNSUPPORTED  the driver cannot pin memory that is mapped for
 *                          reading
 * UCXPOOL_ERR_IO           the driver failed
 */
ucxpool_status_t ipc_cuda_pin(const mem_cuda_device_t *device,
                              const uint8_t *const    *regions,
                              const uint64_t *sizes, unsigned num_regions);
/* No kernel may be accessing the memory. */
void ipc_cuda_unpin(const mem_cuda_device_t *device,
                    const uint8_t *const *regions, unsigned num_regions);

#endif
