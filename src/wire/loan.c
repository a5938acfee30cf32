#include "wire/wire.h"

#include "base/math.h"
#include "core/control.h"

#include <stdlib.h>

struct wire_loan {
    base_list_t        link; /* the pool's loans */
    ucxpool_channel_t *channel;
    uint64_t           message;     /* the sender's message number */
    bool               is_in_use;   /* the receive has not ended */
    bool               is_returned; /* the sender no longer writes to the
                                       blocks */
    unsigned num_blocks;
    unsigned num_recv; /* blocks of the receive share; they come first */
    uint32_t blocks[PROTO_LENT_MAX];
};

/*
 * The shortest message and the smallest loan for which pushing is faster than
 * pulling. For a message of one or two fragments, pushing is not faster. A
 * longer message needs fragments of 16 MiB, and a loan for four of them: two
 * are gathered while two are scattered. With a smaller loan, the link waits for
 * launches, and pulling is faster (two H100 GPUs, loans of 16 MiB: 138 GB/s
 * pushed, 180 GB/s pulled).
 */
#define MESSAGE_MIN ((uint64_t)2 << 20)
#define LOAN_MIN    ((uint64_t)64 << 20)

/* For segments with an average length from SEGMENT_MAX up to SEGMENT_LONG, it
 * is faster if the receiver reads them than if the sender writes them. Longer
 * segments fill a fragment, and copy engines write them. Throughput between two
 * H100 in GB/s, first in one direction, then in both directions at once:
 *
 *               read        written
 *     256 KiB   the same
 *     1 MiB     372, 304    351, 278
 *     8 MiB     370, 300    334, 267
 *     16 MiB    313, 282    368, 341
 *     1 GiB     342, 288    376, 295
 */
#define SEGMENT_MAX  ((uint64_t)512 << 10)
#define SEGMENT_LONG ((uint64_t)16 << 20)

static bool are_written_faster(const copy_totals_t *totals)
{
    uint64_t length = totals->payload_size / totals->num_segments;

    return (length < SEGMENT_MAX) || (length >= SEGMENT_LONG);
}

static bool is_useful(const ucxpool_request_t *request, uint64_t size)
{
    const copy_totals_t *totals = &request->data.totals;
    uint64_t             needed = totals->stream_size;

    if (request->pool->config.map_way == BASE_MAP_WAY_PUSH) {
        return true;
    }
    return (needed >= MESSAGE_MIN) && are_written_faster(totals) &&
           (size >= base_min(needed, LOAN_MIN));
}

/* Returns the number of free blocks of a share except the last one. */
static uint64_t count_spare(const block_pool_t *blocks, block_share_t share)
{
    block_stats_t stats;

    block_pool_stats(blocks, share, &stats);
    return (stats.free == 0) ? 0 : stats.free - 1;
}

/* Compute the number of blocks to lend from each share. */
static void count_wanted(const ucxpool_request_t *request, unsigned *num_recv_p,
                         unsigned *num_send_p)
{
    const block_pool_t *blocks   = request->pool->memory.blocks;
    uint64_t            size     = block_pool_block_size(blocks);
    uint64_t            num_recv = count_spare(blocks, BLOCK_SHARE_RECV);
    uint64_t            num_send = count_spare(blocks, BLOCK_SHARE_SEND);
    uint64_t            num;

    num = base_max((num_recv + num_send) / 2, LOAN_MIN / size);
    num = base_min(num, (uint64_t)PROTO_LENT_MAX);
    num = base_min(num, (request->data.totals.stream_size + size - 1) / size);
    num_recv = base_min(num_recv, num);
    num_send = base_min(num_send, num - num_recv);
    if (!is_useful(request, (num_recv + num_send) * size)) {
        num_recv = 0;
        num_send = 0;
    }
    *num_recv_p = (unsigned)num_recv;
    *num_send_p = (unsigned)num_send;
}

static bool take(block_pool_t *blocks, block_share_t share, unsigned num,
                 uint32_t *indices)
{
    return (num != 0) &&
           (block_pool_get_n(blocks, share, num, indices) == UCXPOOL_OK);
}

/* Take all wanted blocks of a share. If other threads have taken some of them
 * since the count, take none. */
static void take_blocks(wire_loan_t *loan, block_pool_t *blocks,
                        unsigned num_recv, unsigned num_send)
{
    loan->num_recv =
        take(blocks, BLOCK_SHARE_RECV, num_recv, loan->blocks) ? num_recv : 0;
    loan->num_blocks = loan->num_recv;
    if (take(blocks, BLOCK_SHARE_SEND, num_send,
             loan->blocks + loan->num_blocks)) {
        loan->num_blocks += num_send;
    }
}

static block_share_t share_of(const wire_loan_t *loan, unsigned i)
{
    return (i < loan->num_recv) ? BLOCK_SHARE_RECV : BLOCK_SHARE_SEND;
}

wire_loan_t *wire_loan_create(const ucxpool_request_t *request,
                              proto_lent_t *lent, unsigned *num_lent_p)
{
    ucxpool_channel_t *channel = request->channel;
    block_pool_t      *blocks  = request->pool->memory.blocks;
    unsigned           num_recv;
    unsigned           num_send;
    wire_loan_t       *loan;
    mem_piece_t        where;

    *num_lent_p = 0;
    if (!channel->peer.pushes) {
        return NULL;
    }
    count_wanted(request, &num_recv, &num_send);
    loan = (num_recv + num_send == 0)
               ? NULL
               : core_alloc(request->pool, sizeof(*loan));
    if (loan == NULL) {
        return NULL;
    }
    take_blocks(loan, blocks, num_recv, num_send);
    if (loan->num_blocks == 0) {
        free(loan);
        return NULL;
    }
    loan->channel     = channel;
    loan->message     = request->recv->message;
    loan->is_in_use   = true;
    loan->is_returned = false;
    base_list_add_tail(&request->pool->wire->loans, &loan->link);
    channel->num_lent++;
    for (unsigned i = 0; i < loan->num_blocks; i++) {
        block_pool_locate(blocks, loan->blocks[i], &where);
        lent[i] = (proto_lent_t){.offset = where.offset,
                                 .length = where.length,
                                 .region = where.region};
    }
    *num_lent_p = loan->num_blocks;
    return loan;
}

