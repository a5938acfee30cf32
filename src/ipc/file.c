#include <config.h>

#include "ipc/file.h"

#include "base/error.h"
#include "base/math.h"
#include "base/text.h"
#include "mem/memfd.h"
#include "mem/system.h"

#include <assert.h>
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

/* --- files of this process ------------------------------------------------ */

_Static_assert(sizeof(ipc_file_t) == 32, "is sent over the wire as is");

ucxpool_status_t ipc_file_fill(int fd, ipc_file_t *file)
{
    struct statfs system;
    struct stat   is;

    if ((fstat(fd, &is) != 0) || (fstatfs(fd, &system) != 0)) {
        return base_error(UCXPOOL_ERR_IO, "cannot stat memory file %d: %s", fd,
                          strerror(errno));
    }
    memset(file, 0, sizeof(*file));
    file->device = (uint64_t)is.st_dev;
    file->inode  = (uint64_t)is.st_ino;
    file->size   = (uint64_t)is.st_size;
    file->fd     = fd;
    if (system.f_type == HUGETLBFS_MAGIC) {
        file->huge_page_shift =
            (uint32_t)__builtin_ctzl((unsigned long)system.f_bsize);
    }
    return UCXPOOL_OK;
}

void ipc_unmap(const void *address, size_t size)
{
    mem_range_release((void *)(uintptr_t)address, size);
}

static ucxpool_status_t create_error(int error, const char *name, size_t size)
{
    return base_error_errno(error == ENOSPC ? ENOMEM : error,
                            "cannot create a memory file of %zu bytes for %s",
                            size, name);
}

ucxpool_status_t ipc_create(const char *name, size_t size, int *fd_p,
                            void **address_p)
{
    char  full_name[64];
    void *address;
    int   fd, error;

    assert(size != 0);
    snprintf(full_name, sizeof(full_name), "ucxpool:%d:%s", (int)getpid(),
             name);
    error = mem_memfd_create(full_name, size, 0, &fd);
    if (error != 0) {
        return create_error(error, name, size);
    }
    error = mem_memfd_fill(fd, 0, size, 0);
    if (error != 0) {
        goto err_close;
    }
    error = mem_memfd_map(fd, 0, size, 0, true, &address);
    if (error != 0) {
        goto err_close;
    }
    error = mem_memfd_seal(fd, true);
    if (error != 0) {
        goto err_unmap;
    }
    *fd_p      = fd;
    *address_p = address;
    return UCXPOOL_OK;

err_unmap:
    ipc_unmap(address, size);
err_close:
    close(fd);
    return create_error(error, name, size);
}

/* --- mapping a peer's file ------------------------------------------------ */

#define MEMFD_PREFIX "/memfd:"

/* Unit of st_blocks, for every file system. */
#define STAT_BLOCK_SIZE 512u

/* Page sizes are 2^12 to 2^40 bytes on every architecture. */
#define PAGE_SHIFT_MIN 12u
#define PAGE_SHIFT_MAX 40u

/* An attempt to map a peer's file. */
typedef struct attempt {
    const ipc_host_t *host;
    const ipc_file_t *file;
    int               given; /* descriptor in this process; -1: open it */
    const ipc_part_t *part;  /* NULL: the whole file */
    char             *reason;
    size_t            reason_size;
} attempt_t;

/* Since kernel 5.1; the C library's headers may be older. */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static bool is_written(const attempt_t *attempt)
{
    return (attempt->part != NULL) && attempt->part->is_writable;
}

/* Returns the number of bytes that must be backed by memory. */
static uint64_t needed_size(const attempt_t *attempt)
{
    return (attempt->part != NULL) ? attempt->part->length
                                   : attempt->file->size;
}

