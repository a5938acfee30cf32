/*
 * Host virtual memory, for a heap (mem/vmm.h).
 *
 * One memory file holds all chunks. A chunk is a part of the file, and its
 * number encodes its offset. Free parts of the file have no memory.
 *
 * Memory is allocated when a chunk is created, and page tables are filled when
 * the chunk is touched. Mapping a large chunk therefore takes no longer than
 * mapping a small one.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "mem/memfd.h"
#include "mem/system.h"
#include "mem/vmm.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct host_vmm {
    mem_vmm_t        vmm;
    int              fd;
    pthread_mutex_t  lock; /* guards `space` */
    mem_file_space_t space;
} host_vmm_t;

static host_vmm_t *host_of(mem_vmm_t *vmm)
{
    return base_container_of(vmm, host_vmm_t, vmm);
}

static mem_chunk_t chunk_of(size_t offset)
{
    return offset / MEM_VMM_PAGE_SIZE + 1;
}

static size_t offset_of(mem_chunk_t chunk)
{
    assert(chunk != 0);
    return (size_t)(chunk - 1) * MEM_VMM_PAGE_SIZE;
}

static void vmm_destroy(mem_vmm_t *vmm)
{
    host_vmm_t *host = host_of(vmm);

    mem_file_space_cleanup(&host->space);
    pthread_mutex_destroy(&host->lock);
    close(host->fd);
    free(host);
}

static ucxpool_status_t vmm_reserve(mem_vmm_t *vmm, size_t size,
                                    size_t alignment, void **address_p)
{
    int error = mem_range_reserve(size, alignment, address_p);

    if (error != 0) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "cannot reserve %zu bytes of addresses for the heap: "
                          "%s; raise the limit of address space (ulimit -v)",
                          size, strerror(error));
    }
    return UCXPOOL_OK;
}

static void vmm_release(mem_vmm_t *vmm, void *address, size_t size)
{
    mem_range_release(address, size);
}

static bool part_take(host_vmm_t *host, size_t size, size_t *offset_p)
{
    bool is_taken;

    pthread_mutex_lock(&host->lock);
    is_taken = mem_file_space_take(&host->space, size, offset_p);
    pthread_mutex_unlock(&host->lock);
    return is_taken;
}

/* Free the memory before the part becomes available, because the part's next
 * user expects it to be empty. */
static void part_give(host_vmm_t *host, size_t offset, size_t size)
{
    int error = mem_memfd_empty(host->fd, offset, size);

    if (error != 0) {
        base_warn("cannot free %zu bytes of the heap's file: %s", size,
                  strerror(error));
    }
    pthread_mutex_lock(&host->lock);
    mem_file_space_give(&host->space, offset, size);
    pthread_mutex_unlock(&host->lock);
}

static ucxpool_status_t fill_error(int error, size_t size)
{
    switch (error) {
    case ENOMEM:
    case ENOSPC:
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "cannot allocate %zu bytes for the heap: %s; free "
                          "memory or use a machine with more",
                          size, strerror(error));
    case EFBIG:
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "cannot allocate %zu bytes for the heap: %s; raise "
                          "the file size limit (ulimit -f)",
                          size, strerror(error));
    default:
        return base_error_errno(error, "cannot allocate %zu bytes for the heap",
                                size);
    }
}

/* Check that enough memory is available. If too little is left, the kernel
 * kills a process instead of reporting an error. */
static ucxpool_status_t available_check(size_t size)
{
    mem_system_t system;

    mem_system_query(&system);
    if (size > system.available) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "cannot allocate %zu bytes for the heap: %zu are "
                          "available; free memory or use a machine with more",
                          size, system.available);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t vmm_chunk_create(mem_vmm_t *vmm, size_t size,
                                         mem_chunk_t *chunk_p)
{
    host_vmm_t      *host = host_of(vmm);
    ucxpool_status_t status;
    size_t           offset;
    int              error;

    assert((size != 0) && (size % MEM_VMM_PAGE_SIZE == 0));
    status = available_check(size);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (!part_take(host, size, &offset)) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for the bookkeeping of the heap's file");
    }
    error = mem_memfd_fill(host->fd, offset, size, 0);
    if (error != 0) {
        part_give(host, offset, size);
        return fill_error(error, size);
    }
    *chunk_p = chunk_of(offset);
    return UCXPOOL_OK;
}

