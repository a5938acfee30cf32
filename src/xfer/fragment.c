#include "xfer/send.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "copy/engine.h"
#include "core/channel.h"
#include "xfer/state.h"

#include <stdlib.h>
#include <string.h>

/* --- slices --------------------------------------------------------------- */

#define SLICES_MAX 64u

/* Returns free_slices of a block without fragments. */
static uint64_t all_free(const ucxpool_request_t *request)
{
    uint64_t count = request->send->block_size / request->send->frag_size;

    return (count >= SLICES_MAX) ? UINT64_MAX : (UINT64_C(1) << count) - 1;
}

static bool take_from(xfer_send_block_t *block, unsigned *slice_p)
{
    if ((block->index == XFER_NO_BLOCK) || (block->free_slices == 0)) {
        return false;
    }
    *slice_p = (unsigned)__builtin_ctzll(block->free_slices);
    block->free_slices &= block->free_slices - 1;
    return true;
}

/* Returns true if the send uses only the blocks that it was given: a loan, or
 * slots. */
static bool has_given_blocks(const struct xfer_send *send)
{
    return (send->loan != 0) || (send->slot != 0);
}

static bool has_block(const struct xfer_send *send)
{
    for (unsigned i = 0; i < send->num_blocks; i++) {
        if (send->blocks[i].index != XFER_NO_BLOCK) {
            return true;
        }
    }
    return false;
}

/* Returns an entry for one more block; NULL if the request may not have
 * more. */
static xfer_send_block_t *new_block(ucxpool_request_t *request)
{
    struct xfer_send *send = request->send;

    if ((request->channel->xfer->packing.next != &request->link) &&
        has_block(send)) {
        return NULL;
    }
    for (unsigned i = 0; i < send->num_blocks; i++) {
        if (send->blocks[i].index == XFER_NO_BLOCK) {
            return &send->blocks[i];
        }
    }
    if (send->num_blocks == XFER_SEND_BLOCKS_MAX) {
        return NULL;
    }
    send->blocks[send->num_blocks].index = XFER_NO_BLOCK;
    return &send->blocks[send->num_blocks++];
}

/*
 * Take a slice for one fragment. Returns false if no block is free, or the send
 * may not take another block.
 *
 * Several sends of a channel may fill blocks at a time. The first one may have
 * up to XFER_SEND_BLOCKS_MAX blocks, and each of the others one block. If all
 * sends had the same number of blocks, they would end at the same time, and the
 * link would be idle while the next sends start. A send that pushes uses only
 * the blocks that the receiver lent.
 */
static bool slice_get(ucxpool_request_t *request, unsigned *block_p,
                      unsigned *slice_p)
{
    struct xfer_send  *send   = request->send;
    block_pool_t      *blocks = core_channel_blocks(request->channel);
    xfer_send_block_t *block;
    mem_piece_t        where;

    if (!has_given_blocks(send) && base_list_is_empty(&request->link)) {
        base_list_add_tail(&request->channel->xfer->packing, &request->link);
    }
    for (unsigned i = 0; i < send->num_blocks; i++) {
        if (take_from(&send->blocks[i], slice_p)) {
            *block_p = i;
            return true;
        }
    }
    block = has_given_blocks(send) ? NULL : new_block(request);
    if ((block == NULL) || (block_pool_get(blocks, BLOCK_SHARE_SEND,
                                           &block->index) != UCXPOOL_OK)) {
        return false;
    }
    block->free_slices = all_free(request);
    block->address     = block_pool_address(blocks, block->index);
    block_pool_locate(blocks, block->index, &where);
    block->region = where.region;
    block->offset = where.offset;
    *block_p      = (unsigned)(block - send->blocks);
    return take_from(block, slice_p);
}

/* Wake the first send that fills blocks, because it may now take more
 * blocks. */
static void wake_first(ucxpool_channel_t *channel)
{
    if (!base_list_is_empty(&channel->xfer->packing)) {
        core_request_wake(
            base_list_head(&channel->xfer->packing, ucxpool_request_t, link));
    }
}

