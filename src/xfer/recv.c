#include "xfer/recv.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "copy/list.h"
#include "core/control.h"
#include "core/wire.h"
#include "xfer/delivery.h"
#include "xfer/loan.h"
#include "xfer/mailbox.h"
#include "xfer/request.h"
#include "xfer/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANCELED_BY_SENDER "the sender canceled the message"

/* The maximum number of fragments of a message that are being received. Several
 * times the maximum window, because on the `ucx` wire a fragment may complete
 * at the sender before it completes here. */
#define PENDING_MAX (4 * XFER_FRAGMENTS_MAX)

static uint64_t frag_max(const ucxpool_request_t *request)
{
    return request->channel->wire->frag_max(request->pool);
}

static bool lies_inside(const ucxpool_request_t *request,
                        const proto_data_t      *data)
{
    uint64_t size = request->data.totals.stream_size;

    return (data->length != 0) && (data->length <= frag_max(request)) &&
           (data->offset <= size) && (data->length <= size - data->offset) &&
           (data->length <= size - request->recv->begun);
}

/* Between ordered fragments only padding is left out, which is shorter than
 * COPY_ALIGNMENT. */
static bool is_next(const ucxpool_request_t *request, const proto_data_t *data)
{
    const struct xfer_recv *recv = request->recv;

    return (data->index == recv->num_begun) && (data->offset >= recv->next) &&
           (data->offset - recv->next < COPY_ALIGNMENT);
}

/* Indices are not recorded one by one. This checks only that there are not more
 * fragments than the last one's index allows, and no index greater than it. */
static bool has_good_index(const ucxpool_request_t *request,
                           const proto_data_t *data, bool is_in_order)
{
    const struct xfer_recv *recv = request->recv;

    if (data->index == UINT32_MAX) {
        return false;
    }
    if (is_in_order && !is_next(request, data)) {
        return false;
    }
    if (data->flags & PROTO_DATA_LAST) {
        return (recv->num_begun == 0) ||
               ((recv->num_all == 0) && (recv->max_index < data->index) &&
                (recv->num_begun <= data->index));
    }
    return (recv->num_all == 0) ||
           ((recv->num_begun < recv->num_all) && (data->index < recv->num_all));
}

static void count_begun(struct xfer_recv *recv, const proto_data_t *data)
{
    recv->begun += data->length;
    recv->num_begun++;
    recv->max_index = base_max(recv->max_index, data->index);
    recv->next      = data->offset + data->length;
    if (data->flags & PROTO_DATA_LAST) {
        recv->num_all = data->index + 1;
    }
}

/*
 * On the `ucx` wire fragments may overtake each other, and a step back in a
 * plan walks it from its start. To bound the work that a peer can cause, the
 * number of such walks is limited in proportion to the bytes received. A
 * correct sender stays below this limit.
 */
static bool is_worth_its_cost(const ucxpool_request_t *request)
{
    const uint64_t free_restarts = 64;
    const uint64_t steps_a_byte  = 16;
    uint64_t       steps    = request->data.num_runs + request->data.memory.num;
    uint64_t       restarts = request->recv->restarts;

    return (restarts <= free_restarts) ||
           (restarts - free_restarts <=
            request->recv->received * steps_a_byte / steps);
}

