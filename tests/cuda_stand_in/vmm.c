/* Virtual memory: ranges, handles, and their mappings. */
#include "state.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define MAX_RANGES  1024
#define MAX_HANDLES 65536

#ifdef STAND_IN_WITHOUT_VMM

void range_of(CUdeviceptr address, CUdeviceptr *start_p, size_t *size_p)
{
}

#else

static struct {
    CUdeviceptr address;
    size_t      size; /* 0: no range */
} ranges[MAX_RANGES];

static backing_t *handles[MAX_HANDLES]; /* the handle is the index + 1 */
static unsigned   retains[MAX_HANDLES]; /* in addition to the first reference */
static unsigned   first_free;           /* no handle before this one is free */

void range_of(CUdeviceptr address, CUdeviceptr *start_p, size_t *size_p)
{
    for (unsigned i = 0; i < MAX_RANGES; i++) {
        if (address - ranges[i].address < ranges[i].size) {
            *start_p = ranges[i].address;
            *size_p  = ranges[i].size;
        }
    }
}

static backing_t *find_handle(CUmemGenericAllocationHandle handle)
{
    return (handle == 0) || (handle > MAX_HANDLES) ? NULL : handles[handle - 1];
}

/* Takes over a reference to the backing even if it fails. */
static CUresult add_handle(backing_t                    *backing,
                           CUmemGenericAllocationHandle *handle)
{
    while ((first_free < MAX_HANDLES) && (handles[first_free] != NULL)) {
        first_free++;
    }
    if (first_free == MAX_HANDLES) {
        backing_drop(backing);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    handles[first_free] = backing;
    backing->handle     = first_free + 1;
    *handle             = backing->handle;
    num_live++;
    return CUDA_SUCCESS;
}

static CUresult check_prop(const CUmemAllocationProp *prop)
{
    unsigned types = (unsigned)prop->requestedHandleTypes;

    if (!config.has_vmm) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if ((prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) ||
        (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) ||
        (prop->win32HandleMetaData != NULL)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if ((prop->location.id < 0) || (prop->location.id >= config.num_devices)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if ((prop->allocFlags.gpuDirectRDMACapable && !config.has_gdr) ||
        ((types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) &&
         !config.has_posix)) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if ((types & CU_MEM_HANDLE_TYPE_FABRIC) && (config.fabric != FABRIC_YES)) {
        return config.fabric == FABRIC_NO ? CUDA_ERROR_NOT_SUPPORTED
                                          : CUDA_ERROR_NOT_PERMITTED;
    }
    return CUDA_SUCCESS;
}

ENTRY(cuMemGetAllocationGranularity, size_t *granularity,
      const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option)
{
    CUresult result;

    BEGIN("cuMemGetAllocationGranularity", NEEDS_INIT);
    result       = check_prop(prop);
    *granularity = config.grain;
    /* The query succeeds although creation is not permitted. */
    return done(result == CUDA_ERROR_NOT_PERMITTED ? CUDA_SUCCESS : result);
}

ENTRY(cuMemAddressReserve, CUdeviceptr *address, size_t size, size_t alignment,
      CUdeviceptr wish, unsigned long long flags)
{
    void *range;

    BEGIN("cuMemAddressReserve", NEEDS_INIT);
    FAIL_IF((size == 0) || (size % GRANULARITY != 0) || (flags != 0) ||
                ((alignment & (alignment - 1)) != 0),
            CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < MAX_RANGES; i++) {
        if (ranges[i].size == 0) {
            range = range_reserve(size, alignment < GRANULARITY ? GRANULARITY
                                                                : alignment);
            if (range == NULL) {
                break;
            }
            ranges[i].address = (CUdeviceptr)(uintptr_t)range;
            ranges[i].size    = size;
            *address          = ranges[i].address;
            num_live++;
            return done(CUDA_SUCCESS);
        }
    }
    return done(CUDA_ERROR_OUT_OF_MEMORY);
}

/* Is anything mapped in this range? */
static bool has_mappings(CUdeviceptr address, size_t size)
{
    for (size_t offset = 0; offset < size; offset += GRANULARITY) {
        if (mapping_of(address + offset) != NULL) {
            return true;
        }
    }
    return false;
}

ENTRY(cuMemAddressFree, CUdeviceptr address, size_t size)
{
    BEGIN("cuMemAddressFree", NEEDS_INIT);
    for (unsigned i = 0; i < MAX_RANGES; i++) {
        if ((ranges[i].size == size) && (ranges[i].address == address) &&
            (size != 0) && !has_mappings(address, size)) {
            munmap((void *)(uintptr_t)address, size);
            ranges[i].size = 0;
            num_live--;
            return done(CUDA_SUCCESS);
        }
    }
    return done(CUDA_ERROR_INVALID_VALUE);
}

ENTRY(cuMemCreate, CUmemGenericAllocationHandle *handle, size_t size,
      const CUmemAllocationProp *prop, unsigned long long flags)
{
    backing_t *backing;
    CUresult   result;

    BEGIN("cuMemCreate", NEEDS_INIT);
    result = check_prop(prop);
    if (result != CUDA_SUCCESS) {
        return done(result);
    }
    FAIL_IF((size == 0) || (size % GRANULARITY != 0) || (flags != 0),
            CUDA_ERROR_INVALID_VALUE);
    backing = backing_create_virtual(prop->location.id, size);
    FAIL_IF(backing == NULL, CUDA_ERROR_OUT_OF_MEMORY);
    backing->handle_types = (unsigned)prop->requestedHandleTypes;
    backing->is_gdr       = prop->allocFlags.gpuDirectRDMACapable;
    return done(add_handle(backing, handle));
}

ENTRY(cuMemRelease, CUmemGenericAllocationHandle handle)
{
    backing_t *backing;

    BEGIN("cuMemRelease", NEEDS_INIT);
    backing = find_handle(handle);
    FAIL_IF(backing == NULL, CUDA_ERROR_INVALID_VALUE);
    if (retains[handle - 1] != 0) {
        retains[handle - 1]--;
        num_live--;
        return done(CUDA_SUCCESS);
    }
    handles[handle - 1] = NULL;
    backing->handle     = 0;
    first_free = (handle <= first_free) ? (unsigned)handle - 1 : first_free;
    num_live--;
    backing_drop(backing);
    return done(CUDA_SUCCESS);
}

/* Returns the handle with which it was mapped, even if that has been
 * released. */
ENTRY(cuMemRetainAllocationHandle, CUmemGenericAllocationHandle *handle,
      void *address)
{
    mapping_t *mapping;

    BEGIN("cuMemRetainAllocationHandle", NEEDS_INIT);
    mapping = mapping_of((CUdeviceptr)(uintptr_t)address);
    FAIL_IF((mapping == NULL) || (mapping->kind != MAPPING_VMM),
            CUDA_ERROR_INVALID_VALUE);
    if (mapping->backing->handle != 0) {
        *handle = mapping->backing->handle;
        retains[*handle - 1]++;
        num_live++;
        return done(CUDA_SUCCESS);
    }
    mapping->backing->refs++;
    return done(add_handle(mapping->backing, handle));
}

static bool is_reserved(CUdeviceptr address, size_t size)
{
    for (unsigned i = 0; i < MAX_RANGES; i++) {
        if ((address >= ranges[i].address) && (size <= ranges[i].size) &&
            (address - ranges[i].address <= ranges[i].size - size)) {
            return true;
        }
    }
    return false;
}

ENTRY(cuMemMap, CUdeviceptr address, size_t size, size_t offset,
      CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    backing_t *backing;

    BEGIN("cuMemMap", NEEDS_INIT);
    backing = find_handle(handle);
    FAIL_IF((backing == NULL) || (offset != 0) || (size != backing->size) ||
                (flags != 0) || (address % GRANULARITY != 0) ||
                !is_reserved(address, size) || has_mappings(address, size),
            CUDA_ERROR_INVALID_VALUE);
    if (!mapping_add((mapping_t){address, size, MAPPING_VMM, backing, 0, 0,
                                 backing->device})) {
        return done(CUDA_ERROR_OUT_OF_MEMORY);
    }
    backing->refs++;
    return done(CUDA_SUCCESS);
}

/* Does the range consist of whole mappings? */
static bool is_whole(CUdeviceptr address, size_t size)
{
    mapping_t *mapping;

    while (size > 0) {
        mapping = mapping_at(address);
        if ((mapping == NULL) || (mapping->kind != MAPPING_VMM) ||
            (mapping->size > size)) {
            return false;
        }
        address += mapping->size;
        size -= mapping->size;
    }
    return true;
}

ENTRY(cuMemUnmap, CUdeviceptr address, size_t size)
{
    mapping_t *mapping;
    size_t     num = 0;

    BEGIN("cuMemUnmap", NEEDS_INIT);
    FAIL_IF((size == 0) || !is_whole(address, size), CUDA_ERROR_INVALID_VALUE);
    /* The driver waits for pending work. */
    stream_work(~0u);
    mapping = mapping_at(address);
    for (CUdeviceptr end = address + size; address < end; num++) {
        address += mapping[num].size;
        backing_drop(mapping[num].backing);
    }
    mapping_remove(mapping, num);
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemSetAccess, CUdeviceptr address, size_t size,
      const CUmemAccessDesc *desc, size_t num)
{
    mapping_t *mapping;
    unsigned   bit;

    BEGIN("cuMemSetAccess", NEEDS_INIT);
    FAIL_IF((size == 0) || !is_whole(address, size), CUDA_ERROR_INVALID_VALUE);
    for (CUdeviceptr end = address + size; address < end;
         address += mapping->size) {
        mapping = mapping_at(address);
        for (size_t i = 0; i < num; i++) {
            FAIL_IF(
                !backing_is_reachable(mapping->backing, desc[i].location.id),
                CUDA_ERROR_INVALID_DEVICE);
            bit = 1u << desc[i].location.id;
            mapping->readers &= ~bit;
            mapping->writers &= ~bit;
            if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) {
                mapping->readers |= bit;
            }
            if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
                mapping->writers |= bit;
            }
        }
    }
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemExportToShareableHandle, void *shareable,
      CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
      unsigned long long flags)
{
    backing_t *backing;
    int        fd;

    BEGIN("cuMemExportToShareableHandle", NEEDS_INIT);
    backing = find_handle(handle);
    FAIL_IF((backing == NULL) || (flags != 0) ||
                (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ||
                ((backing->handle_types & (unsigned)type) == 0),
            CUDA_ERROR_INVALID_VALUE);
    fd = backing_export(backing);
    FAIL_IF(fd < 0, CUDA_ERROR_OPERATING_SYSTEM);
    memcpy(shareable, &fd, sizeof(fd));
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemImportFromShareableHandle, CUmemGenericAllocationHandle *handle,
      void *shareable, CUmemAllocationHandleType type)
{
    backing_t *backing;
    int        fd;

    BEGIN("cuMemImportFromShareableHandle", NEEDS_CONTEXT);
    FAIL_IF(type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            CUDA_ERROR_NOT_SUPPORTED);
    fd = fcntl((int)(intptr_t)shareable, F_DUPFD_CLOEXEC, 0);
    FAIL_IF(fd < 0, CUDA_ERROR_INVALID_VALUE);
    backing = backing_adopt(fd, current_context()->device);
    FAIL_IF(backing == NULL, CUDA_ERROR_INVALID_VALUE);
    backing->handle_types = (unsigned)type;
    return done(add_handle(backing, handle));
}

#endif