static void put_block(ucxpool_request_t *request, xfer_send_block_t *block)
{
    block_pool_put(core_channel_blocks(request->channel), BLOCK_SHARE_SEND,
                   block->index);
    block->index = XFER_NO_BLOCK;
}

/* Free a slice. Also free the slice's block if the block is no longer
 * needed. */
static void slice_put(ucxpool_request_t *request, unsigned block,
                      unsigned slice)
{
    xfer_send_block_t *held   = &request->send->blocks[block];
    block_pool_t      *blocks = core_channel_blocks(request->channel);

    held->free_slices |= UINT64_C(1) << slice;
    if ((held->index == XFER_LENT_BLOCK) ||
        (held->free_slices != all_free(request))) {
        return;
    }
    if (core_request_has_ended(request)) {
        block_pool_release(blocks, BLOCK_SHARE_SEND, held->index);
        held->index = XFER_NO_BLOCK;
    } else if (request->send->all_posted) {
        put_block(request, held);
        wake_first(request->channel);
    } else if (!base_list_is_empty(&request->pool->xfer->waiters)) {
        /* Other sends wait for a block, so do not keep an unused block. The
         * sends take turns. */
        put_block(request, held);
    }
}

void xfer_slice_leave(ucxpool_request_t *request)
{
    base_list_del(&request->link);
    wake_first(request->channel);
}

/* Free the blocks of a request that has ended, or quarantine those with slices
 * in flight. */
static void slices_release(ucxpool_request_t *request)
{
    block_pool_t *blocks = core_channel_blocks(request->channel);

    for (unsigned i = 0; i < request->send->num_blocks; i++) {
        xfer_send_block_t *block = &request->send->blocks[i];

        if ((block->index == XFER_NO_BLOCK) ||
            (block->index == XFER_LENT_BLOCK)) {
            continue;
        }
        if (block->free_slices == all_free(request)) {
            put_block(request, block);
        } else {
            block_pool_quarantine(blocks, BLOCK_SHARE_SEND, block->index);
        }
    }
}

/* --- ranges of the stream ------------------------------------------------- */

/* The part of the stream that the next fragment sends. */
typedef struct range {
    uint64_t             length;
    bool                 last;
    bool                 in_place;
    const void          *bytes;  /* the data; only if in_place */
    block_comm_buffer_t *buffer; /* contains bytes; NULL: not comm memory */
    mem_piece_t          where;  /* region and offset of bytes; needs buffer */
} range_t;

/* Extend an in-place range into the next regions of a GPU. The regions are
 * contiguous in our address space and in a peer's. */
static void extend_over_regions(const ucxpool_request_t *request,
                                const copy_extent_t *extent, uint64_t length,
                                range_t *range)
{
    mem_piece_t         *where = &range->where;
    const ucxpool_t     *pool  = request->pool;
    size_t               size  = pool->memory.regions.region_size;
    block_comm_buffer_t *buffer;
    mem_piece_t          next;

    while (request->channel->wire->joins_regions && (where->length < length) &&
           block_comm_find(pool->memory.comm,
                           (const char *)extent->address + where->length,
                           length - where->length, &next, &buffer) &&
           (buffer == range->buffer) && /* the fragment holds only one buffer */
           (next.region * size + next.offset ==
            where->region * size + where->offset + where->length)) {
        where->length += next.length;
    }
}

/* Returns true if an extent can be sent in place, and is long enough for a
 * fragment. */
static bool is_in_place(ucxpool_request_t *request, const copy_extent_t *extent,
                        range_t *range)
{
    const ucxpool_t *pool  = request->pool;
    uint64_t         limit = request->send->inplace_size;

    memset(range, 0, sizeof(*range));
    if ((extent->address == NULL) ||
        (extent->length < request->send->inplace_min)) {
        return false;
    }
    range->length = base_min(extent->length, limit);
    if ((core_channel_blocks(request->channel) == pool->memory.blocks) &&
        block_comm_find(pool->memory.comm, extent->address, range->length,
                        &range->where, &range->buffer)) {
        extend_over_regions(request, extent, range->length, range);
        range->length = range->where.length;
        range->bytes =
            (uint8_t *)pool->memory.regions.regions[range->where.region]
                .address +
            range->where.offset;
    } else if (request->channel->wire->takes_any_memory(pool, extent->length)) {
        range->bytes = extent->address;
    } else {
        return false;
    }
    range->in_place = true;
    return true;
}

