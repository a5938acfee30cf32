#include <config.h>

#include "ipc/socket.h"

#include "base/error.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Since kernel 6.5; the C library's headers may be older. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define NAME_PREFIX "ucxpool-"

/* Number of connections that the system queues. Further connects fail and must
 * be retried. */
#define BACKLOG 1024

/* Space for the descriptors of a message, aligned for a cmsghdr. */
typedef union room {
    struct cmsghdr head;
    char           bytes[CMSG_SPACE(IPC_FDS_MAX * sizeof(int))];
} room_t;

#define PREFIX_SIZE sizeof("ucxpool-00000000-")

/* Write the prefix of all socket names of this host. */
static void host_prefix(char *prefix)
{
    ipc_host_t own;

    ipc_host_fill(&own);
    snprintf(prefix, PREFIX_SIZE, "ucxpool-%02x%02x%02x%02x-", own.boot_id[0],
             own.boot_id[1], own.boot_id[2], own.boot_id[3]);
}

/* Write the path of a pool's socket. */
static void folder_path(const char *folder, const uint8_t *id,
                        struct sockaddr_un *address)
{
    char   prefix[PREFIX_SIZE];
    char  *path = address->sun_path;
    size_t length;

    host_prefix(prefix);
    address->sun_family = AF_UNIX;
    snprintf(path, sizeof(address->sun_path), "%.*s/%s", (int)IPC_FOLDER_MAX,
             folder, prefix);
    length = strlen(path);
    for (unsigned i = 0; i < IPC_ID_SIZE; i++) {
        snprintf(path + length + 2 * (size_t)i, 3, "%02x", id[i]);
    }
}

/* Make the address of an id, and return its length. An abstract name starts
 * with a 0 byte and has no terminator. */
static socklen_t fill_address(const char *folder, const uint8_t *id,
                              struct sockaddr_un *address)
{
    char  *name   = &address->sun_path[1];
    size_t length = strlen(NAME_PREFIX);

