/*
 * The fragments of a send: their ranges of the stream, their memory, and their
 * number in flight.
 */
#ifndef XFER_FRAGMENT_H
#define XFER_FRAGMENT_H

#include "core/request.h"

#include "xfer/request.h"

/* Called when the send needs no more slices. The next send of its channel may
 * then hold several blocks. */
void xfer_slice_leave(ucxpool_request_t *request);

/* Use the blocks that the receiver has lent to the send. Returns false if a
 * block is not aligned, or not inside the peer's regions. */
bool xfer_fragment_take_loan(ucxpool_request_t  *request,
                             const proto_lent_t *lent, unsigned num_lent);

/* Set the fragment size and the window after the receiver has accepted the
 * message. */
void xfer_fragment_set_limits(ucxpool_request_t *request, uint64_t frag_size,
                              uint32_t window);

/*
 * Create the next fragment, and start its gather unless it is sent in place.
 *
 * UCXPOOL_OK             the fragment is in send.unsent; send.all_posted is set
 *                        if it is the last one
 * UCXPOOL_INPROGRESS     the window is full, or no slice is free; without
 *                        fragments in flight the request is then a waiter
 * UCXPOOL_ERR_BUSY       the GPU has no free copy job
 * UCXPOOL_ERR_NO_MEMORY  no memory for the fragment
 * UCXPOOL_ERR_IO         a file could not be read
 * others                 the GPU failed
 */
ucxpool_status_t xfer_fragment_post(ucxpool_request_t *request);

/*
 * Send gathered fragments to the wire, in order.
 *
 * UCXPOOL_OK          no more fragments are ready
 * UCXPOOL_ERR_BUSY    the wire has no room: try again later
 * others              the channel has failed
 */
ucxpool_status_t xfer_fragment_flush(ucxpool_request_t *request);

/* Release the memory and the number of a fragment that is no longer in
 * flight. */
void xfer_fragment_free(core_fragment_t *fragment);

/* Free all fragments when the pool is destroyed. */
void xfer_fragment_destroy_all(ucxpool_t *pool);

#endif