/*
 * Find the next range of a message that is partly sent in place. This is either
 * an in-place range, or a packed range up to the next in-place range.
 * Restores the plan's position, because the gather starts from there.
 */
static void mixed_range(ucxpool_request_t *request, range_t *range)
{
    struct xfer_send *send   = request->send;
    copy_plan_t      *plan   = request->plan;
    uint64_t          limit  = send->frag_size;
    uint64_t          left   = request->data.totals.stream_size - send->offset;
    copy_plan_t       before = *plan;
    copy_extent_t     extent;
    range_t           in_place;

    range->length = 0;
    while ((range->length < limit) && (range->length < left)) {
        copy_plan_extent(plan, send->offset + range->length,
                         left - range->length, &extent);
        if (is_in_place(request, &extent, &in_place)) {
            if (range->length == 0) {
                *range = in_place;
                limit  = send->inplace_size;
            }
            break;
        }
        range->length += extent.length;
    }
    range->length = base_min(range->length, base_min(limit, left));
    plan->at      = before.at;
}

/* Find the range that starts at send.offset. */
static void next_range(ucxpool_request_t *request, range_t *range)
{
    struct xfer_send *send = request->send;
    uint64_t          left = request->data.totals.stream_size - send->offset;

    memset(range, 0, sizeof(*range));
    if (request->send->in_place) {
        mixed_range(request, range);
    } else {
        range->length = base_min(send->frag_size, left);
    }
}

/* --- fragments ------------------------------------------------------------ */

bool xfer_fragment_take_loan(ucxpool_request_t  *request,
                             const proto_lent_t *lent, unsigned num_lent)
{
    struct xfer_send     *send    = request->send;
    const core_mapping_t *mapping = request->channel->peer.mapping;

    send->block_size = UINT64_MAX;
    for (unsigned i = 0; i < num_lent; i++) {
        const proto_lent_t *block = &lent[i];

        if ((block->region >= mapping->num_regions) ||
            (block->offset % COPY_ALIGNMENT != 0) ||
            (block->offset > mapping->region_sizes[block->region]) ||
            (block->length >
             mapping->region_sizes[block->region] - block->offset)) {
            return false;
        }
        send->blocks[i] = (xfer_send_block_t){
            .index       = XFER_LENT_BLOCK,
            .free_slices = UINT64_MAX,
            .address = (uint8_t *)(uintptr_t)mapping->regions[block->region] +
                       block->offset,
            .region = block->region,
            .offset = block->offset,
        };
        send->block_size = base_min(send->block_size, block->length);
    }
    send->num_blocks = num_lent;
    send->loan       = send->message;
    return true;
}

static uint64_t auto_frag_size(const ucxpool_request_t *request,
                               uint64_t                *inplace_size_p)
{
    const struct xfer_send  *send   = request->send;
    const core_frag_params_t params = {
        .stream_size = request->data.totals.stream_size,
        .longest     = send->longest,
        .lent_size =
            has_given_blocks(send) ? send->num_blocks * send->block_size : 0,
        .in_place = send->in_place,
    };

    return request->channel->wire->frag_size(request->channel, &params,
                                             inplace_size_p);
}

void xfer_fragment_set_limits(ucxpool_request_t *request, uint64_t frag_size,
                              uint32_t window)
{
    ucxpool_t        *pool         = request->pool;
    struct xfer_send *send         = request->send;
    uint64_t          size         = pool->config.frag_size;
    uint64_t          inplace_size = 0;

    if (!has_given_blocks(send)) {
        send->block_size =
            block_pool_block_size(core_channel_blocks(request->channel));
    }
    if ((size == BASE_SIZE_AUTO) && !send->is_early) {
        size = auto_frag_size(request, &inplace_size);
    }
    size               = base_min(size, base_min(frag_size, send->block_size));
    send->frag_size    = size & ~(uint64_t)(COPY_ALIGNMENT - 1);
    inplace_size       = base_min(inplace_size, frag_size);
    send->inplace_size = base_max(
        send->frag_size, inplace_size & ~(uint64_t)(COPY_ALIGNMENT - 1));
    for (unsigned i = 0; i < send->num_blocks; i++) {
        send->blocks[i].free_slices = all_free(request);
    }
    send->window = base_min(window, CORE_FRAGMENTS_MAX);
    send->in_place |=
        request->channel->wire->takes_any_memory(pool, send->longest);
}

