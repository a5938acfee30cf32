#include "xfer/send.h"

#include "wire/wire.h"
#include "xfer/state.h"

static bool is_good(const core_mapping_t *mapping, const proto_mailbox_t *lent)
{
    uint64_t size;

    if ((lent->region >= mapping->num_regions) || (lent->num_slots == 0) ||
        (lent->num_slots > PROTO_SLOTS_MAX) || (lent->slot_size == 0) ||
        (lent->slot_size % PROTO_FLAG_SIZE != 0) ||
        (lent->offset % PROTO_FLAG_SIZE != 0)) {
        return false;
    }
    size = mapping->region_sizes[lent->region];
    return (lent->offset <= size) && (lent->slot_size <= size) &&
           (lent->slot_size + PROTO_FLAG_SIZE <=
            (size - lent->offset) / lent->num_slots);
}

/* Returns the bits of the first `num` slots. */
static uint64_t first_slots(uint64_t num)
{
    return UINT64_MAX >> (PROTO_SLOTS_MAX - num);
}

void xfer_mailbox_lent(ucxpool_channel_t *channel, const proto_mailbox_t *lent)
{
    xfer_mailbox_t       *theirs  = &channel->xfer->mailbox;
    const core_mapping_t *mapping = channel->peer.mapping;

    if (!channel->peer.pushes || (theirs->at.slots != NULL) ||
        !is_good(mapping, lent)) {
        core_channel_fail(
            channel, UCXPOOL_ERR_PROTOCOL,
            "the peer lent a second mailbox, a mailbox outside its "
            "memory, or one for a channel that does not push");
        return;
    }
    theirs->at = (wire_mailbox_t){
        .slots =
            (uint8_t *)(uintptr_t)mapping->regions[lent->region] + lent->offset,
        .slot_size = lent->slot_size,
        .num_slots = lent->num_slots,
    };
    theirs->region     = lent->region;
    theirs->offset     = lent->offset;
    theirs->free_slots = first_slots(lent->num_slots);
}

/* The limits of a message in a mailbox. A single launch must gather it, and no
 * kernel may have to check its list, because the flag is written after the
 * launch even if the kernel finds a fault. A peer may lend a larger mailbox. */
#define STREAM_MAX   ((uint64_t)4 << 20)
#define SEGMENTS_MAX (COPY_UNIFORM_MIN - 1)

/* Returns true if the message can be sent to the mailbox. The message's memory
 * must be on this GPU, in segments or pieces, and no longer in use by the
 * caller's stream. No part of the message may be sent in place. The gather must
 * be able to start now, because the receiver's GPU will wait for it. */
static bool is_mailable(const ucxpool_request_t *request)
{
    const xfer_mailbox_t   *theirs = &request->channel->xfer->mailbox;
    const struct xfer_send *send   = request->send;
    uint64_t                size   = request->data.totals.stream_size;

    return (theirs->at.slots != NULL) && request->has_gpu_segments &&
           !request->has_host_segments && (request->stream.marker == NULL) &&
           (size != 0) && (size <= STREAM_MAX) &&
           (size <= theirs->at.num_slots * theirs->at.slot_size) &&
           (request->data.memory.num <= SEGMENTS_MAX) &&
           (send->desc_flags == 0) && !send->in_place &&
           !copy_memory_is_ranges(&request->data.memory) &&
           ((uint32_t)send->message != 0) &&
           copy_engine_has_job(request->pool->engine);
}

/* Take `num` consecutive slots. Returns false if they are not free. */
static bool take(xfer_mailbox_t *theirs, uint64_t num, unsigned *slot_p)
{
    uint64_t starts = theirs->free_slots; /* bit i: slot i may be the first */

    for (uint64_t i = 1; i < num; i++) {
        starts &= theirs->free_slots >> i;
    }
    if (starts == 0) {
        return false;
    }
    *slot_p = (unsigned)__builtin_ctzll(starts);
    theirs->free_slots &= ~(first_slots(num) << *slot_p);
    return true;
}

void xfer_mailbox_take(ucxpool_request_t *request)
{
    xfer_mailbox_t   *theirs = &request->channel->xfer->mailbox;
    struct xfer_send *send   = request->send;
    uint64_t          size   = request->data.totals.stream_size;
    unsigned          slot;

    if (!is_mailable(request) ||
        !take(theirs, wire_mailbox_need(&theirs->at, size), &slot)) {
        return;
    }
    send->slot       = slot + 1;
    send->block_size = base_align_up(size, COPY_ALIGNMENT);
    send->frag_size  = send->block_size;
    send->window     = 1;
    send->num_blocks = 1;
    send->blocks[0]  = (xfer_send_block_t){
         .index       = XFER_LENT_BLOCK,
         .free_slices = 1,
         .address     = theirs->at.slots + slot * theirs->at.slot_size,
         .region      = theirs->region,
         .offset      = theirs->offset + slot * theirs->at.slot_size,
    };
}

copy_flag_t xfer_mailbox_flag(const ucxpool_request_t *request)
{
    const struct xfer_send *send = request->send;

    if (send->slot == 0) {
        return (copy_flag_t){.word = NULL};
    }
    return wire_mailbox_flag(&request->channel->xfer->mailbox.at,
                             send->slot - 1, send->message);
}

void xfer_mailbox_put(ucxpool_request_t *request)
{
    struct xfer_send *send   = request->send;
    xfer_mailbox_t   *theirs = &request->channel->xfer->mailbox;

    if ((send->slot == 0) || (send->message != 0) || (send->busy != 0)) {
        return;
    }
    theirs->free_slots |=
        first_slots(wire_mailbox_need(&theirs->at, send->block_size))
        << (send->slot - 1);
    send->slot = 0;
}
