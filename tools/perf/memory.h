/*
 * Where the buffers of one process lie: in host memory, or in a GPU's. What
 * fills and compares them sees host memory: theirs, or a mirror of it.
 *
 * None of this is called while the clock runs.
 */
#ifndef PERF_MEMORY_H
#define PERF_MEMORY_H

#include "gpu/gpu.h"

#include <stdbool.h>

typedef struct memory {
    int    device;      /* WORK_HOST: host memory */
    bool   is_pageable; /* host memory in any case */
    gpu_t  gpu;         /* open where it is not */
    void  *mirror;      /* pinned; grows */
    size_t mirror_size;
} memory_t;

/* Functions return 0 or -1, the error said. */
int  memory_init(memory_t *memory, int device, bool is_pageable);
void memory_cleanup(memory_t *memory);

static inline bool memory_is_on_gpu(const memory_t *memory)
{
    return (memory->gpu.context != NULL) && !memory->is_pageable;
}

/* Fresh memory, all of its pages touched. */
int  memory_alloc(memory_t *memory, size_t size, void **address_p);
void memory_free(memory_t *memory, void *address, size_t size);

/* A list of `num` entries: pinned, where the buffers lie in a GPU's memory.
 * NULL after an error. */
void *memory_list_alloc(memory_t *memory, size_t num, size_t size);
void  memory_list_free(memory_t *memory, void *list);

/* Overwrite with one byte. */
int memory_poison(memory_t *memory, void *address, size_t size,
                  unsigned char byte);

/*
 * See memory as host memory that can be read and written. It is valid until the
 * next look.
 *
 * is_read  The bytes are to be seen; else they are to be overwritten.
 */
int memory_look(memory_t *memory, void *address, size_t size, bool is_read,
                void **host_p);

/* Make what was written there take effect. */
int memory_store(memory_t *memory, void *address, size_t size);

/* Copy from host memory, where a few bytes came by another way. */
int memory_put(memory_t *memory, void *address, const void *source,
               size_t size);

#endif
