/*
 * Stream markers: a request that was posted behind the work of its caller's
 * stream waits until the stream has come so far.
 */
#ifndef XFER_STREAM_MARKER_H
#define XFER_STREAM_MARKER_H

#include "core/request.h"

/*
 * Let the request wait for what is in its caller's stream.
 *
 * As mem_cuda_mark_set().
 */
ucxpool_status_t xfer_stream_marker_set(ucxpool_request_t *request,
                                        void              *stream);

/* Let those go on whose streams have come so far; end all when the GPU has
 * failed. */
unsigned xfer_stream_marker_progress(ucxpool_t *pool);

#endif