static void wait_for_block(ucxpool_request_t *request)
{
    if (request->send->blocked_since == 0) {
        request->send->blocked_since = base_clock_now();
        request->channel->counts.block_waits++;
    }
    base_range_begin(&request->send->blocked, BASE_RANGE_BLOCK,
                     request->send->frag_size);
    base_list_move(&request->pool->xfer->waiters, &request->run_link);
}

static void stop_waiting(ucxpool_request_t *request)
{
    base_range_end(&request->send->blocked);
    if (request->send->blocked_since != 0) {
        request->channel->counts.block_wait_ns +=
            base_clock_now() - request->send->blocked_since;
        request->send->blocked_since = 0;
    }
}

static void gathered(copy_job_t *copy, ucxpool_status_t status)
{
    core_fragment_t *fragment  = base_container_of(copy, core_fragment_t, copy);
    ucxpool_request_t *request = fragment->request;

    base_range_end(&fragment->range);
    if (fragment->is_pushed) {
        request->channel->xfer->num_pushes--;
        core_link_ended(&request->send->push, fragment->data.length);
    }
    if (core_request_has_ended(request) || request->send->ending) {
        xfer_send_fragment_done(fragment);
    } else if (status != UCXPOOL_OK) {
        xfer_send_fragment_done(fragment);
        xfer_send_stop(request, status, ucxpool_error_detail());
    } else {
        if (request->send->is_early) { /* it was sent before */
            base_range_begin(&fragment->range, BASE_RANGE_WIRE,
                             fragment->data.length);
        }
        core_request_wake(request);
    }
}

/* Copy the range into a slice, or start this copy. Shortens the range if it is
 * too long for one copy. */
static ucxpool_status_t gather(ucxpool_request_t *request, range_t *range,
                               core_fragment_t *fragment, void *slice)
{
    copy_engine_t   *engine = request->pool->engine;
    copy_work_t      work;
    ucxpool_status_t status;

    if (request->send->is_early) {
        xfer_mailbox_take_flag(request);
    }
    work = (copy_work_t){
        .plan              = request->plan,
        .offset            = request->send->offset,
        .length            = range->length,
        .block             = slice,
        .is_gather         = true,
        .is_pushed         = fragment->is_pushed,
        .flag              = xfer_mailbox_flag(request),
        .has_host_segments = request->has_host_segments,
        .has_gpu_segments  = request->has_gpu_segments,
        .range             = &fragment->range,
    };

    fragment->copy.done = gathered;
    status = copy_engine_start(engine, &fragment->copy, &work, &range->length);
    if (status == UCXPOOL_INPROGRESS) {
        /* gathered() is called when the copy ends. */
        if (fragment->is_pushed) {
            request->channel->xfer->num_pushes++;
            core_link_began(&request->send->push, range->length);
        }
        return UCXPOOL_OK;
    }
    base_range_end(&fragment->range);
    return status;
}

/* Gather a packed range into a slice. */
static ucxpool_status_t copy_range(ucxpool_request_t *request, range_t *range,
                                   core_fragment_t *fragment)
{
    struct xfer_send        *send = request->send;
    const xfer_send_block_t *block;
    uint64_t                 slice_offset;
    ucxpool_status_t         status;

    if (!slice_get(request, &fragment->block, &fragment->slice)) {
        /* A fragment in flight will free a slice. If no fragment is in flight,
         * wait for a block of another request. */
        if (send->busy == 0) {
            wait_for_block(request);
        }
        return UCXPOOL_INPROGRESS;
    }
    stop_waiting(request);
    block        = &send->blocks[fragment->block];
    slice_offset = fragment->slice * send->frag_size;
    fragment->is_pushed =
        has_given_blocks(send) && request->channel->peer.pushes;
    fragment->bytes = block->address + slice_offset;
    status = gather(request, range, fragment, block->address + slice_offset);
    if (status != UCXPOOL_OK) {
        slice_put(request, fragment->block, fragment->slice);
        return status;
    }
    fragment->where    = (mem_piece_t){.region = block->region,
                                       .offset = block->offset + slice_offset,
                                       .length = range->length};
    fragment->buffer   = NULL;
    fragment->in_place = false;
    return UCXPOOL_OK;
}

