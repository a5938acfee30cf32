/*
 * Receives that no message has met yet: they wait in pool->xfer->posted, the
 * oldest first, and struct xfer_recv is not touched before. A short message
 * goes from the ring to its place, and its receive ends as what it was; another
 * makes it a receive of xfer_recv_kind.
 */
#ifndef XFER_POSTED_H
#define XFER_POSTED_H

#include "core/request.h"

extern const core_request_kind_t xfer_posted_kind;

/* Let it wait. */
void xfer_posted_add(ucxpool_request_t *request);

/* The channel has ended: those that wait for it alone will have no message. */
void xfer_posted_abort(ucxpool_channel_t *channel, ucxpool_status_t status,
                       const char *detail);

#endif
