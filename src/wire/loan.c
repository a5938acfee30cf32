#include "wire/wire.h"

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

/* Returns true if the sender can announce a message of this length before it is
 * gathered, which makes writing faster for all lengths of segments. */
static bool fits_early(const ucxpool_request_t *request)
{
    uint64_t block_size = block_pool_block_size(request->pool->memory.blocks);

    return wire_mailbox_is_lent(request->channel) &&
           (request->data.totals.stream_size <=
            base_min(block_size, WIRE_EARLY_MAX));
}

static bool is_useful(const ucxpool_request_t *request, bool may_be_early,
                      uint64_t size)
{
    const copy_totals_t *totals = &request->data.totals;
    uint64_t             needed = totals->stream_size;

    if (request->pool->config.map_way == BASE_MAP_WAY_PUSH) {
        return true;
    }
    return (needed >= MESSAGE_MIN) &&
           (are_written_faster(totals) ||
            (may_be_early && fits_early(request))) &&
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
static void count_wanted(const ucxpool_request_t *request, bool may_be_early,
                         unsigned *num_recv_p, unsigned *num_send_p)
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
    if (!is_useful(request, may_be_early, (num_recv + num_send) * size)) {
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
                              bool may_be_early, proto_lent_t *lent,
                              unsigned *num_lent_p)
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
    count_wanted(request, may_be_early, &num_recv, &num_send);
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
