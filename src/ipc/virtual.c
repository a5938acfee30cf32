#include <config.h>

#include "ipc/virtual.h"

#include "base/error.h"
#include "base/math.h"
#include "mem/cuda_driver.h"

#include <inttypes.h>
#include <unistd.h>

/* --- the owner's side ----------------------------------------------------- */

static ucxpool_status_t export_error(const mem_cuda_device_t *device,
                                     CUresult result, const char *call)
{
    return mem_cuda_error(device->driver, result, "%s of memory of GPU %d (%s)",
                          call, device->ordinal, device->name);
}

static ucxpool_status_t export_file(const mem_cuda_device_t     *device,
                                    CUmemGenericAllocationHandle handle,
                                    int                         *fd_p)
{
    CUresult result = device->driver->cuMemExportToShareableHandle(
        fd_p, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

    if (result == CUDA_ERROR_INVALID_VALUE) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the virtual memory was created without handles that "
                          "are file descriptors (requestedHandleTypes)");
    }
    return (result == CUDA_SUCCESS)
               ? UCXPOOL_OK
               : export_error(device, result, "cuMemExportToShareableHandle");
}

/* Export the allocation that contains an address. The driver maps whole
 * allocations, so a mapping starts at the allocation's first byte. */
static ucxpool_status_t export_at(const mem_cuda_device_t *device,
                                  CUdeviceptr              address,
                                  ipc_virtual_part_t      *part_p)
{
    const mem_cuda_driver_t     *driver = device->driver;
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr                  base   = 0;
    size_t                       size   = 0;
    ucxpool_status_t             status;
    CUresult                     result;

    result = driver->cuMemRetainAllocationHandle(&handle,
                                                 (void *)(uintptr_t)address);
    if (result == CUDA_ERROR_INVALID_VALUE) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the memory was allocated neither by cuMemAlloc() "
                          "nor by cuMemCreate()");
    }
    if (result != CUDA_SUCCESS) {
        return export_error(device, result, "cuMemRetainAllocationHandle");
    }
    result = driver->cuMemGetAddressRange(&base, &size, address);
    if (result != CUDA_SUCCESS) {
        status = export_error(device, result, "cuMemGetAddressRange");
    } else {
        status = export_file(device, handle, &part_p->fd);
    }
    mem_cuda_ignore(driver, driver->cuMemRelease(handle), "cuMemRelease");
    part_p->size   = size;
    part_p->offset = address - base;
    return status;
}

/* Call between enter and leave. */
static ucxpool_status_t export_all(const mem_cuda_device_t *device,
                                   CUdeviceptr address, uint64_t length,
                                   ipc_virtual_part_t *parts,
                                   unsigned max_parts, unsigned *num_parts_p)
{
    ucxpool_status_t status;

    for (uint64_t done = 0; done < length;
         done += parts[*num_parts_p - 1].length) {
        ipc_virtual_part_t *part = &parts[*num_parts_p];

        if (*num_parts_p == max_parts) {
            return base_error(UCXPOOL_ERR_LIMIT,
                              "the memory lies in more than %u allocations",
                              max_parts);
        }
        status = export_at(device, address + done, part);
        if (status != UCXPOOL_OK) {
            return status;
        }
        part->length = base_min(part->size - part->offset, length - done);
        ++*num_parts_p;
    }
    return UCXPOOL_OK;
}

