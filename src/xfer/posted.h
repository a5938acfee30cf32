/*
 * Receives that wait for a message: in pool->xfer->posted, the oldest first,
 * and by their tags in an index, or if their masks have a 0 in a list of their
 * own. Their struct xfer_recv is not touched before the message arrives.
 */
#ifndef XFER_POSTED_H
#define XFER_POSTED_H

#include "core/request.h"

/* Let it wait. */
void xfer_posted_add(ucxpool_request_t *request);

/* It has a message now, or has ended. */
void xfer_posted_remove(ucxpool_request_t *request);

/* The oldest receive for a message, which is not removed; NULL: none. */
ucxpool_request_t *xfer_posted_find(const ucxpool_channel_t *channel,
                                    uint64_t                 tag);

/* The channel has ended: those that wait for it alone will have no message. */
void xfer_posted_abort(ucxpool_channel_t *channel, ucxpool_status_t status,
                       const char *detail);

#endif
