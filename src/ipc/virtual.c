#include "ipc/virtual.h"

#include "base/error.h"
#include "base/math.h"
#include "mem/cuda_driver.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

/* --- the owner's side ----------------------------------------------------- */

static ucxpool_status_t export_file(const mem_cuda_device_t     *device,
                                    CUmemGenericAllocationHandle handle,
                                    int                         *fd_p)
{
    CUresult result = device->driver->cuMemExportToShareableHandle(
        fd_p, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

    if (result == CUDA_ERROR_INVALID_VALUE) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the virtual memory was created without support for "
                          "file descriptors (requestedHandleTypes)");
    }
    return mem_cuda_device_status(device, result,
                                  "cuMemExportToShareableHandle of memory of");
}

/* Make room for another handle. */
static bool grow(ipc_virtual_memory_t *memory)
{
    uint32_t            max = base_max(64u, 2 * memory->max);
    unsigned long long *handles;

    if (memory->num < memory->max) {
        return true;
    }
    handles = realloc(memory->handles, max * sizeof(*handles));
    if (handles == NULL) {
        return false;
    }
    memory->handles = handles;
    memory->max     = max;
    return true;
}

/* Add an allocation to the last run, or begin a run. Returns false if there are
 * too many runs. */
static bool add_to_run(ipc_virtual_layout_t *layout, uint64_t size)
{
    if ((layout->num_runs == 0) ||
        (layout->runs[layout->num_runs - 1].size != size)) {
        if (layout->num_runs == IPC_VIRTUAL_RUNS_MAX) {
            return false;
        }
        layout->runs[layout->num_runs++] = (ipc_virtual_run_t){size, 0};
    }
    layout->runs[layout->num_runs - 1].count++;
    return true;
}

static ucxpool_status_t retain_handle(const mem_cuda_device_t *device,
                                      CUdeviceptr              address,
                                      ipc_virtual_memory_t    *memory)
{
    CUmemGenericAllocationHandle handle = 0;
    CUresult                     result;

    if (memory->num == IPC_VIRTUAL_MAX) {
        return base_error(UCXPOOL_ERR_LIMIT,
                          "the memory spans more than %u allocations",
                          IPC_VIRTUAL_MAX);
    }
    if (!grow(memory)) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for the list of a window's allocations");
    }
    result = device->driver->cuMemRetainAllocationHandle(
        &handle, (void *)(uintptr_t)address);
    if (result == CUDA_ERROR_INVALID_VALUE) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the memory was allocated neither by cuMemAlloc() "
                          "nor by cuMemCreate()");
    }
    if (result != CUDA_SUCCESS) {
        return mem_cuda_device_status(
            device, result, "cuMemRetainAllocationHandle of memory of");
    }
    memory->handles[memory->num++] = handle;
    return UCXPOOL_OK;
}

/* Retain the allocation that contains an address. The driver maps whole
 * allocations, so a mapping starts at the allocation's first byte. Returns the
 * address of the next allocation. */
static ucxpool_status_t retain_at(const mem_cuda_device_t *device,
                                  CUdeviceptr              address,
                                  ipc_virtual_memory_t    *memory,
                                  CUdeviceptr             *next_p)
{
    CUdeviceptr      base = 0;
    size_t           size = 0;
    CUresult         result;
    ucxpool_status_t status = retain_handle(device, address, memory);

    if (status != UCXPOOL_OK) {
        return status;
    }
    result = device->driver->cuMemGetAddressRange(&base, &size, address);
    if (result != CUDA_SUCCESS) {
        return mem_cuda_device_status(device, result,
                                      "cuMemGetAddressRange of memory of");
    }
    if (!add_to_run(&memory->layout, size)) {
        return base_error(UCXPOOL_ERR_LIMIT,
                          "the sizes of the memory's allocations change more "
                          "than %u times",
                          IPC_VIRTUAL_RUNS_MAX - 1);
    }
    if (memory->num == 1) {
        memory->layout.offset = address - base;
    }
    *next_p = base + size;
    return UCXPOOL_OK;
}

