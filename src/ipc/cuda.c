#include "ipc/cuda.h"

#include "base/error.h"
#include "ipc/virtual.h"
#include "mem/cuda_driver.h"
#include "mem/cuda_pinned.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- the owner's side, and passing descriptors ---------------------------- */

/* Since kernel 5.6; the same number on every architecture. */
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

_Static_assert(sizeof(ipc_cuda_t) == 96, "is sent over the wire as is");
_Static_assert(sizeof(CUipcMemHandle) == 64, "the handle fits");

static ucxpool_status_t fill_ipc(const mem_regions_t *regions, unsigned index,
                                 ipc_cuda_t *share)
{
    const mem_cuda_device_t *device = regions->cuda;
    uintptr_t        address = (uintptr_t)regions->regions[index].address;
    CUipcMemHandle   handle;
    ucxpool_status_t status;

    mem_cuda_device_do(device, status,
                       mem_cuda_device_status(
                           device,
                           device->driver->cuIpcGetMemHandle(&handle, address),
                           "cuIpcGetMemHandle of region %u of", index));
    if (status == UCXPOOL_OK) {
        share->way = IPC_CUDA_IPC;
        memcpy(share->handle, &handle, sizeof(handle));
    }
    return status;
}

static ucxpool_status_t fill_file(mem_regions_t *regions, unsigned index,
                                  ipc_cuda_t *share)
{
    mem_region_t *region = &regions->regions[index];
    int           fd     = -1;
    CUresult      result;

    if (!regions->cuda->has_posix_handles) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "GPU %d (%s) cannot export memory as file "
                          "descriptors; set UCXPOOL_CUDA_BACKING=alloc",
                          regions->cuda->ordinal, regions->cuda->name);
    }
    if (region->fd < 0) {
        result = regions->cuda->driver->cuMemExportToShareableHandle(
            &fd, region->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        if (result != CUDA_SUCCESS) {
            return mem_cuda_device_status(
                regions->cuda, result,
                "cuMemExportToShareableHandle of region %u of", index);
        }
        region->fd = fd;
    }
    share->way = IPC_CUDA_FILE;
    share->fd  = region->fd;
    return UCXPOOL_OK;
}

ucxpool_status_t ipc_cuda_fill(mem_regions_t *regions, unsigned index,
                               ipc_cuda_t *share)
{
    memset(share, 0, sizeof(*share));
    share->fd   = -1;
    share->size = regions->region_size;
    if (regions->cuda != NULL) {
        memcpy(share->uuid, &regions->cuda->uuid, sizeof(share->uuid));
    }
    if (!regions->kind->is_gpu) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "memory of kind %s has no GPU handle",
                          regions->kind->name);
    }
    return regions->kind->shares_by_fd ? fill_file(regions, index, share)
                                       : fill_ipc(regions, index, share);
}

/* Call between mem_cuda_device_enter() and mem_cuda_device_leave(). */
static ucxpool_status_t fill_memory(const mem_cuda_device_t *device,
                                    CUdeviceptr address, uint64_t length,
                                    ipc_cuda_t *share, uint64_t *offset_p)
{
    const mem_cuda_driver_t *driver = device->driver;
    CUdeviceptr              base   = 0;
    size_t                   size   = 0;
    CUipcMemHandle           handle;
    CUresult                 result;

    result = driver->cuMemGetAddressRange(&base, &size, address);
    if ((result == CUDA_SUCCESS) &&
        ((address - base > size) || (length > size - (address - base)))) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the memory spans more than one allocation");
    }
    if (result == CUDA_SUCCESS) {
        result = driver->cuIpcGetMemHandle(&handle, base);
    }
    if (result == CUDA_ERROR_INVALID_VALUE) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the memory was not allocated by cuMemAlloc() and "
                          "has no IPC handle");
    }
    if (result != CUDA_SUCCESS) {
        return mem_cuda_device_status(device, result,
                                      "cuIpcGetMemHandle of memory of");
    }
    *share = (ipc_cuda_t){.size = size, .way = IPC_CUDA_IPC, .fd = -1};
    memcpy(share->uuid, &device->uuid, sizeof(share->uuid));
    memcpy(share->handle, &handle, sizeof(handle));
    *offset_p = address - base;
    return UCXPOOL_OK;
}

