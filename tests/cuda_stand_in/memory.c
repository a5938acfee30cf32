/* Device memory, the addresses mapped to it, and cuMemAlloc. */
#include <config.h>

#include "state.h"

#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE ((size_t)4096)

/* The name of a file of device memory, before the device's number. */
#define FILE_NAME "stand-in-gpu"

size_t memory_used[MAX_DEVICES];

/* Sorted by address. */
static mapping_t *mappings;
static size_t     num_mappings;
static size_t     max_mappings;

/* Files that cuMemCreate() still fills. */
static file_t *filling[MAX_DEVICES];
static size_t  filled[MAX_DEVICES]; /* bytes */

/* Takes over the descriptor even if it fails. */
static file_t *file_of(int fd, off_t offset, size_t size, int home)
{
    file_t *file = calloc(1, sizeof(*file));
    void   *alias;

    alias = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    if ((file == NULL) || (alias == MAP_FAILED)) {
        free(file);
        close(fd);
        return NULL;
    }
    *file = (file_t){
        .refs = 1, .fd = fd, .size = size, .alias = alias, .home = home};
    return file;
}

static file_t *file_create(int device, size_t size)
{
    char name[32];
    int  fd;

    snprintf(name, sizeof(name), FILE_NAME "%d", device);
    fd = memfd_create(name, MFD_CLOEXEC);
    if ((fd >= 0) && (ftruncate(fd, (off_t)size) != 0)) {
        close(fd);
        return NULL;
    }
    return (fd < 0) ? NULL : file_of(fd, 0, size, device);
}

static void file_drop(file_t *file)
{
    file->refs--;
    if (file->refs == 0) {
        munmap(file->alias, file->size);
        if (file->fd >= 0) {
            close(file->fd);
        }
        free(file);
    }
}

/* Takes over a reference to the file even if it fails. */
static backing_t *backing_of(file_t *file, size_t offset, size_t size,
                             int device)
{
    backing_t *backing = (file == NULL) ? NULL : calloc(1, sizeof(*backing));

    if (backing == NULL) {
        if (file != NULL) {
            file_drop(file);
        }
        return NULL;
    }
    backing->refs   = 1;
    backing->file   = file;
    backing->offset = offset;
    backing->size   = size;
    backing->alias  = file->alias + offset;
    backing->device = device;
    num_live++;
    return backing;
}

/* Count the memory of a new backing. */
static backing_t *charge(backing_t *backing)
{
    if (backing != NULL) {
        memory_used[backing->device] += backing->size;
    }
    return backing;
}

backing_t *backing_create(int device, size_t size)
{
    if (size > config.memory - memory_used[device]) {
        return NULL;
    }
    return charge(backing_of(file_create(device, size), 0, size, device));
}

/* Make room for an allocation in the device's file, or begin another file. */
static bool fill_file(int device, size_t size)
{
    file_t **file = &filling[device];

    if ((*file != NULL) && (size > (*file)->size - filled[device])) {
        file_drop(*file);
        *file = NULL;
    }
    if (*file == NULL) {
        *file          = file_create(device, config.per_file * size);
        filled[device] = 0;
    }
    return *file != NULL;
}

backing_t *backing_create_virtual(int device, size_t size)
{
    size_t offset;

    if (config.per_file == 1) {
        return backing_create(device, size);
    }
    if ((size > config.memory - memory_used[device]) ||
        !fill_file(device, size)) {
        return NULL;
    }
    offset = filled[device];
    filled[device] += size;
    filling[device]->refs++;
    return charge(backing_of(filling[device], offset, size, device));
}

/* Returns the device whose memory the file is, in any process. */
static int device_of(int fd)
{
    char        path[32], name[64] = "";
    const char *number;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    (void)!readlink(path, name, sizeof(name) - 1);
    number = strstr(name, FILE_NAME);
    return (number == NULL) ? 0 : atoi(number + strlen(FILE_NAME));
}

bool backing_is_reachable(const backing_t *backing, int device)
{
    return config.has_peers || (backing->file->home == device);
}

