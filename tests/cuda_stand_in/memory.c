/* Device memory, the addresses mapped to it, and cuMemAlloc. */
#include <config.h>

#include "state.h"

#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE ((size_t)4096)

size_t memory_used[MAX_DEVICES];

/* Sorted by address. */
static mapping_t *mappings;
static size_t     num_mappings;
static size_t     max_mappings;

static backing_t *backing_of(int fd, int device, size_t size)
{
    backing_t *backing = calloc(1, sizeof(*backing));
    void      *alias;

    if (backing == NULL) {
        return NULL;
    }
    alias = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (alias == MAP_FAILED) {
        free(backing);
        return NULL;
    }
    backing->refs   = 1;
    backing->fd     = fd;
    backing->size   = size;
    backing->alias  = alias;
    backing->device = device;
    return backing;
}

backing_t *backing_create(int device, size_t size)
{
    backing_t *backing = NULL;
    int        fd;

    if (size > config.memory - memory_used[device]) {
        return NULL;
    }
    fd = memfd_create("stand-in-gpu", MFD_CLOEXEC);
    if ((fd >= 0) && (ftruncate(fd, (off_t)size) == 0)) {
        backing = backing_of(fd, device, size);
    }
    if (backing == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return NULL;
    }
    memory_used[device] += size;
    num_live++;
    return backing;
}

/* Takes over the descriptor even if it fails. */
backing_t *backing_adopt(int fd, int device)
{
    backing_t  *backing = NULL;
    struct stat is;

    if (fstat(fd, &is) == 0) {
        backing = backing_of(fd, device, (size_t)is.st_size);
    }
    if (backing == NULL) {
        close(fd);
        return NULL;
    }
    backing->is_foreign = true;
    num_live++;
    return backing;
}

void backing_drop(backing_t *backing)
{
    backing->refs--;
    if (backing->refs > 0) {
        return;
    }
    if (!backing->is_foreign) {
        memory_used[backing->device] -= backing->size;
    }
    munmap(backing->alias, backing->size);
    close(backing->fd);
    free(backing);
    num_live--;
}

