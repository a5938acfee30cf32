/*
 * The end of a channel: requested by the caller, or handled by progress after a
 * failure.
 */
#ifndef WIREUP_CLOSE_H
#define WIREUP_CLOSE_H

#include "core/channel.h"

/* Free a channel that could not be connected. */
void wireup_channel_discard(ucxpool_channel_t *channel);

/* End a channel and drop the caller's reference. close first waits, for at most
 * CLOSE_TIMEOUT, until sends, window operations and matched receives have
 * ended; it cancels other receives. abort ends the channel at once. */
void wireup_channel_close(ucxpool_channel_t *channel);
void wireup_channel_abort(ucxpool_channel_t *channel);

/* Make progress on one channel: detects failures, delivers messages, and
 * continues the close. Returns the number of steps done. */
unsigned wireup_channel_progress(ucxpool_channel_t *channel);

/* Returns the time at which a closing channel needs progress even without an
 * event. */
uint64_t wireup_channel_close_deadline(const ucxpool_channel_t *channel);

/* Force the end of channels that are still draining. */
void wireup_channel_end_drains(ucxpool_t *pool);

/* Free all channels that have no references left. */
void wireup_channel_destroy_unreferenced(ucxpool_t *pool);

/* Free all channels at once. Called when the pool and UCX's worker are
 * destroyed, with no transfer in flight. */
void wireup_channel_destroy_all(ucxpool_t *pool);

#endif
