/*
 * Shares files with a process of the same user on the same host. An owner
 * announces its files, and a peer maps them: whole files for reading, and parts
 * of them (ipc_view_map()) for reading, or for reading and writing.
 *
 * A peer opens a memfd as /proc/PID/fd/N. The file must be the one that the
 * owner announced (same device and inode) and must belong to the same user. It
 * must be a memfd that is sealed against shrinking, has the announced size, and
 * is backed by as much memory as the peer maps. Otherwise the peer does not map
 * it. Reading a truncated file would kill the reader. Reading a sparse file
 * would allocate pages that are charged to the reader.
 *
 * If the system does not allow the peer to open the file, the owner passes the
 * descriptor (ipc/socket.h); the same checks apply.
 *
 * A peer's data is not trusted. A descriptor number may refer to a FIFO or a
 * device, which this process must never open.
 */
#ifndef IPC_FILE_H
#define IPC_FILE_H

#include "ipc/host.h"
#include "ucxpool/status.h"

/* A file to map. Sent over the wire as is. */
typedef struct ipc_file {
    uint64_t device;
    uint64_t inode;
    uint64_t size;
    int32_t  fd;              /* descriptor number in the owner's process */
    uint32_t huge_page_shift; /* 0: base pages */
} ipc_file_t;

/*
 * Describe a memfd of this process.
 *
 * UCXPOOL_ERR_IO  fstat() or fstatfs() failed
 */
ucxpool_status_t ipc_file_fill(int fd, ipc_file_t *file);

/*
 * Map a peer's file read-only. Pages that are not read take no memory in this
 * process. The reason for a failure is also written to `reason`. The mapping
 * remains valid after the peer has ended. Release it with ipc_unmap() and the
 * announced size.
 *
 * given  The file's descriptor in this process, which the caller keeps; -1:
 *        open the file in the owner's /proc.
 *
 * UCXPOOL_ERR_PERMISSION  the file cannot be opened, belongs to another user or
 *                         PID namespace, or is not sealed
 * UCXPOOL_ERR_PROTOCOL    the file is not the one announced, is not a memfd, or
 *                         has another size; or a number is invalid
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
 * Map a part of a peer's file, read-only or read-write. Like ipc_map(), but the
 * file may be sparse outside the part: the file needs only as many backed bytes
 * as the part has.
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
 * Create a memfd for control words, of 1 byte or more. It is zeroed, mapped for
 * writing here, and sealed so that no other process can map it for writing. The
 * caller releases it with ipc_unmap() and close().
 *
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t ipc_create(const char *name, size_t size, int *fd_p,
                            void **address_p);

#endif
