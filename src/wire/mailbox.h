/*
 * Mailboxes: memory of a receiver to which a sender's GPU writes short messages
 * before they are accepted. The receiver lends a mailbox to a channel for the
 * channel's lifetime, after it has accepted the first message that would fit.
 *
 *     mailbox   | slot | slot | ...          part of a block of the receive
 *     slot      | a message's stream | flag |  share; channels share the block
 *
 * The sender names the slot in DESC, and only then lets its GPU copy the
 * message to it (xfer/mailbox.h). The receiver's kernel waits for the flag. So
 * the two copies overlap: the launch of the second one does not wait for the
 * end of the first. The slot is free again when the message has ended and the
 * copy is complete.
 */
#ifndef WIRE_MAILBOX_H
#define WIRE_MAILBOX_H

#include "core/request.h"

/* Returns the flag of a slot, and the flag's value when the message is
 * complete. */
static inline copy_flag_t wire_mailbox_flag(uint8_t *slot, size_t slot_size,
                                            uint64_t message)
{
    return (copy_flag_t){
        (uint32_t *)(void *)(slot + slot_size - PROTO_FLAG_SIZE),
        (uint32_t)message};
}

/* Called when the message of a receive has been accepted. If the message would
 * fit in a mailbox, and the channel has none, lends a mailbox to the channel
 * and sends MAILBOX to the peer. */
void wire_mailbox_lend(const ucxpool_request_t *request);

/* Returns true if the descriptor names a slot of the channel's mailbox in which
 * the message fits. Otherwise fails the channel. */
bool wire_mailbox_check(ucxpool_channel_t *channel, const proto_desc_t *desc,
                        uint64_t stream_size);

/* Returns the slot that a checked descriptor names, and the flag that is set
 * when the message is complete. */
const uint8_t *wire_mailbox_slot(const ucxpool_channel_t *channel,
                                 const proto_desc_t *desc, copy_flag_t *flag_p);

/* Release the mailbox of a channel whose peer can no longer write to it. */
void wire_mailbox_end(ucxpool_channel_t *channel);

#endif
