/*
 * Sharing: a peer's file, mapped here.
 */
#include <config.h>

#include "base/error.h"
#include "base/text.h"
#include "ipc/share.h"
#include "mem/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MEMFD_PREFIX "/memfd:"

/* Unit of st_blocks, whatever the file system's own. */
#define STAT_BLOCK_SIZE 512u

/* Pages have 2^12 to 2^40 bytes, on every machine there is. */
#define PAGE_SHIFT_MIN 12u
#define PAGE_SHIFT_MAX 40u

/* One attempt to map a peer's file. */
typedef struct attempt {
    const ipc_host_t *host;
    const ipc_file_t *file;
    int               given; /* in this process; -1: to be opened */
    char             *reason;
    size_t            reason_size;
} attempt_t;

static ucxpool_status_t refuse(const attempt_t *attempt,
                               ucxpool_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static ucxpool_status_t refuse(const attempt_t *attempt,
                               ucxpool_status_t status, const char *format, ...)
{
    char    text[BASE_ERROR_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* Names of files are a peer's choice. */
    base_text_clean(text);
    snprintf(attempt->reason, attempt->reason_size, "%s", text);
    return base_error(status,
                      "descriptor %" PRId32 " of process %" PRIu32
                      " is not mapped: %s",
                      attempt->file->fd, attempt->host->pid, text);
}

/* A file could not be found or opened: is there nobody any more? */
static ucxpool_status_t refuse_open(const attempt_t *attempt, int error)
{
    if (!ipc_host_is_alive(attempt->host)) {
        return refuse(attempt, UCXPOOL_ERR_PEER_LOST, "the process has ended");
    }
    return refuse(attempt, UCXPOOL_ERR_PERMISSION,
                  "it cannot be opened: %s (other user or name space, or the "
                  "process forbids it)",
                  strerror(error));
}

/* The numbers of a peer make sense. */
static ucxpool_status_t numbers_check(const attempt_t *attempt)
{
    const ipc_file_t *file  = attempt->file;
    uint32_t          shift = file->huge_page_shift;

    if ((attempt->host->pid == 0) || (attempt->host->pid > INT_MAX)) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL, "no process has this PID");
    }
    if (file->fd < 0) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "a descriptor is never negative");
    }
    if ((file->size == 0) || (file->size > PTRDIFF_MAX)) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "no file has %" PRIu64 " bytes to be mapped", file->size);
    }
    if (shift == 0) {
        return UCXPOOL_OK;
    }
    if ((shift < PAGE_SHIFT_MIN) || (shift > PAGE_SHIFT_MAX) ||
        (file->size % ((uint64_t)1 << shift) != 0)) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "%" PRIu64 " bytes are not made of pages of 2^%" PRIu32,
                      file->size, shift);
    }
    return UCXPOOL_OK;
}

/*
 * Name the file without opening it: a descriptor opened with O_PATH does not
 * reach the driver behind a FIFO or a device. Its link is read first, since
 * even that much can wait for ever on a network file system.
 */
static ucxpool_status_t file_find(const attempt_t *attempt, int *fd_p)
{
    char    path[64], name[64];
    ssize_t length;
    int     fd;

    if (attempt->given >= 0) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", attempt->given);
    } else {
        snprintf(path, sizeof(path), "/proc/%" PRIu32 "/fd/%" PRId32,
                 attempt->host->pid, attempt->file->fd);
    }
    length = readlink(path, name, sizeof(name) - 1);
    if (length < 0) {
        return refuse_open(attempt, errno);
    }
    name[length] = '\0';
    if (strncmp(name, MEMFD_PREFIX, strlen(MEMFD_PREFIX)) != 0) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "it is not a memory file, but %s", name);
    }
    fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        return refuse_open(attempt, errno);
    }
    *fd_p = fd;
    return UCXPOOL_OK;
}

