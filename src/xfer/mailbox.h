/*
 * Mailboxes: memory of a receiver to which a sender's GPU writes short messages
 * before they are accepted. The receiver lends a mailbox to a channel for the
 * channel's lifetime, after it has accepted the first message that would fit.
 *
 *     mailbox   | slot | slot | ...          part of a block of the receive
 *     slot      | a message's stream | flag |  share; channels share the block
 *
 * The sender names the slot in DESC, and only then lets its GPU copy the
 * message to it. The receiver's kernel waits for the flag. So the two copies
 * overlap: the launch of the second one does not wait for the end of the first.
 * The slot is free again when the message has ended and the copy is complete.
 */
#ifndef XFER_MAILBOX_H
#define XFER_MAILBOX_H

#include "core/request.h"

/* --- receiver ------------------------------------------------------------- */

/* The receive's message has been accepted. If it would fit in a mailbox, lend
 * one to its channel, unless it has one, and send MAILBOX to the peer. */
void xfer_mailbox_lend(const ucxpool_request_t *request);

/* Does the descriptor name a slot of the channel's mailbox in which the message
 * fits? Fails the channel if not. */
bool xfer_mailbox_check(ucxpool_channel_t *channel, const proto_desc_t *desc,
                        uint64_t stream_size);

/* The slot that a checked descriptor names, and the flag that is set when the
 * message is complete. */
const uint8_t *xfer_mailbox_slot(const ucxpool_channel_t *channel,
                                 const proto_desc_t *desc, copy_flag_t *flag_p);

/* The peer can no longer write to the mailbox: release it. */
void xfer_mailbox_end(ucxpool_channel_t *channel);

/* --- sender --------------------------------------------------------------- */

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
