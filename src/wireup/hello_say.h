/*
 * The messages of the handshake that have contents.
 */
#ifndef WIREUP_HELLO_SAY_H
#define WIREUP_HELLO_SAY_H

#include "core/channel.h"

void wireup_hello_say(ucxpool_channel_t *channel);

/* What channel->peer says of the peer's memory. */
void wireup_hello_say_ready(ucxpool_channel_t *channel);

#endif
