/*
 * The end of a channel: requested by the caller, or handled by progress after a
 * failure.
 */
#ifndef WIREUP_CLOSE_H
#define WIREUP_CLOSE_H

#include "core/channel.h"

/* Free a channel that could not be connected. */
void wireup_channel_discard(ucxpool_channel_t *channel);

/* The caller gives up the channel. close: it ends after the posted requests
 * have ended. abort: it ends at once. */
void wireup_channel_close(ucxpool_channel_t *channel);
void wireup_channel_abort(ucxpool_channel_t *channel);

/* Handle errors reported by UCX, the steps of closing, goodbyes and endpoints
 * to be closed. */
unsigned wireup_channel_progress(ucxpool_channel_t *channel);

/* When the channel needs progress even without an event. */
uint64_t wireup_channel_close_deadline(const ucxpool_channel_t *channel);

/* Force the end of channels that are still draining. */
void wireup_channel_end_drains(ucxpool_t *pool);

/* Free channels without references. */
void wireup_channel_destroy_gone(ucxpool_t *pool);

/* Free all channels at once when the pool and UCX's worker are destroyed. No
 * transfer may be in flight. */
void wireup_channel_destroy_all(ucxpool_t *pool);

#endif
