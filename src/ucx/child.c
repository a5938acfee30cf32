#include <config.h>

#include "ucx/context.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the descriptors in an epoll ------------------------------------------ */

/* Maximum nesting of epolls: the pool's, the worker's, an interface's, and one
 * more to be safe. */
#define MAX_DEPTH 4

#define PATH_SIZE 40
#define NAME_SIZE 40
#define ANONYMOUS "anon_inode:"

/* Format the path "FOLDER/FD" without stdio, which a forked child may not
 * use. */
static void make_path(char *path, const char *folder, int fd)
{
    char digits[12];
    int  num = 0;

    while (*folder != '\0') {
        *path++ = *folder++;
    }
    do {
        digits[num++] = (char)('0' + fd % 10);
        fd /= 10;
    } while (fd != 0);
    while (num > 0) {
        *path++ = digits[--num];
    }
    *path = '\0';
}

/* Read the name in /proc/self/fd, such as "socket:[12]" or
 * "anon_inode:[eventpoll]". The name is "" if the descriptor is not open. */
static void read_name(int fd, char *name, size_t size)
{
    char    path[PATH_SIZE];
    ssize_t length;

    make_path(path, "/proc/self/fd/", fd);
    length                          = readlink(path, name, size - 1);
    name[(length > 0) ? length : 0] = '\0';
}

static bool is_epoll(const char *name)
{
    return strcmp(name, "anon_inode:[eventpoll]") == 0;
}

static bool is_socket(const char *name)
{
    return strncmp(name, "socket:[", strlen("socket:[")) == 0;
}

/* Parse the number that follows a name in a line. Returns false if the name is
 * missing. */
static bool find_number(const char *line, const char *name, int base,
                        unsigned long *number_p)
{
    const char *at = strstr(line, name);

    if (at == NULL) {
        return false;
    }
    *number_p = strtoul(at + strlen(name), NULL, base);
    return true;
}

static void visit_at(int epoll_fd, ucx_epoll_visit_t *visit, void *arg,
                     int depth);

/* Parse "tfd: 12 events: 19 data: 5 pos:0 ino:3c15 sdev:8" and visit the
 * descriptor. The number of the descriptor may have been reused since. The
 * descriptor is skipped if it is now another socket, or a file that is not
 * anonymous. Anonymous files share one inode and cannot be distinguished. */
static void visit_line(const char *line, ucx_epoll_visit_t *visit, void *arg,
                       int depth)
{
    unsigned long fd;
    unsigned long inode;
    unsigned long named;
    char          name[NAME_SIZE];

    if (!find_number(line, "tfd:", 10, &fd) || (fd > INT_MAX) ||
        !find_number(line, "ino:", 16, &inode)) {
        return;
    }
    read_name((int)fd, name, sizeof(name));
    if (is_epoll(name)) {
        visit_at((int)fd, visit, arg, depth + 1);
    } else if (is_socket(name)
                   ? !find_number(name, "[", 10, &named) || (named != inode)
                   : (strncmp(name, ANONYMOUS, strlen(ANONYMOUS)) != 0)) {
        return;
    }
    visit((int)fd, arg);
}

static void visit_at(int epoll_fd, ucx_epoll_visit_t *visit, void *arg,
                     int depth)
{
    char    path[PATH_SIZE];
    char    line[128];
    char    text[256];
    size_t  length = 0;
    ssize_t size;
    int     fd;

    if (depth >= MAX_DEPTH) {
        return;
    }
    make_path(path, "/proc/self/fdinfo/", epoll_fd);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    while ((size = read(fd, text, sizeof(text))) > 0) {
        for (ssize_t i = 0; i < size; i++) {
            if (text[i] != '\n') {
                line[length] = text[i];
                length += (length < sizeof(line) - 1);
                continue;
            }
            line[length] = '\0';
            length       = 0;
            visit_line(line, visit, arg, depth);
        }
    }
    close(fd);
}

void ucx_epoll_visit(int epoll_fd, ucx_epoll_visit_t *visit, void *arg)
{
    visit_at(epoll_fd, visit, arg, 0);
}

/* Returns true if the descriptor is a socket or an epoll. */
static bool epoll_is_kin(int fd)
{
    char name[NAME_SIZE];

    read_name(fd, name, sizeof(name));
    return is_socket(name) || is_epoll(name);
}

