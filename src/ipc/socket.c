#include <config.h>

#include "ipc/socket.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define NAME_PREFIX "ucxpool-"

/* Number of connections that the system queues. Further connects must be
 * retried. */
#define BACKLOG 1024

/* Space for the descriptors of a message, aligned for a cmsghdr. */
typedef union room {
    struct cmsghdr head;
    char           bytes[CMSG_SPACE(IPC_FDS_MAX * sizeof(int))];
} room_t;

/* Make the address of an id, and return its length. An abstract name starts
 * with a 0 byte and has no terminator. */
static socklen_t fill_address(const uint8_t *id, struct sockaddr_un *address)
{
    char  *name   = &address->sun_path[1];
    size_t length = strlen(NAME_PREFIX);

    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    memcpy(name, NAME_PREFIX, length);
    for (unsigned i = 0; i < IPC_ID_SIZE; i++) {
        snprintf(name + length, 3, "%02x", id[i]);
        length += 2;
    }
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static int make_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* Close a descriptor and return `error`, on error paths. */
static int close_after(int fd, int error)
{
    close(fd);
    return error;
}

int ipc_socket_listen(const uint8_t *id, int *fd_p)
{
    struct sockaddr_un address;
    socklen_t          length = fill_address(id, &address);
    int                fd     = make_socket();

    if (fd < 0) {
        return errno;
    }
    if ((bind(fd, (struct sockaddr *)&address, length) != 0) ||
        (listen(fd, BACKLOG) != 0)) {
        return close_after(fd, errno);
    }
    *fd_p = fd;
    return 0;
}

int ipc_socket_accept(int listen_fd, int *fd_p)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0) {
        return errno;
    }
    *fd_p = fd;
    return 0;
}

int ipc_socket_connect(const uint8_t *id, int *fd_p)
{
    struct sockaddr_un address;
    socklen_t          length = fill_address(id, &address);
    int                fd     = make_socket();

    if (fd < 0) {
        return errno;
    }
    if (connect(fd, (struct sockaddr *)&address, length) != 0) {
        return close_after(fd, errno);
    }
    *fd_p = fd;
    return 0;
}

int ipc_socket_caller(int fd, ipc_caller_t *caller_p)
{
    struct ucred credentials;
    socklen_t    length = sizeof(credentials);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
        return errno;
    }
    caller_p->pid = (uint32_t)credentials.pid;
    caller_p->uid = (uint32_t)credentials.uid;
    return 0;
}

int ipc_socket_send(int fd, const void *data, size_t size, const int *fds,
                    unsigned num_fds)
{
    struct iovec    bytes   = {(void *)(uintptr_t)data, size};
    struct msghdr   message = {.msg_iov = &bytes, .msg_iovlen = 1};
    struct cmsghdr *head;
    room_t          room;

    assert(num_fds <= IPC_FDS_MAX);
    if (num_fds != 0) {
        memset(&room, 0, sizeof(room));
        message.msg_control    = &room;
        message.msg_controllen = CMSG_SPACE(num_fds * sizeof(int));
        head                   = CMSG_FIRSTHDR(&message);
        head->cmsg_level       = SOL_SOCKET;
        head->cmsg_type        = SCM_RIGHTS;
        head->cmsg_len         = CMSG_LEN(num_fds * sizeof(int));
        memcpy(CMSG_DATA(head), fds, num_fds * sizeof(int));
    }
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
}

int ipc_socket_send_parts(int fd, const void *first, size_t first_size,
                          const void *second, size_t second_size)
{
    struct iovec parts[] = {
        {(void *)(uintptr_t)first, first_size},
        {(void *)(uintptr_t)second, second_size},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
}

int ipc_socket_recv_any(int fd, void *data, size_t size, size_t *length_p)
{
    struct iovec  bytes   = {data, size};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
    ssize_t       length  = recvmsg(fd, &message, MSG_DONTWAIT);

    if ((length < 0) && (errno == ECONNRESET)) {
        /* The peer closed the connection with unread data. The data that it
         * sent can still be received. */
        length = recvmsg(fd, &message, MSG_DONTWAIT);
    }
    if (length < 0) {
        return errno;
    }
    if (length == 0) {
        return ECONNRESET;
    }
    if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
        return EPROTO;
    }
    *length_p = (size_t)length;
    return 0;
}

/* Take the descriptors of a message. The message has space only for as many as
 * expected. */
static unsigned take_fds(struct msghdr *message, int *fds)
{
    unsigned num = 0;

    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL;
         head                 = CMSG_NXTHDR(message, head)) {
        if ((head->cmsg_level == SOL_SOCKET) &&
            (head->cmsg_type == SCM_RIGHTS)) {
            size_t size = head->cmsg_len - CMSG_LEN(0);

            memcpy(fds + num, CMSG_DATA(head), size);
            num += (unsigned)(size / sizeof(int));
        }
    }
    return num;
}

/* Refuse an unexpected message: close its descriptors. */
static int refuse(const int *fds, unsigned num_fds, int error)
{
    for (unsigned i = 0; i < num_fds; i++) {
        close(fds[i]);
    }
    return error;
}

int ipc_socket_recv(int fd, void *data, size_t size, int *fds, unsigned max_fds,
                    unsigned *num_fds_p)
{
    struct iovec  bytes   = {data, size};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
    int           taken[IPC_FDS_MAX + 1];
    unsigned      num = 0;
    ssize_t       length;
    room_t        room;

    assert(max_fds <= IPC_FDS_MAX);
    if (max_fds != 0) {
        message.msg_control    = &room;
        message.msg_controllen = CMSG_LEN(max_fds * sizeof(int));
    }
    length = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (length < 0) {
        return errno;
    }
    num = take_fds(&message, taken);
    if (length == 0) {
        return refuse(taken, num, ECONNRESET);
    }
    if (((size_t)length != size) || (message.msg_flags & MSG_TRUNC)) {
        return refuse(taken, num, EPROTO);
    }
    if (message.msg_flags & MSG_CTRUNC) {
        return refuse(taken, num, EMFILE);
    }
    assert(num <= max_fds);
    if (num != 0) {
        memcpy(fds, taken, num * sizeof(int));
    }
    *num_fds_p = num;
    return 0;
}

void ipc_socket_close(int fd)
{
    shutdown(fd, SHUT_RDWR);
    close(fd);
}
