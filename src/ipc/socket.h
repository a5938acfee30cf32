/*
 * Unix sockets for messages and descriptors between processes on one host. An
 * owner can send a descriptor even if the system does not let the peer
 * duplicate it (pidfd_getfd, /proc/PID/fd). The ptrace rules do not apply to
 * descriptors that are sent over a socket.
 *
 * A socket has an abstract name (unix(7)) with the pool's id. So it leaves no
 * file behind, and processes of the same network namespace can connect. A
 * second socket is a file in a directory that the user chooses (see below).
 * Messages keep their boundaries (SOCK_SEQPACKET), and no call blocks.
 *
 * The socket functions are thin wrappers. Each returns 0 or an errno value, and
 * the caller reports the error.
 */
#ifndef IPC_SOCKET_H
#define IPC_SOCKET_H

#include "ipc/host.h"

#include <ucxpool/status.h>

#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#define IPC_ID_SIZE 16u

/* Maximum number of descriptors in a message. It is small because descriptors
 * in flight count toward a user's limit of open files. */
#define IPC_FDS_MAX 64u

/* The process at the other end, as it was at the time of listen() or connect().
 * pid and uid are translated to this process's namespaces. A pid of 0 means a
 * process outside these namespaces. */
typedef struct ipc_caller {
    uint32_t pid;
    uint32_t uid;
} ipc_caller_t;

/* Create a listening socket with this id. folder: a prepared directory for the
 * socket's file; "": use an abstract name. */
int ipc_socket_listen(const char *folder, const uint8_t *id, int *fd_p);

/* Accept a connection. EAGAIN: no connection is waiting. */
int ipc_socket_accept(int listen_fd, int *fd_p);

/* Connect to the socket with this id in the directory, or by its abstract name
 * if folder is "". ECONNREFUSED, ENOENT: no process listens. EAGAIN: the queue
 * is full; retry later. */
int ipc_socket_connect(const char *folder, const uint8_t *id, int *fd_p);

int ipc_socket_caller(int fd, ipc_caller_t *caller_p);

/* Returns true if the process at the other end belongs to this user, and is the
 * announced process. The kernel cannot compare the PID of a process in another
 * PID namespace. Such a process must prove its identity with a key. */
bool ipc_caller_is(const ipc_caller_t *caller, const ipc_host_t *host);

/* Create a descriptor that becomes readable when the process at the other end
 * has ended, in any PID namespace. The caller closes it. ENOPROTOOPT: the
 * kernel is older than 6.5. */
int ipc_socket_watch(int fd, int *fd_p);

/* Send a message with copies of up to IPC_FDS_MAX descriptors. EAGAIN: the
 * other end does not read. */
int ipc_socket_send(int fd, const void *data, size_t size, const int *fds,
                    unsigned num_fds);

/* Send a message in two parts, without descriptors. */
int ipc_socket_send_parts(int fd, const void *first, size_t first_size,
                          const void *second, size_t second_size);

/* Receive a message of up to `size` bytes, without descriptors. Errors as
 * below: EAGAIN, ECONNRESET, and EPROTO if the message is longer or has
 * descriptors. */
int ipc_socket_recv_any(int fd, void *data, size_t size, size_t *length_p);

/*
 * Receive a message of exactly this size. The descriptors are close-on-exec,
 * and the caller closes them. At most IPC_FDS_MAX are received. If the call
 * fails, it returns no descriptors.
 *
 * EAGAIN      there is no message
 * ECONNRESET  the other end has closed the connection
 * EPROTO      the message has a different size
 * EMFILE      the process cannot open so many descriptors
 */
int ipc_socket_recv(int fd, void *data, size_t size, int *fds,
                    unsigned *num_fds_p);

void ipc_close_all(const int *fds, unsigned num_fds);

/* Shut down and close, so that a copy of the descriptor in a forked child does
 * not keep the connection open. */
void ipc_socket_close(int fd);

/* --- directories ---------------------------------------------------------- */

/*
 * A directory of Unix sockets, for processes in different network namespaces,
 * such as containers that mount one directory. The name of a socket's file
 * contains the pool's id:
 *
 *     DIR/ucxpool-BOOT-ID    BOOT: the start of the host's boot id
 *
 * The kernel keeps sockets in its own memory, and finds them by the inodes of
 * their files. So a process on another host cannot connect, even if it mounts
 * the same directory (NFS).
 *
 * If a process is killed, its file remains. A pool that is created with the
 * directory at least 10 s later removes the file. Files from before a reboot
 * are never removed.
 */

/* The longest path of a directory. */
#define IPC_FOLDER_MAX \
    (sizeof(((struct sockaddr_un *)NULL)->sun_path) - \
     sizeof("/ucxpool-00000000-") - 2 * IPC_ID_SIZE)

/*
 * Create the directory with mode 0700 if it does not exist, and remove the
 * files of ended processes.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the path is not absolute, ends with a /, or is
 *                            longer than IPC_FOLDER_MAX
 * UCXPOOL_ERR_PERMISSION     the directory belongs to another user (except
 *                            root), other users can write to it, or it is not
 *                            a directory
 * UCXPOOL_ERR_IO, ...        it cannot be created
 */
ucxpool_status_t ipc_folder_prepare(const char *folder);

/* Returns true if the directory has a file for this pool. Returns false for
 * "". */
bool ipc_folder_has(const char *folder, const uint8_t *id);

void ipc_folder_remove(const char *folder, const uint8_t *id);

#endif
