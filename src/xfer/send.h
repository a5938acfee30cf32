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
 * Change the kind of a short send to xfer_send_kind. The send is the first in
 * its queue, and got no credit in time. Returns false if it has ended with
 * UCXPOOL_ERR_NO_MEMORY.
 */
bool xfer_send_from_short(ucxpool_request_t *request);

/* Queue a posted send for the GPU's link, if its channel is open and pushes. */
void xfer_send_want_link(ucxpool_request_t *request);

/* Called when the channel opens. Queues the sends that were posted before for
 * the link, and wakes the first send. */
void xfer_send_opened(ucxpool_channel_t *channel);

/* Take as many steps as possible. Returns false if no progress was possible. */
bool xfer_send_advance(ucxpool_request_t *request);

/* Free a fragment that is no longer in flight. */
void xfer_send_fragment_done(core_fragment_t *fragment);

/* Handle ACCEPT, TAKEN or DONE from the peer. */
void xfer_send_accepted(ucxpool_channel_t    *channel,
                        const proto_accept_t *accept, const void *data,
                        size_t data_size);
void xfer_send_taken(ucxpool_channel_t *channel, const proto_taken_t *taken);
void xfer_send_done(ucxpool_channel_t *channel, const proto_done_t *done,
                    const char *reason);

/* End a send early, because of a cancel, a deadline or an error. */
void xfer_send_stop(ucxpool_request_t *request, ucxpool_status_t status,
                    const char *detail);

/* End a send whose channel has ended. */
void xfer_send_abort(ucxpool_request_t *request, ucxpool_status_t status,
                     const char *detail);

/* Called when the peer no longer accesses the send's fragments. Frees the
 * send's number, and the fragments that no UCX operation and no copy uses. */
void xfer_send_forget(ucxpool_request_t *request);

/* Free or quarantine the blocks of a send that has ended. */
void xfer_send_release(ucxpool_request_t *request);

/* Wake one waiting send for each free block. Returns the number of sends. */
unsigned xfer_send_wake_waiters(ucxpool_t *pool);

/* Returns true if any send with an order below `before` (UINT64_MAX: any send)
 * is in progress. Sends that have left the queue are in channel->xfer->sent. */
bool xfer_flush_has_sends(const ucxpool_channel_t *channel, uint64_t before);

/* End the flushes that have no more sends to wait for. Returns their number. */
unsigned xfer_flush_progress(ucxpool_channel_t *channel);

/* Post a flush. It ends when all sends that were posted before it have
 * ended. */
ucxpool_status_t xfer_flush_post(ucxpool_channel_t              *channel,
                                 const ucxpool_request_params_t *params,
                                 ucxpool_request_t             **request_p);

/* End the flushes of a channel that has ended. */
void xfer_flush_abort(ucxpool_channel_t *channel, ucxpool_status_t status);

#endif