static void lay_in_place(core_fragment_t *fragment, const range_t *range)
{
    fragment->where    = range->where;
    fragment->bytes    = range->bytes;
    fragment->buffer   = range->buffer;
    fragment->in_place = true;
    if (fragment->buffer != NULL) {
        block_comm_hold(fragment->buffer);
    }
}

static void fill_data(ucxpool_request_t *request, core_fragment_t *fragment,
                      const range_t *range)
{
    struct xfer_send *send = request->send;
    proto_data_t     *data = &fragment->data;

    memset(data, 0, sizeof(*data));
    data->message       = send->message;
    data->receive       = send->receive;
    data->offset        = send->offset;
    data->length        = range->length;
    data->index         = send->index;
    data->piece         = fragment->number;
    data->region        = fragment->where.region;
    data->word          = base_max(request->send->word, 1u) - 1;
    data->region_offset = fragment->where.offset;
    if (send->is_early) {
        data->slot = send->slot - 1;
        data->flags |= PROTO_DATA_EARLY;
    }
    data->flags |= (range->last ? PROTO_DATA_LAST : 0u) |
                   (fragment->in_place ? PROTO_DATA_INPLACE : 0u) |
                   (fragment->is_pushed ? PROTO_DATA_PUSHED : 0u);
    if (request->pool->config.checksum == BASE_CHECKSUM_CRC32C) {
        data->flags |= PROTO_DATA_CHECKSUM;
        data->checksum = base_crc32c(0, fragment->bytes, data->length);
    }
}

static core_mode_t mode_of(const core_fragment_t *fragment)
{
    const core_wire_t *wire = fragment->request->channel->wire;

    if (fragment->is_pushed) {
        return CORE_MODE_MAP_PUSHED;
    }
    return fragment->in_place ? wire->in_place : wire->packed;
}

static void count_sent(const core_fragment_t *fragment)
{
    core_counters_t *counts = &fragment->request->channel->counts;
    core_mode_t      mode   = mode_of(fragment);

    fragment->request->path = (uint8_t)mode;
    core_traffic_add(&counts->sent[mode], fragment->data.length);
    if (fragment->in_place) {
        counts->copies_avoided_bytes += fragment->data.length;
    }
}

static bool is_window_full(const struct xfer_send *send)
{
    return (send->busy == UINT64_MAX) ||
           ((unsigned)__builtin_popcountll(send->busy) >= send->window);
}

/* Returns a fragment with the lowest free number; NULL if out of memory. */
static core_fragment_t *fragment_get(ucxpool_request_t *request)
{
    ucxpool_t       *pool = request->pool;
    core_fragment_t *fragment =
        base_list_pop(&pool->xfer->free_fragments, core_fragment_t, link);

    if (fragment == NULL) {
        fragment = core_alloc(pool, sizeof(*fragment));
        if (fragment == NULL) {
            base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a fragment");
            return NULL;
        }
        base_list_init(&fragment->link);
        base_list_add_tail(&pool->xfer->fragments, &fragment->all_link);
    }
    fragment->request       = request;
    fragment->number        = (unsigned)__builtin_ctzll(~request->send->busy);
    fragment->ucx           = NULL;
    fragment->copy.job      = NULL;
    fragment->is_pushed     = false;
    fragment->range.is_open = false;
    fragment->done          = xfer_send_fragment_done;
    return fragment;
}

static void fragment_put(core_fragment_t *fragment)
{
    ucxpool_t *pool = fragment->request->pool;

    base_list_del(&fragment->link);
    base_list_add_head(&pool->xfer->free_fragments, &fragment->link);
}

