/* The driver's memory pools, and their import by another process. Each
 * allocation is taken from the device; freed memory is not kept. */
#include <config.h>

#include "state.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef STAND_IN_WITHOUT_POOLS

CUmemoryPool pool_of(CUdeviceptr address)
{
    (void)address;
    return NULL;
}

#else

/* As in tools/gpu/gpu.h; the library does not use these. */
enum { ATTRIBUTE_THRESHOLD = 4, ATTRIBUTE_CURRENT = 5, ATTRIBUTE_HIGH = 6 };

struct props {
    int type, handle_types, location_type, location_id;
};

struct CUmemPoolHandle_st {
    int  device;
    int  handle_types;
    bool is_imported;
    bool is_exported;
    unsigned
        users; /* bit mask of the devices that may use imported allocations */
    cuuint64_t threshold;
    cuuint64_t reserved;
    cuuint64_t high;
};
ENTRY(cuMemPoolCreate, CUmemoryPool *pool, const struct props *props)
{
    CUmemoryPool made;

    BEGIN("cuMemPoolCreate", NEEDS_INIT);
    if ((props->type != 1) || (props->location_type != 1) ||
        (props->location_id >= config.num_devices)) {
        return done(CUDA_ERROR_INVALID_VALUE);
    }
    made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return done(CUDA_ERROR_OUT_OF_MEMORY);
    }
    made->device       = props->location_id;
    made->handle_types = props->handle_types;
    num_live++;
    *pool = made;
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemPoolDestroy, CUmemoryPool pool)
{
    BEGIN("cuMemPoolDestroy", NEEDS_INIT);
    free(pool);
    num_live--;
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemPoolSetAttribute, CUmemoryPool pool, int attribute, void *value)
{
    BEGIN("cuMemPoolSetAttribute", NEEDS_INIT);
    if (attribute != ATTRIBUTE_THRESHOLD) {
        return done(CUDA_ERROR_INVALID_VALUE);
    }
    pool->threshold = *(cuuint64_t *)value;
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemPoolGetAttribute, CUmemoryPool pool, int attribute, void *value)
{
    BEGIN("cuMemPoolGetAttribute", NEEDS_INIT);
    *(cuuint64_t *)value = attribute == ATTRIBUTE_CURRENT ? pool->reserved
                           : attribute == ATTRIBUTE_HIGH  ? pool->high
                                                          : pool->threshold;
    return done(CUDA_SUCCESS);
}

/* The pool of an allocation, in the order of cuMemFreeAsync(). */
typedef struct owned {
    struct owned *next;
    CUdeviceptr   address;
    CUmemoryPool  pool;
} owned_t;

static owned_t *owners;

