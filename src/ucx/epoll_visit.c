#include <config.h>

#include "ucx/epoll_visit.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* Epolls in epolls: the pool's, the worker's, a network's; and one to spare. */
#define MAX_DEPTH 4

#define PATH_SIZE 40
#define NAME_SIZE 40
#define ANONYMOUS "anon_inode:"

/* FOLDER/N, without the C library's stdio. */
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

/* What the system calls it: "socket:[12]", "anon_inode:[eventpoll]"; "" where
 * it is not open. */
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

/* The number behind a name in a line; false: there is none. */
static bool find_number(const char *line, const char *name, unsigned base,
                        unsigned long *number_p)
{
    const char   *at     = strstr(line, name);
    unsigned long number = 0;
    unsigned      digit;

    if (at == NULL) {
        return false;
    }
    at += strlen(name);
    at += strspn(at, " ");
    for (;; at++) {
        if ((*at >= '0') && (*at <= '9')) {
            digit = (unsigned)(*at - '0');
        } else if ((*at >= 'a') && (*at <= 'f')) {
            digit = 10 + (unsigned)(*at - 'a');
        } else {
            break;
        }
        number = number * base + digit;
    }
    *number_p = number;
    return true;
}

static void visit_at(int epoll_fd, ucx_epoll_visit_t *visit, void *arg,
                     int depth);

/* "tfd: 12 events: 19 data: 5 pos:0 ino:3c15 sdev:8". A number that is another
 * file's by now is passed over. */
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

bool ucx_epoll_is_kin(int fd)
{
    char name[NAME_SIZE];

    read_name(fd, name, sizeof(name));
    return is_socket(name) || is_epoll(name);
}
