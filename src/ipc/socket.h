/*
 * Sockets of the host: messages between processes, and descriptors that are
 * handed over with them, for where the system forbids to take them
 * (pidfd_getfd, /proc/PID/fd): the rules on debugging do not apply to what its
 * owner gives away.
 *
 * The socket has a name without a file (unix(7), "abstract"), made of a pool's
 * id, so nothing is left behind in a directory; a process that is to find it
 * has to be in the same network name space. Messages are kept apart
 * (SOCK_SEQPACKET), and no call waits.
 *
 * These are thin: each returns 0 or an errno, and its caller knows the words.
 */
#ifndef IPC_SOCKET_H
#define IPC_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#define IPC_ID_SIZE 16u

/* Descriptors of one message: few, since what is on its way counts against a
 * user's limit of open files. */
#define IPC_FDS_MAX 64u

/* Who is at the other end: as the kernel says, at the time of listen() or of
 * connect(). In the numbers of our own name spaces; 0 is no process that we
 * could name. */
typedef struct ipc_caller {
    uint32_t pid;
    uint32_t uid;
} ipc_caller_t;

/* A socket of that id, which takes callers. */
int ipc_socket_listen(const uint8_t *id, int *fd_p);

/* The next caller. EAGAIN: there is none. */
int ipc_socket_accept(int listen_fd, int *fd_p);

/* ECONNREFUSED: nobody listens. EAGAIN: too many wait; try again later. */
int ipc_socket_connect(const uint8_t *id, int *fd_p);

int ipc_socket_caller(int fd, ipc_caller_t *caller_p);

/* One message, with copies of num_fds descriptors, IPC_FDS_MAX at most.
 * EAGAIN: the other end does not read. */
int ipc_socket_send(int fd, const void *data, size_t size, const int *fds,
                    unsigned num_fds);

/* One message of two parts, without descriptors. */
int ipc_socket_send_parts(int fd, const void *first, size_t first_size,
                          const void *second, size_t second_size);

/* One message, of up to `size` bytes, without descriptors. EAGAIN, ECONNRESET,
 * EPROTO (it is longer, or brings descriptors) as below. */
int ipc_socket_recv_any(int fd, void *data, size_t size, size_t *length_p);

/*
 * One message of this very size. The descriptors are closed on exec, and the
 * caller's to close; what would be more than max_fds never gets here. After an
 * error there are none.
 *
 * EAGAIN      there is no message
 * ECONNRESET  the other end has hung up
 * EPROTO      another size
 * EMFILE      not all descriptors found room
 */
int ipc_socket_recv(int fd, void *data, size_t size, int *fds, unsigned max_fds,
                    unsigned *num_fds_p);

/* Hang up, also for a forked child that holds a copy of the descriptor. */
void ipc_socket_close(int fd);

#endif
