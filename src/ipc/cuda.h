/*
 * Sharing regions of GPU memory with a process of the same host and user: what
 * an owner tells, and how a peer maps it, once.
 *
 * Memory of cuMemAlloc has a handle of bytes, which the driver opens. A virtual
 * region's handle is a file, which the peer takes from the owner's process
 * (pidfd_getfd, as far as the system's rules on debugging allow) or is given
 * over a socket (ipc/socket.h).
 *
 * What a peer says is not believed: a kernel that reads past the end of what is
 * mapped would break this process's use of its GPU. The driver stands for it
 * that a handle is one of its own.
 */
#ifndef IPC_CUDA_H
#define IPC_CUDA_H

#include "ipc/share.h"
#include "mem/cuda_device.h"
#include "mem/region.h"

typedef enum ipc_cuda_way {
    IPC_CUDA_IPC  = 1, /* handle is the driver's */
    IPC_CUDA_FILE = 2  /* fd is a descriptor of the owner */
} ipc_cuda_way_t;

/* One region. Goes over the wire as is. */
typedef struct ipc_cuda {
    uint8_t  uuid[16]; /* of the GPU */
    uint64_t size;
    uint32_t way; /* ipc_cuda_way_t */
    int32_t  fd;  /* number in the owner's process; -1: none */
    uint8_t  handle[64];
} ipc_cuda_t;

/*
 * Of a region of this process. A file that is made for it is closed with the
 * regions.
 *
 * UCXPOOL_ERR_UNSUPPORTED  this kind has nothing to be shared by: pinned host
 *                          memory is shared as host memory; a GPU without
 *                          handles that are files
 * UCXPOOL_ERR_IO           the driver failed
 */
ucxpool_status_t ipc_cuda_fill(mem_regions_t *regions, unsigned index,
                               ipc_cuda_t *share);

/*
 * Take the descriptor of a region from the owner's process.
 *
 * UCXPOOL_ERR_PROTOCOL    the number makes no sense
 * UCXPOOL_ERR_PERMISSION  the system does not allow it
 * UCXPOOL_ERR_UNSUPPORTED a kernel before 5.6
 * UCXPOOL_ERR_PEER_LOST   the process has ended
 */
ucxpool_status_t ipc_cuda_import(const ipc_host_t *host,
                                 const ipc_cuda_t *share, int *fd_p);

/*
 * Map a peer's regions, all of one size, side by side, so that kernels of the
 * device can read them.
 *
 * share        Of one of them; with IPC_CUDA_IPC there is one.
 * fds          IPC_CUDA_FILE: the regions' descriptors in this process,
 *              which may be closed afterwards.
 * num_regions  1 or more.
 *
 * UCXPOOL_ERR_PROTOCOL    what is announced makes no sense, or is smaller than
 *                         announced
 * UCXPOOL_ERR_UNSUPPORTED the device does not reach the peer's (or its driver
 *                         cannot map)
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t ipc_cuda_map(const mem_cuda_device_t *device,
                              const ipc_cuda_t *share, const int *fds,
                              unsigned num_regions, const void **address_p);
/* No kernel may be reading there. */
void ipc_cuda_unmap(const mem_cuda_device_t *device, const ipc_cuda_t *share,
                    unsigned num_regions, const void *address);

#endif