bool xfer_recv_check(ucxpool_request_t *request, const proto_data_t *data,
                     bool is_in_order)
{
    if (!lies_inside(request, data) ||
        !has_good_index(request, data, is_in_order)) {
        core_channel_fail(request->channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer sent a fragment (%llu bytes at %llu, "
                          "number %u) that does not fit its message of %llu",
                          (unsigned long long)data->length,
                          (unsigned long long)data->offset, data->index,
                          (unsigned long long)request->data.totals.stream_size);
        return false;
    }
    if ((request->recv->pending >= PENDING_MAX) ||
        !is_worth_its_cost(request)) {
        core_channel_fail(request->channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer cut a message into too many fragments");
        return false;
    }
    count_begun(request->recv, data);
    return true;
}

/* All fragments have arrived. Is the message complete? Fails the channel if
 * not. */
static bool check_whole(ucxpool_request_t *request)
{
    if (request->recv->received < request->data.totals.payload_size) {
        core_channel_fail(request->channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer ended a message of %llu bytes after %llu",
                          (unsigned long long)request->data.totals.payload_size,
                          (unsigned long long)request->recv->received);
        return false;
    }
    return true;
}

static void put_number(ucxpool_request_t *request)
{
    if (request->recv->receive != 0) {
        core_numbers_put(&request->channel->requests.receives,
                         request->recv->receive);
        request->recv->receive = 0;
    }
}

/* End the receive now, or when nothing writes to its target any more. Until
 * then the sender keeps its data unchanged. */
static void end(ucxpool_request_t *request, ucxpool_status_t status,
                const char *detail)
{
    put_number(request);
    xfer_delivery_forget(request);
    if (request->recv->pending != 0) {
        request->channel->wire->forget(request);
    }
    if (request->recv->in_place != 0) {
        if (request->recv->failing == UCXPOOL_OK) {
            request->recv->failing = status;
            core_request_set_detail(request, detail);
            core_request_drain(request);
        }
        return;
    }
    core_request_end(request, status, detail);
    core_request_reuse(request);
}

static uint32_t window(const ucxpool_t *pool)
{
    return copy_engine_depth_factor(pool->engine) * pool->config.depth;
}

static void send_accept(ucxpool_request_t *request)
{
    proto_lent_t   lent[PROTO_LENT_MAX];
    unsigned       num_lent;
    size_t         size;
    proto_fixed_t *fixed;
    void          *data;

    request->recv->loan = xfer_loan_create(request, lent, &num_lent);
    size                = num_lent * sizeof(lent[0]);
    fixed = core_control_begin(request->channel, PROTO_ACCEPT, size, CORE_MUST,
                               &data);
    if (fixed == NULL) {
        return;
    }
    memcpy(data, lent, size);
    fixed->accept.message   = request->recv->message;
    fixed->accept.receive   = request->recv->receive;
    fixed->accept.frag_size = frag_max(request);
    fixed->accept.window    = window(request->pool);
    core_control_end(request->channel);
    xfer_mailbox_lend(request);
}

/* Copy the message's runs to the request. */
static ucxpool_status_t take_runs(ucxpool_request_t *request,
                                  ucxpool_message_t *message)
{
    size_t           num_runs = message->desc.num_runs;
    ucxpool_status_t status;

    status = core_request_reserve_runs(request, num_runs);
    if (status != UCXPOOL_OK) {
        return status;
    }
    /* An empty message has no runs, and its pointer may be NULL. */
    if (num_runs > 0) {
        memcpy(request->data.runs, message->runs,
               num_runs * sizeof(copy_run_t));
    }
    request->data.num_runs = num_runs;
    return UCXPOOL_OK;
}

static void refuse_no_memory(ucxpool_request_t *request,
                             ucxpool_message_t *message)
{
    if (message->desc.message != 0) {
        core_control_done(message->channel, message->desc.message,
                          UCXPOOL_ERR_NO_MEMORY, "the receiver has no memory");
    }
    end(request, UCXPOOL_ERR_NO_MEMORY, "no memory for the message");
}

static void end_eager(ucxpool_request_t *request)
{
    core_traffic_t *received = &request->pool->stats.received[CORE_MODE_EAGER];

    received->bytes += request->data.totals.payload_size;
    received->fragments++;
    end(request, UCXPOOL_OK, NULL);
}

/* The data of an eager message has been copied. */
static void delivered_eager(ucxpool_request_t  *request,
                            const proto_data_t *data, ucxpool_status_t status,
                            void *arg)
{
    (void)data;
    (void)arg;
    if (status == UCXPOOL_OK) {
        end_eager(request);
    }
}

/* Receive a message whose data came with the descriptor, or that is empty. */
static void receive_eager(ucxpool_request_t *request,
                          ucxpool_message_t *message)
{
    const proto_data_t data = {.length = message->totals.stream_size};

    if ((take_runs(request, message) != UCXPOOL_OK) ||
        (core_request_make_plan(request) != UCXPOOL_OK)) {
        refuse_no_memory(request, message);
        return;
    }
    if (data.length == 0) {
        if (message->desc.message != 0) {
            core_control_done(message->channel, message->desc.message,
                              UCXPOOL_OK, NULL);
        }
        end_eager(request);
        return;
    }
    xfer_deliver(request, &(xfer_delivery_params_t){.data  = &data,
                                                    .bytes = message->stream,
                                                    .must_copy = true,
                                                    .done = delivered_eager});
}

static void start_large(ucxpool_request_t *request, ucxpool_message_t *message)
{
    ucxpool_channel_t *channel = message->channel;

    if (!core_channel_is_live(channel)) {
        end(request, channel->status, channel->reason);
        return;
    }
    request->recv->message = message->desc.message;
    if (!core_numbers_reserve(&channel->requests.receives) ||
        (take_runs(request, message) != UCXPOOL_OK) ||
        (core_request_make_plan(request) != UCXPOOL_OK)) {
        refuse_no_memory(request, message);
        return;
    }
    request->recv->receive =
        core_numbers_take(&channel->requests.receives, request);
    if (message->desc.flags & PROTO_DESC_MAILED) {
        request->channel->wire->mailed(request, &message->desc);
    } else {
        send_accept(request);
    }
}

static void refuse_truncated(ucxpool_request_t *request,
                             ucxpool_message_t *message)
{
    char text[PROTO_TEXT_MAX + 1];

    snprintf(text, sizeof(text),
             "the message has %llu bytes, the receive has room for %llu",
             (unsigned long long)message->totals.payload_size,
             (unsigned long long)request->data.capacity);
    if (message->desc.message != 0) {
        core_control_done(message->channel, message->desc.message,
                          UCXPOOL_ERR_TRUNCATED, text);
        request->pool->stats.messages_refused++;
    }
    end(request, UCXPOOL_ERR_TRUNCATED, text);
}

void xfer_recv_start(ucxpool_request_t *request, ucxpool_message_t *message)
{
    if (request->channel == NULL) {
        core_request_set_channel(request, message->channel);
    }
    request->tag         = message->desc.tag;
    request->data.totals = message->totals;
    if (message->canceled) {
        end(request, UCXPOOL_ERR_CANCELED,
            (message->canceled_why != NULL) ? message->canceled_why
                                            : CANCELED_BY_SENDER);
    } else if (message->totals.payload_size > request->data.capacity) {
        refuse_truncated(request, message);
    } else if (core_request_set_metadata(request, message->metadata,
                                         message->desc.metadata_size) !=
               UCXPOOL_OK) {
        refuse_no_memory(request, message);
    } else if ((message->desc.flags & PROTO_DESC_EAGER) ||
               (message->totals.stream_size == 0)) {
        receive_eager(request, message);
    } else {
        start_large(request, message);
    }
    xfer_message_release(message);
}

ucxpool_request_t *xfer_recv_find(ucxpool_channel_t  *channel,
                                  const proto_data_t *data)
{
    ucxpool_request_t *request =
        core_numbers_find(&channel->requests.receives, data->receive);

    if ((request == NULL) || (request->recv->message != data->message)) {
        return NULL;
    }
    return request;
}

bool xfer_recv_scatter(ucxpool_request_t *request, const proto_data_t *data,
                       const void *bytes)
{
    if ((data->flags & PROTO_DATA_CHECKSUM) &&
        (base_crc32c(0, bytes, data->length) != data->checksum)) {
        return false;
    }
    request->recv->restarts += (data->offset < request->plan->at.offset);
    copy_scatter(request->plan, data->offset, data->length, bytes);
    return true;
}

/* Count a fragment that has been copied. */
static void recv_count(ucxpool_request_t *request, const proto_data_t *data,
                       core_mode_t mode)
{
    core_traffic_t *received = &request->pool->stats.received[mode];

    received->bytes += data->length;
    received->fragments++;
    request->recv->received += data->length;
    request->recv->num_seen++;
    if ((request->recv->num_seen == request->recv->num_all) &&
        check_whole(request)) {
        core_control_done(request->channel, request->recv->message, UCXPOOL_OK,
                          NULL);
        end(request, UCXPOOL_OK, NULL);
    }
}

void xfer_recv_delivered(ucxpool_request_t *request, const proto_data_t *data,
                         ucxpool_status_t status, core_mode_t mode)
{
    if (status == UCXPOOL_OK) {
        recv_count(request, data, mode);
    } else if (status == UCXPOOL_ERR_CHECKSUM) {
        xfer_recv_stop(request, status, "the checksum of a fragment is wrong");
    }
}

void xfer_recv_let_go(ucxpool_request_t *request)
{
    if ((request->recv->failing != UCXPOOL_OK) &&
        (request->recv->in_place == 0)) {
        core_request_end(request, request->recv->failing,
                         core_request_detail(request));
    }
    core_request_reuse(request);
}

void xfer_recv_stop(ucxpool_request_t *request, ucxpool_status_t status,
                    const char *detail)
{
    if (request->recv->failing != UCXPOOL_OK) {
        core_request_end_drain(request, request->recv->failing,
                               "the peer did not finish sending to the buffer "
                               "of a failed receive over the ucx wire");
        return;
    }
    if (request->recv->receive != 0) {
        core_control_done(request->channel, request->recv->message, status,
                          detail);
    }
    end(request, status, detail);
}

void xfer_recv_abort(ucxpool_request_t *request, ucxpool_status_t status,
                     const char *detail)
{
    end(request, status, detail);
}

/* The detail for the receive's caller: names the sender as the cause. */
static void say_why(char text[CORE_REASON_SIZE], ucxpool_status_t status,
                    const char *reason)
{
    if (status == UCXPOOL_ERR_CANCELED) {
        snprintf(text, CORE_REASON_SIZE, "%s", CANCELED_BY_SENDER);
    } else {
        snprintf(text, CORE_REASON_SIZE, "the sender ended the message: %s",
                 (reason[0] != '\0') ? reason : ucxpool_status_string(status));
    }
}

/* The receive of a canceled message; NULL: none, or it has ended. If the CANCEL
 * has no receive number, the sender did not know the receive yet: search by
 * message. */
static ucxpool_request_t *find_of(const ucxpool_channel_t *channel,
                                  const proto_cancel_t    *cancel)
{
    const core_numbers_t *receives = &channel->requests.receives;
    ucxpool_request_t    *request;

    request = core_numbers_find(receives, cancel->receive);
    for (uint32_t i = 0; (cancel->receive == 0) && (i < receives->size); i++) {
        request = receives->slots[i].request;
        if ((request != NULL) && (request->recv->message == cancel->message)) {
            break;
        }
    }
    return ((request != NULL) && (request->recv->message == cancel->message))
               ? request
               : NULL;
}

/*
 * A DESC without its RUNS would wait for them forever if the CANCEL arrived
 * first. This does not happen: UCX documents no order of active messages, but
 * it sends the eager ones of an endpoint over one lane (UCX_MAX_EAGER_RAILS=1,
 * the default), which keeps their order. If the CANCEL overtakes any other
 * DESC, the sender cancels again when we accept.
 */
void xfer_recv_canceled(ucxpool_channel_t    *channel,
                        const proto_cancel_t *cancel, const char *reason)
{
    ucxpool_request_t *request;
    char               text[CORE_REASON_SIZE];

    if (cancel->message == 0) {
        return; /* eager messages have no number */
    }
    say_why(text, (ucxpool_status_t)cancel->status, reason);
    if (xfer_message_cancel(channel, cancel->message, text)) {
        return;
    }
    request = find_of(channel, cancel);
    if (request != NULL) {
        core_control_done(channel, cancel->message, UCXPOOL_ERR_CANCELED, NULL);
        end(request, UCXPOOL_ERR_CANCELED, text);
    }
}

/* --- as a request --------------------------------------------------------- */

static void init(ucxpool_request_t *request)
{
    memset(request->recv, 0, sizeof(*request->recv));
}

void xfer_recv_count(ucxpool_request_t *request, ucxpool_status_t status)
{
    core_stats_t *stats = &request->pool->stats;

    if (status == UCXPOOL_OK) {
        stats->messages_received++;
    } else {
        stats->messages_failed++;
    }
}

static void ended(ucxpool_request_t *request, ucxpool_status_t status)
{
    xfer_recv_count(request, status);
    if (request->recv->loan != NULL) {
        xfer_loan_end(request->channel, request->recv->loan,
                      status == UCXPOOL_OK);
        request->recv->loan = NULL;
    }
}

static bool is_busy(const ucxpool_request_t *request)
{
    return (request->recv->rndvs != 0) || (request->recv->receive != 0);
}

const core_request_kind_t xfer_recv_kind = {
    .init    = init,
    .stop    = xfer_recv_stop,
    .ended   = ended,
    .is_busy = is_busy,
};
