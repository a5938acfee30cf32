#include <config.h>

#include "ucx/child.h"

#include "base/lock.h"
#include "ucx/epoll_visit.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static base_lock_t    lock;
static base_list_t    children = {&children, &children};
static pthread_once_t once     = PTHREAD_ONCE_INIT;

/* --- fork -------------------------------------------------------------------
 */

static void replace(int fd, void *arg)
{
    int null_fd = *(const int *)arg;

    if (null_fd < 0) {
        close(fd);
    } else {
        (void)dup3(null_fd, fd, O_CLOEXEC);
    }
}

static void before_fork(void)
{
    base_lock_take(&lock);
}

static void after_fork(void)
{
    base_lock_give(&lock);
}

static void in_child(void)
{
    int          null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    ucx_child_t *child;

    base_list_for_each(child, &children, ucx_child_t, link) {
        if (!child->is_foreign) {
            child->is_foreign = true;
            ucx_epoll_visit(child->epoll_fd, replace, &null_fd);
            replace(child->epoll_fd, &null_fd);
        }
    }
    if (null_fd >= 0) {
        close(null_fd);
    }
    after_fork();
}

static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork, in_child);
}

void ucx_child_add(ucx_child_t *child)
{
    pthread_once(&once, watch_forks);
    base_lock_take(&lock);
    base_list_add_tail(&children, &child->link);
    base_lock_give(&lock);
}

void ucx_child_remove(ucx_child_t *child)
{
    base_lock_take(&lock);
    base_list_del(&child->link);
    base_lock_give(&lock);
}

/* --- exec -------------------------------------------------------------------
 */

static void close_on_exec(int fd, void *arg)
{
    int flags = fcntl(fd, F_GETFD);

    (void)arg;
    if ((flags >= 0) && !(flags & FD_CLOEXEC)) {
        (void)fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
    }
}

void ucx_child_close_on_exec(const ucx_child_t *child)
{
    ucx_epoll_visit(child->epoll_fd, close_on_exec, NULL);
}

#define NUM_LOOKED_AT ((int)(8 * sizeof(((ucx_child_before_t *)0)->is_open)))

void ucx_child_look_before(ucx_child_before_t *before)
{
    memset(before, 0, sizeof(*before));
    for (int fd = 0; fd < NUM_LOOKED_AT; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            before->is_open[fd / 8] |= (unsigned char)(1u << (fd % 8));
        }
    }
}

void ucx_child_look_after(const ucx_child_before_t *before)
{
    for (int fd = 0; fd < NUM_LOOKED_AT; fd++) {
        if (!(before->is_open[fd / 8] & (1u << (fd % 8))) &&
            ucx_epoll_is_kin(fd)) {
            close_on_exec(fd, NULL);
        }
    }
}
