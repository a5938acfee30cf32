/*
 * A channel's queue: sends whose descriptors are not completely sent, in the
 * order in which they were posted. Only the first send takes steps. A send that
 * leaves the queue wakes the next one.
 */
#ifndef XFER_QUEUE_H
#define XFER_QUEUE_H

#include "core/request.h"

/* Add a send at the end. Returns true if it is the first one; the caller must
 * then advance it. */
bool xfer_queue_add(ucxpool_request_t *request);

bool xfer_queue_is_first(const ucxpool_request_t *request);

/* Remove a send whose descriptor has been sent, or that is about to end. */
void xfer_queue_leave(ucxpool_request_t *request);

/* End a send that is in the queue. */
void xfer_queue_end(ucxpool_request_t *request, ucxpool_status_t status,
                    const char *detail);

/* Count a send that has ended. */
void xfer_queue_count(ucxpool_request_t *request, ucxpool_status_t status);

/* Wake the first send, if any. */
void xfer_queue_wake(ucxpool_channel_t *channel);

/*
 * Called when the first send needs a credit, and the channel has none. Returns
 * false if the send must wait. Returns true if the channel has had no credit
 * for announce_ns: its sends may then send their descriptors without data until
 * a credit arrives.
 */
bool xfer_queue_may_announce(ucxpool_channel_t *channel);

/* Called when credits have arrived after xfer_queue_may_announce(). */
void xfer_queue_end_announce(ucxpool_channel_t *channel);

/* Wake the first send of each channel for which xfer_queue_may_announce() has
 * become true. Returns their number. */
unsigned xfer_queue_announce(ucxpool_t *pool);

/*
 * Advance a send that is in the queue or has left it. If the send makes
 * progress, also advance the sends that become first in the queue, as long as
 * credits are left and all their data can be sent at once. Returns the number
 * of sends that made progress. The request may have been freed.
 */
unsigned xfer_queue_progress(ucxpool_request_t *request);

/* End all sends in the queue of a channel that has ended. */
void xfer_queue_abort(ucxpool_channel_t *channel, ucxpool_status_t status,
                      const char *detail);

#endif
