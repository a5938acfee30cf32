#include "xfer/loan.h"

#include "base/math.h"
#include "core/channel.h"
#include "core/pool.h"

#include <stdlib.h>

struct xfer_loan {
    base_list_t link;        /* the channel's */
    uint64_t    message;     /* the sender's number */
    bool        is_in_use;   /* the receive has not ended */
    bool        is_returned; /* the sender writes to it no more */
    unsigned    num_blocks;
    uint32_t    blocks[PROTO_LENT_MAX];
};

/* How many to lend. */
static unsigned wanted(const ucxpool_request_t *request)
{
    const block_pool_t *blocks = request->pool->memory.blocks;
    uint64_t            size   = block_pool_block_size(blocks);
    uint64_t            most;
    block_stats_t       share;

    block_pool_stats(blocks, BLOCK_SHARE_RECV, &share);
    most = base_min(share.free / 2, (uint64_t)PROTO_LENT_MAX);
    return (unsigned)base_min(
        (request->data.totals.stream_size + size - 1) / size, most);
}

xfer_loan_t *xfer_loan_create(const ucxpool_request_t *request,
                              proto_lent_t *lent, unsigned *num_lent_p)
{
    ucxpool_channel_t *channel = request->channel;
    block_pool_t      *blocks  = request->pool->memory.blocks;
    unsigned           num;
    xfer_loan_t       *loan;
    mem_piece_t        where;

    *num_lent_p = 0;
    if (!core_channel_is_pushed(channel)) {
        return NULL;
    }
    num  = wanted(request);
    loan = (num == 0) ? NULL : core_alloc(request->pool, sizeof(*loan));
    if (loan == NULL) {
        return NULL;
    }
    if (block_pool_get_n(blocks, BLOCK_SHARE_RECV, num, loan->blocks) !=
        UCXPOOL_OK) {
        free(loan);
        return NULL;
    }
    loan->message     = request->recv.message;
    loan->is_in_use   = true;
    loan->is_returned = false;
    loan->num_blocks  = num;
    base_list_add_tail(&channel->requests.loans, &loan->link);
    for (unsigned i = 0; i < num; i++) {
        block_pool_locate(blocks, loan->blocks[i], &where);
        lent[i] = (proto_lent_t){.offset = where.offset,
                                 .length = where.length,
                                 .region = where.region};
    }
    *num_lent_p = num;
    return loan;
}

const uint8_t *xfer_loan_locate(const xfer_loan_t *loan, const ucxpool_t *pool,
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

static void destroy(xfer_loan_t *loan)
{
    base_list_del(&loan->link);
    free(loan);
}

void xfer_loan_end(ucxpool_channel_t *channel, xfer_loan_t *loan, bool is_well)
{
    block_pool_t *blocks  = channel->pool->memory.blocks;
    bool          is_free = is_well || loan->is_returned || channel->peer.gone;

    loan->is_in_use = false;
    for (unsigned i = 0; i < loan->num_blocks; i++) {
        if (is_free) {
            block_pool_put(blocks, BLOCK_SHARE_RECV, loan->blocks[i]);
        } else {
            block_pool_quarantine(blocks, BLOCK_SHARE_RECV, loan->blocks[i]);
        }
    }
    if (is_free) {
        destroy(loan);
    }
}

/* The sender writes to it no more. */
static void give_back(ucxpool_channel_t *channel, xfer_loan_t *loan)
{
    block_pool_t *blocks = channel->pool->memory.blocks;

    loan->is_returned = true;
    if (loan->is_in_use) {
        return;
    }
    for (unsigned i = 0; i < loan->num_blocks; i++) {
        block_pool_release(blocks, BLOCK_SHARE_RECV, loan->blocks[i]);
    }
    destroy(loan);
}

void xfer_loan_returned(ucxpool_channel_t *channel, uint64_t message)
{
    xfer_loan_t *loan;
    xfer_loan_t *next;

    base_list_for_each_safe(loan, next, &channel->requests.loans, xfer_loan_t,
                            link) {
        if (loan->message == message) {
            give_back(channel, loan);
        }
    }
}

void xfer_loans_end(ucxpool_channel_t *channel)
{
    xfer_loan_t *loan;
    xfer_loan_t *next;

    base_list_for_each_safe(loan, next, &channel->requests.loans, xfer_loan_t,
                            link) {
        give_back(channel, loan);
    }
}

void xfer_loans_destroy(ucxpool_channel_t *channel)
{
    while (!base_list_is_empty(&channel->requests.loans)) {
        destroy(base_list_head(&channel->requests.loans, xfer_loan_t, link));
    }
}
