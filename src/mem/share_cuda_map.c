/* Sharing of GPU memory: a peer's region, mapped here. */
#include <config.h>

#include "mem/share_cuda.h"
#include "base/error.h"
#include "mem/cuda_status.h"
#include "mem/cuda_vmm.h"

#include <inttypes.h>
#include <string.h>

/* One region that is being mapped. Between enter and leave. */
typedef struct attempt {
    const mem_cuda_device_t *device;
    const mem_share_cuda_t  *share;
} attempt_t;

static ucxpool_status_t map_error(const attempt_t *attempt, CUresult result,
                                  const char *call)
{
    return mem_cuda_error(attempt->device->driver, result,
                          "%s of a peer's %" PRIu64 " bytes on GPU %d (%s)",
                          call, attempt->share->size, attempt->device->ordinal,
                          attempt->device->name);
}

static void ipc_close(const mem_cuda_device_t *device, CUdeviceptr address)
{
    mem_cuda_ignore(device->driver,
                    device->driver->cuIpcCloseMemHandle(address),
                    "cuIpcCloseMemHandle");
}

/* Is what was opened as large as announced, from its first byte on? */
static ucxpool_status_t ipc_check(const attempt_t *attempt, CUdeviceptr address)
{
    CUdeviceptr base = 0;
    size_t      size = 0;
    CUresult    result;

    result = attempt->device->driver->cuMemGetAddressRange(&base, &size,
                                                           address);
    if (result != CUDA_SUCCESS) {
        return map_error(attempt, result, "cuMemGetAddressRange");
    }
    if ((address < base) || (address - base > size) ||
        (size - (address - base) < attempt->share->size)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "a peer's region of GPU memory has %zu bytes, "
                          "announced were %" PRIu64,
                          size, attempt->share->size);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t ipc_map(const attempt_t *attempt,
                                CUdeviceptr     *address_p)
{
    CUipcMemHandle   handle;
    CUdeviceptr      address = 0;
    ucxpool_status_t status;
    CUresult         result;

    memcpy(&handle, attempt->share->handle, sizeof(handle));
    result = attempt->device->driver->cuIpcOpenMemHandle(
        &address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result != CUDA_SUCCESS) {
        return map_error(attempt, result, "cuIpcOpenMemHandle");
    }
    status = ipc_check(attempt, address);
    if (status != UCXPOOL_OK) {
        ipc_close(attempt->device, address);
        return status;
    }
    *address_p = address;
    return UCXPOOL_OK;
}

/* The driver maps an allocation only as a whole: another size than announced is
 * refused by it. */
static CUresult handle_map(const attempt_t             *attempt,
                           CUmemGenericAllocationHandle handle,
                           CUdeviceptr address, const char **call_p)
{
    const mem_cuda_driver_t *driver = attempt->device->driver;
    size_t                   size   = (size_t)attempt->share->size;
    CUmemAccessDesc          desc = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READ};
    CUresult                 result;

    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id   = attempt->device->device;
    *call_p            = "cuMemMap";
    result             = driver->cuMemMap(address, size, 0, handle, 0);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    *call_p = "cuMemSetAccess";
    result  = driver->cuMemSetAccess(address, size, &desc, 1);
    if (result != CUDA_SUCCESS) {
        mem_cuda_ignore(driver, driver->cuMemUnmap(address, size),
                        "cuMemUnmap");
    }
    return result;
}

/* Where the peer's memory is to be seen; its rights are for reading only. */
static ucxpool_status_t file_map(const attempt_t *attempt, int fd,
                                 CUdeviceptr *address_p)
{
    const mem_cuda_driver_t     *driver = attempt->device->driver;
    size_t                       size   = (size_t)attempt->share->size;
    CUmemGenericAllocationHandle handle = 0;
    const char                  *call = "cuMemImportFromShareableHandle";
    CUresult                     result;

    result = driver->cuMemImportFromShareableHandle(
        &handle, (void *)(intptr_t)fd,
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result != CUDA_SUCCESS) {
        return map_error(attempt, result, call);
    }
    call   = "cuMemAddressReserve";
    result = driver->cuMemAddressReserve(address_p, size, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        goto err_release;
    }
    result = handle_map(attempt, handle, *address_p, &call);
    if (result != CUDA_SUCCESS) {
        goto err_free_range;
    }
    /* The mapping keeps the memory. */
    mem_cuda_ignore(driver, driver->cuMemRelease(handle), "cuMemRelease");
    return UCXPOOL_OK;

err_free_range:
    mem_cuda_range_free(driver, *address_p, size);
err_release:
    mem_cuda_ignore(driver, driver->cuMemRelease(handle), "cuMemRelease");
    return map_error(attempt, result, call);
}

static ucxpool_status_t share_check(const attempt_t *attempt, int fd)
{
    const mem_share_cuda_t *share = attempt->share;

    if ((share->size == 0) || (share->size > PTRDIFF_MAX)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "a peer announced a region of %" PRIu64 " bytes",
                          share->size);
    }
    if ((share->way != MEM_SHARE_CUDA_IPC) &&
        (share->way != MEM_SHARE_CUDA_FILE)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "a peer announced GPU memory shared in way %" PRIu32,
                          share->way);
    }
    if (share->way == MEM_SHARE_CUDA_IPC) {
        return UCXPOOL_OK;
    }
    if (fd < 0) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "a peer's region of GPU memory without descriptor");
    }
    if (!attempt->device->has_vmm) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "GPU %d (%s) or its driver has no virtual memory "
                          "functions, and a peer's memory needs them",
                          attempt->device->ordinal, attempt->device->name);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t mem_share_cuda_map(const mem_cuda_device_t *device,
                                    const mem_share_cuda_t *share, int fd,
                                    const void **address_p)
{
    const attempt_t  attempt = {device, share};
    CUdeviceptr      address = 0;
    ucxpool_status_t status;

    status = share_check(&attempt, fd);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = mem_cuda_device_enter(device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = share->way == MEM_SHARE_CUDA_IPC
                 ? ipc_map(&attempt, &address)
                 : file_map(&attempt, fd, &address);
    mem_cuda_device_leave(device);
    if (status == UCXPOOL_OK) {
        *address_p = (const void *)(uintptr_t)address;
    }
    return status;
}

void mem_share_cuda_unmap(const mem_cuda_device_t *device,
                          const mem_share_cuda_t *share, const void *address)
{
    const mem_cuda_driver_t *driver = device->driver;
    CUdeviceptr              there  = (CUdeviceptr)(uintptr_t)address;

    if (mem_cuda_device_enter(device) != UCXPOOL_OK) {
        return;
    }
    if (share->way == MEM_SHARE_CUDA_IPC) {
        ipc_close(device, there);
    } else {
        mem_cuda_ignore(driver, driver->cuMemUnmap(there, (size_t)share->size),
                        "cuMemUnmap");
        mem_cuda_range_free(driver, there, (size_t)share->size);
    }
    mem_cuda_device_leave(device);
}
