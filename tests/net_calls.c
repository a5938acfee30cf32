#include "net_calls.h"
#include "fds.h"
#include "replace.h"
#include "test.h"

#include <errno.h>
#include <netdb.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct {
    net_call_t call;
    unsigned   first; /* 0: none */
    unsigned   num_calls;
    int        error;
    bool       is_lasting;
    bool       has_failed;
    bool       has_next;
    net_call_t next;
    int        next_error;
} failing;

static size_t          max_bytes = SIZE_MAX;
static uint64_t        skipped_ns;
static struct timespec stopped_at;
static bool            is_stopped;

void net_call_fail(net_call_t call, unsigned n, int error)
{
    memset(&failing, 0, sizeof(failing));
    failing.call  = call;
    failing.first = n;
    failing.error = error;
}

void net_call_fail_from(net_call_t call, unsigned n, int error)
{
    net_call_fail(call, n, error);
    failing.is_lasting = true;
}

void net_call_then(net_call_t call, int error)
{
    failing.has_next   = true;
    failing.next       = call;
    failing.next_error = error;
}

bool net_call_has_failed(void)
{
    return failing.has_failed;
}

bool net_call_reset(void)
{
    bool has_failed = failing.has_failed;

    memset(&failing, 0, sizeof(failing));
    return has_failed;
}

void net_call_limit(unsigned num_bytes)
{
    max_bytes = num_bytes > 0 ? num_bytes : SIZE_MAX;
}

void net_call_skip(uint64_t ns)
{
    skipped_ns += ns;
}

unsigned net_call_num_fds(void)
{
    return fds_count();
}

static bool fails(net_call_t call)
{
    if ((failing.first == 0) || (failing.call != call)) {
        return false;
    }
    failing.num_calls++;
    if ((failing.num_calls < failing.first) ||
        ((failing.num_calls > failing.first) && !failing.is_lasting)) {
        return false;
    }
    errno = failing.error;
    if (failing.has_next) {
        net_call_fail(failing.next, 1, failing.next_error);
    } else {
        failing.has_failed = true;
    }
    return true;
}

static size_t limited(size_t length)
{
    return length < max_bytes ? length : max_bytes;
}

#define WRAP(...) REPLACE_FAILING(fails, __VA_ARGS__)

WRAP(NET_CALL_ACCEPT4, int, accept4, -1,
     (int fd, struct sockaddr *address, socklen_t *length, int flags),
     (fd, address, length, flags))
WRAP(NET_CALL_BIND, int, bind, -1,
     (int fd, const struct sockaddr *address, socklen_t length),
     (fd, address, length))
WRAP(NET_CALL_CALLOC, void *, calloc, NULL, (size_t num, size_t size),
     (num, size))
WRAP(NET_CALL_CONNECT, int, connect, -1,
     (int fd, const struct sockaddr *address, socklen_t length),
     (fd, address, length))
WRAP(NET_CALL_EPOLL_CREATE1, int, epoll_create1, -1, (int flags), (flags))
WRAP(NET_CALL_EPOLL_CTL, int, epoll_ctl, -1,
     (int epoll_fd, int operation, int fd, struct epoll_event *event),
     (epoll_fd, operation, fd, event))
WRAP(NET_CALL_FSTAT, int, fstat, -1, (int fd, struct stat *info), (fd, info))
WRAP(NET_CALL_GETADDRINFO, int, getaddrinfo, failing.error,
     (const char *host, const char *port, const struct addrinfo *hints,
      struct addrinfo **list_p),
     (host, port, hints, list_p))
WRAP(NET_CALL_GETSOCKNAME, int, getsockname, -1,
     (int fd, struct sockaddr *address, socklen_t *length),
     (fd, address, length))
WRAP(NET_CALL_GETSOCKOPT, int, getsockopt, -1,
     (int fd, int level, int name, void *value, socklen_t *length),
     (fd, level, name, value, length))
WRAP(NET_CALL_HMAC, unsigned char *, HMAC, NULL,
     (const EVP_MD *digest, const void *key, int key_length,
      const unsigned char *data, size_t length, unsigned char *mac,
      unsigned *mac_length),
     (digest, key, key_length, data, length, mac, mac_length))
WRAP(NET_CALL_LISTEN, int, listen, -1, (int fd, int backlog), (fd, backlog))
WRAP(NET_CALL_RAND_BYTES, int, RAND_bytes, 0,
     (unsigned char *bytes, int length), (bytes, length))
WRAP(NET_CALL_READ, ssize_t, read, -1, (int fd, void *bytes, size_t length),
     (fd, bytes, length))
WRAP(NET_CALL_RECV, ssize_t, recv, -1,
     (int fd, void *bytes, size_t length, int flags),
     (fd, bytes, limited(length), flags))
WRAP(NET_CALL_SEND, ssize_t, send, -1,
     (int fd, const void *bytes, size_t length, int flags),
     (fd, bytes, limited(length), flags))
WRAP(NET_CALL_RECVMSG, ssize_t, recvmsg, -1,
     (int fd, struct msghdr *message, int flags), (fd, message, flags))
WRAP(NET_CALL_SENDMSG, ssize_t, sendmsg, -1,
     (int fd, const struct msghdr *message, int flags), (fd, message, flags))
WRAP(NET_CALL_SOCKET, int, socket, -1, (int domain, int type, int protocol),
     (domain, type, protocol))

int __real_clock_gettime(clockid_t clock, struct timespec *now_p);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now_p);

static void start_clock(void)
{
    is_stopped = false;
}

void net_call_stop_clock(void)
{
    (void)__real_clock_gettime(CLOCK_MONOTONIC, &stopped_at);
    is_stopped = true;
    test_at_end(start_clock);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now_p)
{
    int result = __real_clock_gettime(clock, now_p);

    if ((result == 0) && (clock == CLOCK_MONOTONIC)) {
        if (is_stopped) {
            *now_p = stopped_at;
        }
        now_p->tv_sec += (time_t)(skipped_ns / 1000000000u);
        now_p->tv_nsec += (long)(skipped_ns % 1000000000u);
        if (now_p->tv_nsec >= 1000000000) {
            now_p->tv_nsec -= 1000000000;
            now_p->tv_sec++;
        }
    }
    return result;
}
