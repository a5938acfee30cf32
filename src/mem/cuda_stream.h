/*
 * CUDA streams: markers that show the progress of a caller's stream, and a
 * stream of the library that waits for other streams.
 */
#ifndef MEM_CUDA_STREAM_H
#define MEM_CUDA_STREAM_H

#include "mem/cuda_device.h"

#include <ucxpool/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- markers ----------------------------------------------------------------
 * A marker is a word in pinned memory. A caller's stream writes the word when
 * it has completed the work before the marker. The host polls the word without
 * driver calls.
 *
 * A stream that never completes keeps only its own marker in use. Only the
 * host waits for markers; no work of the library on the GPU does.
 */

typedef struct mem_cuda_markers mem_cuda_markers_t;

typedef struct mem_cuda_marker {
    struct mem_cuda_marker *next; /* among free markers */
    uint32_t *word; /* equals `number` once the stream has written it */
    uint32_t  number;
} mem_cuda_marker_t;

/*
 * Create num_markers markers (at least 1).
 *
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t mem_cuda_markers_create(const mem_cuda_device_t *device,
                                         unsigned                 num_markers,
                                         mem_cuda_markers_t     **markers_p);
/* Waits for the device if markers are still set. NULL is allowed. */
void mem_cuda_markers_destroy(mem_cuda_markers_t *markers);

/*
 * Set a marker after the work that is in a stream now (NULL: the legacy default
 * stream).
 *
 * UCXPOOL_ERR_LIMIT          all markers are set
 * UCXPOOL_ERR_IO and others  not a valid stream, or another driver error
 */
ucxpool_status_t mem_cuda_marker_set(mem_cuda_markers_t *markers,
                                     CUstream            stream,
                                     mem_cuda_marker_t **mark_p);
bool             mem_cuda_marker_is_reached(const mem_cuda_marker_t *marker);
/* Return a marker, which must have been reached, for reuse. */
void mem_cuda_marker_put(mem_cuda_markers_t *markers,
                         mem_cuda_marker_t  *marker);

/* --- joined streams ---------------------------------------------------------
 * The library's stream on a GPU can wait for the current work in several other
 * streams, which are called the joined streams. Memory that is then freed in
 * the library's stream becomes free when all this work has completed. The
 * joined streams themselves do not wait.
 */

/*
 * Make the library's stream on a GPU wait for the work that is now in `stream`
 * and `streams`.
 *
 * stream_p [out]  The library's stream; valid until the process ends.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such device
 * others                     driver errors; the library's stream may then wait
 *                            for only some of the streams
 */
ucxpool_status_t mem_cuda_join(int device, void *stream, void *const *streams,
                               size_t num_streams, void **stream_p);

/* Wait for all work on the GPU. Blocks. */
void mem_cuda_synchronize(int device);

#endif
