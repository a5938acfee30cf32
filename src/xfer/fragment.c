#include "xfer/fragment.h"

#include "base/clock.h"
#include "pack/crc32c.h"
#include "xfer/hold.h"
#include "xfer/send.h"
#include "xfer/wire.h"

#include <string.h>

/* The part of the stream that goes next. */
typedef struct range {
    uint64_t             length;
    bool                 last;
    bool                 in_place;
    const void          *bytes;  /* in place                        */
    block_comm_buffer_t *buffer; /* in place: of this; NULL: of none */
    mem_piece_t          where;  /* if there is a buffer            */
} range_t;

/* Memory of the caller's own goes in place from so many INPLACE_MIN on: a
 * fragment of its own costs more than the copy of a shorter piece. Between two
 * processes over TCP, pieces of 64 KiB are twice as fast packed, pieces of
 * 256 KiB not any more. */
#define ANY_MEMORY_FACTOR 16u

/* Can this many bytes go in place, wherever they lie? */
static bool takes_any_memory(const ucxpool_request_t *request, uint64_t length)
{
    return request->channel->wire->any_memory &&
           !request->pool->needs_registration &&
           (length / ANY_MEMORY_FACTOR >= request->pool->config.inplace_min);
}

void xfer_fragment_set_limits(ucxpool_request_t *request, uint64_t frag_size,
                              uint32_t window)
{
    ucxpool_t   *pool       = request->pool;
    xfer_send_t *send       = &request->send;
    uint64_t     block_size = block_pool_block_size(pool->blocks);
    uint64_t     size       = pool->config.frag_size;

    if (size == BASE_SIZE_AUTO) {
        size = request->channel->wire->frag_size(request->channel);
    }
    size            = base_min(size, base_min(frag_size, block_size));
    send->frag_size = size & ~(uint64_t)(PACK_ALIGNMENT - 1);
    send->window    = base_min(window, XFER_PIECES_MAX);
    send->in_place |= takes_any_memory(request, send->longest);
}

/* Can an extent be sent in place, and is it worth a fragment? */
static bool is_in_place(ucxpool_request_t *request, const pack_extent_t *extent,
                        range_t *range)
{
    const ucxpool_t *pool  = request->pool;
    uint64_t         limit = request->send.frag_size;

    memset(range, 0, sizeof(*range));
    if ((extent->address == NULL) ||
        (extent->length < pool->config.inplace_min)) {
        return false;
    }
    range->length = base_min(extent->length, limit);
    if (block_comm_find(pool->comm, extent->address, range->length,
                        &range->where, &range->buffer)) {
        range->length = range->where.length;
        range->bytes =
            (uint8_t *)pool->regions.regions[range->where.region].address +
            range->where.offset;
    } else if (takes_any_memory(request, extent->length)) {
        range->bytes = extent->address;
    } else {
        return false;
    }
    range->in_place = true;
    return true;
}

/*
 * A message of which something can go in place: either a fragment that does, or
 * a packed one that ends where the next in place begins. Leaves the plan where
 * it was, because gathering walks the same way.
 */
static void mixed_range(ucxpool_request_t *request, range_t *range)
{
    xfer_send_t  *send   = &request->send;
    pack_plan_t  *plan   = &request->plan;
    uint64_t      limit  = send->frag_size;
    uint64_t      left   = request->totals.stream_size - send->offset;
    pack_plan_t   before = *plan;
    pack_extent_t extent;
    range_t       in_place;

    range->length = 0;
    while ((range->length < limit) && (range->length < left)) {
        pack_plan_extent(plan, send->offset + range->length,
                         left - range->length, &extent);
        if (is_in_place(request, &extent, &in_place)) {
            if (range->length == 0) {
                *range = in_place;
            }
            break;
        }
        range->length += extent.length;
    }
    range->length = base_min(range->length, base_min(limit, left));
    plan->at = before.at;
}

/* Padding behind a fragment in place goes over no wire. */
static uint64_t skip_padding(ucxpool_request_t *request, uint64_t offset)
{
    uint64_t      end = request->totals.stream_size;
    pack_extent_t extent;

    while (offset < end) {
        pack_plan_extent(&request->plan, offset, end - offset, &extent);
        if (extent.address != NULL) {
            break;
        }
        offset += extent.length;
    }
    return offset;
}

