/*
 * What hangs from an epoll, of UCX's too, whose descriptors come and go unseen:
 * the system tells (/proc/self/fdinfo).
 */
#ifndef UCX_EPOLL_VISIT_H
#define UCX_EPOLL_VISIT_H

#include <stdbool.h>

/* What is done to a descriptor. */
typedef void ucx_epoll_visit_t(int fd, void *arg);

/* Each descriptor in an epoll, those in epolls within first. Of another
 * descriptor than an epoll there are none. As safe in a signal handler, and so
 * in a forked child, as `visit` is. */
void ucx_epoll_visit(int epoll_fd, ucx_epoll_visit_t *visit, void *arg);

/* Is it a socket or an epoll? */
bool ucx_epoll_is_kin(int fd);

#endif
