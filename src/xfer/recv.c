#include "xfer/recv.h"

#include "core/control.h"
#include "core/wire.h"
#include "wire/wire.h"

#include <stdio.h>
#include <string.h>

#define CANCELED_BY_SENDER "the sender canceled the message"

static void send_accept(ucxpool_request_t *request, const proto_desc_t *desc)
{
    ucxpool_t     *pool = request->pool;
    proto_lent_t   lent[PROTO_LENT_MAX];
    unsigned       num_lent;
    size_t         size;
    proto_fixed_t *fixed;
    void          *data;
    bool           may_be_early = !(desc->flags & PROTO_DESC_WINDOW);

    request->recv->loan =
        wire_loan_create(request, may_be_early, lent, &num_lent);
    size  = num_lent * sizeof(lent[0]);
    fixed = core_control_begin(request->channel, PROTO_ACCEPT, size, CORE_MUST,
                               &data);
    if (fixed == NULL) {
        return;
    }
    memcpy(data, lent, size);
    fixed->accept.message   = request->recv->message;
    fixed->accept.receive   = request->recv->receive;
    fixed->accept.frag_size = request->channel->wire->frag_max(pool);
    fixed->accept.window =
        copy_engine_depth_factor(pool->engine) * pool->config.depth;
    core_control_end(request->channel);
    wire_mailbox_lend(request);
}

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
    wire_recv_end(request, UCXPOOL_ERR_NO_MEMORY, "no memory for the message");
}

static void end_eager(ucxpool_request_t *request)
{
    core_traffic_add(&request->channel->counts.received[CORE_MODE_EAGER],
                     request->data.totals.payload_size);
    wire_recv_end(request, UCXPOOL_OK, NULL);
}

/* Called when the data of an eager message has been copied. */
static void delivered_eager(ucxpool_request_t  *request,
                            const proto_data_t *data, ucxpool_status_t status,
                            void *arg)
{
    if (status == UCXPOOL_OK) {
        end_eager(request);
    }
}

/* Receive a message whose data arrived with the descriptor, or that is
 * empty. */
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
    wire_deliver(request, &(wire_delivery_params_t){.data  = &data,
                                                    .bytes = message->stream,
                                                    .must_copy = true,
                                                    .done = delivered_eager});
}

static void start_large(ucxpool_request_t *request, ucxpool_message_t *message)
{
    ucxpool_channel_t *channel = message->channel;

    if (!core_channel_is_live(channel)) {
        wire_recv_end(request, channel->status, channel->reason);
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
        send_accept(request, &message->desc);
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
        request->channel->counts.messages_refused++;
    }
    wire_recv_end(request, UCXPOOL_ERR_TRUNCATED, text);
}

