/*
 * Keeps descriptors of a pool out of child processes. A connection ends when
 * the last copy of its descriptor is closed. If a forked child kept copies,
 * peers would not notice that its parent has ended.
 *
 * Except for UCX's listening sockets, all descriptors of a pool are reachable
 * from its epoll, including those of UCX:
 *
 *     epoll_fd -> timer, event, listeners -> ..., sockets
 *              -> UCX's worker -> its interfaces -> their connections
 *
 * The system lists the descriptors of an epoll (/proc/self/fdinfo), including
 * those that UCX opens and closes itself. A forked child replaces these
 * descriptors by /dev/null. It never calls shutdown(), which would end the
 * parent's connection. A spawned or executed program does not inherit them,
 * because they are close-on-exec. UCX's listening sockets are in the epoll of
 * UCX's own thread. The library finds them by comparing the open descriptors
 * before and after UCX creates them. They stay open in a forked child.
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

/* Make forked children replace the descriptors that are reachable from
 * child->epoll_fd, until ucx_child_remove(). */
void ucx_child_add(ucx_child_t *child);
void ucx_child_remove(ucx_child_t *child);

/* Set close-on-exec for the descriptors that the epoll has now. */
void ucx_child_close_on_exec(const ucx_child_t *child);

/*
 * Set close-on-exec again after a connection was made. A scan reads all
 * descriptors of the pool. With a thousand connections, one scan per connection
 * would take most of the processor's time. After each scan, no scan starts for
 * eight times as long as the scan took. ucx_child_progress(), which is due at
 * ucx_child_deadline(), handles the connections made during this pause.
 */
void     ucx_child_connected(ucx_child_t *child);
void     ucx_child_progress(ucx_child_t *child);
uint64_t ucx_child_deadline(const ucx_child_t *child);

/*
 * If this process was forked while its parent had a pool, warn once that UCX
 * may not connect, because UCX does not restart its thread in a child.
 */
void ucx_child_warn(void);

/* Set close-on-exec for sockets and epolls that any thread opens between the
 * two calls below. Each call of ucx_child_cloexec_begin() needs a call of
 * ucx_child_cloexec_end(). */
typedef struct ucx_child_before {
    unsigned char *is_open; /* one bit per descriptor, up to the last open
                             * one */
    size_t size;            /* of is_open, in bytes */
    bool   is_unknown;      /* then no descriptor counts as new */
} ucx_child_before_t;

void ucx_child_cloexec_begin(ucx_child_before_t *before);
void ucx_child_cloexec_end(ucx_child_before_t *before);

/* The function that ucx_epoll_visit() calls for each descriptor. */
typedef void ucx_epoll_visit_t(int fd, void *arg);

/* Visit each descriptor in an epoll, those in nested epolls first. Visits none
 * if epoll_fd is not an epoll. The call is safe in a signal handler, and
 * therefore in a forked child, if `visit` is safe there. */
void ucx_epoll_visit(int epoll_fd, ucx_epoll_visit_t *visit, void *arg);

#endif