static void next_range(ucxpool_request_t *request, range_t *range)
{
    xfer_send_t *send = &request->send;
    uint64_t     left = request->totals.stream_size - send->offset;

    memset(range, 0, sizeof(*range));
    if (request->send.in_place) {
        mixed_range(request, range);
    } else {
        range->length = base_min(send->frag_size, left);
    }
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

/* Gather a packed range into a slice. */
static bool pack_range(ucxpool_request_t *request, const range_t *range,
                       xfer_piece_t *piece)
{
    xfer_send_t *send = &request->send;
    uint64_t     slice_offset;
    uint8_t     *block;

    if (!xfer_hold_take(request, &piece->hold, &piece->slice)) {
        /* What is in flight frees a slice; with nothing in flight only
         * somebody else's block helps. */
        if (send->busy == 0) {
            wait_for_block(request);
        }
        return false;
    }
    stop_waiting(request);
    block        = block_pool_address(request->pool->blocks,
                                      send->holds[piece->hold].block);
    slice_offset = piece->slice * send->frag_size;
    pack_gather(&request->plan, send->offset, range->length,
                block + slice_offset);
    block_pool_locate(request->pool->blocks, send->holds[piece->hold].block,
                      &piece->where);
    piece->where.offset += slice_offset;
    piece->where.length = range->length;
    piece->bytes        = block + slice_offset;
    piece->buffer       = NULL;
    piece->in_place     = false;
    return true;
}

static void lay_in_place(xfer_piece_t *piece, const range_t *range)
{
    piece->where    = range->where;
    piece->bytes    = range->bytes;
    piece->buffer   = range->buffer;
    piece->in_place = true;
    if (piece->buffer != NULL) {
        block_comm_hold(piece->buffer);
    }
}

/* What the receiver is told of a fragment. */
static void fill_data(ucxpool_request_t *request, xfer_piece_t *piece,
                      const range_t *range)
{
    xfer_send_t  *send = &request->send;
    proto_data_t *data = &piece->data;

    memset(data, 0, sizeof(*data));
    data->message       = send->message;
    data->receive       = send->receive;
    data->offset        = send->offset;
    data->length        = range->length;
    data->index         = send->index;
    data->piece         = (uint32_t)(piece - send->pieces);
    data->region        = piece->where.region;
    data->region_offset = piece->where.offset;
    data->flags         = (range->last ? PROTO_DATA_LAST : 0u) |
                  (piece->in_place ? PROTO_DATA_INPLACE : 0u);
    if (request->pool->config.checksum == BASE_CHECKSUM_CRC32C) {
        data->flags |= PROTO_DATA_CHECKSUM;
        data->checksum = pack_crc32c(0, piece->bytes, data->length);
    }
}

static void count_sent(ucxpool_request_t *request, uint64_t length,
                       bool in_place)
{
    const xfer_wire_t *wire  = request->channel->wire;
    ucxpool_stats_t   *stats = &request->pool->stats;
    ucxpool_traffic_t *sent  = &stats->sent[in_place ? wire->in_place
                                                     : wire->packed];

    sent->bytes += length;
    sent->fragments++;
    if (in_place) {
        stats->copies_avoided_bytes += length;
    }
}

ucxpool_status_t xfer_fragment_post(ucxpool_request_t *request)
{
    xfer_send_t     *send = &request->send;
    unsigned         number;
    xfer_piece_t    *piece;
    range_t          range;
    uint64_t         next;
    ucxpool_status_t status;

    if ((send->busy == UINT64_MAX) ||
        ((unsigned)__builtin_popcountll(send->busy) >= send->window)) {
        return UCXPOOL_INPROGRESS;
    }
    number = (unsigned)__builtin_ctzll(~send->busy);
    piece  = &send->pieces[number];
    next_range(request, &range);
    if (range.in_place) {
        lay_in_place(piece, &range);
    } else if (!pack_range(request, &range, piece)) {
        return UCXPOOL_INPROGRESS;
    }
    next       = skip_padding(request, send->offset + range.length);
    range.last = next >= request->totals.stream_size;
    fill_data(request, piece, &range);
    piece->request = request;
    piece->ucx     = NULL;
    send->busy |= UINT64_C(1) << number;
    status = request->channel->wire->send(request->channel, piece);
    if (status != UCXPOOL_OK) {
        send->busy &= ~(UINT64_C(1) << number);
        xfer_fragment_free(piece);
        return status;
    }
    count_sent(request, range.length, range.in_place);
    send->offset = next;
    send->index++;
    send->all_sent = range.last;
    return UCXPOOL_OK;
}

void xfer_fragment_free(xfer_piece_t *piece)
{
    if (piece->buffer != NULL) {
        block_comm_drop(piece->request->pool->comm, piece->buffer);
        piece->buffer = NULL;
    } else if (!piece->in_place) {
        xfer_hold_give(piece->request, piece->hold, piece->slice);
    }
}

void xfer_send_release(ucxpool_request_t *request)
{
    stop_waiting(request);
    xfer_hold_release_all(request);
}

unsigned xfer_send_wake_waiters(ucxpool_t *pool)
{
    ucxpool_share_stats_t share;
    ucxpool_request_t    *request;
    unsigned              count = 0;

    if (base_list_is_empty(&pool->waiters)) {
        return 0;
    }
    block_pool_stats(pool->blocks, UCXPOOL_SHARE_SEND, &share);
    while ((count < share.free) && !base_list_is_empty(&pool->waiters)) {
        request = base_list_head(&pool->waiters, ucxpool_request_t, run_link);
        xfer_request_wake(request);
        count++;
    }
    return count;
}
