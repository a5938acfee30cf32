/*
 * Fragments of a send: which slice of the stream goes next, from where, and
 * how many at a time.
 */
#ifndef XFER_FRAGMENT_H
#define XFER_FRAGMENT_H

#include "xfer/request.h"

/* The receiver has accepted: settle fragment size and window. */
void xfer_fragment_set_limits(ucxpool_request_t *request, uint64_t frag_size,
                              uint32_t window);

/*
 * Gather (unless in place) and hand the next fragment to the wire.
 *
 * UCXPOOL_OK         it is on its way; send.all_sent tells whether it was the
 *                    last
 * UCXPOOL_INPROGRESS the window is full, or no block is free (the request then
 *                    stands among the waiters)
 * UCXPOOL_ERR_BUSY   the wire has no room now
 */
ucxpool_status_t xfer_fragment_post(ucxpool_request_t *request);

/* A fragment is not in flight any more: give back where it lay. */
void xfer_fragment_free(xfer_piece_t *piece);

#endif
