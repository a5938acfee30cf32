/*
 * Processes and their hosts: the identity that a process announces to a peer,
 * and what the peer can learn from it. A peer's data is not trusted, and the
 * announced PID may have been reused.
 */
#ifndef IPC_HOST_H
#define IPC_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Identity of a process, as needed to map its memory. Sent over the wire as is:
 * fixed layout, little-endian. */
typedef struct ipc_host {
    uint8_t  boot_id[16];   /* /proc/sys/kernel/random/boot_id */
    uint64_t pid_namespace; /* inode of /proc/self/ns/pid */
    uint64_t start_time;    /* in clock ticks since boot */
    uint32_t pid;
    uint32_t uid; /* effective user ID in the parent user namespace */
} ipc_host_t;

/* The value of uid if it cannot be read. Matches no peer. */
#define IPC_NO_USER UINT32_MAX

/* Fill in the identity of this process. A value that cannot be read is 0,
 * or IPC_NO_USER for uid, and matches no peer. Values that were read before are
 * kept and need no free descriptor. */
void ipc_host_fill(ipc_host_t *host);

/* Returns true if a user ID that the kernel has reported is certainly the user
 * of this process. The kernel reports kernel.overflowuid for every user that
 * this user namespace does not map, so this ID may belong to any of them. */
bool ipc_user_is_ours(uint32_t user);

/* Returns the inode of /proc/self/ns/net, or 0 if it cannot be read. Processes
 * on the same host and in the same network namespace can connect to each
 * other's sockets (ipc/socket.h). */
uint64_t ipc_net_namespace(void);

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

/* Returns true if both identify the same process. */
bool ipc_host_is_same(const ipc_host_t *a, const ipc_host_t *b);

/* Returns true if the peer is a process on this host, of any user. Returns
 * false if that is unknown. */
bool ipc_host_is_local(const ipc_host_t *peer);

/* Returns true if the peer is a process of the same user on this host, in the
 * same network namespace. Returns false if that is unknown. */
bool ipc_host_shares_network(const ipc_host_t *peer);

/*
 * is_alive() returns true if the announced process exists. is_reaped() returns
 * true if it no longer exists. A zombie counts as existing. Both return false
 * if the state is unknown, for example without a free descriptor. An unknown
 * process must not count as ended.
 */
bool ipc_host_is_alive(const ipc_host_t *peer);
bool ipc_host_is_reaped(const ipc_host_t *peer);

/* Returns true if the process has certainly ended or is exiting. A zombie
 * counts as ended. Returns false for a process that is not visible
 * (ipc_host_is_visible()). Needs no descriptor. */
bool ipc_host_has_ended(const ipc_host_t *peer);

/*
 * Returns a descriptor that becomes readable when the peer's process ends
 * (pidfd_open). The caller closes it. Returns -1 if the kernel has no
 * pidfd_open (before 5.3), or the process has ended. Also returns -1 if the
 * process is in another PID namespace: see ipc_socket_watch().
 */
int ipc_watch(const ipc_host_t *host);

#endif
