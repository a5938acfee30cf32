/*
 * Virtual memory by hand on the host. One memory file holds all chunks; a chunk
 * is a part of it, and its number tells where it begins. A part that is free
 * has no memory behind it.
 *
 * Memory is taken when a chunk is made, and page tables when it is touched:
 * mapping takes no longer for large chunks than for small ones.
 */
#include <config.h>

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
    pthread_mutex_t  lock; /* of the space */
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

static void host_destroy(mem_vmm_t *vmm)
{
    host_vmm_t *host = host_of(vmm);

    mem_file_space_cleanup(&host->space);
    pthread_mutex_destroy(&host->lock);
    close(host->fd);
    free(host);
}

static ucxpool_status_t host_reserve(mem_vmm_t *vmm, size_t size,
                                     size_t alignment, void **address_p)
{
    int error = mem_range_reserve(size, alignment, address_p);

    (void)vmm;
    if (error != 0) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "reserving %zu bytes of addresses for the heap: %s; "
                          "raise the limit of addresses (ulimit -v)",
                          size, strerror(error));
    }
    return UCXPOOL_OK;
}

static void host_release(mem_vmm_t *vmm, void *address, size_t size)
{
    (void)vmm;
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

/* Give its memory back first: whoever takes it next must find it empty. */
static void part_give(host_vmm_t *host, size_t offset, size_t size)
{
    int error = mem_memfd_empty(host->fd, offset, size);

    if (error != 0) {
        base_warn("giving %zu bytes of the heap's file back to the system: %s",
                  size, strerror(error));
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
                          "taking %zu bytes for the heap: %s; free some "
                          "memory, or run on a machine with more",
                          size, strerror(error));
    case EFBIG:
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "taking %zu bytes for the heap: %s; raise the limit "
                          "of the size of files (ulimit -f)",
                          size, strerror(error));
    default:
        return base_error_errno(error, "taking %zu bytes for the heap", size);
    }
}

/* Where there is too little the kernel does not say so: it ends a process. */
static ucxpool_status_t available_check(size_t size)
{
    mem_system_t system;

    mem_system_query(&system);
    if (size > system.available) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "taking %zu bytes for the heap: %zu are available; "
                          "free some memory, or run on a machine with more",
                          size, system.available);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t host_chunk_create(mem_vmm_t *vmm, size_t size,
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

static void host_chunk_destroy(mem_vmm_t *vmm, mem_chunk_t chunk, size_t size)
{
    part_give(host_of(vmm), offset_of(chunk), size);
}

/* Every mapping, and every gap between two, is an entry in the kernel's list,
 * whose length has a limit. */
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

static ucxpool_status_t host_map(mem_vmm_t *vmm, void *address,
                                 mem_chunk_t chunk, size_t size)
{
    if (mmap(address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             host_of(vmm)->fd, (off_t)offset_of(chunk)) == MAP_FAILED) {
        return map_error("mapping", size);
    }
    return UCXPOOL_OK;
}

/* The mapping has its rights already: to give them later would be one call of
 * the system more, and entries in the kernel's list that do not join. */
static ucxpool_status_t host_allow(mem_vmm_t *vmm, void *address, size_t size)
{
    (void)vmm;
    (void)address;
    (void)size;
    return UCXPOOL_OK;
}

/* The addresses stay reserved. */
static ucxpool_status_t host_unmap(mem_vmm_t *vmm, void *address, size_t size)
{
    (void)vmm;
    if (mmap(address, size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED) {
        return map_error("unmapping", size);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t host_sizes(mem_vmm_t *vmm, uint64_t *total_p,
                                   uint64_t *free_p)
{
    mem_system_t system;
    uint64_t     total;

    (void)vmm;
    mem_system_query(&system);
    total    = (uint64_t)sysconf(_SC_PHYS_PAGES) * system.page_size;
    *total_p = total;
    *free_p  = base_min(total, system.available);
    return UCXPOOL_OK;
}

/* There are no streams, and so no fences. */
static const mem_vmm_calls_t host_calls = {
    .destroy       = host_destroy,
    .reserve       = host_reserve,
    .release       = host_release,
    .chunk_create  = host_chunk_create,
    .chunk_destroy = host_chunk_destroy,
    .map           = host_map,
    .allow         = host_allow,
    .unmap         = host_unmap,
    .sizes         = host_sizes,
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
        base_error_errno(error, "making a memory file for the heap");
        goto err_free;
    }
    error = pthread_mutex_init(&host->lock, NULL);
    if (error != 0) {
        base_error_errno(error, "making a lock for the heap");
        goto err_close;
    }
    host->vmm.calls   = &host_calls;
    host->vmm.is_host = true;
    *vmm_p            = &host->vmm;
    return UCXPOOL_OK;

err_close:
    close(host->fd);
err_free:
    free(host);
    return UCXPOOL_ERR_IO;
}
