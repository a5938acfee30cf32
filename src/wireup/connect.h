/*
 * Connects a channel to its peer: by address, by endpoint, or through a
 * listener.
 */
#ifndef WIREUP_CONNECT_H
#define WIREUP_CONNECT_H

#include "bootstrap/address.h"
#include "core/channel.h"
#include "core/pool.h"

/* Check an address blob of unknown origin, and connect the channel to it. */
ucxpool_status_t wireup_connect_address(ucxpool_channel_t *channel,
                                        const void *address, size_t length);
ucxpool_status_t wireup_connect_ep(ucxpool_channel_t *channel, ucp_ep_h ep);

/* Start to connect to a listener. wireup_connect_progress() does the remaining
 * steps. */
ucxpool_status_t wireup_connect_listener(ucxpool_channel_t       *channel,
                                         const bootstrap_where_t *where);

/* Stop connecting a channel that its listener has not accepted yet. */
void wireup_connect_stop(ucxpool_channel_t *channel);

/* Make progress on the channels that their listeners have not accepted yet. */
unsigned wireup_connect_progress(ucxpool_t *pool);

/* Returns the earliest time at which one of these channels needs progress even
 * without an event. */
uint64_t wireup_connect_deadline(ucxpool_t *pool);

#endif
