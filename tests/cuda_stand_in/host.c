/* Pinned host memory, and pointer attributes. */
#include "state.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define ALL_DEVICES ((1u << MAX_DEVICES) - 1)

static mapping_t host_mapping(void *address, size_t size, mapping_kind_t kind)
{
    return (mapping_t){(CUdeviceptr)(uintptr_t)address,
                       size,
                       kind,
                       NULL,
                       ALL_DEVICES,
                       ALL_DEVICES,
                       current_context()->device};
}

ENTRY(cuMemHostAlloc, void **address, size_t size, unsigned flags)
{
    void *host;

    BEGIN("cuMemHostAlloc", NEEDS_CONTEXT);
    FAIL_IF((size == 0) || (flags > 7), CUDA_ERROR_INVALID_VALUE);
    host = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0);
    FAIL_IF(host == MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
    if (!mapping_add(host_mapping(host, size, MAPPING_HOST))) {
        munmap(host, size);
        return done(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *address = host;
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemFreeHost, void *address)
{
    mapping_t *mapping;

    BEGIN("cuMemFreeHost", NEEDS_CONTEXT);
    stream_work(~0u);
    mapping = mapping_at((CUdeviceptr)(uintptr_t)address);
    FAIL_IF((mapping == NULL) || (mapping->kind != MAPPING_HOST),
            CUDA_ERROR_INVALID_VALUE);
    mapping_destroy(mapping);
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemHostRegister_v2, void *address, size_t size, unsigned flags)
{
    BEGIN("cuMemHostRegister", NEEDS_CONTEXT);
    FAIL_IF((address == NULL) || (size == 0) || (flags > 15),
            CUDA_ERROR_INVALID_VALUE);
    FAIL_IF(!mapping_add(host_mapping(address, size, MAPPING_REGISTERED)),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemHostUnregister, void *address)
{
    mapping_t *mapping;

    BEGIN("cuMemHostUnregister", NEEDS_CONTEXT);
    stream_work(~0u);
    mapping = mapping_at((CUdeviceptr)(uintptr_t)address);
    FAIL_IF((mapping == NULL) || (mapping->kind != MAPPING_REGISTERED),
            CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    mapping_remove(mapping, 1);
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemHostGetDevicePointer_v2, CUdeviceptr *address, void *host,
      unsigned flags)
{
    mapping_t *mapping;

    BEGIN("cuMemHostGetDevicePointer", NEEDS_CONTEXT);
    mapping = mapping_of((CUdeviceptr)(uintptr_t)host);
    FAIL_IF((flags != 0) || (mapping == NULL) || (mapping->backing != NULL),
            CUDA_ERROR_INVALID_VALUE);
    *address = (CUdeviceptr)(uintptr_t)host;
    if ((mapping->kind == MAPPING_REGISTERED) && !config.has_host_pointer) {
        *address += 1ull << 45;
    }
    return done(CUDA_SUCCESS);
}

/* Each value has the type of its attribute. mapping is NULL for memory outside
 * the driver. */
static CUresult attribute_get(CUpointer_attribute attribute,
                              CUdeviceptr address, const mapping_t *mapping,
                              void *value)
{
    bool        is_host = (mapping != NULL) && (mapping->backing == NULL);
    bool        is_vmm  = (mapping != NULL) && (mapping->kind == MAPPING_VMM);
    CUdeviceptr start   = mapping == NULL ? 0 : mapping->address;
    size_t      size    = mapping == NULL ? 0 : mapping->size;

    if (is_vmm) {
        /* Like the driver: the whole range, mapped or not. */
        range_of(address, &start, &size);
    }
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        /* A virtual range belongs to no context. */
        *(CUcontext *)value =
            (mapping == NULL) || is_vmm ? NULL : &contexts[mapping->device];
        return mapping == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value = mapping == NULL ? 0
                             : is_host       ? CU_MEMORYTYPE_HOST
                                             : CU_MEMORYTYPE_DEVICE;
        return mapping == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)value = mapping == NULL ? 0 : address;
        return mapping == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(CUdeviceptr *)value = is_host ? address : 0;
        return is_host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(int *)value = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = mapping == NULL ? -2 : mapping->device;
        return mapping == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(int *)value = (mapping != NULL) && (mapping->kind == MAPPING_ALLOC);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = start;
        return mapping == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = size;
        return mapping == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(int *)value = mapping != NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned *)value = is_vmm ? mapping->backing->handle_types : 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* Queried for one attribute, an unknown pointer is an error. Queried for
 * several, their values show that it is unknown. */
ENTRY(cuPointerGetAttributes, unsigned num, CUpointer_attribute *attributes,
      void **values, CUdeviceptr address)
{
    mapping_t *mapping;

    BEGIN("cuPointerGetAttributes", NEEDS_INIT);
    mapping = mapping_of(address);
    for (unsigned i = 0; i < num; i++) {
        (void)attribute_get(attributes[i], address, mapping, values[i]);
    }
    return done(CUDA_SUCCESS);
}

ENTRY(cuPointerGetAttribute, void *value, CUpointer_attribute attribute,
      CUdeviceptr address)
{
    BEGIN("cuPointerGetAttribute", NEEDS_INIT);
    return done(attribute_get(attribute, address, mapping_of(address), value));
}