ucxpool_status_t ipc_virtual_export(const mem_cuda_device_t *device,
                                    const void *address, uint64_t length,
                                    ipc_virtual_part_t *parts,
                                    unsigned max_parts, unsigned *num_parts_p)
{
    unsigned         num = 0;
    ucxpool_status_t status;

    if (!device->has_vmm ||
        (device->driver->cuMemRetainAllocationHandle == NULL)) {
        return base_error(
            UCXPOOL_ERR_UNSUPPORTED,
            "the memory was not allocated by cuMemAlloc(), and GPU %d (%s) or "
            "its driver has no virtual memory functions",
            device->ordinal, device->name);
    }
    status = mem_cuda_device_enter(device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = export_all(device, (CUdeviceptr)(uintptr_t)address, length, parts,
                        max_parts, &num);
    mem_cuda_device_leave(device);
    if (status != UCXPOOL_OK) {
        ipc_virtual_close(parts, num);
        return status;
    }
    *num_parts_p = num;
    return UCXPOOL_OK;
}

void ipc_virtual_close(const ipc_virtual_part_t *parts, unsigned num_parts)
{
    for (unsigned i = 0; i < num_parts; i++) {
        close(parts[i].fd);
    }
}

/* --- the peer's side ------------------------------------------------------ */

static ucxpool_status_t add_sizes(const ipc_virtual_part_t *parts,
                                  unsigned num_parts, uint64_t *size_p)
{
    uint64_t size = 0;

    for (unsigned i = 0; i < num_parts; i++) {
        if ((parts[i].size == 0) || !base_add(size, parts[i].size, &size) ||
            (size > PTRDIFF_MAX)) {
            return base_error(UCXPOOL_ERR_PROTOCOL,
                              "a peer announced an allocation of %" PRIu64
                              " bytes",
                              parts[i].size);
        }
    }
    *size_p = size;
    return UCXPOOL_OK;
}

static CUresult map_part(const mem_cuda_driver_t  *driver,
                         const ipc_virtual_part_t *part, CUdeviceptr address,
                         const char **call_p)
{
    CUmemGenericAllocationHandle handle = 0;
    CUresult                     result;

    *call_p = "cuMemImportFromShareableHandle";
    result  = driver->cuMemImportFromShareableHandle(
         &handle, (void *)(intptr_t)part->fd,
         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    *call_p = "cuMemMap";
    result  = driver->cuMemMap(address, part->size, 0, handle, 0);
    /* The mapping keeps a reference to the memory. */
    mem_cuda_ignore(driver, driver->cuMemRelease(handle), "cuMemRelease");
    return result;
}

static CUresult set_access(const mem_cuda_device_t *device,
                           const ipc_virtual_t *range, bool is_writable)
{
    CUmemAccessDesc desc = {.flags = is_writable
                                         ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                         : CU_MEM_ACCESS_FLAGS_PROT_READ};

    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id   = device->device;
    return device->driver->cuMemSetAccess(range->address, range->size, &desc,
                                          1);
}

/* Call this function and the next one between enter and leave. */
static void unmap_size(const mem_cuda_driver_t *driver,
                       const ipc_virtual_t *range, uint64_t mapped_size)
{
    if (mapped_size != 0) {
        mem_cuda_ignore(driver, driver->cuMemUnmap(range->address, mapped_size),
                        "cuMemUnmap");
    }
    mem_cuda_range_free(driver, range->address, range->size);
}

static ucxpool_status_t map_all(const mem_cuda_device_t  *device,
                                const ipc_virtual_part_t *parts,
                                unsigned num_parts, bool is_writable,
                                ipc_virtual_t *range)
{
    const mem_cuda_driver_t *driver = device->driver;
    const char              *call   = "cuMemAddressReserve";
    uint64_t                 mapped = 0;
    CUdeviceptr              address;
    CUresult                 result;

    result = driver->cuMemAddressReserve(&address, range->size, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        goto err_none;
    }
    range->address = address;
    for (unsigned i = 0; i < num_parts; i++) {
        result = map_part(driver, &parts[i], address + mapped, &call);
        if (result != CUDA_SUCCESS) {
            goto err_unmap;
        }
        mapped += parts[i].size;
    }
    call   = "cuMemSetAccess";
    result = set_access(device, range, is_writable);
    if (result == CUDA_SUCCESS) {
        return UCXPOOL_OK;
    }

err_unmap:
    unmap_size(driver, range, mapped);
err_none:
    return mem_cuda_error(driver, result,
                          "%s of a peer's %" PRIu64 " bytes on GPU %d (%s)",
                          call, range->size, device->ordinal, device->name);
}

ucxpool_status_t ipc_virtual_map(const mem_cuda_device_t  *device,
                                 const ipc_virtual_part_t *parts,
                                 unsigned num_parts, bool is_writable,
                                 ipc_virtual_t *mapped_p)
{
    ipc_virtual_t    range = {0, 0};
    ucxpool_status_t status;

    if (!device->has_vmm) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "GPU %d (%s) or its driver does not support virtual "
                          "memory, which is needed to map a peer's memory",
                          device->ordinal, device->name);
    }
    status = add_sizes(parts, num_parts, &range.size);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = mem_cuda_device_enter(device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = map_all(device, parts, num_parts, is_writable, &range);
    mem_cuda_device_leave(device);
    if (status == UCXPOOL_OK) {
        *mapped_p = range;
    }
    return status;
}

void ipc_virtual_unmap(const mem_cuda_device_t *device, ipc_virtual_t *mapped)
{
    if (mapped->size == 0) {
        return;
    }
    if (mem_cuda_device_enter(device) == UCXPOOL_OK) {
        unmap_size(device->driver, mapped, mapped->size);
        mem_cuda_device_leave(device);
    }
    mapped->size = 0;
}
