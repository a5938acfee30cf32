/*
 * Keeps descriptors of a pool out of child processes. A connection ends when
 * the last copy of its descriptor is closed. So a forked child that keeps
 * running would hide from peers that its parent has ended.
 *
 * All descriptors of a pool are reachable from its epoll, even UCX's:
 *
 *     epoll_fd -> timer, event, listeners -> ..., sockets
 *              -> UCX's worker -> its interfaces -> their connections
 *
 * The system lists the descriptors of an epoll (/proc/self/fdinfo), including
 * those that UCX opens and closes itself. A forked child replaces them by
 * /dev/null; it never calls shutdown(), which would end the parent's
 * connection. A spawned or executed program does not get them, because they are
 * close-on-exec. UCX's listening sockets are in its own thread's epoll: they
 * are found by comparing the open descriptors before and after, and stay open
 * in a forked child.
 */
#ifndef UCX_CHILD_H
#define UCX_CHILD_H

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ucx_child {
    base_list_t link;
    int         epoll_fd;
    bool        is_foreign; /* this process is a child of the pool's process */
    bool        is_due;     /* connections were made since the last scan */
    uint64_t    next_scan;
} ucx_child_t;

/* From now on, a forked child replaces the descriptors that are reachable from
 * child->epoll_fd. */
void ucx_child_add(ucx_child_t *child);
void ucx_child_remove(ucx_child_t *child);

/* Set close-on-exec for the descriptors that the epoll has now. */
void ucx_child_close_on_exec(const ucx_child_t *child);

/*
 * The same after a connection was made. A scan reads all descriptors of the
 * pool: with a thousand connections, a scan for each would take most of the
 * processor's time. After each scan there is a pause of eight times its length.
 * A connection that is made in the pause waits for ucx_child_progress(), which
 * is due at ucx_child_deadline().
 */
void     ucx_child_connected(ucx_child_t *child);
void     ucx_child_progress(ucx_child_t *child);
uint64_t ucx_child_deadline(const ucx_child_t *child);

/*
 * In a process that was forked while its parent had a pool: warn once that UCX
 * may not connect, because UCX does not restart its thread in a child.
 */
void ucx_child_warn(void);

/* Set close-on-exec for sockets and epolls that any thread opens between these
 * two calls. Each first call needs a second one. */
typedef struct ucx_child_before {
    unsigned char *is_open; /* one bit per descriptor, up to the last open
                             * one */
    size_t size;            /* of is_open, in bytes */
    bool   is_unknown;      /* then no descriptor counts as new */
} ucx_child_before_t;

void ucx_child_look_before(ucx_child_before_t *before);
void ucx_child_look_after(ucx_child_before_t *before);

/* Called for each descriptor. */
typedef void ucx_epoll_visit_t(int fd, void *arg);

/* Visit each descriptor in an epoll, those in nested epolls first. If epoll_fd
 * is not an epoll, there are none. Safe in a signal handler, and so in a forked
 * child, if `visit` is. */
void ucx_epoll_visit(int epoll_fd, ucx_epoll_visit_t *visit, void *arg);

#endif
