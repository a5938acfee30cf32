/*
 * Sends.
 */
#ifndef XFER_SEND_H
#define XFER_SEND_H

#include "core/request.h"

#include "xfer/request.h"

extern const core_request_kind_t xfer_send_kind;

/*
 * Check the number of runs and the size of the metadata against the peer's
 * limits. Succeeds while the limits are unknown; step TURN checks again.
 *
 * UCXPOOL_ERR_LIMIT
 */
ucxpool_status_t xfer_send_check_limits(const ucxpool_request_t *request);

/*
 * Change a short send that is the first in its queue, and got no credit in
 * time, to xfer_send_kind. False: it has ended with UCXPOOL_ERR_NO_MEMORY.
 */
bool xfer_send_from_short(ucxpool_request_t *request);

/* Queue a posted send for the GPU's link, if its channel is open and pushes. */
void xfer_send_want_link(ucxpool_request_t *request);

/* The channel is open: queue the sends that were posted before for the link,
 * and wake the first one. */
void xfer_send_opened(ucxpool_channel_t *channel);

/* Take as many steps as possible. False: no progress was possible. */
bool xfer_send_advance(ucxpool_request_t *request);

/* A fragment is no longer in flight: free it. */
void xfer_send_fragment_done(core_fragment_t *fragment);

/* The peer has sent ACCEPT, TAKEN or DONE. */
void xfer_send_accepted(ucxpool_channel_t    *channel,
                        const proto_accept_t *accept, const void *data,
                        size_t data_size);
void xfer_send_taken(ucxpool_channel_t *channel, const proto_taken_t *taken);
void xfer_send_done(ucxpool_channel_t *channel, const proto_done_t *done,
                    const char *reason);

/* End a send early, because of a cancel, a deadline or an error. */
void xfer_send_stop(ucxpool_request_t *request, ucxpool_status_t status,
                    const char *detail);

/* The channel has ended: end the request. */
void xfer_send_abort(ucxpool_request_t *request, ucxpool_status_t status,
                     const char *detail);

/* The peer no longer accesses the send's fragments: free its number, and the
 * fragments that no UCX operation and no copy uses. */
void xfer_send_forget(ucxpool_request_t *request);

/* The request has ended: free or quarantine its blocks. */
void xfer_send_release(ucxpool_request_t *request);

/* Wake as many waiting sends as there are free blocks. Returns their number. */
unsigned xfer_send_wake_waiters(ucxpool_t *pool);

/* Is any send with an order below `before` (UINT64_MAX: any send) in progress?
 * Sends that have left the queue are in channel->xfer->sent. */
bool xfer_flush_has_sends(const ucxpool_channel_t *channel, uint64_t before);

/* End the flushes that have no more sends to wait for. Returns their number. */
unsigned xfer_flush_progress(ucxpool_channel_t *channel);

/* Post a flush: it ends when all sends that were posted before it have. */
ucxpool_status_t xfer_flush_post(ucxpool_channel_t              *channel,
                                 const ucxpool_request_params_t *params,
                                 ucxpool_request_t             **request_p);

/* The channel has ended: end its flushes. */
void xfer_flush_abort(ucxpool_channel_t *channel, ucxpool_status_t status);

#endif
