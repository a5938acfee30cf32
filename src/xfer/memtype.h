/*
 * What the segments of a request are, for a pool on a GPU.
 */
#ifndef XFER_MEMTYPE_H
#define XFER_MEMTYPE_H

#include "core/request.h"

/*
 * Look at the segments as they are posted, and set a marker in the caller's
 * stream. In a pool of host memory, only pieces are looked at, for NULL; in one
 * on a GPU nothing is, where the caller says what the segments are.
 *
 * UCXPOOL_ERR_UNSUPPORTED    a segment lies on a GPU that the pool's does not
 *                            reach
 * UCXPOOL_ERR_INVALID_PARAM  a segment's memory is not there; a piece is NULL
 * UCXPOOL_ERR_LIMIT          too many requests wait for their streams
 * UCXPOOL_ERR_IO             the driver failed, or there is no such stream
 */
ucxpool_status_t xfer_memtype_look(ucxpool_request_t              *request,
                                   const ucxpool_request_params_t *params);

/* Requests whose callers' streams have come to their markers go on. */
unsigned xfer_stream_marker_progress(ucxpool_t *pool);

#endif
