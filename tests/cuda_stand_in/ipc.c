/* Handles with which another process, or another driver, opens an
 * allocation. */
#include <config.h>

#include "state.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct handle {
    char     magic[8];
    int32_t  pid;
    int32_t  fd;
    uint64_t size;
} handle_t;

static const char magic[8] = "stand-in";

ENTRY(cuIpcGetMemHandle, CUipcMemHandle *handle, CUdeviceptr address)
{
    mapping_t *mapping;
    handle_t   inside;

    BEGIN("cuIpcGetMemHandle", NEEDS_CONTEXT);
    mapping = mapping_of(address);
    if ((mapping == NULL) || (mapping->kind != MAPPING_ALLOC)) {
        return done(CUDA_ERROR_INVALID_VALUE);
    }
    inside.pid  = (int32_t)getpid();
    inside.fd   = mapping->backing->file->fd;
    inside.size = mapping->size;
    memcpy(inside.magic, magic, sizeof(magic));
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &inside, sizeof(inside));
    return done(CUDA_SUCCESS);
}

static backing_t *open_backing(const handle_t *inside, int device)
{
    char       path[64];
    int        fd;
    backing_t *backing;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", inside->pid, inside->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    backing = backing_adopt(fd, device);
    if ((backing != NULL) && (backing->size != inside->size)) {
        backing_drop(backing);
        return NULL;
    }
    return backing;
}

ENTRY(cuIpcOpenMemHandle_v2, CUdeviceptr *address, CUipcMemHandle handle,
      unsigned flags)
{
    handle_t   inside;
    int        device;
    backing_t *backing;
    void      *range;
    mapping_t  mapping;

    BEGIN("cuIpcOpenMemHandle", NEEDS_CONTEXT);
    memcpy(&inside, &handle, sizeof(inside));
    if ((flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ||
        (memcmp(inside.magic, magic, sizeof(magic)) != 0)) {
        return done(CUDA_ERROR_INVALID_VALUE);
    }
    /* A process cannot open its own handle. */
    if (inside.pid == (int32_t)getpid()) {
        return done(CUDA_ERROR_INVALID_CONTEXT);
    }
    device  = current_context()->device;
    backing = open_backing(&inside, device);
    if (backing == NULL) {
        return done(CUDA_ERROR_INVALID_VALUE);
    }
    if (!backing_is_reachable(backing, device)) {
        backing_drop(backing);
        return done(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    }
    range   = range_reserve(backing->size, GRANULARITY);
    mapping = (mapping_t){(CUdeviceptr)(uintptr_t)range,
                          backing->size,
                          MAPPING_IPC,
                          backing,
                          1u << device,
                          1u << device,
                          device};
    if ((range == NULL) || !mapping_add(mapping)) {
        backing_drop(backing);
        return done(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *address = mapping.address;
    return done(CUDA_SUCCESS);
}

ENTRY(cuIpcCloseMemHandle, CUdeviceptr address)
{
    mapping_t *mapping;

    BEGIN("cuIpcCloseMemHandle", NEEDS_CONTEXT);
    stream_work(~0u);
    mapping = mapping_at(address);
    if ((mapping == NULL) || (mapping->kind != MAPPING_IPC)) {
        return done(CUDA_ERROR_INVALID_VALUE);
    }
    munmap((void *)(uintptr_t)address, mapping->size);
    backing_drop(mapping->backing);
    mapping_remove(mapping, 1);
    return done(CUDA_SUCCESS);
}

/* The driver exports any pages of an allocation. The stand-in exports only the
 * whole allocation, which is one file. */
ENTRY(cuMemGetHandleForAddressRange, void *handle, CUdeviceptr address,
      size_t size, CUmemRangeHandleType type, unsigned long long flags)
{
    mapping_t *mapping;
    int        fd;

    BEGIN("cuMemGetHandleForAddressRange", NEEDS_CONTEXT);
    mapping = mapping_at(address);
    if ((mapping == NULL) || (mapping->backing == NULL) ||
        (mapping->size != size) || (flags != 0) ||
        (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD)) {
        return done(CUDA_ERROR_INVALID_VALUE);
    }
    if (!config.has_dmabuf) {
        return done(CUDA_ERROR_NOT_SUPPORTED);
    }
    fd = backing_export(mapping->backing);
    if (fd < 0) {
        return done(CUDA_ERROR_OPERATING_SYSTEM);
    }
    memcpy(handle, &fd, sizeof(fd));
    return done(CUDA_SUCCESS);
}
