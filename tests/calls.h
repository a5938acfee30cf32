/*
 * System calls that a test can make fail. The linker's --wrap redirects the
 * real calls to the functions here. A program lists the calls that it uses in
 * its LDFLAGS.
 */
#ifndef TESTS_CALLS_H
#define TESTS_CALLS_H

#include "fds.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum calls_name {
    CALLS_CALLOC,
    CALLS_MEMFD_CREATE,
    CALLS_FTRUNCATE,
    CALLS_FALLOCATE,
    CALLS_MMAP,
    CALLS_MREMAP,
    CALLS_MADVISE,
    CALLS_FCNTL,
    CALLS_OPEN,
    CALLS_FOPEN,
    CALLS_READLINK,
    CALLS_FSTAT,
    CALLS_FSTATFS,
    CALLS_SYSCALL,
    /* in pool_calls.c */
    CALLS_MALLOC,
    CALLS_ALIGNED_ALLOC,
    CALLS_EPOLL_CREATE1,
    CALLS_EPOLL_CTL,
    CALLS_TIMERFD_CREATE,
    CALLS_EVENTFD,
    CALLS_RAND_BYTES,
    CALLS_MUTEX_INIT,
    CALLS_COND_INIT,
    CALLS_UCP_CONFIG_READ,
    CALLS_UCP_INIT,
    CALLS_UCP_WORKER_CREATE,
    CALLS_UCP_MEM_MAP,
    CALLS_UCP_SET_HANDLER,
    CALLS_UCP_GET_ADDRESS,
    CALLS_UCP_EP_CREATE,
    CALLS_UCP_AM_SEND,
    CALLS_UCP_AM_RECV,
    CALLS_PROCESS_READ,
    CALLS_PROCESS_WRITE,
    /* in test_call_faults.c */
    CALLS_REALLOC,
    CALLS_SOCKET,
    CALLS_ACCEPT,
    CALLS_CONNECT,
    CALLS_SEND,
    CALLS_RECV,
    CALLS_SENDMSG,
    CALLS_RECVMSG,
    CALLS_PREAD,
    CALLS_PREADV,
    CALLS_UCP_ARM,
    CALLS_LAST
} calls_name_t;

/* Restart the count, and make the n-th call (from 1) fail once with this errno.
 * If n is 0, no call fails. */
void calls_fail(calls_name_t name, unsigned n, int error);

/* Make every call from the n-th on fail. */
void calls_fail_from(calls_name_t name, unsigned n, int error);

/* Stop making calls fail. */
void calls_reset(void);

/* The number of calls since calls_fail() or calls_reset(). */
unsigned calls_count(calls_name_t name);

/* Returns true if a call has failed because of calls_fail(). */
bool calls_has_failed(void);

/* For code that wraps further calls: returns true, and sets errno, if this call
 * must fail. */
bool calls_is_due(calls_name_t name);

/* Call the hook once, after the next readlink() that succeeds. */
void calls_after_readlink(void (*hook)(void));

/* Returns the size of the address space that belongs to memory files or that
 * the code under test has reserved. */
size_t calls_mapped_size(void);

#endif
