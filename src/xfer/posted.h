/*
 * Receives that wait for a message. All are in pool->xfer->posted, oldest
 * first. Receives with a full mask are also in an index by channel and tag, the
 * others in pool->xfer->posted_masked. A receive that was posted while no other
 * waited is in neither. The struct wire_recv of a receive is not accessed
 * before its message arrives.
 */
#ifndef XFER_POSTED_H
#define XFER_POSTED_H

#include "core/request.h"

/* Add a receive that waits for a message. */
void xfer_posted_add(ucxpool_request_t *request);

/* Remove a receive that has a message or has ended. */
void xfer_posted_remove(ucxpool_request_t *request);

/* Returns the oldest receive that matches a message, without removing it. NULL:
 * none. */
ucxpool_request_t *xfer_posted_find(const ucxpool_channel_t *channel,
                                    uint64_t                 tag);

/* End the receives that wait only for messages of a channel that has ended. */
void xfer_posted_abort(ucxpool_channel_t *channel, ucxpool_status_t status,
                       const char *detail);

#endif
