/*
 * Messages in: from the rings, and from UCX's active messages.
 */
#ifndef XFER_INBOX_H
#define XFER_INBOX_H

#include "core/channel.h"

/* Install the handlers of active messages; take them away, because a borrowed
 * worker lives on. */
ucxpool_status_t xfer_inbox_init(ucxpool_t *pool);
void             xfer_inbox_cleanup(ucxpool_t *pool);

/* Read the rings of all channels; a bounded number of messages from each. */
unsigned xfer_inbox_progress(ucxpool_t *pool);

/* Read everything that stands in the ring of a channel that is about to end. */
void xfer_inbox_drain(ucxpool_channel_t *channel);

#endif
