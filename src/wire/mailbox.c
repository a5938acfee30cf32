#include "wire/wire.h"

#include "core/control.h"

/* The number of slots of a mailbox, and the limits of a slot's size, which is a
 * multiple of the minimum. A message of 2 MiB and four short ones fit in a
 * mailbox. With small blocks, slots are smaller, so that PARTS_MIN mailboxes
 * fit in a block. */
#define NUM_SLOTS     36u
#define SLOT_SIZE_MAX ((size_t)64 << 10)
#define SLOT_SIZE_MIN ((size_t)256)
#define PARTS_MIN     4u

/* Returns 0 if the blocks are too small for mailboxes. */
static size_t slot_size_of(const ucxpool_t *pool)
{
    size_t size =
        block_pool_block_size(pool->memory.blocks) / (PARTS_MIN * NUM_SLOTS);

    return (size < SLOT_SIZE_MIN + PROTO_FLAG_SIZE)
               ? 0
               : base_min(SLOT_SIZE_MAX,
                          (size - PROTO_FLAG_SIZE) & ~(SLOT_SIZE_MIN - 1));
}

static size_t mailbox_size(const ucxpool_t *pool)
{
    return base_align_up(NUM_SLOTS * (slot_size_of(pool) + PROTO_FLAG_SIZE),
                         SLOT_SIZE_MIN);
}

static unsigned num_parts(const ucxpool_t *pool)
{
    return (unsigned)base_min(block_pool_block_size(pool->memory.blocks) /
                                  mailbox_size(pool),
                              (size_t)WIRE_PARTS_MAX);
}

/* Returns the part of the mailbox block that is lent to `owner`, or the
 * first free part if `owner` is NULL. Returns WIRE_PARTS_MAX if there is no
 * such part. */
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

/* Take a block for mailboxes, when the first mailbox is lent. The last free
 * block of the share is left for messages. Returns false if no other block is
 * free. */
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

bool wire_mailbox_is_lent(const ucxpool_channel_t *channel)
{
    return part_of(channel->pool, channel) != WIRE_PARTS_MAX;
}

/* Returns the offset of the channel's mailbox in the block. */
static size_t offset_of(const ucxpool_channel_t *channel)
{
    return part_of(channel->pool, channel) * mailbox_size(channel->pool);
}

static wire_mailbox_t mailbox_of(const ucxpool_channel_t *channel)
{
    ucxpool_t *pool = channel->pool;
    uint8_t   *block =
        block_pool_address(pool->memory.blocks, pool->wire->mail.block);

    return (wire_mailbox_t){.slots     = block + offset_of(channel),
                            .slot_size = slot_size_of(pool),
                            .num_slots = NUM_SLOTS};
}

/* Returns true if a mailbox is useful for messages of this size. A mailbox is
 * not useful if both processes use the same GPU. The kernels of the two
 * processes then take turns, so a kernel must not wait for the other
 * process. */
static bool wants_mailbox(const ucxpool_request_t *request)
{
    const ucxpool_channel_t *channel = request->channel;
    const ucxpool_t         *pool    = request->pool;

    return channel->peer.pushes && (slot_size_of(pool) != 0) &&
           (request->data.totals.stream_size <= WIRE_EARLY_MAX) &&
           !core_channel_shares_gpu(channel);
}

static void send_mailbox(ucxpool_channel_t *channel)
{
    ucxpool_t    *pool = channel->pool;
    mem_piece_t   where;
    proto_fixed_t lent;

    block_pool_locate(pool->memory.blocks, pool->wire->mail.block, &where);
    lent.mailbox = (proto_mailbox_t){
        .region    = where.region,
        .num_slots = NUM_SLOTS,
        .slot_size = slot_size_of(pool),
        .offset    = where.offset + offset_of(channel),
    };
    core_control_send(channel, PROTO_MAILBOX, &lent, NULL);
}

void wire_mailbox_lend(const ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;
    wire_mailbox_t     mailbox;

    if (!wants_mailbox(request) || wire_mailbox_is_lent(channel) ||
        !part_get(channel)) {
        return;
    }
    mailbox = mailbox_of(channel);
    if (copy_cuda_copier_clear(request->pool->engine->copier,
                               wire_mailbox_flag(&mailbox, 0, 0).word,
                               PROTO_FLAG_SIZE, NUM_SLOTS) != UCXPOOL_OK) {
        part_put(channel);
        return;
    }
    send_mailbox(channel);
}

bool wire_mailbox_find_flag(const ucxpool_channel_t *channel, unsigned slot,
                            uint64_t message, copy_flag_t *flag_p)
{
    wire_mailbox_t mailbox;

    if (!wire_mailbox_is_lent(channel) || (slot >= NUM_SLOTS)) {
        return false;
    }
    mailbox = mailbox_of(channel);
    *flag_p = wire_mailbox_flag(&mailbox, slot, message);
    return true;
}

const uint8_t *wire_mailbox_find(const ucxpool_channel_t *channel,
                                 const proto_desc_t *desc, uint64_t stream_size,
                                 copy_flag_t *flag_p)
{
    size_t slot_size = slot_size_of(channel->pool);

    if (!wire_mailbox_find_flag(channel, desc->slot, desc->message, flag_p) ||
        (stream_size > (NUM_SLOTS - desc->slot) * slot_size)) {
        return NULL;
    }
    return mailbox_of(channel).slots + desc->slot * slot_size;
}

const uint8_t *wire_outbox_find(const ucxpool_channel_t *channel,
                                const proto_desc_t *desc, uint64_t stream_size,
                                copy_flag_t *flag_p)
{
    const core_mapping_t *mapping = channel->peer.mapping;
    uint64_t              offset  = desc->slot * (uint64_t)PROTO_FLAG_SIZE;
    uint32_t              region  = 0;
    uint8_t              *data;

    while ((region < mapping->num_regions) &&
           (offset >= mapping->region_sizes[region])) {
        offset -= mapping->region_sizes[region++];
    }
    if ((region == mapping->num_regions) || (offset % PROTO_FLAG_SIZE != 0) ||
        (wire_outbox_room(stream_size) >
         mapping->region_sizes[region] - offset)) {
        return NULL;
    }
    data    = (uint8_t *)(uintptr_t)mapping->regions[region] + offset;
    *flag_p = wire_outbox_flag(data, stream_size, desc->message);
    return data;
}

bool wire_mailbox_check(ucxpool_channel_t *channel, const proto_desc_t *desc,
                        uint64_t stream_size)
{
    const core_wire_t *wire = channel->wire;
    copy_flag_t        flag;

    if (((uint32_t)desc->message != 0) && (stream_size != 0) &&
        (wire->find_mailed != NULL) &&
        (wire->find_mailed(channel, desc, stream_size, &flag) != NULL)) {
        return true;
    }
    core_channel_fail(
        channel, UCXPOOL_ERR_PROTOCOL,
        "the peer sent message %llu of %llu bytes in slot %u, which is too "
        "small, does not exist, or was not lent to it",
        (unsigned long long)desc->message, (unsigned long long)stream_size,
        desc->slot);
    return false;
}

void wire_mailbox_end(ucxpool_channel_t *channel)
{
    if (wire_mailbox_is_lent(channel)) {
        part_put(channel);
    }
}