static ucxpool_status_t __attribute__((format(printf, 3, 4)))
refuse(const attempt_t *attempt, ucxpool_status_t status, const char *format,
       ...)
{
    char    text[BASE_ERROR_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* Clean the text, because a peer chooses the names of its files. */
    base_text_clean(text);
    snprintf(attempt->reason, attempt->reason_size, "%s", text);
    return base_error(status,
                      "descriptor %" PRId32 " of process %" PRIu32
                      " is not mapped: %s",
                      attempt->file->fd, attempt->host->pid, text);
}

static ucxpool_status_t refuse_ended(const attempt_t *attempt)
{
    return refuse(attempt, UCXPOOL_ERR_PEER_LOST, "the process has ended");
}

/* Fail the attempt because the owner's process was not found. */
static ucxpool_status_t refuse_unseen(const attempt_t *attempt)
{
    if (ipc_host_is_reaped(attempt->host)) {
        return refuse_ended(attempt);
    }
    return refuse(attempt, UCXPOOL_ERR_PERMISSION,
                  "/proc does not show whether its process still runs");
}

/* Fail the attempt because the file was not found or could not be opened. The
 * reason may be that the process has ended. */
static ucxpool_status_t refuse_open(const attempt_t *attempt, int error)
{
    if (ipc_host_is_reaped(attempt->host)) {
        return refuse_ended(attempt);
    }
    return refuse(
        attempt, UCXPOOL_ERR_PERMISSION,
        "the file cannot be opened: %s (its process belongs to another "
        "user or namespace, or is not dumpable)",
        strerror(error));
}

/* Validate the numbers that the peer announced. */
static ucxpool_status_t numbers_check(const attempt_t *attempt)
{
    const ipc_file_t *file  = attempt->file;
    uint32_t          shift = file->huge_page_shift;

    if ((attempt->host->pid == 0) || (attempt->host->pid > INT_MAX)) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL, "the PID is invalid");
    }
    if (file->fd < 0) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "the descriptor is negative");
    }
    if ((file->size == 0) || (file->size > PTRDIFF_MAX)) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "a file of %" PRIu64 " bytes cannot be mapped",
                      file->size);
    }
    if ((attempt->part != NULL) &&
        ((attempt->part->length == 0) || (attempt->part->length > file->size) ||
         (attempt->part->offset > file->size - attempt->part->length))) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "%" PRIu64 " bytes at offset %" PRIu64
                      " exceed the file of %" PRIu64 " bytes",
                      attempt->part->length, attempt->part->offset, file->size);
    }
    if (shift == 0) {
        return UCXPOOL_OK;
    }
    if ((shift < PAGE_SHIFT_MIN) || (shift > PAGE_SHIFT_MAX) ||
        (file->size % ((uint64_t)1 << shift) != 0)) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "%" PRIu64
                      " bytes are not a multiple of the page size 2^%" PRIu32,
                      file->size, shift);
    }
    return UCXPOOL_OK;
}

/*
 * Look up the file without opening it: a descriptor with O_PATH does not call
 * the driver of a FIFO or a device. The link is read first, because even
 * open(O_PATH) can block forever on a network file system.
 */
static ucxpool_status_t file_find(const attempt_t *attempt, int *fd_p)
{
    char    path[64], name[64];
    ssize_t length;
    int     fd;

    if ((attempt->given < 0) && !ipc_host_is_visible(attempt->host)) {
        return refuse(attempt, UCXPOOL_ERR_PERMISSION, "other PID namespace");
    }
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
                      "the file is not a memory file, but %s", name);
    }
    fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        return refuse_open(attempt, errno);
    }
    *fd_p = fd;
    return UCXPOOL_OK;
}

/* Check that the file is the one that the peer announced. */
static ucxpool_status_t file_check(const attempt_t *attempt, int fd)
{
    const ipc_file_t *file  = attempt->file;
    uint32_t          shift = file->huge_page_shift;
    struct statfs     system;
    struct stat       is;
    uint64_t          backed;

    if ((fstat(fd, &is) != 0) || (fstatfs(fd, &system) != 0)) {
        return refuse(attempt, UCXPOOL_ERR_PERMISSION,
                      "the file's attributes cannot be read: %s",
                      strerror(errno));
    }
    if (!S_ISREG(is.st_mode) || ((uint64_t)is.st_dev != file->device) ||
        ((uint64_t)is.st_ino != file->inode)) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "the file is not the one announced");
    }
    if (!ipc_user_is_ours((uint32_t)is.st_uid)) {
        return refuse(attempt, UCXPOOL_ERR_PERMISSION,
                      "the file belongs to another user, %u",
                      (unsigned)is.st_uid);
    }
    if ((shift == 0) != (system.f_type == TMPFS_MAGIC) ||
        (shift != 0) != (system.f_type == HUGETLBFS_MAGIC) ||
        ((shift != 0) && ((uint64_t)system.f_bsize != (uint64_t)1 << shift))) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "the file does not have the announced page size");
    }
    if ((uint64_t)is.st_size < file->size) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "the file has %" PRIu64
                      " bytes, but the owner announced %" PRIu64,
                      (uint64_t)is.st_size, file->size);
    }
    backed = (uint64_t)is.st_blocks * STAT_BLOCK_SIZE;
    if (backed < needed_size(attempt)) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "only %" PRIu64 " of its %" PRIu64
                      " bytes are backed by memory",
                      backed, needed_size(attempt));
    }
    return UCXPOOL_OK;
}

