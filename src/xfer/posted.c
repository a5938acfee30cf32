#include "xfer/posted.h"

#include "xfer/recv.h"
#include "xfer/state.h"

#include <string.h>

static void match(ucxpool_request_t *request, ucxpool_message_t *message)
{
    core_request_set_kind(request, &xfer_recv_kind);
    xfer_recv_start(request, message);
}

/*
 * From the ring to the target, where that is one piece of memory that the
 * processor writes to: no message is made of it, and no plan.
 */
static bool match_short(ucxpool_request_t *request, ucxpool_channel_t *channel,
                        uint64_t tag, const void *bytes, size_t size)
{
    core_traffic_t *received = &request->pool->stats.received[CORE_MODE_EAGER];

    if (request->stream.has_gpu_segments || (request->data.memory.num != 1) ||
        (request->data.capacity < size)) {
        return false;
    }
    if (request->channel == NULL) {
        core_request_set_channel(request, channel);
    }
    memcpy(request->data.segment.address, bytes, size);
    request->tag         = tag;
    request->data.totals = copy_totals_of_piece(size);
    received->bytes += size;
    received->fragments++;
    core_request_end(request, UCXPOOL_OK, NULL);
    core_request_reuse(request);
    return true;
}

static void end(ucxpool_request_t *request, ucxpool_status_t status,
                const char *detail)
{
    core_request_end(request, status, detail);
    core_request_reuse(request);
}

const core_request_kind_t xfer_posted_kind = {
    .match       = match,
    .match_short = match_short,
    .stop        = end,
    .ended       = xfer_recv_count,
};

void xfer_posted_add(ucxpool_request_t *request)
{
    base_list_add_tail(&request->pool->xfer->posted, &request->link);
}

void xfer_posted_abort(ucxpool_channel_t *channel, ucxpool_status_t status,
                       const char *detail)
{
    ucxpool_request_t *request;
    ucxpool_request_t *next;

    base_list_for_each_safe(request, next, &channel->pool->xfer->posted,
                            ucxpool_request_t, link) {
        if (request->channel == channel) {
            end(request, status, detail);
        }
    }
}
