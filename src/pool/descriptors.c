#include <config.h>

#include "pool/descriptors.h"

#include "base/error.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static ucxpool_status_t watch(ucxpool_t *pool, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

    if (epoll_ctl(pool->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        return base_error_errno(errno, "a descriptor cannot be watched");
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t say_not_made(const char *what)
{
    return base_error_errno(errno,
                            "the pool could not make its %s (where too many "
                            "files are open, raise their limit: ulimit -n)",
                            what);
}

void pool_descriptors_cleanup(ucxpool_t *pool)
{
    ucx_tcp_watch_cleanup(&pool->tcp_watch);
    ucx_child_remove(&pool->child);
    close(pool->wake_fd);
    close(pool->timer_fd);
    close(pool->epoll_fd);
}

ucxpool_status_t pool_descriptors_init(ucxpool_t *pool)
{
    ucxpool_status_t status = UCXPOOL_OK;

    pool->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (pool->epoll_fd < 0) {
        return say_not_made("epoll");
    }
    pool->timer_fd =
        timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (pool->timer_fd < 0) {
        status = say_not_made("timer");
        goto err_close_epoll;
    }
    pool->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pool->wake_fd < 0) {
        status = say_not_made("eventfd");
        goto err_close_timer;
    }
    pool->worker_fd = -1;
    if ((ucp_worker_get_efd(pool->ucx.worker, &pool->worker_fd) != UCS_OK) ||
        (pool->worker_fd < 0)) {
        /* UCX 1.22 says OK, and gives none. */
        pool->worker_fd = -1;
    } else {
        status = watch(pool, pool->worker_fd);
    }
    if (status == UCXPOOL_OK) {
        status = watch(pool, pool->timer_fd);
    }
    if (status == UCXPOOL_OK) {
        status = watch(pool, pool->wake_fd);
    }
    if (status == UCXPOOL_OK) {
        ucx_tcp_watch_init(&pool->tcp_watch, pool->name, pool->worker_fd,
                           pool->config.peer_timeout_ns);
        pool->child.epoll_fd = pool->epoll_fd;
        ucx_child_add(&pool->child);
        ucx_child_close_on_exec(&pool->child);
        return UCXPOOL_OK;
    }
    close(pool->wake_fd);
err_close_timer:
    close(pool->timer_fd);
err_close_epoll:
    close(pool->epoll_fd);
    return status;
}
