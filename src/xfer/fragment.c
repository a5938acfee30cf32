#include "xfer/fragment.h"

#include "base/clock.h"
#include "base/error.h"
#include "copy/crc32c.h"
#include "copy/engine.h"
#include "copy/list.h"
#include "core/wire.h"
#include "xfer/range.h"
#include "xfer/send.h"
#include "xfer/slice.h"

#include <stdlib.h>
#include <string.h>

void xfer_fragment_set_limits(ucxpool_request_t *request, uint64_t frag_size,
                              uint32_t window)
{
    ucxpool_t   *pool = request->pool;
    core_send_t *send = &request->send;
    uint64_t     block_size =
        block_pool_block_size(core_channel_blocks(request->channel));
    uint64_t size = pool->config.frag_size;

    if (size == BASE_SIZE_AUTO) {
        size = request->channel->wire->frag_size(request);
    }
    size               = base_min(size, base_min(frag_size, block_size));
    send->frag_size    = size & ~(uint64_t)(COPY_ALIGNMENT - 1);
    send->inplace_size = send->frag_size;
    if ((pool->engine != NULL) && (pool->config.frag_size == BASE_SIZE_AUTO)) {
        /* Nothing is cut out of a block, and a GPU's link wants long ones. */
        send->inplace_size = frag_size & ~(uint64_t)(COPY_ALIGNMENT - 1);
    }
    send->window = base_min(window, CORE_FRAGMENTS_MAX);
    send->in_place |= xfer_range_takes_any_memory(request, send->longest);
}

/* Wait for a block, in turn with the others. */
static void wait_for_block(ucxpool_request_t *request)
{
    if (request->send.blocked_since == 0) {
        request->send.blocked_since = base_clock_now();
    }
    base_list_del(&request->run_link);
    base_list_add_tail(&request->pool->waiters, &request->run_link);
}

static void stop_waiting(ucxpool_request_t *request)
{
    if (request->send.blocked_since != 0) {
        request->pool->stats.blocked_ns +=
            base_clock_now() - request->send.blocked_since;
        request->send.blocked_since = 0;
    }
}

/* The gather of a fragment is over. */
static void gathered(copy_job_t *copy, ucxpool_status_t status)
{
    core_fragment_t *fragment  = base_container_of(copy, core_fragment_t, copy);
    ucxpool_request_t *request = fragment->request;

    if (core_request_has_ended(request) || request->send.ending) {
        xfer_send_fragment_done(fragment);
    } else if (status != UCXPOOL_OK) {
        xfer_send_fragment_done(fragment);
        xfer_send_stop(request, status, ucxpool_error_detail());
    } else {
        core_request_wake(request);
    }
}

/* Copy the range into a slice, or begin to, and as much of it as one copy
 * takes. */
static ucxpool_status_t gather(ucxpool_request_t *request, xfer_range_t *range,
                               core_fragment_t *fragment, void *slice)
{
    copy_engine_t   *engine = request->pool->engine;
    copy_work_t      work;
    ucxpool_status_t status;

    if (engine == NULL) {
        copy_gather(&request->plan, request->send.offset, range->length, slice);
        return UCXPOOL_OK;
    }
    work = (copy_work_t){
        .plan              = &request->plan,
        .offset            = request->send.offset,
        .length            = range->length,
        .block             = slice,
        .is_gather         = true,
        .has_host_segments = request->has_host_segments,
    };

    fragment->copy.done = gathered;
    status = copy_engine_start(engine, &fragment->copy, &work, &range->length);
    /* Is it under way? The fragment's copy tells. */
    return (status == UCXPOOL_INPROGRESS) ? UCXPOOL_OK : status;
}

