#include <config.h>

#include "ipc/mempool.h"

#include "base/error.h"
#include "mem/cuda_driver.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static_assert(sizeof(CUmemPoolPtrExportData) ==
                  sizeof(((ipc_cuda_t *)NULL)->handle),
              "an allocation's bytes go where an IPC handle goes");

static ucxpool_status_t driver_error(const mem_cuda_device_t *device,
                                     CUresult result, const char *call)
{
    return mem_cuda_error(device->driver, result,
                          "%s for memory of a memory pool, on GPU %d (%s)",
                          call, device->ordinal, device->name);
}

/* --- the owner's side ----------------------------------------------------- */

/* Returns the pool of an address, or NULL. Queries a list of attributes,
 * because that query does not fail for an unknown address. */
static CUmemoryPool pool_of(const mem_cuda_driver_t *driver,
                            CUdeviceptr              address)
{
    CUmemoryPool        pool     = NULL;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    void               *values[] = {&pool};

    return (driver->cuPointerGetAttributes(1, wanted, values, address) ==
            CUDA_SUCCESS)
               ? pool
               : NULL;
}

bool ipc_mempool_has(const mem_cuda_device_t *device, const void *address)
{
    return pool_of(device->driver, (CUdeviceptr)(uintptr_t)address) != NULL;
}

static ucxpool_status_t export_pool(const mem_cuda_device_t *device,
                                    CUmemoryPool pool, int *fd_p)
{
    CUresult result = device->driver->cuMemPoolExportToShareableHandle(
        fd_p, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

    if (result == CUDA_ERROR_INVALID_VALUE) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the memory pool was created without handles that "
                          "are file descriptors (handleTypes)");
    }
    return (result == CUDA_SUCCESS)
               ? UCXPOOL_OK
               : driver_error(device, result,
                              "cuMemPoolExportToShareableHandle");
}

/* Call between enter and leave. */
static ucxpool_status_t fill(const mem_cuda_device_t *device,
                             CUdeviceptr address, uint64_t length,
                             ipc_cuda_t *share, uint64_t *offset_p)
{
    const mem_cuda_driver_t *driver = device->driver;
    CUmemoryPool             pool   = pool_of(driver, address);
    CUdeviceptr              base   = 0;
    size_t                   size   = 0;
    int                      fd     = -1;
    CUmemPoolPtrExportData   data;
    ucxpool_status_t         status;
    CUresult                 result;

    if (pool == NULL) {
        return base_error(UCXPOOL_ERR_IO,
                          "the memory does not belong to a memory pool");
    }
    if (!driver->has_mempools) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the memory belongs to a memory pool, and the driver "
                          "cannot share memory pools");
    }
    result = driver->cuMemGetAddressRange(&base, &size, address);
    if (result != CUDA_SUCCESS) {
        return driver_error(device, result, "cuMemGetAddressRange");
    }
    if ((address - base > size) || (length > size - (address - base))) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the memory lies in more than one allocation");
    }
    status = export_pool(device, pool, &fd);
    if (status != UCXPOOL_OK) {
        return status;
    }
    /* The driver exports a pointer only after it has exported the pool. */
    result = driver->cuMemPoolExportPointer(&data, base);
    if (result != CUDA_SUCCESS) {
        close(fd);
        return driver_error(device, result, "cuMemPoolExportPointer");
    }
    *share = (ipc_cuda_t){.size = size, .way = IPC_CUDA_MEMPOOL, .fd = fd};
    memcpy(share->uuid, &device->uuid, sizeof(share->uuid));
    memcpy(share->handle, &data, sizeof(data));
    *offset_p = address - base;
    return UCXPOOL_OK;
}

ucxpool_status_t ipc_mempool_fill(const mem_cuda_device_t *device,
                                  const void *address, uint64_t length,
                                  ipc_cuda_t *share, uint64_t *offset_p)
{
    ucxpool_status_t status = mem_cuda_device_enter(device);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status =
        fill(device, (CUdeviceptr)(uintptr_t)address, length, share, offset_p);
    mem_cuda_device_leave(device);
    return status;
}

/* --- the peer's side ------------------------------------------------------ */

