#include "xfer/mailbox.h"

#include "base/math.h"
#include "core/channel.h"
#include "core/control.h"
#include "core/pool.h"
#include "xfer/request.h"
#include "xfer/state.h"

/* The maximum number of messages in flight, and the size of the longest one
 * with its flag. Up to 64 KiB, two overlapping copies are faster. */
#define NUM_SLOTS     8u
#define SLOT_SIZE_MAX ((size_t)64 << 10)
#define SLOT_SIZE_MIN ((size_t)4 << 10)

/* The maximum number of channels that share a block. */
#define PARTS_MAX 64u

/* --- receiver ------------------------------------------------------------- */

static size_t slot_size_of(const ucxpool_t *pool)
{
    return base_min(SLOT_SIZE_MAX,
                    block_pool_block_size(pool->memory.blocks) / NUM_SLOTS);
}

static unsigned num_parts(const ucxpool_t *pool)
{
    size_t part_size = slot_size_of(pool) * NUM_SLOTS;

    return (unsigned)base_min(block_pool_block_size(pool->memory.blocks) /
                                  part_size,
                              (size_t)PARTS_MAX);
}

/* Take the block for the first part, unless it is the last free one: that is
 * kept for messages. */
static bool take_block(ucxpool_t *pool)
{
    block_pool_t *blocks = pool->memory.blocks;
    block_stats_t share;

    if (pool->xfer->mail.used != 0) {
        return true;
    }
    block_pool_stats(blocks, BLOCK_SHARE_RECV, &share);
    return (share.free > 1) &&
           (block_pool_get(blocks, BLOCK_SHARE_RECV, &pool->xfer->mail.block) ==
            UCXPOOL_OK);
}

static bool part_get(ucxpool_t *pool, unsigned *part_p)
{
    unsigned part = (pool->xfer->mail.used == UINT64_MAX)
                        ? PARTS_MAX
                        : (unsigned)__builtin_ctzll(~pool->xfer->mail.used);

    if ((part >= num_parts(pool)) || !take_block(pool)) {
        return false;
    }
    pool->xfer->mail.used |= UINT64_C(1) << part;
    *part_p = part;
    return true;
}

static void part_put(ucxpool_t *pool, unsigned part)
{
    pool->xfer->mail.used &= ~(UINT64_C(1) << part);
    if (pool->xfer->mail.used == 0) {
        block_pool_put(pool->memory.blocks, BLOCK_SHARE_RECV,
                       pool->xfer->mail.block);
    }
}

static uint8_t *slot_of(const ucxpool_channel_t *channel, unsigned slot)
{
    ucxpool_t *pool = channel->pool;
    uint8_t   *block =
        block_pool_address(pool->memory.blocks, pool->xfer->mail.block);

    return block + (channel->xfer->mailbox.part * NUM_SLOTS + slot) *
                       slot_size_of(pool);
}

static uint32_t *flag_of(uint8_t *slot, size_t slot_size)
{
    return (uint32_t *)(void *)(slot + slot_size - PROTO_FLAG_SIZE);
}

/* No mailbox if both processes use the same GPU: their kernels run in turn, so
 * a kernel must not wait for the other process. */
static bool is_worth_it(const ucxpool_request_t *request)
{
    const ucxpool_channel_t *channel = request->channel;
    const ucxpool_t         *pool    = request->pool;
    size_t                   size    = slot_size_of(pool);

    return channel->peer.pushes && (size >= SLOT_SIZE_MIN) &&
           (request->data.totals.stream_size <= size - PROTO_FLAG_SIZE) &&
           !copy_engine_shares_device(pool->engine, channel->peer.gpu.uuid);
}

static void tell(ucxpool_channel_t *channel)
{
    ucxpool_t     *pool = channel->pool;
    mem_piece_t    where;
    proto_fixed_t *fixed;

    block_pool_locate(pool->memory.blocks, pool->xfer->mail.block, &where);
    fixed = core_control_begin(channel, PROTO_MAILBOX, 0, CORE_MUST, NULL);
    if (fixed == NULL) {
        return;
    }
    fixed->mailbox.region    = where.region;
    fixed->mailbox.num_slots = NUM_SLOTS;
    fixed->mailbox.slot_size = slot_size_of(pool);
    fixed->mailbox.offset    = where.offset + channel->xfer->mailbox.part *
                                               NUM_SLOTS *
                                               fixed->mailbox.slot_size;
    core_control_end(channel);
}

