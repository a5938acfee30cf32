#include "xfer/short.h"

#include "core/control.h"
#include "core/wire.h"
#include "xfer/queue.h"
#include "xfer/send.h"
#include "xfer/state.h"

#include <string.h>

static bool is_taken(const ucxpool_channel_t *channel)
{
    return (channel->state == UCXPOOL_CHANNEL_OPEN) &&
           (channel->peer.max_runs != 0);
}

static bool segment_fits(const ucxpool_channel_t *channel,
                         const ucxpool_segment_t *segment)
{
    return (segment->length != 0) && (segment->address != NULL) &&
           (segment->length <= channel->pool->config.eager_size) &&
           (segment->length <= channel->wire->max_inline) && is_taken(channel);
}

bool xfer_short_fits(const ucxpool_channel_t        *channel,
                     const copy_memory_t            *memory,
                     const ucxpool_request_params_t *params)
{
    return (memory->segments != NULL) && (memory->num == 1) &&
           ((params == NULL) ||
            !(params->field_mask & UCXPOOL_REQUEST_PARAM_FIELD_METADATA)) &&
           segment_fits(channel, memory->segments);
}

/* Send a message that is next in order. Returns false if there is no credit, or
 * the ring is full. */
static bool put(ucxpool_channel_t *channel, const ucxpool_segment_t *segment,
                uint64_t tag)
{
    core_traffic_t *sent = &channel->counts.sent[CORE_MODE_EAGER];

    if ((channel->flow.credits == 0) ||
        !core_control_short(channel, tag, segment->address, segment->length)) {
        return false;
    }
    channel->flow.credits--;
    channel->flow.next_sequence++;
    sent->bytes += segment->length;
    sent->fragments++;
    return true;
}

static uint64_t begin(const ucxpool_channel_t *channel,
                      const ucxpool_segment_t *segment)
{
    return core_latency_begin(&channel->pool->latency, CORE_OPERATION_SEND,
                              segment->length);
}

/* Returns true if the caller requests neither a handle nor a notification. */
static bool needs_no_handle(const ucxpool_request_params_t *params,
                            ucxpool_request_t             **request_p)
{
    return (request_p == NULL) &&
           ((params == NULL) ||
            !(params->field_mask & (UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK |
                                    UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION)));
}

/* Send a message without a request. Returns false if other sends are queued, or
 * the message cannot be sent now. */
static bool send_without_request(ucxpool_channel_t       *channel,
                                 const ucxpool_segment_t *segment, uint64_t tag,
                                 uint64_t started)
{
    if (!base_list_is_empty(&channel->xfer->queue) ||
        !put(channel, segment, tag)) {
        return false;
    }
    channel->flow.num_posted++;
    channel->counts.messages_sent++;
    core_latency_end(&channel->pool->latency, CORE_OPERATION_SEND,
                     channel->wire->id, CORE_MODE_EAGER, started);
    return true;
}

bool xfer_short_try(ucxpool_channel_t       *channel,
                    const ucxpool_segment_t *segment, uint64_t tag)
{
    return segment_fits(channel, segment) &&
           send_without_request(channel, segment, tag, begin(channel, segment));
}

/* --- as a request --------------------------------------------------------- */

static bool is_quick(const ucxpool_request_t *request)
{
    (void)request;
    return true;
}

static bool advance(ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;

    if (core_request_has_ended(request)) {
        return true;
    }
    if ((channel->state != UCXPOOL_CHANNEL_OPEN) ||
        !xfer_queue_is_first(request)) {
        return false;
    }
    if (!put(channel, &request->data.segment, request->tag)) {
        if (channel->flow.credits != 0) {
            core_request_stall(request);
            return false;
        }
        return xfer_queue_may_announce(channel) &&
               (!xfer_send_from_short(request) || xfer_send_advance(request));
    }
    xfer_queue_leave(request);
    core_request_end(request, UCXPOOL_OK, NULL);
    return true;
}

static const core_request_kind_t short_kind = {
    .advance  = advance,
    .is_quick = is_quick,
    .stop     = xfer_queue_end,
    .abort    = core_request_end,
    .ended    = xfer_queue_count,
};

ucxpool_status_t xfer_short_post(ucxpool_channel_t   *channel,
                                 const copy_memory_t *memory, uint64_t tag,
                                 const ucxpool_request_params_t *params,
                                 ucxpool_request_t             **request_p)
{
    ucxpool_t         *pool    = channel->pool;
    uint64_t           started = begin(channel, memory->segments);
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    if (needs_no_handle(params, request_p) &&
        send_without_request(channel, memory->segments, tag, started)) {
        return UCXPOOL_OK;
    }
    status = core_request_create(pool, &pool->xfer->sends, &short_kind, memory,
                                 params, &request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    core_request_set_channel(request, channel);
    request->operation   = CORE_OPERATION_SEND;
    request->started     = started;
    request->tag         = tag;
    request->data.totals = copy_totals_of_piece(request->data.segment.length);
    if (xfer_queue_add(request)) {
        (void)advance(request);
    }
    if (!core_request_has_ended(request)) {
        core_request_arm(request);
    }
    core_request_hand_out(request, request_p);
    return UCXPOOL_OK;
}