ucxpool_status_t xfer_fragment_post(ucxpool_request_t *request)
{
    struct xfer_send *send = request->send;
    core_fragment_t  *fragment;
    range_t           range;
    uint64_t          next;
    ucxpool_status_t  status;

    if (is_window_full(send)) {
        return UCXPOOL_INPROGRESS;
    }
    fragment = fragment_get(request);
    if (fragment == NULL) {
        return UCXPOOL_ERR_NO_MEMORY;
    }
    next_range(request, &range);
    if (range.in_place) {
        lay_in_place(fragment, &range);
        status = UCXPOOL_OK;
    } else {
        status = copy_range(request, &range, fragment);
    }
    if (status != UCXPOOL_OK) {
        fragment_put(fragment);
        return status;
    }
    next = send->offset + range.length;
    /* Padding after an in-place fragment is not sent. */
    next += copy_plan_padding(request->plan, next);
    range.last = next >= request->data.totals.stream_size;
    fill_data(request, fragment, &range);
    send->busy |= UINT64_C(1) << fragment->number;
    send->fragments[fragment->number] = fragment;
    base_list_add_tail(&send->unsent, &fragment->link);
    count_sent(fragment);
    send->offset = next;
    send->index++;
    send->all_posted = range.last;
    if (range.last) {
        xfer_slice_leave(request);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t xfer_fragment_flush(ucxpool_request_t *request)
{
    struct xfer_send  *send    = request->send;
    ucxpool_channel_t *channel = request->channel;
    core_fragment_t   *fragment;
    ucxpool_status_t   status;

    while (!base_list_is_empty(&send->unsent)) {
        fragment = base_list_head(&send->unsent, core_fragment_t, link);
        if ((fragment->copy.job != NULL) && !send->is_early) {
            break;
        }
        base_list_del(&fragment->link);
        /* no effect while an early fragment is being gathered */
        base_range_begin(&fragment->range, BASE_RANGE_WIRE,
                         fragment->data.length);
        if (xfer_send_is_mailed(send)) {
            continue; /* the receiver waits for the slot's flag */
        }
        status = channel->wire->send(channel, fragment);
        if (status == UCXPOOL_ERR_BUSY) {
            base_list_add_head(&send->unsent, &fragment->link);
            return status;
        }
        if (status != UCXPOOL_OK) {
            xfer_send_fragment_done(fragment);
            return status;
        }
    }
    return UCXPOOL_OK;
}

void xfer_fragment_free(core_fragment_t *fragment)
{
    base_range_end(&fragment->range);
    fragment->request->send->busy &= ~(UINT64_C(1) << fragment->number);
    if (fragment->buffer != NULL) {
        block_comm_drop(fragment->request->pool->memory.comm, fragment->buffer);
        fragment->buffer = NULL;
    } else if (!fragment->in_place) {
        slice_put(fragment->request, fragment->block, fragment->slice);
    }
    fragment_put(fragment);
}

void xfer_fragment_destroy_all(ucxpool_t *pool)
{
    core_fragment_t *fragment;

    while ((fragment = base_list_pop(&pool->xfer->fragments, core_fragment_t,
                                     all_link)) != NULL) {
        base_range_end(&fragment->range);
        free(fragment);
    }
}

void xfer_send_release(ucxpool_request_t *request)
{
    stop_waiting(request);
    slices_release(request);
}

unsigned xfer_send_wake_waiters(ucxpool_t *pool)
{
    block_pool_t *pools[]   = {pool->memory.blocks, pool->memory.pinned_blocks};
    unsigned      num_pools = (pools[1] == NULL) ? 1 : 2;
    block_stats_t share;
    ucxpool_request_t *request;
    uint64_t           num_free = 0;
    unsigned           count    = 0;

    if (base_list_is_empty(&pool->xfer->waiters)) {
        return 0;
    }
    for (unsigned i = 0; i < num_pools; i++) {
        block_pool_stats(pools[i], BLOCK_SHARE_SEND, &share);
        num_free += share.free;
    }
    while ((count < num_free) && !base_list_is_empty(&pool->xfer->waiters)) {
        request =
            base_list_head(&pool->xfer->waiters, ucxpool_request_t, run_link);
        core_request_wake(request);
        count++;
    }
    return count;
}
