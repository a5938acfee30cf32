/* Sharing of GPU memory: the owner's side, and the way of a descriptor. */
#include <config.h>

#include "ipc/cuda.h"

#include "base/error.h"
#include "mem/cuda_status.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From kernel 5.6, by the same number on every machine. */
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

_Static_assert(sizeof(ipc_cuda_t) == 96, "goes over the wire as is");
_Static_assert(sizeof(CUipcMemHandle) == 64, "the handle fits");

static ucxpool_status_t share_error(const mem_regions_t *regions,
                                    CUresult result, const char *call,
                                    unsigned index)
{
    return mem_cuda_error(regions->cuda->driver, result,
                          "%s of region %u of GPU %d (%s)", call, index,
                          regions->cuda->ordinal, regions->cuda->name);
}

static ucxpool_status_t fill_ipc(const mem_regions_t *regions, unsigned index,
                                 ipc_cuda_t *share)
{
    CUipcMemHandle   handle;
    ucxpool_status_t status = mem_cuda_device_enter(regions->cuda);
    CUresult         result;

    if (status != UCXPOOL_OK) {
        return status;
    }
    result = regions->cuda->driver->cuIpcGetMemHandle(
        &handle, (CUdeviceptr)(uintptr_t)regions->regions[index].address);
    mem_cuda_device_leave(regions->cuda);
    if (result != CUDA_SUCCESS) {
        return share_error(regions, result, "cuIpcGetMemHandle", index);
    }
    share->way = IPC_CUDA_IPC;
    memcpy(share->handle, &handle, sizeof(handle));
    return UCXPOOL_OK;
}

static ucxpool_status_t fill_file(mem_regions_t *regions, unsigned index,
                                  ipc_cuda_t *share)
{
    mem_region_t *region = &regions->regions[index];
    int           fd     = -1;
    CUresult      result;

    if (!regions->cuda->has_posix_handles) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "GPU %d (%s) has no handles that are files: use "
                          "memory from cuMemAlloc to share it",
                          regions->cuda->ordinal, regions->cuda->name);
    }
    if (region->fd < 0) {
        result = regions->cuda->driver->cuMemExportToShareableHandle(
            &fd, region->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        if (result != CUDA_SUCCESS) {
            return share_error(regions, result, "cuMemExportToShareableHandle",
                               index);
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
    if (regions->kind == &mem_kind_cuda_alloc) {
        return fill_ipc(regions, index, share);
    }
    if (regions->kind == &mem_kind_cuda_vmm) {
        return fill_file(regions, index, share);
    }
    return base_error(UCXPOOL_ERR_UNSUPPORTED,
                      "memory of kind %s has no handle of a GPU",
                      regions->kind->name);
}

static ucxpool_status_t fetch_error(const ipc_host_t *host, int error)
{
    if ((error == ESRCH) || !ipc_host_is_alive(host)) {
        return base_error(UCXPOOL_ERR_PEER_LOST,
                          "process %" PRIu32 " has ended", host->pid);
    }
    if (error == EBADF) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "process %" PRIu32 " has not the descriptor that it "
                          "announced",
                          host->pid);
    }
    /* A kernel before 5.6 says ENOSYS, which becomes "unsupported". */
    return base_error_errno(error,
                            "taking a descriptor of process %" PRIu32
                            " by pidfd_getfd (the rules on debugging may "
                            "forbid it: sysctl kernel.yama.ptrace_scope)",
                            host->pid);
}

ucxpool_status_t ipc_cuda_fetch(const ipc_host_t *host, const ipc_cuda_t *share,
                                int *fd_p)
{
    int process, fd, error;

    if ((share->way != IPC_CUDA_FILE) || (share->fd < 0)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "descriptor %" PRId32 " of process %" PRIu32
                          " makes no sense",
                          share->fd, host->pid);
    }
    /* Of that very process: the number could be another's by now. */
    process = ipc_watch(host);
    if (process < 0) {
        return ipc_host_is_alive(host)
                   ? base_error(UCXPOOL_ERR_UNSUPPORTED,
                                "process %" PRIu32 " cannot be named by "
                                "pidfd_open: Linux 5.3 or later is needed",
                                host->pid)
                   : fetch_error(host, ESRCH);
    }
    fd    = (int)syscall(SYS_pidfd_getfd, process, share->fd, 0);
    error = errno;
    close(process);
    if (fd < 0) {
        return fetch_error(host, error);
    }
    *fd_p = fd;
    return UCXPOOL_OK;
}