    memset(address, 0, sizeof(*address));
    if (folder[0] != '\0') {
        folder_path(folder, id, address);
        return sizeof(*address);
    }
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

int ipc_socket_listen(const char *folder, const uint8_t *id, int *fd_p)
{
    struct sockaddr_un address;
    socklen_t          length = fill_address(folder, id, &address);
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

int ipc_socket_connect(const char *folder, const uint8_t *id, int *fd_p)
{
    struct sockaddr_un address;
    socklen_t          length = fill_address(folder, id, &address);
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

bool ipc_caller_is(const ipc_caller_t *caller, const ipc_host_t *host)
{
    return ipc_user_is_ours(caller->uid) &&
           ((caller->pid == host->pid) || !ipc_host_is_visible(host));
}

int ipc_socket_watch(int fd, int *fd_p)
{
    socklen_t length = sizeof(*fd_p);

    return getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, fd_p, &length) == 0 ? 0
                                                                        : errno;
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

/* Take the descriptors of a message. The message has space only for the
 * expected number. */
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

void ipc_close_all(const int *fds, unsigned num_fds)
{
    for (unsigned i = 0; i < num_fds; i++) {
        close(fds[i]);
    }
}

/* Close the descriptors of an unexpected message. */
static int refuse(const int *fds, unsigned num_fds, int error)
{
    ipc_close_all(fds, num_fds);
    return error;
}

int ipc_socket_recv(int fd, void *data, size_t size, int *fds,
                    unsigned *num_fds_p)
{
    struct iovec  bytes   = {data, size};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
    int           taken[IPC_FDS_MAX + 1];
    unsigned      num;
    ssize_t       length;
    room_t        room;

    message.msg_control    = &room;
    message.msg_controllen = CMSG_LEN(IPC_FDS_MAX * sizeof(int));

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
    assert(num <= IPC_FDS_MAX);
    memcpy(fds, taken, num * sizeof(int));
    *num_fds_p = num;
    return 0;
}

void ipc_socket_close(int fd)
{
    shutdown(fd, SHUT_RDWR);
    close(fd);
}

/* --- sockets in a directory ----------------------------------------------- */

#define SETTING "(setting UCXPOOL_SOCKET_DIR)"

/* Files younger than this are kept: bind() creates a file before a process can
 * connect to it. */
#define KEEP_S 10

bool ipc_folder_has(const char *folder, const uint8_t *id)
{
    struct sockaddr_un address;

    if (folder[0] == '\0') {
        return false;
    }
    folder_path(folder, id, &address);
    return faccessat(AT_FDCWD, address.sun_path, F_OK, AT_EACCESS) == 0;
}

void ipc_folder_remove(const char *folder, const uint8_t *id)
{
    struct sockaddr_un address;

    folder_path(folder, id, &address);
    unlink(address.sun_path);
}

/* --- preparing a directory ------------------------------------------------ */

/* Returns true if no process has the socket open. The check calls connect()
 * with another socket type than the owner's, which always fails, so the owner
 * does not notice it. The error is EPROTOTYPE if the socket is open. */
static bool is_abandoned(const struct sockaddr_un *address)
{
    struct stat is;
    int         fd, error;

    if ((lstat(address->sun_path, &is) != 0) || !S_ISSOCK(is.st_mode) ||
        (is.st_ctime + KEEP_S > time(NULL))) {
        return false;
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    error = connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0
                ? errno
                : 0;
    close(fd);
    return error == ECONNREFUSED;
}

/* Remove the files of ended processes on this host. Files of another host, or
 * of an earlier boot, cannot be distinguished from files in use, so they are
 * kept. */
static void remove_abandoned(const char *folder)
{
    struct sockaddr_un   address = {.sun_family = AF_UNIX};
    char                 prefix[PREFIX_SIZE];
    const struct dirent *entry;
    DIR                 *files = opendir(folder);
    size_t               length;

    if (files == NULL) {
        return;
    }
    host_prefix(prefix);
    while ((entry = readdir(files)) != NULL) {
        length = (size_t)snprintf(address.sun_path, sizeof(address.sun_path),
                                  "%s/%s", folder, entry->d_name);
        if ((strncmp(entry->d_name, prefix, PREFIX_SIZE - 1) == 0) &&
            (length < sizeof(address.sun_path)) && is_abandoned(&address)) {
            unlink(address.sun_path);
        }
    }
    closedir(files);
}

static ucxpool_status_t check(const char *folder, const struct stat *is)
{
    if (!S_ISDIR(is->st_mode)) {
        return base_error(UCXPOOL_ERR_PERMISSION,
                          "%s " SETTING " is not a directory", folder);
    }
    if (!ipc_user_is_ours((uint32_t)is->st_uid) && (is->st_uid != 0)) {
        return base_error(
            UCXPOOL_ERR_PERMISSION,
            "the directory %s " SETTING
            " belongs to user %u; it must belong to user %u or root",
            folder, (unsigned)is->st_uid, (unsigned)geteuid());
    }
    if (is->st_mode & (S_IWGRP | S_IWOTH)) {
        return base_error(UCXPOOL_ERR_PERMISSION,
                          "other users can write to the directory %s " SETTING
                          ": set its mode to 0700",
                          folder);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t ipc_folder_prepare(const char *folder)
{
    size_t           length = strlen(folder);
    ucxpool_status_t status;
    struct stat      is;

    /* With a / at the end, lstat() would follow a symlink. */
    if ((folder[0] != '/') || (folder[length - 1] == '/') ||
        (length > IPC_FOLDER_MAX)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the directory %.100s " SETTING
                          " must be an absolute path of at most %zu bytes, "
                          "without a / at its end",
                          folder, IPC_FOLDER_MAX);
    }
    if ((mkdir(folder, 0700) != 0) && (errno != EEXIST)) {
        return base_error_errno(
            errno, "cannot create the directory %s " SETTING, folder);
    }
    if (lstat(folder, &is) != 0) {
        return base_error_errno(
            errno, "cannot examine the directory %s " SETTING, folder);
    }
    status = check(folder, &is);
    if (status == UCXPOOL_OK) {
        remove_abandoned(folder);
    }
    return status;
}