ucxpool_status_t ipc_cuda_fill_memory(const mem_cuda_device_t *device,
                                      const void *address, uint64_t length,
                                      ipc_cuda_t *share, uint64_t *offset_p)
{
    ucxpool_status_t status;

    mem_cuda_device_do(device, status,
                       fill_memory(device, (CUdeviceptr)(uintptr_t)address,
                                   length, share, offset_p));
    return status;
}

static ucxpool_status_t import_error(const ipc_host_t *host, int error)
{
    if ((error == ESRCH) || ipc_host_is_reaped(host)) {
        return base_error(UCXPOOL_ERR_PEER_LOST,
                          "process %" PRIu32 " has ended", host->pid);
    }
    if (error == EBADF) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "process %" PRIu32
                          " does not have the descriptor that it announced",
                          host->pid);
    }
    /* ENOSYS becomes UCXPOOL_ERR_UNSUPPORTED. */
    return base_error_errno(
        error,
        "cannot take a descriptor of process %" PRIu32 " (pidfd_getfd%s)",
        host->pid,
        (error == ENOSYS)  ? ", needs Linux 5.6 or later"
        : (error == EPERM) ? ", see kernel.yama.ptrace_scope"
                           : "");
}

ucxpool_status_t ipc_cuda_import(const ipc_host_t *host,
                                 const ipc_cuda_t *share, int *fd_p)
{
    int process, fd, error;

    if ((share->way != IPC_CUDA_FILE) || (share->fd < 0)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "descriptor %" PRId32 " of process %" PRIu32
                          " is invalid",
                          share->fd, host->pid);
    }
    /* Use a pidfd, because the PID of the owner may be reused. */
    process = ipc_watch(host);
    if (process < 0) {
        return !ipc_host_is_reaped(host)
                   ? base_error(UCXPOOL_ERR_UNSUPPORTED,
                                "process %" PRIu32
                                " is in another PID namespace, or cannot be "
                                "watched: pidfd_open needs Linux 5.3 or later",
                                host->pid)
                   : import_error(host, ESRCH);
    }
    fd    = (int)syscall(SYS_pidfd_getfd, process, share->fd, 0);
    error = errno;
    close(process);
    if (fd < 0) {
        return import_error(host, error);
    }
    *fd_p = fd;
    return UCXPOOL_OK;
}

/* --- mapping a peer's region ---------------------------------------------- */

static ucxpool_status_t map_error(const mem_cuda_device_t *device,
                                  const ipc_cuda_t *share, CUresult result,
                                  const char *call)
{
    return mem_cuda_device_status(device, result,
                                  "%s of a peer's %" PRIu64 " bytes on", call,
                                  share->size);
}

/* Check that the announced number of bytes is mapped from this address on. */
static ucxpool_status_t handle_check(const mem_cuda_device_t *device,
                                     const ipc_cuda_t        *share,
                                     CUdeviceptr              address)
{
    CUdeviceptr base = 0;
    size_t      size = 0;
    CUresult    result;

    result = device->driver->cuMemGetAddressRange(&base, &size, address);
    if (result != CUDA_SUCCESS) {
        return map_error(device, share, result, "cuMemGetAddressRange");
    }
    if ((address < base) || (address - base > size) ||
        (size - (address - base) < share->size)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "a peer's region of GPU memory has %zu bytes, "
                          "but the peer announced %" PRIu64,
                          size, share->size);
    }
    return UCXPOOL_OK;
}

/* Call between mem_cuda_device_enter() and mem_cuda_device_leave(). */
static ucxpool_status_t map_handle(const mem_cuda_device_t *device,
                                   const ipc_cuda_t        *share,
                                   CUdeviceptr             *address_p)
{
    CUipcMemHandle   handle;
    CUdeviceptr      address = 0;
    ucxpool_status_t status;
    CUresult         result;

    memcpy(&handle, share->handle, sizeof(handle));
    result = device->driver->cuIpcOpenMemHandle(
        &address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result != CUDA_SUCCESS) {
        return map_error(device, share, result, "cuIpcOpenMemHandle");
    }
    status = handle_check(device, share, address);
    if (status != UCXPOOL_OK) {
        mem_cuda_try(device->driver, cuIpcCloseMemHandle, address);
        return status;
    }
    *address_p = address;
    return UCXPOOL_OK;
}

