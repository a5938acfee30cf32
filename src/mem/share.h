/*
 * Sharing regions with a process of the same host and user: what an owner
 * tells, and how a peer maps it, once, for reading.
 *
 * A memfd is opened as /proc/PID/fd/N. It is mapped only if it is the file that
 * was announced (device and inode), belongs to the same user, is a memfd that
 * is sealed against shrinking and against new writable mappings, and is as
 * large as it should be: a truncated file would kill the reader.
 */
#ifndef MEM_SHARE_H
#define MEM_SHARE_H

#include "mem/region.h"

/* Who we are, as far as a peer must know to map our memory. Goes over the wire
 * as is: fixed layout, little-endian. */
typedef struct mem_share_host {
    uint8_t  boot_id[16];    /* /proc/sys/kernel/random/boot_id               */
    uint64_t pid_namespace;  /* inode of /proc/self/ns/pid                    */
    uint64_t start_time;     /* of the process, in clock ticks since boot     */
    uint32_t pid;
    uint32_t uid;            /* effective                                     */
} mem_share_host_t;

/* One file to be mapped. Goes over the wire as is. */
typedef struct mem_share_file {
    uint64_t device;
    uint64_t inode;
    uint64_t size;
    int32_t  fd;     /* number in the owner's process                         */
    uint32_t huge_page_shift; /* 0: base pages                                */
} mem_share_file_t;

void mem_share_host_fill(mem_share_host_t *host);

ucxpool_status_t mem_share_file_fill(int fd, mem_share_file_t *file);

/*
 * Can this process map files of that one? Writes the reason in words to
 * `reason` in either case, e.g. "same host and user" or "other PID name space".
 */
bool mem_share_host_fits(const mem_share_host_t *peer, char *reason,
                         size_t reason_size);

/*
 * Map a peer's file read-only, with all its pages present. The reason of a
 * failure is written to `reason` too.
 *
 * UCXPOOL_ERR_PERMISSION  not openable, another user's, or not sealed
 * UCXPOOL_ERR_PROTOCOL    not the announced file, or not as large as announced
 */
ucxpool_status_t mem_share_map(const mem_share_host_t *host,
                               const mem_share_file_t *file,
                               const void **address_p, char *reason,
                               size_t reason_size);
void             mem_share_unmap(const void *address, size_t size);

/*
 * A descriptor that becomes readable when the peer's process has ended
 * (pidfd_open), or -1 where that cannot be had.
 */
int mem_share_watch(const mem_share_host_t *host);

/* A sealed memfd of this process for control words, mapped for writing. */
ucxpool_status_t mem_share_create(const char *name, size_t size, int *fd_p,
                                  void **address_p);

#endif
