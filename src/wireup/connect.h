/*
 * How a channel finds its peer: by address, by endpoint, or through a listener.
 */
#ifndef WIREUP_CONNECT_H
#define WIREUP_CONNECT_H

#include "bootstrap/address.h"
#include "core/channel.h"
#include "core/pool.h"

/* Check a blob that came from somewhere, and connect the channel to it. */
ucxpool_status_t wireup_connect_address(ucxpool_channel_t *channel,
                                        const void *address, size_t length);
ucxpool_status_t wireup_connect_ep(ucxpool_channel_t *channel, ucp_ep_h ep);

/* Call a listener; what follows is done by progress. */
ucxpool_status_t wireup_connect_listener(ucxpool_channel_t       *channel,
                                         const bootstrap_where_t *where);

/* A channel that its listener has not admitted yet goes no further. */
void wireup_connect_stop(ucxpool_channel_t *channel);

/* The channels that their listeners have not admitted yet. */
unsigned wireup_connect_progress(ucxpool_t *pool);

/* When the next of them wants to be called. */
uint64_t wireup_connect_deadline(ucxpool_t *pool);

#endif