/* Gather a packed range into a slice. */
static ucxpool_status_t copy_range(ucxpool_request_t *request,
                                   xfer_range_t      *range,
                                   core_fragment_t   *fragment)
{
    core_send_t     *send   = &request->send;
    block_pool_t    *blocks = core_channel_blocks(request->channel);
    uint32_t         number;
    uint64_t         slice_offset;
    uint8_t         *block;
    ucxpool_status_t status;

    if (!xfer_slice_take(request, &fragment->hold, &fragment->slice)) {
        /* What is in flight frees a slice; with nothing in flight only
         * somebody else's block helps. */
        if (send->busy == 0) {
            wait_for_block(request);
        }
        return UCXPOOL_INPROGRESS;
    }
    stop_waiting(request);
    number       = send->holds[fragment->hold].block;
    block        = block_pool_address(blocks, number);
    slice_offset = fragment->slice * send->frag_size;
    status       = gather(request, range, fragment, block + slice_offset);
    if (status != UCXPOOL_OK) {
        xfer_slice_give(request, fragment->hold, fragment->slice);
        return status;
    }
    block_pool_locate(blocks, number, &fragment->where);
    fragment->where.offset += slice_offset;
    fragment->where.length = range->length;
    fragment->bytes        = block + slice_offset;
    fragment->buffer       = NULL;
    fragment->in_place     = false;
    return UCXPOOL_OK;
}

static void lay_in_place(core_fragment_t *fragment, const xfer_range_t *range)
{
    fragment->where    = range->where;
    fragment->bytes    = range->bytes;
    fragment->buffer   = range->buffer;
    fragment->in_place = true;
    if (fragment->buffer != NULL) {
        block_comm_hold(fragment->buffer);
    }
}

/* What the receiver is told of a fragment. */
static void fill_data(ucxpool_request_t *request, core_fragment_t *fragment,
                      const xfer_range_t *range)
{
    core_send_t  *send = &request->send;
    proto_data_t *data = &fragment->data;

    memset(data, 0, sizeof(*data));
    data->message       = send->message;
    data->receive       = send->receive;
    data->offset        = send->offset;
    data->length        = range->length;
    data->index         = send->index;
    data->piece         = fragment->number;
    data->region        = fragment->where.region;
    data->region_offset = fragment->where.offset;
    data->flags         = (range->last ? PROTO_DATA_LAST : 0u) |
                  (fragment->in_place ? PROTO_DATA_INPLACE : 0u);
    if (request->pool->config.checksum == BASE_CHECKSUM_CRC32C) {
        data->flags |= PROTO_DATA_CHECKSUM;
        data->checksum = copy_crc32c(0, fragment->bytes, data->length);
    }
}

static void count_sent(ucxpool_request_t *request, uint64_t length,
                       bool in_place)
{
    const core_wire_t *wire  = request->channel->wire;
    ucxpool_stats_t   *stats = &request->pool->stats;
    ucxpool_traffic_t *sent =
        &stats->sent[in_place ? wire->in_place : wire->packed];

    sent->bytes += length;
    sent->fragments++;
    if (in_place) {
        stats->copies_avoided_bytes += length;
    }
}

static bool is_window_full(const core_send_t *send)
{
    return (send->busy == UINT64_MAX) ||
           ((unsigned)__builtin_popcountll(send->busy) >= send->window);
}

/* With the lowest number that is free; NULL: no memory. */
static core_fragment_t *fragment_get(ucxpool_request_t *request)
{
    ucxpool_t       *pool = request->pool;
    core_fragment_t *fragment;

    if (!base_list_is_empty(&pool->free_fragments)) {
        fragment = base_list_head(&pool->free_fragments, core_fragment_t, link);
        base_list_del(&fragment->link);
    } else {
        fragment = core_alloc(pool, sizeof(*fragment));
        if (fragment == NULL) {
            base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a fragment");
            return NULL;
        }
        base_list_init(&fragment->link);
        base_list_add_tail(&pool->fragments, &fragment->all_link);
    }
    fragment->request  = request;
    fragment->number   = (unsigned)__builtin_ctzll(~request->send.busy);
    fragment->ucx      = NULL;
    fragment->copy.job = NULL;
    return fragment;
}

