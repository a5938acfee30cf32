/*
 * Fragments of a send: which slice of the stream goes next, from where, and
 * how many at a time.
 */
#ifndef XFER_FRAGMENT_H
#define XFER_FRAGMENT_H

#include "core/request.h"

#include "xfer/request.h"

/* The send takes no more slices: blocks that fall free are for others. */
void xfer_slice_leave(ucxpool_request_t *request);

/* The receiver has lent blocks for it. False: they are not all its own. */
bool xfer_fragment_take_loan(ucxpool_request_t  *request,
                             const proto_lent_t *lent, unsigned num_lent);

/* The receiver has accepted: settle fragment size and window. */
void xfer_fragment_set_limits(ucxpool_request_t *request, uint64_t frag_size,
                              uint32_t window);

/*
 * Lay out the next fragment, and begin to gather it unless it goes in place.
 *
 * UCXPOOL_OK         it is among the unsent ones; send.all_posted tells whether
 *                    it was the last
 * UCXPOOL_INPROGRESS the window is full, or no block is free (the request then
 *                    stands among the waiters)
 * UCXPOOL_ERR_BUSY   the GPU has too much to do now
 * UCXPOOL_ERR_IO     a file could not be read
 * others             the GPU failed
 */
ucxpool_status_t xfer_fragment_post(ucxpool_request_t *request);

/*
 * Hand what has been gathered to the wire, in order.
 *
 * UCXPOOL_OK          there is nothing more to hand over now
 * UCXPOOL_ERR_BUSY    the wire has no room now
 * others              the channel has failed
 */
ucxpool_status_t xfer_fragment_flush(ucxpool_request_t *request);

/* A fragment is not in flight any more: give back where it lay, and its number.
 */
void xfer_fragment_free(xfer_fragment_t *fragment);

/* Free what is left when the pool goes. */
void xfer_fragment_destroy_all(ucxpool_t *pool);

#endif
