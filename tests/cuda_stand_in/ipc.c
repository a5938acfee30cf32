/* Handles with which another process, or another driver, opens an
 * allocation. */
#include "state.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
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
    FAIL_IF((mapping == NULL) || (mapping->kind != MAPPING_ALLOC),
            CUDA_ERROR_INVALID_VALUE);
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

    BEGIN("cuIpcOpenMemHandle", NEEDS_CONTEXT);
    memcpy(&inside, &handle, sizeof(inside));
    FAIL_IF((flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ||
                (memcmp(inside.magic, magic, sizeof(magic)) != 0),
            CUDA_ERROR_INVALID_VALUE);
    /* A process cannot open its own handle. */
    FAIL_IF(inside.pid == (int32_t)getpid(), CUDA_ERROR_INVALID_CONTEXT);
    device  = current_context()->device;
    backing = open_backing(&inside, device);
    FAIL_IF(backing == NULL, CUDA_ERROR_INVALID_VALUE);
    if (!backing_is_reachable(backing, device)) {
        backing_drop(backing);
        return done(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    }
    *address = mapping_create(backing, MAPPING_IPC, GRANULARITY);
    return done(*address == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
}

ENTRY(cuIpcCloseMemHandle, CUdeviceptr address)
{
    mapping_t *mapping;

    BEGIN("cuIpcCloseMemHandle", NEEDS_CONTEXT);
    stream_work(~0u);
    mapping = mapping_at(address);
    FAIL_IF((mapping == NULL) || (mapping->kind != MAPPING_IPC),
            CUDA_ERROR_INVALID_VALUE);
    mapping_destroy(mapping);
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
    FAIL_IF((mapping == NULL) || (mapping->backing == NULL) ||
                (mapping->size != size) || (flags != 0) ||
                (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD),
            CUDA_ERROR_INVALID_VALUE);
    FAIL_IF(!config.has_dmabuf, CUDA_ERROR_NOT_SUPPORTED);
    fd = backing_export(mapping->backing);
    FAIL_IF(fd < 0, CUDA_ERROR_OPERATING_SYSTEM);
    memcpy(handle, &fd, sizeof(fd));
    return done(CUDA_SUCCESS);
}