static void fragment_put(core_fragment_t *fragment)
{
    ucxpool_t *pool = fragment->request->pool;

    base_list_del(&fragment->link);
    base_list_add_head(&pool->free_fragments, &fragment->link);
}

/* Lay the range where the wire can take it from. */
static ucxpool_status_t lay(ucxpool_request_t *request, xfer_range_t *range,
                            core_fragment_t *fragment)
{
    if (!range->in_place) {
        return copy_range(request, range, fragment);
    }
    lay_in_place(fragment, range);
    return UCXPOOL_OK;
}

ucxpool_status_t xfer_fragment_post(ucxpool_request_t *request)
{
    core_send_t     *send = &request->send;
    core_fragment_t *fragment;
    xfer_range_t     range;
    uint64_t         next;
    ucxpool_status_t status;

    if (is_window_full(send)) {
        return UCXPOOL_INPROGRESS;
    }
    fragment = fragment_get(request);
    if (fragment == NULL) {
        return UCXPOOL_ERR_NO_MEMORY;
    }
    xfer_range_next(request, &range);
    status = lay(request, &range, fragment);
    if (status != UCXPOOL_OK) {
        fragment_put(fragment);
        return status;
    }
    next       = xfer_range_skip_padding(request, send->offset + range.length);
    range.last = next >= request->totals.stream_size;
    fill_data(request, fragment, &range);
    send->busy |= UINT64_C(1) << fragment->number;
    send->fragments[fragment->number] = fragment;
    base_list_add_tail(&send->unsent, &fragment->link);
    count_sent(request, range.length, range.in_place);
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
    core_send_t       *send    = &request->send;
    ucxpool_channel_t *channel = request->channel;
    core_fragment_t   *fragment;
    ucxpool_status_t   status;

    while (!base_list_is_empty(&send->unsent)) {
        fragment = base_list_head(&send->unsent, core_fragment_t, link);
        if (fragment->copy.job != NULL) {
            break;
        }
        base_list_del(&fragment->link);
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
    fragment->request->send.busy &= ~(UINT64_C(1) << fragment->number);
    if (fragment->buffer != NULL) {
        block_comm_drop(fragment->request->pool->comm, fragment->buffer);
        fragment->buffer = NULL;
    } else if (!fragment->in_place) {
        xfer_slice_give(fragment->request, fragment->hold, fragment->slice);
    }
    fragment_put(fragment);
}

void xfer_fragment_destroy_all(ucxpool_t *pool)
{
    core_fragment_t *fragment;

    while (!base_list_is_empty(&pool->fragments)) {
        fragment = base_list_head(&pool->fragments, core_fragment_t, all_link);
        base_list_del(&fragment->all_link);
        free(fragment);
    }
}

void xfer_send_release(ucxpool_request_t *request)
{
    stop_waiting(request);
    xfer_slice_release_all(request);
}

unsigned xfer_send_wake_waiters(ucxpool_t *pool)
{
    block_pool_t         *pools[]   = {pool->blocks, pool->ucx_blocks};
    unsigned              num_pools = (pools[0] == pools[1]) ? 1 : 2;
    ucxpool_share_stats_t share;
    ucxpool_request_t    *request;
    uint64_t              num_free = 0;
    unsigned              count    = 0;

    if (base_list_is_empty(&pool->waiters)) {
        return 0;
    }
    for (unsigned i = 0; i < num_pools; i++) {
        block_pool_stats(pools[i], UCXPOOL_SHARE_SEND, &share);
        num_free += share.free;
    }
    while ((count < num_free) && !base_list_is_empty(&pool->waiters)) {
        request = base_list_head(&pool->waiters, ucxpool_request_t, run_link);
        core_request_wake(request);
        count++;
    }
    return count;
}
