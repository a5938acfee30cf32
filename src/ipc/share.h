/*
 * Sharing regions with a process of the same host and user: what an owner
 * tells, and how a peer maps it, once, for reading.
 *
 * A memfd is opened as /proc/PID/fd/N. It is mapped only if it is the file
 * that was announced (device and inode), belongs to the same user, is a memfd
 * that is sealed against shrinking, is as large as it should be, and has memory
 * behind all of that: a truncated file would kill the reader, and a hollow one
 * would be filled at the reader's expense.
 *
 * Where the system does not let that be opened the owner hands over the
 * descriptor (ipc/socket.h); the same is required of it then.
 *
 * What a peer says is not believed: a PID may be another process's by now, and
 * the number of a descriptor may be a FIFO's or a device's, which is never
 * opened.
 */
#ifndef IPC_SHARE_H
#define IPC_SHARE_H

#include "mem/cuda_device.h"
#include "mem/region.h"

/* --- memory of the host --------------------------------------------------- */

/* Who we are, as far as a peer must know to map our memory. Goes over the wire
 * as is: fixed layout, little-endian. */
typedef struct ipc_host {
    uint8_t  boot_id[16];   /* /proc/sys/kernel/random/boot_id */
    uint64_t pid_namespace; /* inode of /proc/self/ns/pid */
    uint64_t start_time;    /* of the process, in clock ticks since boot */
    uint32_t pid;
    uint32_t uid; /* effective */
} ipc_host_t;

/* One file to be mapped. Goes over the wire as is. */
typedef struct ipc_file {
    uint64_t device;
    uint64_t inode;
    uint64_t size;
    int32_t  fd;              /* number in the owner's process */
    uint32_t huge_page_shift; /* 0: base pages */
} ipc_file_t;

/* Of this process. What cannot be read is 0, and fits no peer; what has been
 * read once needs no descriptor later. */
void ipc_host_fill(ipc_host_t *host);

/* The inode of /proc/self/ns/net, or 0. Processes of one host that have it in
 * common find each other's sockets (ipc/socket.h). */
uint64_t ipc_net_namespace(void);

/*
 * Of a memfd of this process.
 *
 * UCXPOOL_ERR_IO  the descriptor cannot be asked
 */
ucxpool_status_t ipc_file_fill(int fd, ipc_file_t *file);

/*
 * Can this process map files of that one? Writes the reason in words to
 * `reason` in either case, e.g. "same host and user" or "other PID name space".
 */
bool ipc_host_fits(const ipc_host_t *peer, char *reason, size_t reason_size);

/* Is it a process of this host and user, in this network namespace? False where
 * the system does not tell. */
bool ipc_host_shares_network(const ipc_host_t *peer);

/*
 * Is the process still the one that was announced? A zombie still is. Both are
 * false where the system does not tell, as without a descriptor to look with:
 * that is the end of nobody.
 */
bool ipc_host_is_alive(const ipc_host_t *peer);
bool ipc_host_is_gone(const ipc_host_t *peer);

/* Is it known that the process has ended, or is about to, be it a zombie? False
 * of one that cannot be seen from here. Needs no descriptor. */
bool ipc_host_has_ended(const ipc_host_t *peer);

/*
 * Map a peer's file read-only. What is not read takes no memory here. The
 * reason of a failure is written to `reason` too. The mapping outlives the
 * peer; release it by ipc_unmap() with the announced size.
 *
 * given  The file's descriptor in this process, which stays the caller's; -1:
 *        the file is opened as the owner's.
 *
 * UCXPOOL_ERR_PERMISSION  not openable, another user's, or not sealed
 * UCXPOOL_ERR_PROTOCOL    not the announced file, not a memfd, not as large as
 *                         announced, or numbers that make no sense
 * UCXPOOL_ERR_PEER_LOST   the process has ended
 * UCXPOOL_ERR_NO_MEMORY   no addresses are left
 */
ucxpool_status_t ipc_map(const ipc_host_t *host, const ipc_file_t *file,
                         int given, const void **address_p, char *reason,
                         size_t reason_size);
void             ipc_unmap(const void *address, size_t size);

/* A part of a peer's file, mapped here. */
typedef struct ipc_view {
    void  *address; /* of its first byte */
    void  *start;   /* of the pages that it lies in */
    size_t size;    /* of these; 0: nothing is mapped */
} ipc_view_t;

/* Which part. */
typedef struct ipc_part {
    uint64_t offset;
    uint64_t length;
    bool     is_writable;
} ipc_part_t;

/*
 * Map a part of a peer's file, for reading or for both. As ipc_map(), but that
 * the file needs no more memory behind it than the part has bytes: where the
 * rest is hollow nobody looks.
 *
 * UCXPOOL_ERR_PROTOCOL    also: the part is empty, or goes beyond the file
 * UCXPOOL_ERR_PERMISSION  also: to be written, and sealed against that
 */
ucxpool_status_t ipc_view_map(const ipc_host_t *host, const ipc_file_t *file,
                              int given, const ipc_part_t *part,
                              ipc_view_t *view_p, char *reason,
                              size_t reason_size);
void             ipc_view_unmap(ipc_view_t *view);

/*
 * A descriptor that becomes readable when the peer's process has ended
 * (pidfd_open), or -1 where that cannot be had (before kernel 5.3, or the
 * process has ended already). The caller's to close.
 */
int ipc_watch(const ipc_host_t *host);

/*
 * A sealed memfd of this process for control words: zero, mapped for writing,
 * and not to be mapped for writing by anybody else. The caller releases it by
 * ipc_unmap() and close().
 *
 * UCXPOOL_ERR_INVALID_PARAM  size is 0
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t ipc_create(const char *name, size_t size, int *fd_p,
                            void **address_p);

/* --- memory of a GPU ---------------------------------------------------------
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

typedef enum ipc_cuda_way {
    IPC_CUDA_IPC     = 1, /* handle is the driver's */
    IPC_CUDA_FILE    = 2, /* fd is a descriptor of the owner */
    IPC_CUDA_MEMPOOL = 3  /* both, of an allocation and its pool: ipc/mempool.h.
                             No region is shared so */
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
 * Of the allocation that some memory of a caller's lies in.
 *
 * offset_p  [out] Where in it.
 *
 * UCXPOOL_ERR_UNSUPPORTED  it is not of one cuMemAlloc()
 * UCXPOOL_ERR_IO           the driver failed
 */
ucxpool_status_t ipc_cuda_fill_memory(const mem_cuda_device_t *device,
                                      const void *address, uint64_t length,
                                      ipc_cuda_t *share, uint64_t *offset_p);

/*
 * Take the descriptor of a region, or of a memory pool, from the owner's
 * process.
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
 * device can read them, and write to them if that is wanted: CUDA's IPC handles
 * map for both in any case.
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
                              unsigned num_regions, bool is_written,
                              const void **address_p);
/* No kernel may be reading there. */
void ipc_cuda_unmap(const mem_cuda_device_t *device, const ipc_cuda_t *share,
                    unsigned num_regions, const void *address);

#endif
