/*
 * Streams of a GPU: how far a caller's has come, and one of our own that waits
 * for others.
 */
#ifndef MEM_CUDA_STREAM_H
#define MEM_CUDA_STREAM_H

#include "mem/cuda_device.h"

#include <ucxpool/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- markers ----------------------------------------------------------------
 * A word in pinned memory that a caller's stream writes when it has come so
 * far. The host looks at the word; no call of the driver asks.
 *
 * A stream that never gets there keeps its own marker, and nobody else's:
 * nothing of ours stands behind a caller's work in a stream of the GPU.
 */

typedef struct mem_cuda_markers mem_cuda_markers_t;

typedef struct mem_cuda_marker {
    struct mem_cuda_marker *next; /* of the free ones */
    uint32_t *word; /* is `number` when the stream has come there */
    uint32_t  number;
} mem_cuda_marker_t;

/*
 * num_markers  That may be set at one time, 1 or more.
 *
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t mem_cuda_markers_create(const mem_cuda_device_t *device,
                                         unsigned                 num_markers,
                                         mem_cuda_markers_t     **markers_p);
/* Waits for the device where markers are still set. NULL is allowed. */
void mem_cuda_markers_destroy(mem_cuda_markers_t *markers);

/*
 * Set a marker behind what is in a stream now (NULL: the legacy default
 * stream).
 *
 * UCXPOOL_ERR_LIMIT        all markers are set
 * UCXPOOL_ERR_IO and others  that is no stream, or the driver failed otherwise
 */
ucxpool_status_t mem_cuda_marker_set(mem_cuda_markers_t *markers,
                                     CUstream            stream,
                                     mem_cuda_marker_t **mark_p);
bool             mem_cuda_marker_is_reached(const mem_cuda_marker_t *marker);
/* One that has been reached. */
void mem_cuda_marker_put(mem_cuda_markers_t *markers,
                         mem_cuda_marker_t  *marker);

/* --- streams joined ---------------------------------------------------------
 * What is freed in the stream that waits is free when all the others have come
 * so far, and none of them has to wait.
 */

/*
 * Let the GPU's stream wait for what is now in a stream and in some more.
 *
 * stream_p [out]  The GPU's stream; it lives until the process ends.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such device
 * others                     the driver's; the stream may then wait for some
 */
ucxpool_status_t mem_cuda_join(int device, void *stream, void *const *streams,
                               size_t num_streams, void **stream_p);

/* Wait here for all work on the GPU. */
void mem_cuda_synchronize(int device);

#endif
