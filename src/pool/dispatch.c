/*
 * Where a message goes that has arrived, by its type.
 */
#include "pool/progress.h"

#include "core/wire.h"
#include "wireup/hello.h"
#include "xfer/message.h"
#include "xfer/recv.h"
#include "xfer/send.h"

static void credits_came(ucxpool_channel_t *channel, uint32_t credits)
{
    if (credits == 0) {
        return;
    }
    channel->flow.credits = (uint32_t)base_min(
        (uint64_t)channel->flow.credits + credits, (uint64_t)UINT16_MAX);
    if (!base_list_is_empty(&channel->requests.queue)) {
        core_request_wake(
            base_list_head(&channel->requests.queue, ucxpool_request_t, link));
    }
}

static void handle_done(ucxpool_channel_t *channel, const proto_done_t *done,
                        const void *data, size_t data_size)
{
    char reason[PROTO_TEXT_MAX + 1];

    proto_copy_text(reason, sizeof(reason), data, data_size);
    xfer_send_done(channel, done, reason);
}

/* One parsed message of a live channel, from whichever way. */
static void handle(ucxpool_channel_t *channel, const proto_fixed_t *message,
                   const void *data, size_t data_size)
{
    credits_came(channel, message->head.credits);
    switch (message->head.type) {
    case PROTO_READY:
        wireup_hello_ready(channel, &message->ready, data, data_size);
        break;
    case PROTO_DESC:
        xfer_message_desc(channel, &message->desc, data, data_size);
        break;
    case PROTO_RUNS:
        xfer_message_runs(channel, &message->runs, data);
        break;
    case PROTO_ACCEPT:
        xfer_send_accepted(channel, &message->accept);
        break;
    case PROTO_DATA:
        if (channel->wire->arrived != NULL) {
            channel->wire->arrived(channel, &message->data);
        }
        break;
    case PROTO_TAKEN:
        xfer_send_taken(channel, &message->taken);
        break;
    case PROTO_DONE:
        handle_done(channel, &message->done, data, data_size);
        break;
    case PROTO_CANCEL:
        xfer_recv_canceled(channel, message->cancel.message);
        break;
    case PROTO_BYE:
        core_channel_peer_left(channel);
        break;
    default: /* CREDIT and DOORBELL have said all with their head, and GO and
                KEPT do not come through a ring */
        break;
    }
}

/* Messages that make sense only where a transfer can be. */
static bool is_too_early(const ucxpool_channel_t *channel, unsigned type)
{
    return !core_wire_is_chosen(channel->wire) && (type >= PROTO_DESC) &&
           (type != PROTO_BYE);
}

/* A channel that has ended listens for nothing but when its own memory is read
 * no more. */
static void handle_after_end(ucxpool_channel_t   *channel,
                             const proto_fixed_t *message)
{
    switch (message->head.type) {
    case PROTO_TAKEN:
        xfer_send_taken(channel, &message->taken);
        break;
    case PROTO_DONE:
        xfer_send_done(channel, &message->done, "");
        break;
    case PROTO_BYE:
        core_channel_peer_left(channel);
        break;
    case PROTO_KEPT:
        channel->closing.kept = channel->closing.has_begun;
        break;
    default:
        break;
    }
}

/* A control message outside of the ring, for a channel that is there. */
static void handle_outside(ucxpool_channel_t   *channel,
                           const proto_fixed_t *message, const void *data,
                           size_t data_size, ucp_ep_h reply_ep)
{
    unsigned type = message->head.type;

    if (type == PROTO_GO) {
        wireup_hello_go(channel, reply_ep);
    } else if (!core_channel_is_live(channel)) {
        handle_after_end(channel, message);
    } else if ((type != PROTO_DATA) && !is_too_early(channel, type)) {
        handle(channel, message, data, data_size);
    }
}

static void handle_ring(ucxpool_channel_t   *channel,
                        const proto_fixed_t *message, const void *data,
                        size_t data_size)
{
    if (core_channel_is_live(channel)) {
        handle(channel, message, data, data_size);
    } else {
        handle_after_end(channel, message);
    }
}

static void handle_local(ucxpool_channel_t   *channel,
                         const proto_fixed_t *message, const void *data,
                         size_t data_size)
{
    if (message->head.type == PROTO_HELLO) {
        wireup_hello_answered(channel, &message->hello, data);
    } else if (core_channel_find(channel->pool, &message->head) == channel) {
        handle_outside(channel, message, data, data_size, NULL);
    }
}

const core_dispatch_t pool_dispatch = {
    .hello      = wireup_hello_received,
    .from_ring  = handle_ring,
    .from_local = handle_local,
    .from_ucx   = handle_outside,
    .unheard    = wireup_hello_unheard,
};