ENTRY(cuMemAllocFromPoolAsync, CUdeviceptr *address, size_t size,
      CUmemoryPool pool, CUstream stream)
{
    size_t     whole = (size + GRANULARITY - 1) & ~(GRANULARITY - 1);
    unsigned   bit   = 1u << pool->device;
    backing_t *backing;
    void      *range;
    owned_t   *owned;

    (void)stream;
    BEGIN("cuMemAllocFromPoolAsync", NEEDS_CONTEXT);
    if ((size == 0) || (whole < size)) {
        return done(CUDA_ERROR_INVALID_VALUE);
    }
    owned   = malloc(sizeof(*owned));
    backing = backing_create(pool->device, whole);
    range   = backing == NULL ? NULL : range_reserve(whole, GRANULARITY);
    if ((owned == NULL) || (range == NULL) ||
        !mapping_add((mapping_t){(CUdeviceptr)(uintptr_t)range, whole,
                                 MAPPING_POOL, backing, bit, bit,
                                 pool->device})) {
        free(owned);
        if (backing != NULL) {
            backing_drop(backing);
        }
        return done(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *owned   = (owned_t){owners, (CUdeviceptr)(uintptr_t)range, pool};
    owners   = owned;
    *address = owned->address;
    pool->reserved += whole;
    pool->high = pool->reserved > pool->high ? pool->reserved : pool->high;
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemFreeAsync, CUdeviceptr address, CUstream stream)
{
    owned_t  **link = &owners;
    owned_t   *owned;
    mapping_t *mapping;

    (void)stream;
    BEGIN("cuMemFreeAsync", NEEDS_CONTEXT);
    while ((*link != NULL) && ((*link)->address != address)) {
        link = &(*link)->next;
    }
    owned = *link;
    if (owned == NULL) {
        return done(CUDA_ERROR_INVALID_VALUE);
    }
    stream_work(~0u);
    mapping = mapping_at(address);
    owned->pool->reserved -= mapping->size;
    munmap((void *)(uintptr_t)address, mapping->size);
    backing_drop(mapping->backing);
    mapping_remove(mapping);
    *link = owned->next;
    free(owned);
    return done(CUDA_SUCCESS);
}

/*
 * --- shared ----------------------------------------------------------------
 *
 * A pool is shared as a file that contains the number of its device. The shared
 * data of an allocation refers to its memory file in the creating process.
 */

CUmemoryPool pool_of(CUdeviceptr address)
{
    for (const owned_t *owned = owners; owned != NULL; owned = owned->next) {
        if (owned->address == address) {
            return owned->pool;
        }
    }
    return NULL;
}

#define POOL_NAME "stand-in-memory-pool"

ENTRY(cuMemPoolExportToShareableHandle, void *handle, CUmemoryPool pool,
      CUmemAllocationHandleType type, unsigned long long flags)
{
    int fd;

    BEGIN("cuMemPoolExportToShareableHandle", NEEDS_INIT);
    if ((type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) || (flags != 0) ||
        !(pool->handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
        return done(CUDA_ERROR_INVALID_VALUE);
    }
    fd = memfd_create(POOL_NAME, MFD_CLOEXEC);
    if (fd < 0) {
        return done(CUDA_ERROR_OPERATING_SYSTEM);
    }
    if (write(fd, &pool->device, sizeof(pool->device)) !=
        (ssize_t)sizeof(pool->device)) {
        close(fd);
        return done(CUDA_ERROR_OPERATING_SYSTEM);
    }
    memcpy(handle, &fd, sizeof(fd));
    pool->is_exported = true;
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemPoolImportFromShareableHandle, CUmemoryPool *pool, void *handle,
      CUmemAllocationHandleType type, unsigned long long flags)
{
    int          fd = (int)(intptr_t)handle;
    int          device;
    char         path[64], name[64] = "";
    CUmemoryPool made;

    BEGIN("cuMemPoolImportFromShareableHandle", NEEDS_INIT);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if ((type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) || (flags != 0) ||
        (readlink(path, name, sizeof(name) - 1) < 0) ||
        (strstr(name, POOL_NAME) == NULL) ||
        (pread(fd, &device, sizeof(device), 0) != (ssize_t)sizeof(device))) {
        return done(CUDA_ERROR_INVALID_VALUE);
    }
    made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return done(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *made = (struct CUmemPoolHandle_st){.device = device, .is_imported = true};
    num_live++;
    *pool = made;
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemPoolSetAccess, CUmemoryPool pool, const CUmemAccessDesc *desc,
      size_t num)
{
    BEGIN("cuMemPoolSetAccess", NEEDS_INIT);
    for (size_t i = 0; i < num; i++) {
        if ((desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) ||
            (desc[i].location.id >= config.num_devices) ||
            (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)) {
            return done(CUDA_ERROR_INVALID_VALUE);
        }
        if (!config.has_peers && (desc[i].location.id != pool->device)) {
            return done(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
        }
        pool->users |= 1u << desc[i].location.id;
    }
    return done(CUDA_SUCCESS);
}

typedef struct share {
    char     magic[8];
    int32_t  pid;
    int32_t  fd;
    uint64_t size;
} share_t;

static const char magic[8] = "pool-ptr";

ENTRY(cuMemPoolExportPointer, CUmemPoolPtrExportData *data, CUdeviceptr address)
{
    const mapping_t *mapping;
    CUmemoryPool     pool;
    share_t          share;

    BEGIN("cuMemPoolExportPointer", NEEDS_INIT);
    mapping = mapping_at(address);
    pool    = pool_of(address);
    if ((mapping == NULL) || (mapping->kind != MAPPING_POOL) ||
        (pool == NULL) || !pool->is_exported) {
        return done(CUDA_ERROR_INVALID_VALUE);
    }
    share = (share_t){.pid  = (int32_t)getpid(),
                      .fd   = mapping->backing->fd,
                      .size = mapping->size};
    memcpy(share.magic, magic, sizeof(magic));
    memset(data, 0, sizeof(*data));
    memcpy(data, &share, sizeof(share));
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemPoolImportPointer, CUdeviceptr *address, CUmemoryPool pool,
      CUmemPoolPtrExportData *data)
{
    share_t    share;
    char       path[64];
    int        fd;
    backing_t *backing;
    void      *range;

    BEGIN("cuMemPoolImportPointer", NEEDS_CONTEXT);
    memcpy(&share, data, sizeof(share));
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", share.pid, share.fd);
    if (!pool->is_imported ||
        (memcmp(share.magic, magic, sizeof(magic)) != 0)) {
        return done(CUDA_ERROR_INVALID_VALUE);
    }
    fd      = open(path, O_RDWR | O_CLOEXEC);
    backing = (fd < 0) ? NULL : backing_adopt(fd, pool->device);
    if (backing == NULL) {
        return done(CUDA_ERROR_INVALID_VALUE);
    }
    range = range_reserve(backing->size, GRANULARITY);
    if ((range == NULL) ||
        !mapping_add((mapping_t){(CUdeviceptr)(uintptr_t)range, backing->size,
                                 MAPPING_POOL, backing, pool->users,
                                 pool->users, pool->device})) {
        backing_drop(backing);
        return done(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *address = (CUdeviceptr)(uintptr_t)range;
    return done(CUDA_SUCCESS);
}

#endif
