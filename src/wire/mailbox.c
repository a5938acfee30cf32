#include "wire/mailbox.h"

#include "base/math.h"
#include "core/control.h"
#include "wire/state.h"

/* The number of slots of a mailbox, and the limits of a slot's size, which
 * includes the flag. Messages of up to 64 KiB gain from two overlapping
 * copies. */
#define NUM_SLOTS     8u
#define SLOT_SIZE_MAX ((size_t)64 << 10)
#define SLOT_SIZE_MIN ((size_t)4 << 10)

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
                              (size_t)WIRE_PARTS_MAX);
}

/* Returns the part of the block that is lent to a channel; for NULL, the first
 * free part. WIRE_PARTS_MAX: none. */
static unsigned part_of(const ucxpool_t *pool, const ucxpool_channel_t *owner)
{
    unsigned num = num_parts(pool);

    for (unsigned i = 0; i < num; i++) {
        if (pool->wire->mail.owners[i] == owner) {
            return i;
        }
    }
    return WIRE_PARTS_MAX;
}

/* Take the block when its first part is lent. The last free block of the share
 * is not taken, but kept for messages. Returns false if there is no block. */
static bool take_block(ucxpool_t *pool)
{
    block_pool_t *blocks = pool->memory.blocks;
    block_stats_t share;

    if (pool->wire->mail.num_lent != 0) {
        return true;
    }
    block_pool_stats(blocks, BLOCK_SHARE_RECV, &share);
    return (share.free > 1) &&
           (block_pool_get(blocks, BLOCK_SHARE_RECV, &pool->wire->mail.block) ==
            UCXPOOL_OK);
}

static bool part_get(ucxpool_channel_t *channel)
{
    ucxpool_t *pool = channel->pool;
    unsigned   part = part_of(pool, NULL);

    if ((part == WIRE_PARTS_MAX) || !take_block(pool)) {
        return false;
    }
    pool->wire->mail.owners[part] = channel;
    pool->wire->mail.num_lent++;
    channel->num_lent++;
    return true;
}

static void part_put(ucxpool_channel_t *channel)
{
    ucxpool_t *pool = channel->pool;

    pool->wire->mail.owners[part_of(pool, channel)] = NULL;
    pool->wire->mail.num_lent--;
    channel->num_lent--;
    if (pool->wire->mail.num_lent == 0) {
        block_pool_put(pool->memory.blocks, BLOCK_SHARE_RECV,
                       pool->wire->mail.block);
    }
}

static bool is_lent(const ucxpool_channel_t *channel)
{
    return part_of(channel->pool, channel) != WIRE_PARTS_MAX;
}

/* Returns the offset of the channel's mailbox in the block. */
static size_t offset_of(const ucxpool_channel_t *channel)
{
    return part_of(channel->pool, channel) * NUM_SLOTS *
           slot_size_of(channel->pool);
}

static uint8_t *slot_of(const ucxpool_channel_t *channel, unsigned slot)
{
    ucxpool_t *pool = channel->pool;
    uint8_t   *block =
        block_pool_address(pool->memory.blocks, pool->wire->mail.block);

    return block + offset_of(channel) + slot * slot_size_of(pool);
}

/* Returns true if the message would fit in a mailbox, and a mailbox is useful.
 * A mailbox is not useful if both processes use the same GPU: their kernels run
 * in turn, so a kernel must not wait for the other process. */
static bool is_useful(const ucxpool_request_t *request)
{
    const ucxpool_channel_t *channel = request->channel;
    const ucxpool_t         *pool    = request->pool;
    size_t                   size    = slot_size_of(pool);

    return channel->peer.pushes && (size >= SLOT_SIZE_MIN) &&
           (request->data.totals.stream_size <= size - PROTO_FLAG_SIZE) &&
           !copy_engine_shares_device(pool->engine, channel->peer.gpu.uuid);
}

static void send_mailbox(ucxpool_channel_t *channel)
{
    ucxpool_t     *pool = channel->pool;
    mem_piece_t    where;
    proto_fixed_t *fixed;

    block_pool_locate(pool->memory.blocks, pool->wire->mail.block, &where);
    fixed = core_control_begin(channel, PROTO_MAILBOX, 0, CORE_MUST, NULL);
    if (fixed == NULL) {
        return;
    }
    fixed->mailbox.region    = where.region;
    fixed->mailbox.num_slots = NUM_SLOTS;
    fixed->mailbox.slot_size = slot_size_of(pool);
    fixed->mailbox.offset    = where.offset + offset_of(channel);
    core_control_end(channel);
}

void wire_mailbox_lend(const ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;
    ucxpool_t         *pool    = request->pool;
    size_t             size    = slot_size_of(pool);
    copy_flag_t        first;

    if (!is_useful(request) || is_lent(channel) || !part_get(channel)) {
        return;
    }
    first = wire_mailbox_flag(slot_of(channel, 0), size, 0);
    if (copy_engine_clear_flags(pool->engine, first.word, size, NUM_SLOTS) !=
        UCXPOOL_OK) {
        part_put(channel);
        return;
    }
    send_mailbox(channel);
}

bool wire_mailbox_check(ucxpool_channel_t *channel, const proto_desc_t *desc,
                        uint64_t stream_size)
{
    if (is_lent(channel) && (desc->slot < NUM_SLOTS) && (stream_size != 0) &&
        (stream_size <= slot_size_of(channel->pool) - PROTO_FLAG_SIZE)) {
        return true;
    }
    core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                      "the peer sent a message of %llu bytes to slot %u of a "
                      "mailbox that it was not lent",
                      (unsigned long long)stream_size, desc->slot);
    return false;
}

const uint8_t *wire_mailbox_slot(const ucxpool_channel_t *channel,
                                 const proto_desc_t *desc, copy_flag_t *flag_p)
{
    uint8_t *slot = slot_of(channel, desc->slot);

    *flag_p =
        wire_mailbox_flag(slot, slot_size_of(channel->pool), desc->message);
    return slot;
}

void wire_mailbox_end(ucxpool_channel_t *channel)
{
    if (is_lent(channel)) {
        part_put(channel);
    }
}