static void vmm_chunk_destroy(mem_vmm_t *vmm, mem_chunk_t chunk, size_t size)
{
    part_give(host_of(vmm), offset_of(chunk), size);
}

static void vmm_chunk_file(mem_vmm_t *vmm, mem_chunk_t chunk, int *fd_p,
                           uint64_t *offset_p)
{
    *fd_p     = host_of(vmm)->fd;
    *offset_p = offset_of(chunk);
}

/* Report a failed mapping. Each mapping, and each gap between mappings, is a
 * VMA of the kernel, and the number of VMAs is limited. */
static ucxpool_status_t map_error(const char *what, size_t size)
{
    int error = errno;

    if (error == ENOMEM) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "%s a chunk of %zu bytes: %s; raise the sysctl "
                          "vm.max_map_count",
                          what, size, strerror(error));
    }
    return base_error_errno(error, "%s a chunk of %zu bytes", what, size);
}

static ucxpool_status_t vmm_map(mem_vmm_t *vmm, void *address,
                                mem_chunk_t chunk, size_t size)
{
    if (mmap(address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             host_of(vmm)->fd, (off_t)offset_of(chunk)) == MAP_FAILED) {
        return map_error("mapping", size);
    }
    return UCXPOOL_OK;
}

/* vmm_map() has already set the access rights. Setting them later would need
 * another system call and leave VMAs that the kernel does not merge. */
static ucxpool_status_t vmm_allow(mem_vmm_t *vmm, void *address, size_t size)
{
    return UCXPOOL_OK;
}

/* Unmap the memory but keep the addresses reserved. */
static ucxpool_status_t vmm_unmap(mem_vmm_t *vmm, void *address, size_t size)
{
    if (mmap(address, size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED) {
        return map_error("unmapping", size);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t vmm_sizes(mem_vmm_t *vmm, uint64_t *total_p,
                                  uint64_t *free_p)
{
    mem_system_t system;
    uint64_t     total;

    mem_system_query(&system);
    total    = (uint64_t)sysconf(_SC_PHYS_PAGES) * system.page_size;
    *total_p = total;
    *free_p  = base_min(total, system.available);
    return UCXPOOL_OK;
}

/* Host memory has no streams, so the fence functions are not set. */
static const mem_vmm_calls_t vmm_calls = {
    .destroy       = vmm_destroy,
    .reserve       = vmm_reserve,
    .release       = vmm_release,
    .chunk_create  = vmm_chunk_create,
    .chunk_destroy = vmm_chunk_destroy,
    .chunk_file    = vmm_chunk_file,
    .map           = vmm_map,
    .allow         = vmm_allow,
    .unmap         = vmm_unmap,
    .sizes         = vmm_sizes,
};

ucxpool_status_t mem_vmm_create_host(mem_vmm_t **vmm_p)
{
    host_vmm_t *host = calloc(1, sizeof(*host));
    char        name[64];
    int         error;

    if (host == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a heap");
    }
    snprintf(name, sizeof(name), "ucxpool:%d:heap", (int)getpid());
    error = mem_memfd_create(name, 0, 0, &host->fd);
    if (error != 0) {
        base_error_errno(error, "cannot create a memory file for the heap");
        goto err_free;
    }
    /* The seal allows peers to map parts of the file without the risk of
     * SIGBUS. If the file is not sealed, windows use another method. */
    (void)mem_memfd_seal_shrink(host->fd);
    error = pthread_mutex_init(&host->lock, NULL);
    if (error != 0) {
        base_error_errno(error, "cannot create a lock for the heap");
        goto err_close;
    }
    host->vmm.calls   = &vmm_calls;
    host->vmm.is_host = true;
    *vmm_p            = &host->vmm;
    return UCXPOOL_OK;

err_close:
    close(host->fd);
err_free:
    free(host);
    return UCXPOOL_ERR_IO;
}
