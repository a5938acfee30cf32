#include "xfer/send.h"

#include "wire/wire.h"
#include "xfer/state.h"

static bool is_good(const core_mapping_t *mapping, const proto_mailbox_t *lent)
{
    uint64_t size;

    if ((lent->region >= mapping->num_regions) || (lent->num_slots == 0) ||
        (lent->num_slots > PROTO_SLOTS_MAX) ||
        (lent->slot_size <= PROTO_FLAG_SIZE) ||
        (lent->slot_size % PROTO_FLAG_SIZE != 0) ||
        (lent->offset % PROTO_FLAG_SIZE != 0)) {
        return false;
    }
    size = mapping->region_sizes[lent->region];
    return (lent->offset <= size) &&
           (lent->slot_size <= (size - lent->offset) / lent->num_slots);
}

void xfer_mailbox_lent(ucxpool_channel_t *channel, const proto_mailbox_t *lent)
{
    xfer_mailbox_t       *theirs  = &channel->xfer->mailbox;
    const core_mapping_t *mapping = channel->peer.mapping;

    if (!channel->peer.pushes || (theirs->slots != NULL) ||
        !is_good(mapping, lent)) {
        core_channel_fail(
            channel, UCXPOOL_ERR_PROTOCOL,
            "the peer lent a second mailbox, a mailbox outside its "
            "memory, or one for a channel that does not push");
        return;
    }
    theirs->slots =
        (uint8_t *)(uintptr_t)mapping->regions[lent->region] + lent->offset;
    theirs->region     = lent->region;
    theirs->offset     = lent->offset;
    theirs->slot_size  = lent->slot_size;
    theirs->free_slots = UINT64_MAX >> (PROTO_SLOTS_MAX - lent->num_slots);
}

/* Returns true if the message can be sent to a slot. The message's memory must
 * be on this GPU, in segments or pieces, and no longer in use by the caller's
 * stream. No part of the message may be sent in place. */
static bool is_mailable(const ucxpool_request_t *request)
{
    const xfer_mailbox_t   *theirs = &request->channel->xfer->mailbox;
    const struct xfer_send *send   = request->send;
    uint64_t                size   = request->data.totals.stream_size;

    return (theirs->free_slots != 0) && request->has_gpu_segments &&
           !request->has_host_segments && (request->stream.marker == NULL) &&
           (size != 0) && (size <= theirs->slot_size - PROTO_FLAG_SIZE) &&
           (send->desc_flags == 0) && !send->in_place &&
           !copy_memory_is_ranges(&request->data.memory) &&
           ((uint32_t)send->message != 0);
}

void xfer_mailbox_take(ucxpool_request_t *request)
{
    xfer_mailbox_t   *theirs = &request->channel->xfer->mailbox;
    struct xfer_send *send   = request->send;
    unsigned          slot;

    if (!is_mailable(request)) {
        return;
    }
    slot = (unsigned)__builtin_ctzll(theirs->free_slots);
    theirs->free_slots &= theirs->free_slots - 1;
    send->slot       = slot + 1;
    send->block_size = theirs->slot_size - PROTO_FLAG_SIZE;
    send->frag_size  = send->block_size;
    send->window     = 1;
    send->num_blocks = 1;
    send->blocks[0]  = (xfer_send_block_t){
         .index       = XFER_LENT_BLOCK,
         .free_slices = 1,
         .address     = theirs->slots + slot * theirs->slot_size,
         .region      = theirs->region,
         .offset      = theirs->offset + slot * theirs->slot_size,
    };
}

copy_flag_t xfer_mailbox_flag(const ucxpool_request_t *request)
{
    const struct xfer_send *send = request->send;

    if (send->slot == 0) {
        return (copy_flag_t){.word = NULL};
    }
    return wire_mailbox_flag(send->blocks[0].address,
                             request->channel->xfer->mailbox.slot_size,
                             send->message);
}

void xfer_mailbox_put(ucxpool_request_t *request)
{
    struct xfer_send *send = request->send;

    if ((send->slot == 0) || (send->message != 0) || (send->busy != 0)) {
        return;
    }
    request->channel->xfer->mailbox.free_slots |= UINT64_C(1)
                                                  << (send->slot - 1);
    send->slot = 0;
}
