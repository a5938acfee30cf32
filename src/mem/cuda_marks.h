/*
 * Marks in callers' streams: a word in pinned memory that a stream writes when
 * it has come so far. The host looks at the word; no call of the driver asks.
 *
 * A stream that never gets there keeps its own mark, and nobody else's: nothing
 * of ours stands behind a caller's work in a stream of the GPU.
 */
#ifndef MEM_CUDA_MARKS_H
#define MEM_CUDA_MARKS_H

#include "mem/cuda_device.h"

#include <stdint.h>

typedef struct mem_cuda_marks mem_cuda_marks_t;

typedef struct mem_cuda_mark {
    struct mem_cuda_mark *next; /* of the free ones */
    uint32_t             *word; /* is `number` when the stream has come there */
    uint32_t              number;
} mem_cuda_mark_t;

/*
 * num_marks  That may be set at one time, 1 or more.
 *
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t mem_cuda_marks_create(const mem_cuda_device_t *device,
                                       unsigned                 num_marks,
                                       mem_cuda_marks_t       **marks_p);
/* Waits for the device where marks are still set. NULL is allowed. */
void mem_cuda_marks_destroy(mem_cuda_marks_t *marks);

/*
 * Set a mark behind what is in a stream now (NULL: the legacy default stream).
 *
 * UCXPOOL_ERR_LIMIT        all marks are set
 * UCXPOOL_ERR_IO and others  that is no stream, or the driver failed otherwise
 */
ucxpool_status_t mem_cuda_mark_set(mem_cuda_marks_t *marks, CUstream stream,
                                   mem_cuda_mark_t **mark_p);
bool             mem_cuda_mark_is_reached(const mem_cuda_mark_t *mark);
/* One that has been reached. */
void mem_cuda_mark_put(mem_cuda_marks_t *marks, mem_cuda_mark_t *mark);

#endif
