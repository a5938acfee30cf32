#include "xfer/send.h"

#include "core/memory.h"
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
 * launch even if the kernel finds a fault. A peer may lend a larger mailbox.
 * Longer messages through host memory are faster in several fragments. */
#define STREAM_MAX   ((uint64_t)4 << 20)
#define OUTBOX_MAX   ((uint64_t)512 << 10)
#define SEGMENTS_MAX (COPY_UNIFORM_MIN - 1)

/* Returns true if the message can be gathered at once into a single place. The
 * message's memory must be on this GPU, in segments or pieces. No part of the
 * message may be sent in place. */
static bool is_mailable(const ucxpool_request_t *request, uint64_t max)
{
    const struct xfer_send *send = request->send;
    uint64_t                size = request->data.totals.stream_size;

    return request->has_gpu_segments && !request->has_host_segments &&
           (size != 0) && (size <= max) &&
           (request->data.memory.num <= SEGMENTS_MAX) &&
           (send->desc_flags == 0) && !send->in_place &&
           !copy_memory_is_ranges(&request->data.memory) &&
           ((uint32_t)send->message != 0);
}

/* Returns true if the gather can start now. The receiver's GPU will wait for
 * it. */
static bool can_start(const ucxpool_request_t *request)
{
    return (request->stream.marker == NULL) &&
           copy_engine_has_job(request->pool->engine);
}

/* Take `num` consecutive slots. Returns false if they are not free. */
static bool take(xfer_mailbox_t *box, uint64_t num, unsigned *slot_p)
{
    uint64_t starts = box->free_slots; /* bit i: slot i may be the first */

    if (num > box->at.num_slots) {
        return false;
    }
    for (uint64_t i = 1; i < num; i++) {
        starts &= box->free_slots >> i;
    }
    if (starts == 0) {
        return false;
    }
    *slot_p = (unsigned)__builtin_ctzll(starts);
    box->free_slots &= ~(first_slots(num) << *slot_p);
    return true;
}

/* --- the outbox ----------------------------------------------------------- */

/* Returns the location that a descriptor contains for an offset in a region. */
static uint64_t location(const block_pool_t *blocks, uint64_t region,
                         uint64_t offset)
{
    return (region * block_pool_regions(blocks)->region_size + offset) /
           PROTO_FLAG_SIZE;
}

/* Take a block for the outbox, if it has none. The last free block of the share
 * is left for other messages. Returns false if no other block is free. */
static bool outbox_open(ucxpool_request_t *request)
{
    xfer_mailbox_t *box    = &request->pool->xfer->outbox;
    block_pool_t   *blocks = core_channel_blocks(request->channel);
    block_stats_t   share;
    mem_piece_t     where;

    if (box->at.slots != NULL) {
        return true;
    }
    block_pool_stats(blocks, BLOCK_SHARE_SEND, &share);
    if ((share.free < 2) ||
        (block_pool_get(blocks, BLOCK_SHARE_SEND, &box->block) != UCXPOOL_OK)) {
        return false;
    }
    block_pool_locate(blocks, box->block, &where);
    if (location(blocks, where.region, where.offset + where.length) >
        UINT32_MAX) {
        block_pool_put(blocks, BLOCK_SHARE_SEND, box->block);
        return false;
    }
    *box = (xfer_mailbox_t){
        .at         = {.slots     = block_pool_address(blocks, box->block),
                       .slot_size = (where.length / PROTO_SLOTS_MAX) &
                                    ~(size_t)(PROTO_FLAG_SIZE - 1),
                       .num_slots = PROTO_SLOTS_MAX},
        .region     = where.region,
        .offset     = where.offset,
        .free_slots = UINT64_MAX,
        .block      = box->block,
    };
    return true;
}

/* Return the block if no message uses it. */
static void outbox_close(ucxpool_request_t *request)
{
    xfer_mailbox_t *box = &request->pool->xfer->outbox;

    if ((box->at.slots != NULL) && (box->free_slots == UINT64_MAX)) {
        box->at.slots = NULL;
        block_pool_put(core_memory_host_blocks(request->pool), BLOCK_SHARE_SEND,
                       box->block);
    }
}

/* --- sends ---------------------------------------------------------------- */