/* Map the peer's regions side by side. */
static ucxpool_status_t map_files(const mem_cuda_device_t *device,
                                  const ipc_cuda_t *share, const int *fds,
                                  unsigned num_regions, bool is_written,
                                  CUdeviceptr *address_p)
{
    const ipc_virtual_layout_t layout = {.runs = {{share->size, num_regions}},
                                         .num_runs = 1};
    ipc_virtual_t              range;
    ucxpool_status_t           status;

    status =
        ipc_virtual_reserve(device, &layout, share->size * num_regions, &range);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status =
        ipc_virtual_map(device, &layout, fds, num_regions, is_written, &range);
    if (status != UCXPOOL_OK) {
        ipc_virtual_unmap(device, &range);
        return status;
    }
    *address_p = range.address;
    return UCXPOOL_OK;
}

static ucxpool_status_t share_check(const ipc_cuda_t *share, const int *fds,
                                    unsigned num_regions)
{
    if ((share->size == 0) || (num_regions == 0) ||
        (share->size > PTRDIFF_MAX / num_regions)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "a peer announced GPU memory of an invalid size: %u "
                          "regions of %" PRIu64 " bytes",
                          num_regions, share->size);
    }
    if ((share->way != IPC_CUDA_IPC) && (share->way != IPC_CUDA_FILE)) {
        return base_error(
            UCXPOOL_ERR_PROTOCOL,
            "a peer announced GPU memory with unknown sharing method %" PRIu32,
            share->way);
    }
    if ((share->way == IPC_CUDA_IPC) && (num_regions != 1)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "a peer announced %u regions of GPU memory, but one "
                          "IPC handle stands for one region",
                          num_regions);
    }
    for (unsigned i = 0; (share->way == IPC_CUDA_FILE) && (i < num_regions);
         i++) {
        if (fds[i] < 0) {
            return base_error(
                UCXPOOL_ERR_PROTOCOL,
                "a peer's region of GPU memory has no descriptor");
        }
    }
    return UCXPOOL_OK;
}

ucxpool_status_t ipc_cuda_map(const mem_cuda_device_t *device,
                              const ipc_cuda_t *share, const int *fds,
                              unsigned num_regions, bool is_written,
                              const void **address_p)
{
    CUdeviceptr      address = 0;
    ucxpool_status_t status  = share_check(share, fds, num_regions);

    if (status != UCXPOOL_OK) {
        return status;
    }
    if (share->way == IPC_CUDA_IPC) {
        mem_cuda_device_do(device, status, map_handle(device, share, &address));
    } else {
        status =
            map_files(device, share, fds, num_regions, is_written, &address);
    }
    if (status == UCXPOOL_OK) {
        *address_p = (const void *)(uintptr_t)address;
    }
    return status;
}

void ipc_cuda_unmap(const mem_cuda_device_t *device, const ipc_cuda_t *share,
                    unsigned num_regions, const void *address)
{
    CUdeviceptr   there = (CUdeviceptr)(uintptr_t)address;
    uint64_t      size  = share->size * num_regions;
    ipc_virtual_t range = {there, size, size, num_regions, num_regions};

    if (share->way == IPC_CUDA_FILE) {
        ipc_virtual_unmap(device, &range);
    } else {
        mem_cuda_device_try(device, cuIpcCloseMemHandle, there);
    }
}

/* --- host memory for a GPU ------------------------------------------------ */

ucxpool_status_t ipc_cuda_pin(const mem_cuda_device_t *device,
                              const uint8_t *const    *regions,
                              const uint64_t *sizes, unsigned num_regions)
{
    for (unsigned i = 0; i < num_regions; i++) {
        ucxpool_status_t status = mem_cuda_pin(
            device, (void *)(uintptr_t)regions[i], (size_t)sizes[i], true);

        if (status != UCXPOOL_OK) {
            ipc_cuda_unpin(device, regions, i);
            return status;
        }
    }
    return UCXPOOL_OK;
}

void ipc_cuda_unpin(const mem_cuda_device_t *device,
                    const uint8_t *const *regions, unsigned num_regions)
{
    for (unsigned i = 0; i < num_regions; i++) {
        mem_cuda_unpin(device, (void *)(uintptr_t)regions[i]);
    }
}
