#include <config.h>

#include "bootstrap/listen.h"

#include "base/error.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connections that the system keeps for us until we accept them. */
#define BACKLOG 128

/* Broken newcomers that one call passes over. */
#define ACCEPT_TRIES 16

/* Bytes that the system keeps of what a stranger sends, and that it doubles:
 * the largest message fits. Inherited by accepted sockets. */
#define RECV_BUFFER_SIZE 8192

static void set_option(int fd, int level, int name, int value)
{
    /* A failure costs speed or a little memory, not correctness. */
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

/* Errors come back in errno. */
static int open_address(const xfer_address_t *address)
{
    int family = address->any.sa_family;
    int fd     = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int saved_errno;

    if (fd < 0) {
        return -1;
    }
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    set_option(fd, SOL_SOCKET, SO_RCVBUF, RECV_BUFFER_SIZE);
    if (family == AF_INET6) {
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    }
    if ((bind(fd, &address->any, address->length) == 0) &&
        (listen(fd, BACKLOG) == 0)) {
        return fd;
    }
    saved_errno = errno;
    close(fd);
    errno = saved_errno;
    return -1;
}

static ucxpool_status_t cannot_listen(const xfer_where_t *where, int error)
{
    switch (error) {
    case EADDRINUSE:
        return base_error_errno(error,
                                "cannot listen on %s, choose another port, or "
                                "port 0 for a free one",
                                where->text);
    case EACCES:
        return base_error_errno(
            error, "cannot listen on %s, choose a port over 1023", where->text);
    case EADDRNOTAVAIL:
        return base_error_errno(error,
                                "cannot listen on %s, name an address of this "
                                "machine",
                                where->text);
    default:
        return base_error_errno(error, "cannot listen on %s", where->text);
    }
}

/* Tells the address behind a name, but not one twice. */
static ucxpool_status_t refuse_open(const xfer_where_t   *where,
                                    const xfer_address_t *address)
{
    char name[XFER_ADDRESS_NAME_SIZE];
    bool is_name;

    xfer_address_format(address, name);
    is_name = strcmp(where->text, name) != 0;
    return base_error(UCXPOOL_ERR_PERMISSION,
                      "cannot listen on %s%s%s%s without a secret, since other "
                      "machines reach it: set SECRET_FILE, or listen on "
                      "127.0.0.1, or set LISTEN_WITHOUT_SECRET=y to let "
                      "anybody in",
                      where->text, is_name ? " (" : "", is_name ? name : "",
                      is_name ? ")" : "");
}

static ucxpool_status_t check_loopback(const xfer_where_t *where)
{
    for (size_t i = 0; i < where->num_addresses; i++) {
        if (!xfer_address_is_loopback(&where->addresses[i])) {
            return refuse_open(where, &where->addresses[i]);
        }
    }
    return UCXPOOL_OK;
}

ucxpool_status_t xfer_listen_open(const xfer_where_t *where, bool only_loopback,
                                  int *fd_p, xfer_address_t *address_p)
{
    ucxpool_status_t status;
    xfer_address_t   address;
    int              error = 0;
    int              fd    = -1;

    if (only_loopback) {
        status = check_loopback(where);
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    for (size_t i = 0; (i < where->num_addresses) && (fd < 0); i++) {
        fd = open_address(&where->addresses[i]);
        /* What the first address says is what the user asked about. */
        if ((fd < 0) && (error == 0)) {
            error = errno;
        }
    }
    if (fd < 0) {
        return cannot_listen(where, error);
    }
    address.length = sizeof(address.ipv6);
    if (getsockname(fd, &address.any, &address.length) != 0) {
        status = cannot_listen(where, errno);
        close(fd);
        return status;
    }
    *fd_p      = fd;
    *address_p = address;
    return UCXPOOL_OK;
}

/* Whether accept() told of a newcomer that is gone already, and the next may be
 * asked for. Linux passes on what the network has to say of it. */
static bool is_passing(int error)
{
    switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPERM: /* a firewall's no */
    case EPROTO:
    case ENOPROTOOPT:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
        return true;
    default:
        return false;
    }
}

int xfer_listen_accept(int fd, xfer_address_t *peer_p)
{
    unsigned num_tries = 0;
    int      peer_fd;

    do {
        peer_p->length = sizeof(peer_p->ipv6);
        peer_fd        = accept4(fd, &peer_p->any, &peer_p->length,
                                 SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while ((peer_fd < 0) && is_passing(errno) &&
             (++num_tries < ACCEPT_TRIES));
    if (peer_fd >= 0) {
        set_option(peer_fd, IPPROTO_TCP, TCP_NODELAY, 1);
    }
    return peer_fd;
}
