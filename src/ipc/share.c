/*
 * Sharing: this process's files, announced and made.
 */
#include <config.h>

#include "ipc/share.h"

#include "base/error.h"
#include "mem/memfd.h"
#include "mem/range.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

_Static_assert(sizeof(ipc_file_t) == 32, "goes over the wire as is");

ucxpool_status_t ipc_file_fill(int fd, ipc_file_t *file)
{
    struct statfs system;
    struct stat   is;

    if ((fstat(fd, &is) != 0) || (fstatfs(fd, &system) != 0)) {
        return base_error(UCXPOOL_ERR_IO, "asking memory file %d: %s", fd,
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

ucxpool_status_t ipc_create(const char *name, size_t size, int *fd_p,
                            void **address_p)
{
    char  full_name[64];
    void *address;
    int   fd, error;

    if (size == 0) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "memory file %s must have a size", name);
    }
    snprintf(full_name, sizeof(full_name), "ucxpool:%d:%s", (int)getpid(),
             name);
    error = mem_memfd_create(full_name, size, 0, &fd);
    if (error != 0) {
        goto err_none;
    }
    error = mem_memfd_fill(fd, 0, size, 0);
    if (error != 0) {
        goto err_close;
    }
    error = mem_memfd_map(fd, size, 0, true, &address);
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
err_none:
    return base_error_errno(error == ENOSPC ? ENOMEM : error,
                            "making a memory file of %zu bytes for %s", size,
                            name);
}
