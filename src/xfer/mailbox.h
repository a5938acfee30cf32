/*
 * Mailboxes: where a sender's GPU puts short messages before anybody has
 * accepted them. A receiver lends one to a channel, for as long as it lives,
 * with the first short message that went another way.
 *
 *     mailbox   | slot | slot | ...         of a block of the receive share,
 *     slot      | a message's stream | flag |      which several channels share
 *
 * The sender says in DESC which slot its message is on its way to, and only
 * then has its GPU copy it there; the receiver's kernel waits for the flag. So
 * of two copies one after the other only the second one's end takes time. The
 * slot is free again when the message is over.
 */
#ifndef XFER_MAILBOX_H
#define XFER_MAILBOX_H

#include "core/request.h"

/* --- of the receiver ------------------------------------------------------ */

/* The receive's message has been accepted: might the next one like it come by a
 * mailbox? Then the channel gets one, if it has none, and the peer is told. */
void xfer_mailbox_lend(const ucxpool_request_t *request);

/* Is a message where its descriptor says, in our mailbox? Fails the channel if
 * not. */
bool xfer_mailbox_check(ucxpool_channel_t *channel, const proto_desc_t *desc,
                        uint64_t stream_size);

/* Where such a message will be, and what says that it is there. */
const uint8_t *xfer_mailbox_slot(const ucxpool_channel_t *channel,
                                 const proto_desc_t *desc, copy_flag_t *flag_p);

/* The peer can write to it no more. */
void xfer_mailbox_end(ucxpool_channel_t *channel);

/* --- of the sender -------------------------------------------------------- */

/* The peer has lent one. */
void xfer_mailbox_lent(ucxpool_channel_t *channel, const proto_mailbox_t *lent);

/* Give a send a slot as its block, if it may have one and there is one; without
 * it goes another way. */
void xfer_mailbox_take(ucxpool_request_t *request);

/* What its gather is to write when the bytes are there; none if it has no slot.
 */
copy_flag_t xfer_mailbox_flag(const ucxpool_request_t *request);

/* Take the slot back, if the message is over and nothing of ours writes to it.
 */
void xfer_mailbox_put(ucxpool_request_t *request);

#endif
