/*
 * Sends to a mailbox, which the peer has lent to the channel: wire/mailbox.h.
 */
#ifndef XFER_MAILBOX_H
#define XFER_MAILBOX_H

#include "core/request.h"
#include "xfer/request.h"

/* The peer has lent a mailbox. Fails the channel if it may not. */
void xfer_mailbox_lent(ucxpool_channel_t *channel, const proto_mailbox_t *lent);

/* Give a send a slot as its block, if it may use one and one is free. */
void xfer_mailbox_take(ucxpool_request_t *request);

/* The flag that the gather of a send must set at its end; none without a
 * slot. */
copy_flag_t xfer_mailbox_flag(const ucxpool_request_t *request);

/* Free the slot of a send, if the message has ended and no copy of ours writes
 * to the slot. */
void xfer_mailbox_put(ucxpool_request_t *request);

#endif