/* What is behind the name is the file that was announced. */
static ucxpool_status_t file_check(const attempt_t *attempt, int fd)
{
    const ipc_file_t *file  = attempt->file;
    uint32_t          shift = file->huge_page_shift;
    struct statfs     system;
    struct stat       is;
    uint64_t          backed;

    if ((fstat(fd, &is) != 0) || (fstatfs(fd, &system) != 0)) {
        return refuse(attempt, UCXPOOL_ERR_PERMISSION, "it cannot be asked: %s",
                      strerror(errno));
    }
    if (!S_ISREG(is.st_mode) || ((uint64_t)is.st_dev != file->device) ||
        ((uint64_t)is.st_ino != file->inode)) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "it is another file than was announced");
    }
    if (is.st_uid != geteuid()) {
        return refuse(attempt, UCXPOOL_ERR_PERMISSION,
                      "it belongs to another user, %u", (unsigned)is.st_uid);
    }
    if ((shift == 0) != (system.f_type == TMPFS_MAGIC) ||
        (shift != 0) != (system.f_type == HUGETLBFS_MAGIC) ||
        ((shift != 0) && ((uint64_t)system.f_bsize != (uint64_t)1 << shift))) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "its pages are not those that were announced");
    }
    if ((uint64_t)is.st_size < file->size) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "it has %" PRIu64 " bytes, announced were %" PRIu64,
                      (uint64_t)is.st_size, file->size);
    }
    backed = (uint64_t)is.st_blocks * STAT_BLOCK_SIZE;
    if (backed < file->size) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "only %" PRIu64 " of its %" PRIu64
                      " bytes have memory behind them",
                      backed, file->size);
    }
    return UCXPOOL_OK;
}

/* Open for reading what has been checked, and nothing else. */
static ucxpool_status_t file_reopen(const attempt_t *attempt, int path_fd,
                                    int *fd_p)
{
    char path[64];
    int  fd, seals;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return refuse_open(attempt, errno);
    }
    seals = fcntl(fd, F_GET_SEALS);
    if ((seals < 0) || !(seals & F_SEAL_SHRINK)) {
        close(fd);
        return refuse(attempt, UCXPOOL_ERR_PERMISSION,
                      "it is not sealed against shrinking");
    }
    *fd_p = fd;
    return UCXPOOL_OK;
}

static ucxpool_status_t file_open(const attempt_t *attempt, int *fd_p)
{
    ucxpool_status_t status;
    int              path_fd = -1;
    int              fd      = -1;

    status = file_find(attempt, &path_fd);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = file_check(attempt, path_fd);
    if (status != UCXPOOL_OK) {
        goto err_close_path;
    }
    status = file_reopen(attempt, path_fd, &fd);
    if (status != UCXPOOL_OK) {
        goto err_close_path;
    }
    close(path_fd);
    /* The number may have changed hands while we looked. */
    if (!ipc_host_is_alive(attempt->host)) {
        close(fd);
        return refuse(attempt, UCXPOOL_ERR_PEER_LOST, "the process has ended");
    }
    *fd_p = fd;
    return UCXPOOL_OK;

err_close_path:
    close(path_fd);
    return status;
}

ucxpool_status_t ipc_map(const ipc_host_t *host, const ipc_file_t *file,
                         int given, const void **address_p, char *reason,
                         size_t reason_size)
{
    const attempt_t  attempt = {host, file, given, reason, reason_size};
    void            *address;
    ucxpool_status_t status;
    int              fd = -1;
    int              error;

    status = numbers_check(&attempt);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = file_open(&attempt, &fd);
    if (status != UCXPOOL_OK) {
        return status;
    }
    error =
        mem_memfd_map(fd, file->size, file->huge_page_shift, false, &address);
    close(fd);
    if (error != 0) {
        return refuse(
            &attempt,
            error == ENOMEM ? UCXPOOL_ERR_NO_MEMORY : UCXPOOL_ERR_PERMISSION,
            "mapping %" PRIu64 " bytes: %s", file->size, strerror(error));
    }
    *address_p = address;
    return UCXPOOL_OK;
}
