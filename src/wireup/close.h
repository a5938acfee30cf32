/*
 * The end of a channel: what its caller asks for, and what progress does about
 * one that has ended.
 */
#ifndef WIREUP_CLOSE_H
#define WIREUP_CLOSE_H

#include "core/channel.h"

/* Take back a channel that could not be connected. */
void wireup_channel_discard(ucxpool_channel_t *channel);

/* The caller is done with the channel: it ends when the requests that were
 * posted have, or at once. */
void wireup_channel_close(ucxpool_channel_t *channel);
void wireup_channel_abort(ucxpool_channel_t *channel);

/* Errors told by UCX, what follows from its end, good-byes, endpoints to be
 * closed. */
unsigned wireup_channel_progress(ucxpool_channel_t *channel);

/* When it wants to be looked at though nothing happens. */
uint64_t wireup_channel_close_deadline(const ucxpool_channel_t *channel);

/* Close by force what has not closed by itself. */
void wireup_channel_end_drains(ucxpool_t *pool);

/* Channels that nobody refers to any more. */
void wireup_channel_destroy_gone(ucxpool_t *pool);

/* Take all channels away at once, when the pool goes and UCX's worker with it:
 * nothing is in flight any more. */
void wireup_channel_destroy_all(ucxpool_t *pool);

#endif