/* Open exactly the file that was checked. */
static ucxpool_status_t file_reopen(const attempt_t *attempt, int path_fd,
                                    int *fd_p)
{
    char path[64];
    int  fd, seals;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
    fd = open(path, (is_written(attempt) ? O_RDWR : O_RDONLY) | O_CLOEXEC |
                        O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return refuse_open(attempt, errno);
    }
    seals = fcntl(fd, F_GET_SEALS);
    if ((seals < 0) || !(seals & F_SEAL_SHRINK)) {
        close(fd);
        return refuse(attempt, UCXPOOL_ERR_PERMISSION,
                      "the file is not sealed against shrinking");
    }
    if (is_written(attempt) && (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))) {
        close(fd);
        return refuse(attempt, UCXPOOL_ERR_PERMISSION,
                      "the file is sealed against writing");
    }
    *fd_p = fd;
    return UCXPOOL_OK;
}

static ucxpool_status_t file_open(const attempt_t *attempt, int *fd_p)
{
    int              path_fd = -1;
    int              fd      = -1;
    ucxpool_status_t status  = file_find(attempt, &path_fd);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = file_check(attempt, path_fd);
    if (status == UCXPOOL_OK) {
        status = file_reopen(attempt, path_fd, &fd);
    }
    close(path_fd);
    if (status != UCXPOOL_OK) {
        return status;
    }
    /* The PID may have been reused during the checks. */
    if ((attempt->given < 0) && !ipc_host_is_alive(attempt->host)) {
        close(fd);
        return refuse_unseen(attempt);
    }
    *fd_p = fd;
    return UCXPOOL_OK;
}

static ucxpool_status_t file_map(const attempt_t *attempt, uint64_t start,
                                 uint64_t size, void **address_p)
{
    int              fd = -1;
    int              error;
    ucxpool_status_t status = file_open(attempt, &fd);

    if (status != UCXPOOL_OK) {
        return status;
    }
    error = mem_memfd_map(fd, start, size, attempt->file->huge_page_shift,
                          is_written(attempt), address_p);
    close(fd);
    if (error != 0) {
        return refuse(attempt,
                      error == ENOMEM ? UCXPOOL_ERR_NO_MEMORY
                                      : UCXPOOL_ERR_PERMISSION,
                      "mapping %" PRIu64 " bytes: %s", size, strerror(error));
    }
    return UCXPOOL_OK;
}

ucxpool_status_t ipc_map(const ipc_host_t *host, const ipc_file_t *file,
                         int given, const void **address_p, char *reason,
                         size_t reason_size)
{
    const attempt_t  attempt = {host, file, given, NULL, reason, reason_size};
    void            *address;
    ucxpool_status_t status = numbers_check(&attempt);

    if (status == UCXPOOL_OK) {
        status = file_map(&attempt, 0, file->size, &address);
    }
    if (status == UCXPOOL_OK) {
        *address_p = address;
    }
    return status;
}

static uint64_t page_size(const ipc_file_t *file)
{
    return (file->huge_page_shift != 0) ? (uint64_t)1 << file->huge_page_shift
                                        : (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Returns the start of the first page of the part. The start is aligned to a
 * large page if the part is at least as long as a large page. */
static uint64_t part_start(const ipc_file_t *file, const ipc_part_t *part)
{
    uint64_t page  = page_size(file);
    uint64_t large = mem_system_transparent_size();

    if (part->length >= large) {
        page = base_max(page, large);
    }
    return part->offset & ~(page - 1);
}

ucxpool_status_t ipc_view_map(const ipc_host_t *host, const ipc_file_t *file,
                              int given, const ipc_part_t *part,
                              ipc_view_t *view_p, char *reason,
                              size_t reason_size)
{
    const attempt_t  attempt = {host, file, given, part, reason, reason_size};
    ucxpool_status_t status  = numbers_check(&attempt);
    uint64_t         start;
    uint64_t         size;
    void            *address;

    if (status != UCXPOOL_OK) {
        return status;
    }
    start = part_start(file, part);
    size  = base_align_up(part->offset + part->length - start, page_size(file));
    status = file_map(&attempt, start, size, &address);
    if (status == UCXPOOL_OK) {
        *view_p = (ipc_view_t){
            .address = (char *)address + (part->offset - start),
            .start   = address,
            .size    = size,
        };
    }
    return status;
}

void ipc_view_unmap(ipc_view_t *view)
{
    if (view->size != 0) {
        mem_range_release(view->start, view->size);
        view->size = 0;
    }
}
