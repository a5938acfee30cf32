/*
 * Ranges: which part of a send's stream goes next, and whether in place.
 */
#ifndef XFER_RANGE_H
#define XFER_RANGE_H

#include "core/request.h"

/* The part of the stream that goes next. */
typedef struct xfer_range {
    uint64_t             length;
    bool                 last;
    bool                 in_place;
    const void          *bytes;  /* in place */
    block_comm_buffer_t *buffer; /* in place: of this; NULL: of none */
    mem_piece_t          where;  /* if there is a buffer */
} xfer_range_t;

/* Can this many bytes go in place, wherever they lie? */
bool xfer_range_takes_any_memory(const ucxpool_request_t *request,
                                 uint64_t                 length);

/* The range from send.offset on. */
void xfer_range_next(ucxpool_request_t *request, xfer_range_t *range);

/* Where the next bytes of the stream lie: padding behind a fragment in place
 * goes over no wire. */
uint64_t xfer_range_skip_padding(ucxpool_request_t *request, uint64_t offset);

#endif