void xfer_recv_start(ucxpool_request_t *request, ucxpool_message_t *message)
{
    if (request->channel == NULL) {
        core_request_set_channel(request, message->channel);
    }
    request->tag         = message->desc.tag;
    request->data.totals = message->totals;
    if (message->canceled) {
        wire_recv_end(request, UCXPOOL_ERR_CANCELED,
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

/* Write the error detail for the receive's caller. The detail names the sender
 * as the cause. */
static void format_reason(char text[CORE_REASON_SIZE], ucxpool_status_t status,
                          const char *reason)
{
    if (status == UCXPOOL_ERR_CANCELED) {
        snprintf(text, CORE_REASON_SIZE, "%s", CANCELED_BY_SENDER);
    } else {
        snprintf(text, CORE_REASON_SIZE, "the sender ended the message: %s",
                 (reason[0] != '\0') ? reason : ucxpool_status_string(status));
    }
}

/* Returns the receive of a canceled message; NULL if there is none, or it has
 * ended. If the CANCEL has no receive number, because the sender did not know
 * the receive yet, the function searches by message. */
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
 * If the CANCEL arrived before a DESC whose RUNS were never sent, the DESC
 * would wait forever for its RUNS. This does not happen. UCX documents no order
 * of active messages. But it sends the eager messages of an endpoint over one
 * lane (UCX_MAX_EAGER_RAILS=1, the default), which keeps their order. If the
 * CANCEL overtakes any other DESC, the sender cancels again when we accept.
 */
void xfer_recv_canceled(ucxpool_channel_t    *channel,
                        const proto_cancel_t *cancel, const char *reason)
{
    ucxpool_request_t *request;
    char               text[CORE_REASON_SIZE];

    if (cancel->message == 0) {
        return; /* eager messages have no number */
    }
    format_reason(text, (ucxpool_status_t)cancel->status, reason);
    if (xfer_message_cancel(channel, cancel->message, text)) {
        return;
    }
    request = find_of(channel, cancel);
    if (request != NULL) {
        core_control_done(channel, cancel->message, UCXPOOL_ERR_CANCELED, NULL);
        wire_recv_end(request, UCXPOOL_ERR_CANCELED, text);
    }
}

/* --- as a request --------------------------------------------------------- */

static void init(ucxpool_request_t *request)
{
    memset(request->recv, 0, sizeof(*request->recv));
}

void xfer_recv_count(ucxpool_request_t *request, ucxpool_status_t status)
{
    if (status == UCXPOOL_OK) {
        request->channel->counts.messages_received++;
    } else if (request->channel != NULL) {
        request->channel->counts.messages_failed++;
    } else {
        request->pool->stats.counts.messages_failed++;
    }
}

static void ended(ucxpool_request_t *request, ucxpool_status_t status)
{
    xfer_recv_count(request, status);
    if (request->recv->loan != NULL) {
        wire_loan_end(request->recv->loan, status == UCXPOOL_OK);
        request->recv->loan = NULL;
    }
}

static bool is_busy(const ucxpool_request_t *request)
{
    return (request->recv->rndvs != 0) || (request->recv->receive != 0);
}

const core_request_kind_t xfer_recv_kind = {
    .init    = init,
    .stop    = wire_recv_stop,
    .ended   = ended,
    .is_busy = is_busy,
};

/* --- receives without a message ------------------------------------------- */

/* Returns true if the receive has been sorted into one of the lists. Only the
 * newest receives have not been sorted. */
static bool is_sorted(const struct xfer_pool  *xfer,
                      const ucxpool_request_t *request)
{
    return request->order <= xfer->last_sorted;
}

static bool is_exact(const ucxpool_request_t *request)
{
    return request->mask == UINT64_MAX;
}

/* Returns the index list of a key. channel: NULL for receives from any
 * channel. */
static base_list_t *list_of(const struct xfer_pool  *xfer,
                            const ucxpool_channel_t *channel, uint64_t tag)
{
    return xfer_index_list(&xfer->posted_index, 0, channel, tag);
}

static void add_exact(struct xfer_pool *xfer, ucxpool_request_t *request)
{
    base_list_add_tail(list_of(xfer, request->channel, request->tag),
                       &request->run_link);
}

static void grow(ucxpool_t *pool)
{
    struct xfer_pool  *xfer = pool->xfer;
    ucxpool_request_t *request;

    if (!xfer_index_grow(&xfer->posted_index, pool)) {
        return;
    }
    base_list_for_each(request, &xfer->posted, ucxpool_request_t, link) {
        if (is_sorted(xfer, request) && is_exact(request)) {
            add_exact(xfer, request);
        }
    }
}

static void sort(ucxpool_request_t *request)
{
    struct xfer_pool *xfer = request->pool->xfer;

    if (!is_exact(request)) {
        base_list_add_tail(&xfer->posted_masked, &request->run_link);
    } else {
        if (xfer_index_is_full(&xfer->posted_index)) {
            grow(request->pool);
        }
        add_exact(xfer, request);
        xfer->posted_index.num++;
    }
    xfer->last_sorted = request->order;
}

/* Sort the receives that have been posted since the last call. */
static void sort_new(struct xfer_pool *xfer)
{
    base_list_t *at = xfer->posted.prev;

    while ((at != &xfer->posted) &&
           !is_sorted(xfer, base_container_of(at, ucxpool_request_t, link))) {
        at = at->prev;
    }
    while ((at = at->next) != &xfer->posted) {
        sort(base_container_of(at, ucxpool_request_t, link));
    }
}

void xfer_posted_add(ucxpool_request_t *request)
{
    struct xfer_pool *xfer = request->pool->xfer;

    request->order = ++xfer->num_posted;
    base_list_add_tail(&xfer->posted, &request->link);
}

void xfer_posted_removed(const ucxpool_request_t *request)
{
    struct xfer_pool *xfer = request->pool->xfer;

    if (is_sorted(xfer, request) && is_exact(request)) {
        xfer->posted_index.num--;
    }
}

/* Returns the oldest indexed receive for a tag. channel: NULL for receives from
 * any channel. */
static ucxpool_request_t *find_exact(const struct xfer_pool  *xfer,
                                     const ucxpool_channel_t *channel,
                                     uint64_t                 tag)
{
    ucxpool_request_t *request;

    base_list_for_each(request, list_of(xfer, channel, tag), ucxpool_request_t,
                       run_link) {
        if ((request->channel == channel) && (request->tag == tag)) {
            return request;
        }
    }
    return NULL;
}

static ucxpool_request_t *older(ucxpool_request_t *one,
                                ucxpool_request_t *other)
{
    if ((one == NULL) || (other == NULL)) {
        return (one == NULL) ? other : one;
    }
    return (one->order < other->order) ? one : other;
}

ucxpool_request_t *xfer_posted_search(const ucxpool_channel_t *channel,
                                      uint64_t                 tag)
{
    struct xfer_pool  *xfer = channel->pool->xfer;
    ucxpool_request_t *found;
    ucxpool_request_t *request;

    sort_new(xfer);
    found = older(find_exact(xfer, channel, tag), find_exact(xfer, NULL, tag));
    base_list_for_each(request, &xfer->posted_masked, ucxpool_request_t,
                       run_link) {
        if ((found != NULL) && (found->order < request->order)) {
            break;
        }
        if (xfer_posted_takes(request, channel, tag)) {
            return request;
        }
    }
    return found;
}

void xfer_posted_abort(ucxpool_channel_t *channel, ucxpool_status_t status,
                       const char *detail)
{
    ucxpool_request_t *request, *next;

    base_list_for_each_safe(request, next, &channel->pool->xfer->posted,
                            ucxpool_request_t, link) {
        if (request->channel == channel) {
            core_request_finish(request, status, detail);
        }
    }
}