/* Call this function and the next two between mem_cuda_device_enter() and
 * mem_cuda_device_leave(). */
static ucxpool_status_t export_some(const mem_cuda_device_t    *device,
                                    const ipc_virtual_memory_t *memory,
                                    uint32_t first, uint32_t num, int *fds)
{
    ucxpool_status_t status;

    for (uint32_t i = 0; i < num; i++) {
        status = export_file(device, memory->handles[first + i], &fds[i]);
        if (status != UCXPOOL_OK) {
            while (i-- > 0) {
                close(fds[i]);
            }
            return status;
        }
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t retain_all(const mem_cuda_device_t *device,
                                   CUdeviceptr address, uint64_t length,
                                   ipc_virtual_memory_t *memory)
{
    CUdeviceptr      end    = address + length;
    ucxpool_status_t status = UCXPOOL_OK;
    int              fd;

    while ((status == UCXPOOL_OK) && (address < end)) {
        status = retain_at(device, address, memory, &address);
    }
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = export_some(device, memory, 0, 1, &fd);
    if (status == UCXPOOL_OK) {
        close(fd);
    }
    return status;
}

static void release_all(const mem_cuda_device_t *device,
                        ipc_virtual_memory_t    *memory)
{
    for (uint32_t i = 0; i < memory->num; i++) {
        mem_cuda_try(device->driver, cuMemRelease, memory->handles[i]);
    }
    free(memory->handles);
    *memory = (ipc_virtual_memory_t){.handles = NULL};
}

ucxpool_status_t ipc_virtual_retain(const mem_cuda_device_t *device,
                                    const void *address, uint64_t length,
                                    ipc_virtual_memory_t *memory)
{
    ucxpool_status_t status;

    *memory = (ipc_virtual_memory_t){.handles = NULL};
    if (!device->has_vmm ||
        (device->driver->cuMemRetainAllocationHandle == NULL)) {
        return mem_cuda_no_vmm(device, "is needed to share memory that "
                                       "cuMemAlloc() did not allocate");
    }
    status = mem_cuda_device_enter(device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status =
        retain_all(device, (CUdeviceptr)(uintptr_t)address, length, memory);
    if (status != UCXPOOL_OK) {
        release_all(device, memory);
    }
    mem_cuda_device_leave(device);
    return status;
}

void ipc_virtual_release(const mem_cuda_device_t *device,
                         ipc_virtual_memory_t    *memory)
{
    if ((memory->num != 0) && (mem_cuda_device_enter(device) == UCXPOOL_OK)) {
        release_all(device, memory);
        mem_cuda_device_leave(device);
    }
}

ucxpool_status_t ipc_virtual_export(const mem_cuda_device_t    *device,
                                    const ipc_virtual_memory_t *memory,
                                    uint32_t first, uint32_t num, int *fds)
{
    ucxpool_status_t status;

    mem_cuda_device_do(device, status,
                       export_some(device, memory, first, num, fds));
    return status;
}

/* --- the peer's side ------------------------------------------------------ */

static ucxpool_status_t map_error(const mem_cuda_device_t *device,
                                  const ipc_virtual_t *range, CUresult result,
                                  const char *call)
{
    return mem_cuda_device_status(device, result,
                                  "%s of a peer's %" PRIu64 " bytes on", call,
                                  range->size);
}

/* Check the layout of a peer's memory, and add up the sizes of the
 * allocations. */
static bool measure(const ipc_virtual_layout_t *layout, uint64_t length,
                    ipc_virtual_t *range)
{
    uint64_t total = 0;
    uint64_t num   = 0;
    uint64_t size  = 0;

    for (uint32_t i = 0; i < layout->num_runs; i++) {
        const ipc_virtual_run_t *run = &layout->runs[i];

        if ((run->size == 0) || (run->count == 0) ||
            (run->count > IPC_VIRTUAL_MAX - num) ||
            !base_mul(run->size, run->count, &size) ||
            !base_add(total, size, &total) || (total > PTRDIFF_MAX)) {
            return false;
        }
        num += run->count;
        size = run->size;
    }
    range->size = total;
    range->num  = (uint32_t)num;
    return (num != 0) && (layout->offset < layout->runs[0].size) &&
           (length <= total - layout->offset) &&
           (total - size < layout->offset + length);
}

ucxpool_status_t ipc_virtual_reserve(const mem_cuda_device_t    *device,
                                     const ipc_virtual_layout_t *layout,
                                     uint64_t length, ipc_virtual_t *range_p)
{
    ipc_virtual_t    range   = {.size = 0};
    CUdeviceptr      address = 0;
    ucxpool_status_t status;

    if (!device->has_vmm) {
        return mem_cuda_no_vmm(device, "is needed to map a peer's memory");
    }
    if (!measure(layout, length, &range)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "the owner's window does not fit its allocations");
    }
    mem_cuda_device_do(device, status,
                       map_error(device, &range,
                                 device->driver->cuMemAddressReserve(
                                     &address, range.size, 0, 0, 0),
                                 "cuMemAddressReserve"));
    if (status == UCXPOOL_OK) {
        range.address = address;
        *range_p      = range;
    }
    return status;
}

/* Map the allocation that a descriptor refers to, and store the name of the
 * last call of the driver for errors. The driver maps only whole allocations,
 * so it rejects a wrong size. */
static CUresult map_file(const mem_cuda_driver_t *driver, int fd,
                         CUdeviceptr address, uint64_t size,
                         const char **call_p)
{
    CUmemGenericAllocationHandle handle = 0;
    CUresult                     result;

    *call_p = "cuMemImportFromShareableHandle";
    result  = driver->cuMemImportFromShareableHandle(
         &handle, (void *)(intptr_t)fd,
         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    *call_p = "cuMemMap";
    result  = driver->cuMemMap(address, size, 0, handle, 0);
    /* The mapping keeps a reference to the memory. */
    mem_cuda_try(driver, cuMemRelease, handle);
    return result;
}

static uint64_t size_of(const ipc_virtual_layout_t *layout, uint64_t index)
{
    const ipc_virtual_run_t *run = layout->runs;

    while (index >= run->count) {
        index -= run->count;
        run++;
    }
    return run->size;
}

ucxpool_status_t ipc_virtual_map(const mem_cuda_device_t    *device,
                                 const ipc_virtual_layout_t *layout,
                                 const int *fds, unsigned num_fds,
                                 bool is_writable, ipc_virtual_t *range)
{
    CUdeviceptr      start  = range->address + range->mapped_size;
    const char      *call   = NULL;
    CUresult         result = CUDA_SUCCESS;
    ucxpool_status_t status = mem_cuda_device_enter(device);
    uint64_t         size;

    if (status != UCXPOOL_OK) {
        return status;
    }
    for (unsigned i = 0; (i < num_fds) && (result == CUDA_SUCCESS); i++) {
        size   = size_of(layout, range->num_mapped);
        result = map_file(device->driver, fds[i],
                          range->address + range->mapped_size, size, &call);
        if (result == CUDA_SUCCESS) {
            range->mapped_size += size;
            range->num_mapped++;
        }
    }
    if (result == CUDA_SUCCESS) {
        call   = "cuMemSetAccess";
        result = mem_cuda_access_set(
            device, start, range->address + range->mapped_size - start,
            is_writable);
    }
    mem_cuda_device_leave(device);
    return map_error(device, range, result, call);
}

void ipc_virtual_unmap(const mem_cuda_device_t *device, ipc_virtual_t *range)
{
    const mem_cuda_driver_t *driver;

    if ((range->size == 0) || (mem_cuda_device_enter(device) != UCXPOOL_OK)) {
        return;
    }
    driver = device->driver;
    if (range->mapped_size != 0) {
        mem_cuda_try(driver, cuMemUnmap, range->address, range->mapped_size);
    }
    mem_cuda_try(driver, cuMemAddressFree, range->address, range->size);
    mem_cuda_device_leave(device);
    *range = (ipc_virtual_t){.size = 0};
}