static CUresult import_pool(const mem_cuda_device_t *device, int fd,
                            CUmemoryPool *pool_p, const char **call_p)
{
    const mem_cuda_driver_t *driver = device->driver;
    const CUmemAccessDesc    access = {
           .location = {CU_MEM_LOCATION_TYPE_DEVICE, device->device},
           .flags    = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    CUresult result;

    *call_p = "cuMemPoolImportFromShareableHandle";
    result  = driver->cuMemPoolImportFromShareableHandle(
         pool_p, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
         0);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    *call_p = "cuMemPoolSetAccess";
    result  = driver->cuMemPoolSetAccess(*pool_p, &access, 1);
    if (result != CUDA_SUCCESS) {
        mem_cuda_ignore(driver, driver->cuMemPoolDestroy(*pool_p),
                        "cuMemPoolDestroy");
    }
    return result;
}

/* Check that the allocation is as large as the peer announced. If a kernel
 * accessed memory past the end, this process could no longer use the GPU. */
static ucxpool_status_t check_size(const mem_cuda_device_t *device,
                                   CUdeviceptr address, uint64_t size)
{
    CUdeviceptr base   = 0;
    size_t      really = 0;
    CUresult    result =
        device->driver->cuMemGetAddressRange(&base, &really, address);

    if (result != CUDA_SUCCESS) {
        return driver_error(device, result, "cuMemGetAddressRange");
    }
    if ((base != address) || (really < size)) {
        return base_error(
            UCXPOOL_ERR_PROTOCOL,
            "a peer's allocation has %zu bytes, but announced %" PRIu64, really,
            size);
    }
    return UCXPOOL_OK;
}

/* Call between enter and leave. */
static ucxpool_status_t map(const mem_cuda_device_t *device,
                            const ipc_cuda_t *share, int fd,
                            ipc_mempool_t *mapped)
{
    const mem_cuda_driver_t *driver = device->driver;
    CUmemPoolPtrExportData   data;
    const char              *call;
    ucxpool_status_t         status;
    CUresult                 result;

    result = import_pool(device, fd, &mapped->pool, &call);
    if (result != CUDA_SUCCESS) {
        return driver_error(device, result, call);
    }
    memcpy(&data, share->handle, sizeof(data));
    result =
        driver->cuMemPoolImportPointer(&mapped->address, mapped->pool, &data);
    if (result != CUDA_SUCCESS) {
        status = driver_error(device, result, "cuMemPoolImportPointer");
        goto err_destroy_pool;
    }
    status = check_size(device, mapped->address, share->size);
    if (status != UCXPOOL_OK) {
        goto err_free;
    }
    return UCXPOOL_OK;

err_free:
    mem_cuda_ignore(driver, driver->cuMemFree(mapped->address), "cuMemFree");
err_destroy_pool:
    mem_cuda_ignore(driver, driver->cuMemPoolDestroy(mapped->pool),
                    "cuMemPoolDestroy");
    return status;
}

ucxpool_status_t ipc_mempool_map(const mem_cuda_device_t *device,
                                 const ipc_cuda_t *share, int fd,
                                 ipc_mempool_t *mapped_p)
{
    ipc_mempool_t    mapped = {NULL, 0};
    ucxpool_status_t status;

    if (!device->driver->has_mempools) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the driver has no functions to share memory pools");
    }
    status = mem_cuda_device_enter(device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = map(device, share, fd, &mapped);
    mem_cuda_device_leave(device);
    if (status == UCXPOOL_OK) {
        *mapped_p = mapped;
    }
    return status;
}

void ipc_mempool_unmap(const mem_cuda_device_t *device, ipc_mempool_t *mapped)
{
    const mem_cuda_driver_t *driver = device->driver;

    if (mem_cuda_device_enter(device) == UCXPOOL_OK) {
        mem_cuda_ignore(driver, driver->cuMemFree(mapped->address),
                        "cuMemFree");
        mem_cuda_device_leave(device);
    }
    /* cuMemPoolDestroy() needs no context. */
    mem_cuda_ignore(driver, driver->cuMemPoolDestroy(mapped->pool),
                    "cuMemPoolDestroy");
    *mapped = (ipc_mempool_t){NULL, 0};
}
