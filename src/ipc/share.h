/*
 * Sharing regions with a process of the same user on the same host. An owner
 * announces its regions, and a peer maps them once, for reading.
 *
 * A peer opens a memfd as /proc/PID/fd/N. It maps the file only if it is the
 * announced one (same device and inode), belongs to the same user, is a memfd
 * that is sealed against shrinking, has the announced size, and is fully backed
 * by memory. Reading a truncated file would kill the reader. Reading a sparse
 * file would allocate pages that are charged to the reader.
 *
 * If the system does not allow the peer to open the file, the owner passes the
 * descriptor (ipc/socket.h); the same checks apply.
 *
 * A peer's data is not trusted. Its PID may have been reused. The number of a
 * descriptor may refer to a FIFO or a device, which this process must never
 * open.
 */
#ifndef IPC_SHARE_H
#define IPC_SHARE_H

#include "mem/cuda_device.h"
#include "mem/region.h"

/* --- host memory ---------------------------------------------------------- */

/* Identity of a process, as needed to map its memory. Sent over the wire as is:
 * fixed layout, little-endian. */
typedef struct ipc_host {
    uint8_t  boot_id[16];   /* /proc/sys/kernel/random/boot_id */
    uint64_t pid_namespace; /* inode of /proc/self/ns/pid */
    uint64_t start_time;    /* in clock ticks since boot */
    uint32_t pid;
    uint32_t uid; /* effective, as the user namespace above sees it */
} ipc_host_t;

/* The uid if it cannot be read; matches no peer. */
#define IPC_NO_USER UINT32_MAX

/* A file to map. Sent over the wire as is. */
typedef struct ipc_file {
    uint64_t device;
    uint64_t inode;
    uint64_t size;
    int32_t  fd;              /* descriptor number in the owner's process */
    uint32_t huge_page_shift; /* 0: base pages */
} ipc_file_t;

/* Fill in the identity of this process. A value that cannot be read is 0 and
 * matches no peer. Values that were read before do not need a descriptor
 * again. */
void ipc_host_fill(ipc_host_t *host);

/* Returns true if a user that the kernel reports to this process is the user of
 * this process. The kernel reports all users that this user namespace does not
 * map as one user (kernel.overflowuid). */
bool ipc_user_is_ours(uint32_t user);

/* Returns the inode of /proc/self/ns/net, or 0 if it cannot be read. Processes
 * of one host in the same network namespace can connect to each other's sockets
 * (ipc/socket.h). */
uint64_t ipc_net_namespace(void);

/*
 * Describe a memfd of this process.
 *
 * UCXPOOL_ERR_IO  fstat() or fstatfs() failed
 */
ucxpool_status_t ipc_file_fill(int fd, ipc_file_t *file);

/*
 * Returns true if this process can map the peer's files, if necessary with
 * descriptors that the peer sends. Writes the reason to `reason` in either
 * case, such as "same host and user" or "other host".
 */
bool ipc_host_fits(const ipc_host_t *peer, char *reason, size_t reason_size);

/* Returns true if the peer is in this process's PID namespace. Otherwise the
 * PID identifies another process here, or no process. The functions below then
 * do not use the PID, and the state of the process is unknown. */
bool ipc_host_is_visible(const ipc_host_t *peer);

/* Returns true if both name the same process. */
bool ipc_host_is_same(const ipc_host_t *a, const ipc_host_t *b);

/* Returns true if the peer is a process on this host, of any user. Returns
 * false if that is unknown. */
bool ipc_host_is_local(const ipc_host_t *peer);

/* Returns true if the peer is a process of the same user on this host, in the
 * same network namespace. Returns false if that is unknown. */
bool ipc_host_shares_network(const ipc_host_t *peer);

/*
 * is_alive() returns true if the announced process exists; a zombie counts as
 * alive. is_gone() returns true if it no longer exists. Both return false if
 * that is unknown, for example without a free descriptor. An unknown process
 * must not count as ended.
 */
bool ipc_host_is_alive(const ipc_host_t *peer);
bool ipc_host_is_reaped(const ipc_host_t *peer);

/* Returns true if the process has certainly ended or is exiting. A zombie
 * counts as ended. Returns false for a process that cannot be seen from here.
 * Needs no descriptor. */
bool ipc_host_has_ended(const ipc_host_t *peer);

