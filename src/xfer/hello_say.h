/*
 * The messages of the handshake that have contents.
 */
#ifndef XFER_HELLO_SAY_H
#define XFER_HELLO_SAY_H

#include "xfer/channel.h"

void xfer_hello_say(ucxpool_channel_t *channel);

/* What channel->peer says of the peer's memory. */
void xfer_hello_say_ready(ucxpool_channel_t *channel);

#endif
