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

/* The flag of a slot, and its value when the message is complete. */
static inline copy_flag_t wire_mailbox_flag(uint8_t *slot, size_t slot_size,
                                            uint64_t message)
{
    return (copy_flag_t){
        (uint32_t *)(void *)(slot + slot_size - PROTO_FLAG_SIZE),
        (uint32_t)message};
}

/* The receive's message has been accepted. If it would fit in a mailbox, lend
 * one to its channel, unless it has one, and send MAILBOX to the peer. */
void wire_mailbox_lend(const ucxpool_request_t *request);

/* Does the descriptor name a slot of the channel's mailbox in which the message
 * fits? Fails the channel if not. */
bool wire_mailbox_check(ucxpool_channel_t *channel, const proto_desc_t *desc,
                        uint64_t stream_size);

/* The slot that a checked descriptor names, and the flag that is set when the
 * message is complete. */
const uint8_t *wire_mailbox_slot(const ucxpool_channel_t *channel,
                                 const proto_desc_t *desc, copy_flag_t *flag_p);

/* The peer can no longer write to the mailbox: release it. */
void wire_mailbox_end(ucxpool_channel_t *channel);

#endif