/*
 * Map a peer's file read-only. Pages that are not read take no memory in this
 * process. The reason for a failure is also written to `reason`. The mapping
 * remains valid after the peer has ended. Release it with ipc_unmap() and the
 * announced size.
 *
 * given  The file's descriptor in this process, which the caller keeps; -1:
 *        open the file in the owner's /proc.
 *
 * UCXPOOL_ERR_PERMISSION  cannot be opened, belongs to another user or PID
 *                         namespace, or is not sealed
 * UCXPOOL_ERR_PROTOCOL    not the announced file, not a memfd, not of the
 *                         announced size, or invalid numbers
 * UCXPOOL_ERR_PEER_LOST   the process has ended
 * UCXPOOL_ERR_NO_MEMORY   no address space is left
 */
ucxpool_status_t ipc_map(const ipc_host_t *host, const ipc_file_t *file,
                         int given, const void **address_p, char *reason,
                         size_t reason_size);
void             ipc_unmap(const void *address, size_t size);

/* A mapped part of a peer's file. */
typedef struct ipc_view {
    void  *address; /* of the part's first byte */
    void  *start;   /* of the mapped pages */
    size_t size;    /* of the mapped pages; 0: nothing is mapped */
} ipc_view_t;

typedef struct ipc_part {
    uint64_t offset;
    uint64_t length;
    bool     is_writable;
} ipc_part_t;

/*
 * Map a part of a peer's file, for reading, or for reading and writing. Like
 * ipc_map(), but the file may be sparse outside the part: the file needs only
 * as many backed bytes as the part has.
 *
 * UCXPOOL_ERR_PROTOCOL    also: the part is empty, or exceeds the file
 * UCXPOOL_ERR_PERMISSION  also: writing is requested, and the file is sealed
 *                         against it
 */
ucxpool_status_t ipc_view_map(const ipc_host_t *host, const ipc_file_t *file,
                              int given, const ipc_part_t *part,
                              ipc_view_t *view_p, char *reason,
                              size_t reason_size);
void             ipc_view_unmap(ipc_view_t *view);

/*
 * Returns a descriptor that becomes readable when the peer's process ends
 * (pidfd_open). The caller closes it. Returns -1 if the kernel has no
 * pidfd_open (before 5.3), the process has ended, or the process is in another
 * PID namespace; for the last case, see ipc_socket_watch().
 */
int ipc_watch(const ipc_host_t *host);

/*
 * Create a sealed memfd for control words: zeroed, mapped for writing here, and
 * sealed so that no other process can map it for writing. The caller releases
 * it with ipc_unmap() and close().
 *
 * UCXPOOL_ERR_INVALID_PARAM  size is 0
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t ipc_create(const char *name, size_t size, int *fd_p,
                            void **address_p);

/* --- GPU memory --------------------------------------------------------------
 * Sharing regions of GPU memory with a process of the same user on the same
 * host: how an owner announces them, and how a peer maps them, once.
 *
 * Memory of cuMemAlloc has an IPC handle, a byte string that the peer's driver
 * opens. The handle of a virtual region is a file descriptor. The peer takes it
 * from the owner's process (pidfd_getfd, if ptrace rules allow), or the owner
 * passes it over a socket (ipc/socket.h).
 *
 * A peer's data is not trusted. If a CUDA kernel read past the end of a
 * mapping, this process could no longer use its GPU. The driver checks that a
 * handle is valid.
 */

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
 * Describe a region of this process. A descriptor created for this is closed
 * together with the regions.
 *
 * UCXPOOL_ERR_UNSUPPORTED  this kind of memory has no GPU handle (pinned host
 *                          memory is shared as host memory), or the GPU has no
 *                          handles that are file descriptors
 * UCXPOOL_ERR_IO           the driver failed
 */
ucxpool_status_t ipc_cuda_fill(mem_regions_t *regions, unsigned index,
                               ipc_cuda_t *share);

/*
 * Describe the allocation that contains memory of a caller.
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
 * Map a peer's regions, all of one size, side by side, so that kernels of the
 * device can read them, and write them if is_written. CUDA's IPC handles always
 * allow both.
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

/* No kernel may be accessing the memory. */
void ipc_cuda_unmap(const mem_cuda_device_t *device, const ipc_cuda_t *share,
                    unsigned num_regions, const void *address);

#endif
