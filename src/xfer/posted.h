/*
 * Receives that wait for a message. All are in pool->xfer->posted, oldest
 * first. Those with a full mask are also in an index by channel and tag, the
 * others in pool->xfer->posted_masked; a receive that was posted while no other
 * waited is in neither. Their struct wire_recv is not accessed before the
 * message arrives.
 */
#ifndef XFER_POSTED_H
#define XFER_POSTED_H

#include "core/request.h"

/* Add a receive that waits. */
void xfer_posted_add(ucxpool_request_t *request);

/* The receive has a message or has ended: remove it. */
void xfer_posted_remove(ucxpool_request_t *request);

/* The oldest receive that matches a message; it is not removed. NULL: none. */
ucxpool_request_t *xfer_posted_find(const ucxpool_channel_t *channel,
                                    uint64_t                 tag);

/* The channel has ended: end the receives that wait only for its messages. */
void xfer_posted_abort(ucxpool_channel_t *channel, ucxpool_status_t status,
                       const char *detail);

#endif
