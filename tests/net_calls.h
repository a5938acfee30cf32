/*
 * Network calls that a test can make fail, and a clock that it can advance. The
 * linker's --wrap redirects the calls; WRAP_NET_CALLS in the Makefile lists
 * them.
 */
#ifndef TESTS_NET_CALLS_H
#define TESTS_NET_CALLS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum net_call {
    NET_CALL_ACCEPT4,
    NET_CALL_BIND,
    NET_CALL_CALLOC,
    NET_CALL_CONNECT,
    NET_CALL_EPOLL_CREATE1,
    NET_CALL_EPOLL_CTL,
    NET_CALL_FSTAT,
    NET_CALL_GETADDRINFO, /* fails with error as an EAI_ code */
    NET_CALL_GETSOCKNAME,
    NET_CALL_GETSOCKOPT,
    NET_CALL_HMAC,
    NET_CALL_LISTEN,
    NET_CALL_RAND_BYTES,
    NET_CALL_READ,
    NET_CALL_RECV,
    NET_CALL_RECVMSG,
    NET_CALL_SEND,
    NET_CALL_SENDMSG,
    NET_CALL_SOCKET,
    NET_CALL_LAST
} net_call_t;

/* Make the n-th call from now (from 1) fail with this errno, once. */
void net_call_fail(net_call_t call, unsigned n, int error);

/* Make the n-th call and every later call fail. */
void net_call_fail_from(net_call_t call, unsigned n, int error);

/* Make the next call of another kind fail, too, after the call of
 * net_call_fail() has failed. */
void net_call_then(net_call_t call, int error);

bool net_call_has_failed(void);

/* Stop making calls fail. Returns true if a call has failed. */
bool net_call_reset(void);

/* Limit one send() or recv() to this many bytes; 0: no limit. */
void net_call_limit(unsigned num_bytes);

/* Advance the monotonic clock. */
void net_call_skip(uint64_t ns);

/* Stop the monotonic clock until the end of the test, except for
 * net_call_skip(). For tests that look at a state before its deadline. */
void net_call_stop_clock(void);

/* Returns the number of open file descriptors of this process. */
unsigned net_call_num_fds(void);

#endif
