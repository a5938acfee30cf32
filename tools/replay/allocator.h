/*
 * Allocators that a trace is played against, behind one table of functions.
 */
#ifndef REPLAY_ALLOCATOR_H
#define REPLAY_ALLOCATOR_H

#include "replay/device.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct allocator allocator_t;

typedef enum allocator_answer {
    ALLOCATOR_OK,
    ALLOCATOR_FULL,  /* there is not so much memory */
    ALLOCATOR_BROKEN /* something else is wrong, and has been told */
} allocator_answer_t;

typedef struct allocator_kind allocator_kind_t;

struct allocator_kind {
    const char *name;
    const char *doc;
    bool        needs_gpu;
    /* It only says where memory would be, and there is none. */
    bool is_simulated;

    /* capacity  Bytes that it may have, a multiple of ALLOCATOR_UNIT; 0: as
     *           many as it gets.
     *
     * Returns 0, or -1 after having said why. */
    int (*create)(const allocator_kind_t *kind, device_t *device,
                  uint64_t capacity, allocator_t **allocator_p);
    void (*destroy)(allocator_t *allocator);

    /* Take memory before the first call, bytes a multiple of ALLOCATOR_UNIT.
     * Returns 0, or -1 after having said why. NULL: it cannot. */
    int (*reserve)(allocator_t *allocator, uint64_t bytes);

    /* Called from any thread. stream: one of device->streams. size: as it was
     * allocated. */
    allocator_answer_t (*alloc)(allocator_t *allocator, size_t size,
                                void *stream, void **address_p);
    allocator_answer_t (*free)(allocator_t *allocator, void *address,
                               size_t size, void *stream);

    /* Bytes of memory that it holds, now; and that it held at most so far (may
     * be NULL, when nobody counts). 0 after a failure, which is told. */
    uint64_t (*reserved)(allocator_t *allocator);
    uint64_t (*peak_reserved)(allocator_t *allocator);
};

/* What each kind of allocator begins with. */
struct allocator {
    const allocator_kind_t *kind;
    device_t               *device;
};

/* A GPU gives memory out in such pieces, and so does the heap. */
#define ALLOCATOR_UNIT (UINT64_C(2) << 20)

extern const allocator_kind_t allocator_heap;
extern const allocator_kind_t allocator_cuda;
extern const allocator_kind_t allocator_async;
extern const allocator_kind_t allocator_best_fit;

/* Bytes that the heap may have where no capacity is given: what
 * UCXPOOL_MEMORY_LIMIT leaves beside its blocks, a multiple of ALLOCATOR_UNIT.
 * Returns 0, or -1 after having said why. */
int allocator_heap_limit(device_t *device, uint64_t *bytes_p);

#define ALLOCATOR_NUM_KINDS 4

extern const allocator_kind_t *const allocator_kinds[ALLOCATOR_NUM_KINDS];

/* NULL: none of these has that name. */
const allocator_kind_t *allocator_find(const char *name);

/* Names and what they are. */
void allocator_list(FILE *stream);

#endif
