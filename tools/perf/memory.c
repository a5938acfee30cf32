#include <config.h>

#include "perf/memory.h"
#include "perf/error.h"
#include "perf/work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int fail(const memory_t *memory)
{
    return perf_error("%s", memory->gpu.error);
}

int memory_init(memory_t *memory, int device, bool is_pageable)
{
    memset(memory, 0, sizeof(*memory));
    memory->device      = device;
    memory->is_pageable = is_pageable;
    if ((device != WORK_HOST) && (gpu_open(&memory->gpu, device) != 0)) {
        return fail(memory);
    }
    return 0;
}

void memory_cleanup(memory_t *memory)
{
    gpu_host_free(&memory->gpu, memory->mirror);
    gpu_close(&memory->gpu);
    memset(memory, 0, sizeof(*memory));
}

int memory_alloc(memory_t *memory, size_t size, void **address_p)
{
    void *address;

    if (memory_is_on_gpu(memory)) {
        return gpu_alloc(&memory->gpu, size, address_p) == 0
                   ? 0
                   : perf_error("%s: lower -s, -n or -O", memory->gpu.error);
    }
    address = mmap(NULL, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (address == MAP_FAILED) {
        return perf_error("no memory for %zu bytes of buffers (%s): lower -s, "
                          "-n or -O",
                          size, strerror(errno));
    }
    *address_p = address;
    return 0;
}

void memory_free(memory_t *memory, void *address, size_t size)
{
    if (memory_is_on_gpu(memory)) {
        gpu_free(&memory->gpu, address);
    } else if (address != NULL) {
        munmap(address, size);
    }
}

void *memory_list_alloc(memory_t *memory, size_t num, size_t size)
{
    void *list = NULL;

    if (!memory_is_on_gpu(memory)) {
        list = calloc(num, size);
        if (list == NULL) {
            perf_error("out of memory for the list of buffers: lower -n");
        }
    } else if (gpu_host_alloc(&memory->gpu, num * size, &list) != 0) {
        fail(memory);
    }
    return list;
}

void memory_list_free(memory_t *memory, void *list)
{
    if (list == NULL) {
        return;
    }
    if (memory_is_on_gpu(memory)) {
        gpu_host_free(&memory->gpu, list);
    } else {
        free(list);
    }
}

int memory_poison(memory_t *memory, void *address, size_t size,
                  unsigned char byte)
{
    if (!memory_is_on_gpu(memory)) {
        memset(address, byte, size);
        return 0;
    }
    return gpu_fill(&memory->gpu, address, byte, size) == 0 ? 0 : fail(memory);
}

/* Pinning takes a while, so the mirror stays. */
static int grow_mirror(memory_t *memory, size_t size)
{
    if (size <= memory->mirror_size) {
        return 0;
    }
    gpu_host_free(&memory->gpu, memory->mirror);
    memory->mirror      = NULL;
    memory->mirror_size = 0;
    if (gpu_host_alloc(&memory->gpu, size, &memory->mirror) != 0) {
        return fail(memory);
    }
    memory->mirror_size = size;
    return 0;
}

int memory_look(memory_t *memory, void *address, size_t size, bool is_read,
                void **host_p)
{
    if (!memory_is_on_gpu(memory)) {
        *host_p = address;
        return 0;
    }
    if (grow_mirror(memory, size) != 0) {
        return -1;
    }
    *host_p = memory->mirror;
    return !is_read ||
                   (gpu_copy(&memory->gpu, memory->mirror, address, size) == 0)
               ? 0
               : fail(memory);
}

int memory_store(memory_t *memory, void *address, size_t size)
{
    if (!memory_is_on_gpu(memory)) {
        return 0;
    }
    return memory_put(memory, address, memory->mirror, size);
}

int memory_put(memory_t *memory, void *address, const void *source, size_t size)
{
    if (!memory_is_on_gpu(memory)) {
        memcpy(address, source, size);
        return 0;
    }
    return gpu_copy(&memory->gpu, address, source, size) == 0 ? 0
                                                              : fail(memory);
}
