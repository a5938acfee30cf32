#include "xfer/range.h"

#include "core/wire.h"

#include <string.h>

/* Memory of the caller's own goes in place from so many INPLACE_MIN on: a
 * fragment of its own costs more than the copy of a shorter piece. Between two
 * processes over TCP, pieces of 64 KiB are twice as fast packed, pieces of
 * 256 KiB not any more. */
#define ANY_MEMORY_FACTOR 16u

/* Can this many bytes go in place, wherever they lie? */
bool xfer_range_takes_any_memory(const ucxpool_request_t *request,
                                 uint64_t                 length)
{
    return request->channel->wire->any_memory &&
           !request->pool->needs_registration &&
           (length / ANY_MEMORY_FACTOR >= request->pool->config.inplace_min);
}

/*
 * Regions of a GPU lie side by side here, and where a peer's GPU reads them:
 * one copy may go on from one to the next.
 */
static void extend_over_regions(const ucxpool_request_t *request,
                                const copy_extent_t *extent, uint64_t length,
                                xfer_range_t *range)
{
    mem_piece_t         *where = &range->where;
    const ucxpool_t     *pool  = request->pool;
    size_t               size  = pool->regions.region_size;
    block_comm_buffer_t *buffer;
    mem_piece_t          next;

    if ((pool->engine == NULL) || !request->channel->wire->is_read) {
        return;
    }
    while ((where->length < length) &&
           block_comm_find(pool->comm,
                           (const char *)extent->address + where->length,
                           length - where->length, &next, &buffer) &&
           (buffer == range->buffer) && /* what is held while it is in use */
           (next.region * size + next.offset ==
            where->region * size + where->offset + where->length)) {
        where->length += next.length;
    }
}

/* Can an extent be sent in place, and is it worth a fragment? */
static bool is_in_place(ucxpool_request_t *request, const copy_extent_t *extent,
                        xfer_range_t *range)
{
    const ucxpool_t *pool  = request->pool;
    uint64_t         limit = request->send.inplace_size;

    memset(range, 0, sizeof(*range));
    if ((extent->address == NULL) ||
        (extent->length < request->send.inplace_min)) {
        return false;
    }
    range->length = base_min(extent->length, limit);
    if ((core_channel_blocks(request->channel) == pool->blocks) &&
        block_comm_find(pool->comm, extent->address, range->length,
                        &range->where, &range->buffer)) {
        extend_over_regions(request, extent, range->length, range);
        range->length = range->where.length;
        range->bytes =
            (uint8_t *)pool->regions.regions[range->where.region].address +
            range->where.offset;
    } else if (xfer_range_takes_any_memory(request, extent->length)) {
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
static void mixed_range(ucxpool_request_t *request, xfer_range_t *range)
{
    core_send_t  *send   = &request->send;
    copy_plan_t  *plan   = &request->plan;
    uint64_t      limit  = send->frag_size;
    uint64_t      left   = request->totals.stream_size - send->offset;
    copy_plan_t   before = *plan;
    copy_extent_t extent;
    xfer_range_t  in_place;

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

/* Padding behind a fragment in place goes over no wire. */
uint64_t xfer_range_skip_padding(ucxpool_request_t *request, uint64_t offset)
{
    return offset + copy_plan_padding(&request->plan, offset);
}

void xfer_range_next(ucxpool_request_t *request, xfer_range_t *range)
{
    core_send_t *send = &request->send;
    uint64_t     left = request->totals.stream_size - send->offset;

    memset(range, 0, sizeof(*range));
    if (request->send.in_place) {
        mixed_range(request, range);
    } else {
        range->length = base_min(send->frag_size, left);
    }
}
