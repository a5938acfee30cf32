/*
 * Sends to a mailbox, which the peer has lent to the channel: wire/mailbox.h.
 */
#ifndef XFER_MAILBOX_H
#define XFER_MAILBOX_H

#include "core/request.h"
#include "xfer/request.h"

/* Handle a mailbox that the peer has lent. Fails the channel if the peer must
 * not lend it. */
void xfer_mailbox_lent(ucxpool_channel_t *channel, const proto_mailbox_t *lent);

/* Give the send a free slot as its block, if there is one and the send may use
 * it. */
void xfer_mailbox_take(ucxpool_request_t *request);

/* Returns the flag that the gather of a send must set at its end; none for a
 * send without a slot. */
copy_flag_t xfer_mailbox_flag(const ucxpool_request_t *request);

/* Free the slot of a send, if the message has ended and no local copy writes to
 * the slot. */
void xfer_mailbox_put(ucxpool_request_t *request);

#endif