/* The position in an exported file is 0 for the whole file. Otherwise it is the
 * offset of the part, plus the number of units of GRANULARITY in it. */
int backing_export(const backing_t *backing)
{
    char  path[32];
    off_t at = (off_t)(backing->offset + backing->size / GRANULARITY);
    int   fd;

    if (backing->size == backing->file->size) {
        return fcntl(backing->file->fd, F_DUPFD_CLOEXEC, 0);
    }
    /* The position belongs to the open file, so open it again. */
    snprintf(path, sizeof(path), "/proc/self/fd/%d", backing->file->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if ((fd >= 0) && (lseek(fd, at, SEEK_SET) != at)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Takes over the descriptor even if it fails. */
backing_t *backing_adopt(int fd, int device)
{
    off_t       at = lseek(fd, 0, SEEK_CUR);
    backing_t  *backing;
    file_t     *file;
    struct stat is;

    if ((at < 0) || (fstat(fd, &is) != 0)) {
        close(fd);
        return NULL;
    }
    if (at != 0) {
        is.st_size = at % (off_t)GRANULARITY * (off_t)GRANULARITY;
        at -= at % (off_t)GRANULARITY;
        file = file_of(fd, at, (size_t)is.st_size, device_of(fd));
        /* As the driver, keep no descriptor. */
        if (file != NULL) {
            close(fd);
            file->fd = -1;
        }
    } else {
        file = file_of(fd, 0, (size_t)is.st_size, device_of(fd));
    }
    backing = backing_of(file, 0, (size_t)is.st_size, device);
    if (backing != NULL) {
        backing->is_foreign = true;
    }
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
    file_drop(backing->file);
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

CUdeviceptr mapping_create(backing_t *backing, mapping_kind_t kind,
                           size_t alignment)
{
    unsigned    bit = 1u << backing->device;
    CUdeviceptr address =
        (CUdeviceptr)(uintptr_t)range_reserve(backing->size, alignment);

    if ((address == 0) ||
        !mapping_add((mapping_t){address, backing->size, kind, backing, bit,
                                 bit, backing->device})) {
        backing_drop(backing);
        return 0;
    }
    return address;
}

void mapping_destroy(mapping_t *mapping)
{
    munmap((void *)(uintptr_t)mapping->address, mapping->size);
    if (mapping->backing != NULL) {
        backing_drop(mapping->backing);
    }
    mapping_remove(mapping, 1);
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

void mapping_remove(mapping_t *mapping, size_t num)
{
    size_t index = (size_t)(mapping - mappings);

    assert(index + num <= num_mappings);
    memmove(mapping, mapping + num,
            (num_mappings - index - num) * sizeof(*mappings));
    num_mappings -= num;
    num_live -= (unsigned)num;
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

    BEGIN("cuMemAlloc", NEEDS_CONTEXT);
    device = current_context()->device;
    FAIL_IF(size == 0, CUDA_ERROR_INVALID_VALUE);
    whole = (size + PAGE - 1) & ~(PAGE - 1);
    FAIL_IF(whole < size, CUDA_ERROR_OUT_OF_MEMORY);
    backing = backing_create(device, whole);
    FAIL_IF(backing == NULL, CUDA_ERROR_OUT_OF_MEMORY);
    *address = mapping_create(backing, MAPPING_ALLOC,
                              size >= (size_t)1 << 20 ? GRANULARITY : PAGE);
    return done(*address == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
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
    FAIL_IF((mapping == NULL) || ((mapping->kind != MAPPING_ALLOC) &&
                                  (mapping->kind != MAPPING_POOL)),
            CUDA_ERROR_INVALID_VALUE);
    FAIL_IF((mapping->kind == MAPPING_POOL) && !mapping->backing->is_foreign,
            CUDA_ERROR_NOT_SUPPORTED);
    stream_work(~0u);
    mapping_destroy(mapping_at(address));
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
    FAIL_IF(mapping == NULL, CUDA_ERROR_NOT_FOUND);
    if (base != NULL) {
        *base = mapping->address;
    }
    if (size != NULL) {
        *size = mapping->size;
    }
    return done(CUDA_SUCCESS);
}