void xfer_mailbox_lend(const ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;
    xfer_mailbox_t    *own     = &channel->xfer->mailbox;
    ucxpool_t         *pool    = request->pool;
    size_t             size    = slot_size_of(pool);

    if (own->is_lent || !is_worth_it(request) || !part_get(pool, &own->part)) {
        return;
    }
    if (copy_engine_clear_flags(pool->engine,
                                flag_of(slot_of(channel, 0), size), size,
                                NUM_SLOTS) != UCXPOOL_OK) {
        part_put(pool, own->part);
        return;
    }
    own->is_lent = true;
    channel->num_lent++;
    tell(channel);
}

bool xfer_mailbox_check(ucxpool_channel_t *channel, const proto_desc_t *desc,
                        uint64_t stream_size)
{
    if (channel->xfer->mailbox.is_lent && (desc->slot < NUM_SLOTS) &&
        (stream_size != 0) &&
        (stream_size <= slot_size_of(channel->pool) - PROTO_FLAG_SIZE)) {
        return true;
    }
    core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                      "the peer sent a message of %llu bytes to slot %u of a "
                      "mailbox that it was not lent",
                      (unsigned long long)stream_size, desc->slot);
    return false;
}

const uint8_t *xfer_mailbox_slot(const ucxpool_channel_t *channel,
                                 const proto_desc_t *desc, copy_flag_t *flag_p)
{
    uint8_t *slot = slot_of(channel, desc->slot);

    *flag_p = (copy_flag_t){flag_of(slot, slot_size_of(channel->pool)),
                            (uint32_t)desc->message};
    return slot;
}

void xfer_mailbox_end(ucxpool_channel_t *channel)
{
    if (channel->xfer->mailbox.is_lent) {
        channel->xfer->mailbox.is_lent = false;
        channel->num_lent--;
        part_put(channel->pool, channel->xfer->mailbox.part);
    }
}

/* --- sender --------------------------------------------------------------- */

static bool is_good(const core_peer_t *peer, const proto_mailbox_t *lent)
{
    uint64_t size;

    if ((lent->region >= peer->num_regions) || (lent->num_slots == 0) ||
        (lent->num_slots > PROTO_SLOTS_MAX) ||
        (lent->slot_size <= PROTO_FLAG_SIZE) ||
        (lent->slot_size % PROTO_FLAG_SIZE != 0) ||
        (lent->offset % PROTO_FLAG_SIZE != 0)) {
        return false;
    }
    size = peer->region_sizes[lent->region];
    return (lent->offset <= size) &&
           (lent->slot_size <= (size - lent->offset) / lent->num_slots);
}

void xfer_mailbox_lent(ucxpool_channel_t *channel, const proto_mailbox_t *lent)
{
    xfer_mailbox_t    *theirs = &channel->xfer->mailbox;
    const core_peer_t *peer   = &channel->peer;

    if (!channel->peer.pushes || (theirs->slots != NULL) ||
        !is_good(peer, lent)) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer lent a mailbox that is not its own, or a "
                          "second one, or to a channel that does not push");
        return;
    }
    theirs->slots =
        (uint8_t *)(uintptr_t)peer->regions[lent->region] + lent->offset;
    theirs->region     = lent->region;
    theirs->offset     = lent->offset;
    theirs->slot_size  = lent->slot_size;
    theirs->free_slots = UINT64_MAX >> (PROTO_SLOTS_MAX - lent->num_slots);
}

/* Can it be sent to a slot? Only if its memory is on this GPU and ready, in
 * segments or pieces, and no part of it is sent in place. */
static bool is_mailable(const ucxpool_request_t *request)
{
    const xfer_mailbox_t   *theirs = &request->channel->xfer->mailbox;
    const struct xfer_send *send   = request->send;
    uint64_t                size   = request->data.totals.stream_size;

    return (theirs->free_slots != 0) && request->stream.has_gpu_segments &&
           !request->stream.has_host_segments &&
           (request->stream.marker == NULL) && (size != 0) &&
           (size <= theirs->slot_size - PROTO_FLAG_SIZE) &&
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
    return (copy_flag_t){flag_of(send->blocks[0].address,
                                 request->channel->xfer->mailbox.slot_size),
                         (uint32_t)send->message};
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