const uint8_t *wire_loan_locate(const wire_loan_t *loan, const ucxpool_t *pool,
                                const proto_data_t *data)
{
    const block_pool_t *blocks = pool->memory.blocks;
    mem_piece_t         where;

    for (unsigned i = 0; (loan != NULL) && (i < loan->num_blocks); i++) {
        block_pool_locate(blocks, loan->blocks[i], &where);
        if ((data->region == where.region) &&
            (data->region_offset >= where.offset) &&
            (data->region_offset - where.offset <= where.length) &&
            (data->length <=
             where.length - (data->region_offset - where.offset))) {
            return (const uint8_t *)block_pool_address(blocks,
                                                       loan->blocks[i]) +
                   (data->region_offset - where.offset);
        }
    }
    return NULL;
}

static void destroy(wire_loan_t *loan)
{
    loan->channel->num_lent--;
    base_list_del(&loan->link);
    free(loan);
}

void wire_loan_end(wire_loan_t *loan, bool is_well)
{
    const ucxpool_channel_t *channel = loan->channel;
    block_pool_t            *blocks  = channel->pool->memory.blocks;
    bool is_free = is_well || loan->is_returned || channel->peer.is_detached;

    loan->is_in_use = false;
    for (unsigned i = 0; i < loan->num_blocks; i++) {
        if (is_free) {
            block_pool_put(blocks, share_of(loan, i), loan->blocks[i]);
        } else {
            block_pool_quarantine(blocks, share_of(loan, i), loan->blocks[i]);
        }
    }
    if (is_free) {
        destroy(loan);
    }
}

/* Record that the sender no longer writes to the loan. */
static void release_blocks(wire_loan_t *loan)
{
    block_pool_t *blocks = loan->channel->pool->memory.blocks;

    loan->is_returned = true;
    if (loan->is_in_use) {
        return;
    }
    for (unsigned i = 0; i < loan->num_blocks; i++) {
        block_pool_release(blocks, share_of(loan, i), loan->blocks[i]);
    }
    destroy(loan);
}

void wire_loan_returned(ucxpool_channel_t *channel, uint64_t message)
{
    wire_loan_t *loan;
    wire_loan_t *next;

    base_list_for_each_safe(loan, next, &channel->pool->wire->loans,
                            wire_loan_t, link) {
        if ((loan->channel == channel) && (loan->message == message)) {
            release_blocks(loan);
        }
    }
}

void wire_loans_end(ucxpool_channel_t *channel)
{
    wire_loan_t *loan;
    wire_loan_t *next;

    base_list_for_each_safe(loan, next, &channel->pool->wire->loans,
                            wire_loan_t, link) {
        if (loan->channel == channel) {
            release_blocks(loan);
        }
    }
}

void wire_loan_destroy_all(ucxpool_t *pool)
{
    wire_loan_t *loan;
    wire_loan_t *next;

    base_list_for_each_safe(loan, next, &pool->wire->loans, wire_loan_t, link) {
        free(loan);
    }
}

/* --- mailboxes ------------------------------------------------------------ */

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

static bool is_lent(const ucxpool_channel_t *channel)
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

/* Returns true if the message would fit in a mailbox, and one is useful. A
 * mailbox is not useful if both processes use the same GPU. The kernels of the
 * two processes then take turns, so a kernel must not wait for the other
 * process. */
static bool wants_mailbox(const ucxpool_request_t *request)
{
    const ucxpool_channel_t *channel = request->channel;
    const ucxpool_t         *pool    = request->pool;
    size_t                   size    = NUM_SLOTS * slot_size_of(pool);

    return channel->peer.pushes && (size != 0) &&
           (request->data.totals.stream_size <= size) &&
           !copy_engine_shares_device(pool->engine,
                                      channel->peer.mapping->gpu.uuid);
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
    wire_mailbox_t     mailbox;

    if (!wants_mailbox(request) || is_lent(channel) || !part_get(channel)) {
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

bool wire_mailbox_check(ucxpool_channel_t *channel, const proto_desc_t *desc,
                        uint64_t stream_size)
{
    if (is_lent(channel) && ((uint32_t)desc->message != 0) &&
        (desc->slot < NUM_SLOTS) && (stream_size != 0) &&
        (stream_size <=
         (NUM_SLOTS - desc->slot) * slot_size_of(channel->pool))) {
        return true;
    }
    core_channel_fail(
        channel, UCXPOOL_ERR_PROTOCOL,
        "the peer sent message %llu of %llu bytes to slot %u of a "
        "mailbox that is too small or was not lent to it",
        (unsigned long long)desc->message, (unsigned long long)stream_size,
        desc->slot);
    return false;
}

const uint8_t *wire_mailbox_slot(const ucxpool_channel_t *channel,
                                 const proto_desc_t *desc, copy_flag_t *flag_p)
{
    const wire_mailbox_t mailbox = mailbox_of(channel);

    *flag_p = wire_mailbox_flag(&mailbox, desc->slot, desc->message);
    return mailbox.slots + desc->slot * mailbox.slot_size;
}

void wire_mailbox_end(ucxpool_channel_t *channel)
{
    if (is_lent(channel)) {
        part_put(channel);
    }
}