static bool is_own(const ucxpool_request_t *request)
{
    return request->channel->xfer->mailbox.at.slots == NULL;
}

/* Returns the slots that a send uses: the outbox, or the mailbox that the peer
 * lent. */
static xfer_mailbox_t *box_of(const ucxpool_request_t *request)
{
    return is_own(request) ? &request->pool->xfer->outbox
                           : &request->channel->xfer->mailbox;
}

static uint64_t num_slots_of(const ucxpool_request_t *request)
{
    uint64_t size = request->send->block_size;

    if (request->send->is_early) {
        return 1;
    }
    return wire_mailbox_need(&box_of(request)->at,
                             is_own(request) ? wire_outbox_room(size) : size);
}

/* Returns true if the send may use slots. */
static bool find_box(ucxpool_request_t *request)
{
    if (!can_start(request)) {
        return false;
    }
    if (!is_own(request)) {
        return is_mailable(request, STREAM_MAX);
    }
    return request->channel->wire->has_outbox &&
           is_mailable(request, OUTBOX_MAX) && outbox_open(request);
}

void xfer_mailbox_take(ucxpool_request_t *request)
{
    xfer_mailbox_t   *box  = box_of(request);
    struct xfer_send *send = request->send;
    unsigned          slot;

    send->block_size =
        base_align_up(request->data.totals.stream_size, COPY_ALIGNMENT);
    if (!find_box(request)) {
        return;
    }
    if (!take(box, num_slots_of(request), &slot)) {
        outbox_close(request);
        return;
    }
    send->slot       = slot + 1;
    send->frag_size  = send->block_size;
    send->window     = 1;
    send->num_blocks = 1;
    send->blocks[0]  = (xfer_send_block_t){
         .index       = XFER_LENT_BLOCK,
         .free_slices = 1,
         .address     = box->at.slots + slot * box->at.slot_size,
         .region      = box->region,
         .offset      = box->offset + slot * box->at.slot_size,
    };
    if (is_own(request)) {
        *xfer_mailbox_flag(request).word = 0;
    }
}

uint32_t xfer_mailbox_slot(const ucxpool_request_t *request)
{
    const xfer_send_block_t *block = &request->send->blocks[0];

    return is_own(request)
               ? (uint32_t)location(core_channel_blocks(request->channel),
                                    block->region, block->offset)
               : request->send->slot - 1;
}

void xfer_mailbox_check_early(ucxpool_request_t *request, uint64_t frag_size)
{
    struct xfer_send     *send = request->send;
    const xfer_mailbox_t *box  = &request->channel->xfer->mailbox;
    uint64_t              max  = base_min(frag_size, WIRE_EARLY_MAX);

    max            = base_min(max, request->pool->config.frag_size);
    max            = base_min(max, send->block_size);
    max            = max & ~(uint64_t)(COPY_ALIGNMENT - 1);
    send->is_early = (send->loan != 0) && (box->at.slots != NULL) &&
                     (box->free_slots != 0) && is_mailable(request, max);
}

void xfer_mailbox_take_flag(ucxpool_request_t *request)
{
    struct xfer_send *send = request->send;
    unsigned          slot;

    if (!copy_engine_has_job(request->pool->engine)) {
        return; /* the gather cannot be launched now */
    }
    send->is_early = take(&request->channel->xfer->mailbox, 1, &slot);
    send->slot     = send->is_early ? slot + 1 : 0;
}

copy_flag_t xfer_mailbox_flag(const ucxpool_request_t *request)
{
    const struct xfer_send *send = request->send;

    if (send->slot == 0) {
        return (copy_flag_t){.word = NULL};
    }
    return is_own(request) ? wire_outbox_flag(send->blocks[0].address,
                                              request->data.totals.stream_size,
                                              send->message)
                           : wire_mailbox_flag(&box_of(request)->at,
                                               send->slot - 1, send->message);
}

void xfer_mailbox_put(ucxpool_request_t *request)
{
    struct xfer_send *send = request->send;

    if ((send->slot == 0) || (send->message != 0) || (send->busy != 0)) {
        return;
    }
    box_of(request)->free_slots |= first_slots(num_slots_of(request))
                                   << (send->slot - 1);
    send->slot = 0;
    if (is_own(request)) {
        outbox_close(request);
    }
}