void *range_reserve(size_t size, size_t alignment)
{
    size_t whole = size + alignment;
    char  *start = mmap(NULL, whole, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t head;

    if (start == (char *)MAP_FAILED) {
        return NULL;
    }
    head = -(uintptr_t)start % alignment;
    if (head != 0) {
        munmap(start, head);
    }
    if (whole - head != size) {
        munmap(start + head + size, whole - head - size);
    }
    return start + head;
}

/* Index of the first mapping that starts after an address. */
static size_t index_behind(CUdeviceptr address)
{
    size_t low = 0, high = num_mappings, middle;

    while (low < high) {
        middle = (low + high) / 2;
        if (mappings[middle].address <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool mapping_add(mapping_t mapping)
{
    size_t     index = index_behind(mapping.address);
    mapping_t *larger;

    if (((index > 0) &&
         (mappings[index - 1].address + mappings[index - 1].size >
          mapping.address)) ||
        ((index < num_mappings) &&
         (mapping.address + mapping.size > mappings[index].address))) {
        return false;
    }
    if (num_mappings == max_mappings) {
        larger = realloc(mappings, (2 * max_mappings + 16) * sizeof(*mappings));
        if (larger == NULL) {
            return false;
        }
        mappings     = larger;
        max_mappings = 2 * max_mappings + 16;
    }
    memmove(&mappings[index + 1], &mappings[index],
            (num_mappings - index) * sizeof(*mappings));
    mappings[index] = mapping;
    num_mappings++;
    num_live++;
    return true;
}

mapping_t *mapping_of(CUdeviceptr address)
{
    size_t index = index_behind(address);

    if ((index == 0) ||
        (address - mappings[index - 1].address >= mappings[index - 1].size)) {
        return NULL;
    }
    return &mappings[index - 1];
}

mapping_t *mapping_at(CUdeviceptr address)
{
    mapping_t *mapping = mapping_of(address);

    return ((mapping != NULL) && (mapping->address == address)) ? mapping
                                                                : NULL;
}

void mapping_remove(mapping_t *mapping)
{
    size_t index = (size_t)(mapping - mappings);

    assert(index < num_mappings);
    memmove(&mappings[index], &mappings[index + 1],
            (num_mappings - index - 1) * sizeof(*mappings));
    num_mappings--;
    num_live--;
}

char *resolve(CUdeviceptr address, int device, bool is_written, size_t *run_p)
{
    mapping_t *mapping = mapping_of(address);
    unsigned   allowed;
    size_t     offset;

    if (mapping == NULL) {
        return NULL;
    }
    allowed = is_written ? mapping->writers : mapping->readers;
    if ((mapping->kind == MAPPING_ALLOC) &&
        (contexts[device].peers & (1u << mapping->device))) {
        allowed |= 1u << device;
    }
    if ((allowed & (1u << device)) == 0) {
        return NULL;
    }
    offset = (size_t)(address - mapping->address);
    *run_p = mapping->size - offset;
    return mapping->backing == NULL ? (char *)(uintptr_t)address
                                    : mapping->backing->alias + offset;
}

ENTRY(cuMemAlloc_v2, CUdeviceptr *address, size_t size)
{
    int        device;
    size_t     whole;
    backing_t *backing;
    void      *range;
    mapping_t  mapping;

    BEGIN("cuMemAlloc", NEEDS_CONTEXT);
    device = current_context()->device;
    if (size == 0) {
        return done(CUDA_ERROR_INVALID_VALUE);
    }
    whole = (size + PAGE - 1) & ~(PAGE - 1);
    if (whole < size) {
        return done(CUDA_ERROR_OUT_OF_MEMORY);
    }
    backing = backing_create(device, whole);
    if (backing == NULL) {
        return done(CUDA_ERROR_OUT_OF_MEMORY);
    }
    range = range_reserve(whole, size >= (size_t)1 << 20 ? GRANULARITY : PAGE);
    mapping = (mapping_t){(CUdeviceptr)(uintptr_t)range,
                          whole,
                          MAPPING_ALLOC,
                          backing,
                          1u << device,
                          1u << device,
                          device};
    if ((range == NULL) || !mapping_add(mapping)) {
        backing_drop(backing);
        return done(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *address = mapping.address;
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemFree_v2, CUdeviceptr address)
{
    mapping_t *mapping;

    BEGIN("cuMemFree", NEEDS_CONTEXT);
    if (address == 0) {
        return done(CUDA_SUCCESS);
    }
    mapping = mapping_at(address);
    /* Allocations imported from a pool are freed this way, too. */
    if ((mapping == NULL) ||
        ((mapping->kind != MAPPING_ALLOC) && (mapping->kind != MAPPING_POOL))) {
        return done(CUDA_ERROR_INVALID_VALUE);
    }
    if ((mapping->kind == MAPPING_POOL) && !mapping->backing->is_foreign) {
        return done(CUDA_ERROR_NOT_SUPPORTED);
    }
    stream_work(~0u);
    mapping = mapping_at(address);
    munmap((void *)(uintptr_t)address, mapping->size);
    backing_drop(mapping->backing);
    mapping_remove(mapping);
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemGetInfo_v2, size_t *free_size, size_t *total_size)
{
    int device;

    BEGIN("cuMemGetInfo", NEEDS_CONTEXT);
    device      = current_context()->device;
    *free_size  = config.memory - memory_used[device];
    *total_size = config.memory;
    return done(CUDA_SUCCESS);
}

ENTRY(cuMemGetAddressRange_v2, CUdeviceptr *base, size_t *size,
      CUdeviceptr address)
{
    mapping_t *mapping;

    BEGIN("cuMemGetAddressRange", NEEDS_CONTEXT);
    mapping = mapping_of(address);
    if (mapping == NULL) {
        return done(CUDA_ERROR_NOT_FOUND);
    }
    if (base != NULL) {
        *base = mapping->address;
    }
    if (size != NULL) {
        *size = mapping->size;
    }
    return done(CUDA_SUCCESS);
}
