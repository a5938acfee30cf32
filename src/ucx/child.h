/*
 * What a child process must not keep of its parent's pools. A connection ends
 * when the last copy of its descriptor is closed: a forked child that lives on
 * would hide its parent's end from peers.
 *
 * All descriptors of a pool hang from its epoll, UCX's among them:
 *
 *     epoll_fd -> timer, event, listeners -> ..., sockets
 *              -> UCX's worker -> its networks -> their connections
 *
 * and the system tells which an epoll has (/proc/self/fdinfo), UCX's too, which
 * come and go unseen. A child that is forked puts /dev/null in their place
 * (never shutdown(), which would end the parent's connection); one that is
 * spawned, or executes a program, does not get them, as they are closed on
 * exec. UCX's listening sockets hang from its own thread's epoll: they are
 * found by a comparison of before and after, and stay in a forked child.
 */
#ifndef UCX_CHILD_H
#define UCX_CHILD_H

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct ucx_child {
    base_list_t link;
    int         epoll_fd;
    bool        is_foreign; /* this process is a child of the pool's own */
} ucx_child_t;

/* From now on a child loses what hangs from child->epoll_fd. */
void ucx_child_add(ucx_child_t *child);
void ucx_child_remove(ucx_child_t *child);

/* Close on exec what hangs from the epoll now. */
void ucx_child_close_on_exec(const ucx_child_t *child);

/*
 * In a process that was forked while its parent had a pool: log once that UCX
 * may not connect there. UCX does not start its thread again in a child.
 */
void ucx_child_warn(void);

/* Sockets and epolls that are opened between these two calls, by this thread
 * or another, are closed on exec. The second belongs to each first. */
typedef struct ucx_child_before {
    unsigned char *is_open; /* bits, of the descriptors up to the last open */
    size_t         size;    /* of is_open, in bytes */
    bool           is_unknown; /* then none counts as new */
} ucx_child_before_t;

void ucx_child_look_before(ucx_child_before_t *before);
void ucx_child_look_after(ucx_child_before_t *before);

/* What is done to a descriptor. */
typedef void ucx_epoll_visit_t(int fd, void *arg);

/* Each descriptor in an epoll, those in epolls within first. Of another
 * descriptor than an epoll there are none. As safe in a signal handler, and so
 * in a forked child, as `visit` is. */
void ucx_epoll_visit(int epoll_fd, ucx_epoll_visit_t *visit, void *arg);

#endif