static base_lock_t    lock;
static base_list_t    children = {&children, &children};
static pthread_once_t once     = PTHREAD_ONCE_INIT;
static atomic_bool    keeps_worker; /* a worker and UCX's thread stay until this
                                       process ends */
static atomic_bool lacks_thread;    /* UCX's thread runs only in the parent
                                       process */

/* --- fork ----------------------------------------------------------------- */

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

    atomic_store(&lacks_thread,
                 !base_list_is_empty(&children) || atomic_load(&keeps_worker));
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

void ucx_child_warn(void)
{
    if (atomic_exchange(&lacks_thread, false)) {
        base_warn(
            "this process was forked while its parent had a pool, or a UCX "
            "worker that could not be destroyed: channels over ucx may never "
            "connect, because UCX does not restart its thread. Fork before "
            "creating the first pool, or start a new program (posix_spawn(); "
            "in Python, spawn or forkserver)");
    }
}

void ucx_child_keep_worker(void)
{
    atomic_store(&keeps_worker, true);
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

/* --- exec ----------------------------------------------------------------- */

static void close_on_exec(int fd, void *arg)
{
    int flags = fcntl(fd, F_GETFD);

    if ((flags >= 0) && !(flags & FD_CLOEXEC)) {
        (void)fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
    }
}

void ucx_child_close_on_exec(const ucx_child_t *child)
{
    ucx_epoll_visit(child->epoll_fd, close_on_exec, NULL);
}

/* The pause after a scan, as a multiple of the time that the scan took. */
#define PAUSE_FACTOR 8

void ucx_child_connected(ucx_child_t *child)
{
    child->is_due = true;
    ucx_child_progress(child);
}

void ucx_child_progress(ucx_child_t *child)
{
    uint64_t now;
    uint64_t end;

    if (!child->is_due) {
        return;
    }
    now = base_clock_now();
    if (now >= child->next_scan) {
        child->is_due = false;
        ucx_child_close_on_exec(child);
        end              = base_clock_now();
        child->next_scan = end + PAUSE_FACTOR * (end - now);
    }
}

uint64_t ucx_child_deadline(const ucx_child_t *child)
{
    return child->is_due ? child->next_scan : BASE_CLOCK_FOREVER;
}

/* Visit each descriptor of this process. Returns false if the descriptors
 * cannot be listed. */
static bool visit_open(ucx_epoll_visit_t *visit, void *arg)
{
    DIR           *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    int            fd;

    if (dir == NULL) {
        return false;
    }
    while ((entry = readdir(dir)) != NULL) {
        fd = atoi(entry->d_name);
        if ((entry->d_name[0] != '.') && (fd != dirfd(dir))) {
            visit(fd, arg);
        }
    }
    closedir(dir);
    return true;
}

/* Grow the bitmap, if necessary, so that it has a bit for fd. */
static bool grow(ucx_child_before_t *before, size_t fd)
{
    size_t         size = (fd / 8 + 1) * 2;
    unsigned char *is_open;

    if (fd / 8 < before->size) {
        return true;
    }
    is_open = realloc(before->is_open, size);
    if (is_open == NULL) {
        return false;
    }
    memset(is_open + before->size, 0, size - before->size);
    before->is_open = is_open;
    before->size    = size;
    return true;
}

static void mark_open(int fd, void *arg)
{
    ucx_child_before_t *before = arg;

    if (!grow(before, (size_t)fd)) {
        before->is_unknown = true;
        return;
    }
    before->is_open[fd / 8] |= (unsigned char)(1u << (fd % 8));
}

static bool was_open(const ucx_child_before_t *before, int fd)
{
    return ((size_t)fd / 8 < before->size) &&
           (before->is_open[fd / 8] & (1u << (fd % 8)));
}

static void close_new_on_exec(int fd, void *arg)
{
    if (!was_open(arg, fd) && epoll_is_kin(fd)) {
        close_on_exec(fd, NULL);
    }
}

void ucx_child_cloexec_begin(ucx_child_before_t *before)
{
    *before = (ucx_child_before_t){0};
    if (!visit_open(mark_open, before)) {
        before->is_unknown = true;
    }
}

void ucx_child_cloexec_end(ucx_child_before_t *before)
{
    if (!before->is_unknown) {
        (void)visit_open(close_new_on_exec, before);
    }
    free(before->is_open);
}
