#include "xfer/send.h"

#include "base/clock.h"
#include "base/error.h"
#include "core/control.h"
#include "core/wire.h"
#include "xfer/fragment.h"

#include <string.h>

/*
 * A send is done in steps, in the order of core_send_step_t:
 *
 *   TURN       it is the first in its channel's queue, and there is a credit
 *   DESC       the descriptor goes out; if the bytes fit in it, that was all
 *   RUNS       long lists of lengths follow
 *   ACCEPT     wait until a receive has been found for it
 *   FRAGMENTS  gather (or not) and hand to the wire, as many as the window has
 *   DONE       wait for the receiver's last word
 */
typedef enum step_result {
    STEP_NEXT,  /* go on with the next step */
    STEP_WAIT,  /* something will wake the request */
    STEP_STALL, /* no room in the wire: try again */
    STEP_END    /* the request has ended */
} step_result_t;

typedef step_result_t (*step_t)(ucxpool_request_t *request);

ucxpool_status_t xfer_send_check_limits(const ucxpool_request_t *request)
{
    const ucxpool_channel_t *channel = request->channel;

    if (!(channel->handshake & CORE_HELLO_RECEIVED)) {
        return UCXPOOL_OK;
    }
    if ((request->num_runs > channel->peer.max_runs) ||
        (request->metadata_length > channel->peer.max_metadata)) {
        return base_error(UCXPOOL_ERR_LIMIT,
                          "%zu differing lengths and %zu bytes of metadata are "
                          "more than the peer takes (%llu and %u, its "
                          "UCXPOOL_MAX_SEGMENTS and UCXPOOL_MAX_METADATA)",
                          request->num_runs, request->metadata_length,
                          (unsigned long long)channel->peer.max_runs,
                          channel->peer.max_metadata);
    }
    return UCXPOOL_OK;
}

static step_result_t step_turn(ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;

    if ((channel->state != UCXPOOL_CHANNEL_OPEN) || (channel->credits == 0) ||
        (channel->num_sends == PROTO_SENDS_MAX) ||
        (channel->queue.next != &request->link)) {
        return STEP_WAIT;
    }
    if (xfer_send_check_limits(request) != UCXPOOL_OK) {
        xfer_send_leave_queue(request);
        core_request_end(request, UCXPOOL_ERR_LIMIT, ucxpool_error_detail());
        return STEP_END;
    }
    return STEP_NEXT;
}

static size_t runs_size(const ucxpool_request_t *request)
{
    return request->num_runs * sizeof(copy_run_t);
}

static bool is_eager(const ucxpool_request_t *request)
{
    uint64_t limit = request->pool->config.eager_size;

    return !request->has_gpu_segments &&
           (request->totals.payload_size <= limit) &&
           (request->totals.stream_size + runs_size(request) +
                request->metadata_length <=
            PROTO_DATA_MAX);
}

/* Take a number for the message: its low bits are an index of sends[]. */
static void take_number(ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;
    uint64_t           number  = channel->next_number;

    while (channel->sends[number % PROTO_SENDS_MAX] != NULL) {
        number++;
    }
    channel->next_number                     = number + 1;
    channel->sends[number % PROTO_SENDS_MAX] = request;
    channel->num_sends++;
    request->send.message = number;
}

void xfer_send_put_number(ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;
    uint64_t           number  = request->send.message;

    channel->sends[number % PROTO_SENDS_MAX] = NULL;
    channel->num_sends--;
    request->send.message = 0;
    if (!base_list_is_empty(&channel->queue)) {
        core_request_wake(
            base_list_head(&channel->queue, ucxpool_request_t, link));
    }
}

static void fill_desc(ucxpool_request_t *request, proto_desc_t *desc,
                      uint32_t flags, uint8_t *data)
{
    desc->message       = request->send.message;
    desc->sequence      = request->send.sequence;
    desc->tag           = request->tag;
    desc->payload_size  = request->totals.payload_size;
    desc->num_runs      = (uint32_t)request->num_runs;
    desc->metadata_size = (uint32_t)request->metadata_length;
    desc->flags         = flags;
    if (!(flags & PROTO_DESC_RUNS) && (request->num_runs != 0)) {
        memcpy(data, request->runs, runs_size(request));
        data += runs_size(request);
    }
    if (request->metadata_length != 0) {
        memcpy(data, request->metadata, request->metadata_length);
        data += request->metadata_length;
    }
    if (flags & PROTO_DESC_EAGER) {
        copy_gather(&request->plan, 0, request->totals.stream_size, data);
    }
}

static size_t desc_data_size(const ucxpool_request_t *request,
                             uint32_t                *flags_p)
{
    size_t size = request->metadata_length;

    *flags_p = 0;
    if (is_eager(request)) {
        *flags_p = PROTO_DESC_EAGER;
        return size + runs_size(request) + request->totals.stream_size;
    }
    if (size + runs_size(request) > PROTO_DATA_MAX) {
        *flags_p = PROTO_DESC_RUNS;
        return size;
    }
    return size + runs_size(request);
}

