#include "xfer/slice.h"

#include "core/channel.h"

#define SLICES_MAX 64u

static unsigned num_slices(const ucxpool_request_t *request)
{
    uint64_t block_size =
        block_pool_block_size(core_channel_blocks(request->channel));

    return (unsigned)base_min(block_size / request->send.frag_size,
                              (uint64_t)SLICES_MAX);
}

static uint64_t all_free(const ucxpool_request_t *request)
{
    unsigned count = num_slices(request);

    return (count == SLICES_MAX) ? UINT64_MAX : (UINT64_C(1) << count) - 1;
}

static bool take_from(core_slice_t *hold, unsigned *slice_p)
{
    if ((hold->block == XFER_NO_BLOCK) || (hold->free_slices == 0)) {
        return false;
    }
    *slice_p = (unsigned)__builtin_ctzll(hold->free_slices);
    hold->free_slices &= hold->free_slices - 1;
    return true;
}

static bool has_block(const core_send_t *send)
{
    for (unsigned i = 0; i < send->num_holds; i++) {
        if (send->holds[i].block != XFER_NO_BLOCK) {
            return true;
        }
    }
    return false;
}

/* A place for one more block, if the request may have it. */
static core_slice_t *new_hold(ucxpool_request_t *request)
{
    core_send_t *send = &request->send;

    if ((request->channel->packing.next != &request->link) && has_block(send)) {
        return NULL;
    }
    for (unsigned i = 0; i < send->num_holds; i++) {
        if (send->holds[i].block == XFER_NO_BLOCK) {
            return &send->holds[i];
        }
    }
    if (send->num_holds == CORE_SLICES_MAX) {
        return NULL;
    }
    send->holds[send->num_holds].block = XFER_NO_BLOCK;
    return &send->holds[send->num_holds++];
}

bool xfer_slice_take(ucxpool_request_t *request, unsigned *hold_p,
                     unsigned *slice_p)
{
    core_send_t  *send = &request->send;
    core_slice_t *hold;

    if (base_list_is_empty(&request->link)) {
        base_list_add_tail(&request->channel->packing, &request->link);
    }
    for (unsigned i = 0; i < send->num_holds; i++) {
        if (take_from(&send->holds[i], slice_p)) {
            *hold_p = i;
            return true;
        }
    }
    hold = new_hold(request);
    if ((hold == NULL) ||
        (block_pool_get(core_channel_blocks(request->channel),
                        UCXPOOL_SHARE_SEND, &hold->block) != UCXPOOL_OK)) {
        return false;
    }
    hold->free_slices = all_free(request);
    *hold_p           = (unsigned)(hold - send->holds);
    return take_from(hold, slice_p);
}

/* It may have more blocks than it has. */
static void wake_first(ucxpool_channel_t *channel)
{
    if (!base_list_is_empty(&channel->packing)) {
        core_request_wake(
            base_list_head(&channel->packing, ucxpool_request_t, link));
    }
}

static void put_block(ucxpool_request_t *request, core_slice_t *hold)
{
    block_pool_put(core_channel_blocks(request->channel), UCXPOOL_SHARE_SEND,
                   hold->block);
    hold->block = XFER_NO_BLOCK;
}

void xfer_slice_give(ucxpool_request_t *request, unsigned hold, unsigned slice)
{
    core_slice_t *held   = &request->send.holds[hold];
    block_pool_t *blocks = core_channel_blocks(request->channel);

    held->free_slices |= UINT64_C(1) << slice;
    if (held->free_slices != all_free(request)) {
        return;
    }
    if (core_request_has_ended(request)) {
        block_pool_release(blocks, UCXPOOL_SHARE_SEND, held->block);
        held->block = XFER_NO_BLOCK;
    } else if (request->send.all_posted) {
        put_block(request, held);
        wake_first(request->channel);
    } else if (!base_list_is_empty(&request->pool->waiters)) {
        /* Others wait: a block is kept no longer than it is in use, so that
         * every send gets one in turn. */
        put_block(request, held);
    }
}

void xfer_slice_leave(ucxpool_request_t *request)
{
    base_list_del(&request->link);
    wake_first(request->channel);
}

void xfer_slice_release_all(ucxpool_request_t *request)
{
    block_pool_t *blocks = core_channel_blocks(request->channel);

    for (unsigned i = 0; i < request->send.num_holds; i++) {
        core_slice_t *hold = &request->send.holds[i];

        if (hold->block == XFER_NO_BLOCK) {
            continue;
        }
        if (hold->free_slices == all_free(request)) {
            put_block(request, hold);
        } else {
            block_pool_quarantine(blocks, UCXPOOL_SHARE_SEND, hold->block);
        }
    }
}
