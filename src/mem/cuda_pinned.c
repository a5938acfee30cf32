#include "mem/cuda_pinned.h"

#include "base/error.h"
#include "mem/cuda_driver.h"

#include <assert.h>
#include <stdint.h>

/* The header precedes the memory, in a separate cache line. */
typedef struct header {
    mem_cuda_device_t *device;
} header_t;

#define HEADER_SIZE ((size_t)64)

static_assert(sizeof(header_t) <= HEADER_SIZE, "a header must fit");

ucxpool_status_t mem_cuda_pinned_take(const mem_cuda_device_t *device,
                                      size_t size, const char *what,
                                      void **address_p)
{
    const unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    ucxpool_status_t status;

    mem_cuda_device_do(
        device, status,
        mem_cuda_device_status(
            device, device->driver->cuMemHostAlloc(address_p, size, flags),
            "cuMemHostAlloc of %zu bytes for %s on", size, what));
    return status;
}

ucxpool_status_t mem_cuda_pinned_alloc(int ordinal, size_t size,
                                       void **address_p)
{
    mem_cuda_device_t *device;
    ucxpool_status_t   status;
    void              *base;

    if (size > SIZE_MAX - HEADER_SIZE) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "cannot allocate %zu bytes of pinned memory: the "
                          "size is too large",
                          size);
    }
    status = mem_cuda_device_open(ordinal, &device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = mem_cuda_pinned_take(device, size + HEADER_SIZE, "a list", &base);
    if (status != UCXPOOL_OK) {
        mem_cuda_device_close(device);
        return status;
    }
    ((header_t *)base)->device = device;
    *address_p                 = (char *)base + HEADER_SIZE;
    return UCXPOOL_OK;
}

void mem_cuda_pinned_free(void *address)
{
    header_t          *header;
    mem_cuda_device_t *device;

    if (address == NULL) {
        return;
    }
    header = (header_t *)(void *)((char *)address - HEADER_SIZE);
    device = header->device;
    mem_cuda_device_try(device, cuMemFreeHost, header);
    mem_cuda_device_close(device);
}

/* --- registered host memory ----------------------------------------------- */

#define REGISTER_FLAGS \
    (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)

void mem_cuda_unpin(const mem_cuda_device_t *device, void *address)
{
    mem_cuda_device_try(device, cuMemHostUnregister, address);
}

static ucxpool_status_t pin_error(const mem_cuda_device_t *device,
                                  CUresult result, size_t size,
                                  const char *remedy)
{
    return mem_cuda_error(device->driver, result,
                          "cannot pin %zu bytes of host memory for GPU %d "
                          "(%s)%s",
                          size, device->ordinal, device->name, remedy);
}

/* Memory that is mapped for reading only belongs to a peer. */
static const char *pin_remedy(CUresult result, bool is_read_only)
{
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
        return "";
    }
    return is_read_only ? "; if too little memory can be locked, raise the "
                          "limit (ulimit -l)"
                        : "; if too little memory can be locked, lower "
                          "UCXPOOL_COMM_SIZE or raise the limit (ulimit -l)";
}

/* Verify that the device uses the same address as the host, because a copy list
 * holds one address for both. */
static ucxpool_status_t pin(const mem_cuda_device_t *device, void *address,
                            size_t size, bool is_read_only)
{
    unsigned flags =
        REGISTER_FLAGS | (is_read_only ? CU_MEMHOSTREGISTER_READ_ONLY : 0u);
    CUdeviceptr      there = 0;
    ucxpool_status_t status;
    CUresult         result;

    result = device->driver->cuMemHostRegister(address, size, flags);
    if (result != CUDA_SUCCESS) {
        return pin_error(device, result, size,
                         pin_remedy(result, is_read_only));
    }
    result = device->driver->cuMemHostGetDevicePointer(&there, address, 0);
    if (result != CUDA_SUCCESS) {
        status = pin_error(device, result, size, "");
        goto err_unpin;
    }
    if (there != (CUdeviceptr)(uintptr_t)address) {
        status = base_error(UCXPOOL_ERR_UNSUPPORTED,
                            "GPU %d (%s) cannot access host memory at the "
                            "host's addresses: use GPU memory",
                            device->ordinal, device->name);
        goto err_unpin;
    }
    return UCXPOOL_OK;

err_unpin:
    mem_cuda_try(device->driver, cuMemHostUnregister, address);
    return status;
}

ucxpool_status_t mem_cuda_pin(const mem_cuda_device_t *device, void *address,
                              size_t size, bool is_read_only)
{
    ucxpool_status_t status;

    mem_cuda_device_do(device, status,
                       pin(device, address, size, is_read_only));
    return status;
}
