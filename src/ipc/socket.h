/*
 * Unix sockets for messages and descriptors between processes of one host.
 * Passing a descriptor works even if the system forbids taking it (pidfd_getfd,
 * /proc/PID/fd): ptrace rules do not apply to descriptors that their owner
 * sends.
 *
 * The socket has an abstract name (unix(7)), made of a pool's id, so it leaves
 * no file behind. A process must be in the same network namespace to connect.
 * Messages keep their boundaries (SOCK_SEQPACKET), and no call blocks.
 *
 * These are thin wrappers: each returns 0 or an errno, and the caller reports
 * the error.
 */
#ifndef IPC_SOCKET_H
#define IPC_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#define IPC_ID_SIZE 16u

/* Maximum number of descriptors in a message. It is small because descriptors
 * in flight count against a user's limit of open files. */
#define IPC_FDS_MAX 64u

/* The process at the other end, as the kernel reports it for the time of
 * listen() or connect(). The numbers are those of this process's namespaces. A
 * pid of 0 means a process outside these namespaces. */
typedef struct ipc_caller {
    uint32_t pid;
    uint32_t uid;
} ipc_caller_t;

/* Create a listening socket with this id. */
int ipc_socket_listen(const uint8_t *id, int *fd_p);

/* Accept a connection. EAGAIN: no connection is waiting. */
int ipc_socket_accept(int listen_fd, int *fd_p);

/* Connect to the socket with this id. ECONNREFUSED: no process listens. EAGAIN:
 * the queue is full; retry later. */
int ipc_socket_connect(const uint8_t *id, int *fd_p);

int ipc_socket_caller(int fd, ipc_caller_t *caller_p);

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
 * and the caller closes them. The kernel drops descriptors beyond max_fds.
 * After an error no descriptors are returned.
 *
 * EAGAIN      there is no message
 * ECONNRESET  the other end has closed the connection
 * EPROTO      the message has another size
 * EMFILE      the process has no room for all descriptors
 */
int ipc_socket_recv(int fd, void *data, size_t size, int *fds, unsigned max_fds,
                    unsigned *num_fds_p);

/* Shut down and close, so that a copy of the descriptor in a forked child does
 * not keep the connection open. */
void ipc_socket_close(int fd);

#endif