/* The next of the queue may take its turn. */
void xfer_send_leave_queue(ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;

    base_list_del(&request->link);
    if (!base_list_is_empty(&channel->queue)) {
        core_request_wake(
            base_list_head(&channel->queue, ucxpool_request_t, link));
    }
}

static step_result_t step_desc(ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;
    uint32_t           flags;
    size_t             size = desc_data_size(request, &flags);
    proto_fixed_t     *fixed;
    void              *data;

    fixed = core_control_begin(channel, PROTO_DESC, size, CORE_MAY, &data);
    if (fixed == NULL) {
        return STEP_STALL;
    }
    channel->credits--;
    request->send.sequence = channel->next_sequence++;
    if (!(flags & PROTO_DESC_EAGER)) {
        take_number(request);
    }
    fill_desc(request, &fixed->desc, flags, data);
    core_control_end(channel);
    if (flags & PROTO_DESC_EAGER) {
        ucxpool_traffic_t *sent =
            &request->pool->stats.sent[UCXPOOL_MODE_EAGER];

        sent->bytes += request->totals.payload_size;
        sent->fragments++;
        xfer_send_leave_queue(request);
        core_request_end(request, UCXPOOL_OK, NULL);
        return STEP_END;
    }
    request->send.runs_sent =
        (flags & PROTO_DESC_RUNS) ? 0 : (uint32_t)request->num_runs;
    return STEP_NEXT;
}

static step_result_t step_runs(ucxpool_request_t *request)
{
    core_send_t   *send = &request->send;
    proto_fixed_t *fixed;
    void          *data;

    while (send->runs_sent < request->num_runs) {
        uint32_t count =
            base_min((uint32_t)request->num_runs - send->runs_sent,
                     (uint32_t)(PROTO_DATA_MAX / sizeof(copy_run_t)));

        fixed = core_control_begin(request->channel, PROTO_RUNS,
                                   count * sizeof(copy_run_t), CORE_MAY, &data);
        if (fixed == NULL) {
            return STEP_STALL;
        }
        fixed->runs.sequence = send->sequence;
        fixed->runs.first    = send->runs_sent;
        fixed->runs.num_runs = count;
        memcpy(data, request->runs + send->runs_sent,
               count * sizeof(copy_run_t));
        core_control_end(request->channel);
        send->runs_sent += count;
    }
    xfer_send_leave_queue(request);
    return STEP_NEXT;
}

static step_result_t step_accept(ucxpool_request_t *request)
{
    return (request->send.receive == 0) ? STEP_WAIT : STEP_NEXT;
}

static step_result_t step_fragments(ucxpool_request_t *request)
{
    core_send_t     *send = &request->send;
    ucxpool_status_t status;

    if (request->mark != NULL) {
        return STEP_WAIT;
    }
    for (;;) {
        status = xfer_fragment_flush(request);
        if (status == UCXPOOL_ERR_BUSY) {
            return STEP_STALL;
        }
        if ((status != UCXPOOL_OK) || send->all_posted) {
            break;
        }
        status = xfer_fragment_post(request);
        if (status == UCXPOOL_INPROGRESS) {
            return STEP_WAIT;
        }
        if (status == UCXPOOL_ERR_BUSY) {
            return STEP_STALL;
        }
        if (status != UCXPOOL_OK) {
            xfer_send_stop(request, status, ucxpool_error_detail());
            return STEP_END;
        }
        if (request->pool->engine != NULL) {
            /* One copy at a time: to fill its list and launch it takes so long
             * that others have ended meanwhile, and can go to the wire. */
            return STEP_STALL;
        }
    }
    return base_list_is_empty(&send->unsent) ? STEP_NEXT : STEP_WAIT;
}

static step_result_t step_done(ucxpool_request_t *request)
{
    (void)request;
    return STEP_WAIT;
}

static const step_t steps[] = {
    [CORE_SEND_TURN] = step_turn,           [CORE_SEND_DESC] = step_desc,
    [CORE_SEND_RUNS] = step_runs,           [CORE_SEND_ACCEPT] = step_accept,
    [CORE_SEND_FRAGMENTS] = step_fragments, [CORE_SEND_DONE] = step_done,
};

/* Take the steps that can be taken now. */
static void take_steps(ucxpool_request_t *request)
{
    while (!core_request_has_ended(request) && !request->send.ending &&
           core_channel_is_live(request->channel)) {
        switch (steps[request->send.step](request)) {
        case STEP_NEXT:
            request->send.step++;
            break;
        case STEP_STALL:
            if (!core_request_has_ended(request)) {
                base_list_del(&request->run_link);
                base_list_add_tail(&request->pool->stalled, &request->run_link);
            }
            return;
        case STEP_WAIT:
        case STEP_END:
            return;
        }
    }
}

bool xfer_send_advance(ucxpool_request_t *request)
{
    const core_send_t *send      = &request->send;
    core_send_step_t   step      = send->step;
    uint32_t           runs_sent = send->runs_sent;
    uint32_t           index     = send->index;

    take_steps(request);
    return core_request_has_ended(request) || (send->step != step) ||
           (send->runs_sent != runs_sent) || (send->index != index);
}
