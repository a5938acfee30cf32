#include "xfer/inbox.h"

#include "base/error.h"
#include "mem/ucx_status.h"
#include "xfer/control.h"
#include "xfer/hello.h"
#include "xfer/message.h"
#include "xfer/recv.h"
#include "xfer/send.h"
#include "xfer/wire.h"

#include <string.h>

/* Messages read from one ring before the others have their turn. */
#define ROUND_MAX 64u
/* The same on a GPU, where one may take as long as a launch. */
#define GPU_ROUND_MAX 1u

/* Rounds after which everything that stood in a ring has been read; the peer
 * may still be writing. */
#define DRAIN_MAX (XFER_RING_SIZE / sizeof(proto_head_t) / ROUND_MAX)

static void credits_came(ucxpool_channel_t *channel, uint32_t credits)
{
    if (credits == 0) {
        return;
    }
    channel->credits = (uint32_t)base_min((uint64_t)channel->credits + credits,
                                          (uint64_t)UINT16_MAX);
    if (!base_list_is_empty(&channel->queue)) {
        xfer_request_wake(
            base_list_head(&channel->queue, ucxpool_request_t, link));
    }
}

static void handle_done(ucxpool_channel_t *channel, const proto_done_t *done,
                        const void *data, size_t data_size)
{
    char reason[PROTO_TEXT_MAX + 1];

    proto_copy_text(reason, sizeof(reason), data, data_size);
    xfer_send_done(channel, done, reason);
}

/* One parsed message of a channel, from whichever way. */
static void handle(ucxpool_channel_t *channel, const proto_fixed_t *message,
                   const void *data, size_t data_size)
{
    credits_came(channel, message->head.credits);
    switch (message->head.type) {
    case PROTO_READY:
        xfer_hello_ready(channel, &message->ready, data, data_size);
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
        xfer_channel_peer_left(channel);
        break;
    default: /* CREDIT and KNOCK have said all with their head, and GO and KEPT
                do not come through a ring */
        break;
    }
}

/* Messages that make sense only where a transfer can be. */
static bool is_too_early(const ucxpool_channel_t *channel, unsigned type)
{
    return !xfer_wire_is_chosen(channel->wire) && (type >= PROTO_DESC) &&
           (type != PROTO_BYE);
}

/* A channel that has ended listens for nothing but when its own memory is read
 * no more. */
static void handle_after_end(ucxpool_channel_t *channel,
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
        xfer_channel_peer_left(channel);
        break;
    case PROTO_KEPT:
        channel->kept = channel->has_begun;
        break;
    default:
        break;
    }
}

/* A control message outside of the ring, for a channel that is there. */
static void handle_outside(ucxpool_channel_t *channel,
                           const proto_fixed_t *message, const void *data,
                           size_t data_size, ucp_ep_h reply_ep)
{
    unsigned type = message->head.type;

    if (type == PROTO_GO) {
        xfer_hello_go(channel, reply_ep);
    } else if (!xfer_channel_is_live(channel)) {
        handle_after_end(channel, message);
    } else if ((type != PROTO_DATA) && !is_too_early(channel, type)) {
        handle(channel, message, data, data_size);
    }
}

void xfer_inbox_local(ucxpool_channel_t *channel, const proto_fixed_t *message,
                      const void *data, size_t data_size)
{
    if (message->head.type == PROTO_HELLO) {
        xfer_hello_answered(channel, &message->hello, data);
    } else if (xfer_channel_find(channel->pool, &message->head) == channel) {
        handle_outside(channel, message, data, data_size, NULL);
    }
}

static ucs_status_t handle_control(void *arg, const void *header,
                                   size_t header_length, void *data,
                                   size_t length,
                                   const ucp_am_recv_param_t *param)
{
    ucxpool_t         *pool = arg;
    xfer_way_t         way  = {.fd = -1};
    ucxpool_channel_t *channel;
    proto_fixed_t      message;

    xfer_lock(pool);
    if (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) {
        way.reply_ep = param->reply_ep;
    }
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) ||
        (proto_parse(header, header_length, length, &message) != UCXPOOL_OK)) {
        pool->stats.handshakes_refused++;
        goto out;
    }
    if (message.head.type == PROTO_HELLO) {
        xfer_hello_received(pool, &message.hello, data, &way);
        goto out;
    }
    channel = xfer_channel_find(pool, &message.head);
    if (channel != NULL) {
        handle_outside(channel, &message, data, length, way.reply_ep);
    }
out:
    xfer_unlock(pool);
    return UCS_OK;
}

static ucs_status_t handle_data(void *arg, const void *header,
                                size_t header_length, void *data, size_t length,
                                const ucp_am_recv_param_t *param)
{
    ucxpool_t         *pool   = arg;
    ucs_status_t       status = UCS_OK;
    ucxpool_channel_t *channel;
    proto_fixed_t      message;

    xfer_lock(pool);
    if ((proto_parse(header, header_length, length, &message) == UCXPOOL_OK) &&
        (message.head.type == PROTO_DATA)) {
        channel = xfer_channel_find(pool, &message.head);
        if ((channel != NULL) && (channel->wire->arrived_am != NULL) &&
            xfer_channel_is_live(channel)) {
            status = channel->wire->arrived_am(channel, &message.data, data,
                                               length, param);
        }
    }
    xfer_unlock(pool);
    return status;
}

static ucxpool_status_t set_handler(ucxpool_t *pool, unsigned id,
                                    ucp_am_recv_callback_t callback)
{
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                      UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id    = id,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb    = callback,
        .arg   = pool,
    };
    ucs_status_t status = ucp_worker_set_am_recv_handler(pool->worker, &param);

    /* The id is in range, so it can only be the context. */
    if ((status == UCS_ERR_INVALID_PARAM) && !pool->own_context) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the borrowed UCX context was made without "
                          "UCP_FEATURE_AM");
    }
    if (status != UCS_OK) {
        return base_error(mem_ucx_status(status),
                          "UCX did not take a handler for the active message "
                          "id %u: %s (choose another by UCXPOOL_AM_ID)",
                          id, ucs_status_string(status));
    }
    return UCXPOOL_OK;
}

ucxpool_status_t xfer_inbox_init(ucxpool_t *pool)
{
    ucxpool_status_t status;

    status = set_handler(pool, pool->config.am_id, handle_control);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = set_handler(pool, pool->config.am_id + 1, handle_data);
    if (status != UCXPOOL_OK) {
        (void)set_handler(pool, pool->config.am_id, NULL);
    }
    return status;
}

void xfer_inbox_cleanup(ucxpool_t *pool)
{
    (void)set_handler(pool, pool->config.am_id + 1, NULL);
    (void)set_handler(pool, pool->config.am_id, NULL);
}

/* One message from a ring; false: there is none, or the channel has ended. */
static bool read_one(ucxpool_channel_t *channel)
{
    xfer_ring_entry_t entry;
    proto_fixed_t     message;
    ucxpool_status_t  status = xfer_ring_peek(&channel->ring, &entry);

    if (status == UCXPOOL_INPROGRESS) {
        return false;
    }
    if ((status != UCXPOOL_OK) ||
        (proto_parse(entry.fixed, entry.fixed_size, entry.data_size,
                     &message) != UCXPOOL_OK) ||
        (message.head.type == PROTO_HELLO)) {
        xfer_channel_fail(channel, UCXPOOL_ERR_PROTOCOL, "%s",
                          ucxpool_error_detail());
        channel->status = UCXPOOL_ERR_PROTOCOL;
        return false;
    }
    if (xfer_channel_is_live(channel)) {
        handle(channel, &message, entry.data, entry.data_size);
    } else {
        handle_after_end(channel, &message);
    }
    xfer_ring_consume(&channel->ring);
    return true;
}

static unsigned read_ring(ucxpool_channel_t *channel, unsigned max)
{
    unsigned count = 0;

    if (!xfer_ring_has_input(&channel->ring)) {
        return 0;
    }
    /* A good-bye may take the last reference away. */
    xfer_channel_get(channel);
    while ((count < max) && xfer_channel_is_readable(channel) &&
           read_one(channel)) {
        count++;
    }
    if ((count != 0) && xfer_channel_is_live(channel)) {
        xfer_control_knock(channel);
    }
    xfer_channel_put(channel);
    return count;
}

unsigned xfer_inbox_progress(ucxpool_t *pool)
{
    unsigned           max = (pool->engine != NULL) ? GPU_ROUND_MAX : ROUND_MAX;
    unsigned           count = 0;
    ucxpool_channel_t *channel;
    ucxpool_channel_t *next;

    base_list_for_each_safe(channel, next, &pool->channels, ucxpool_channel_t,
                            link) {
        if (xfer_channel_is_readable(channel)) {
            count += read_ring(channel, max);
        }
    }
    return count;
}

void xfer_inbox_drain(ucxpool_channel_t *channel)
{
    for (size_t i = 0; (i < DRAIN_MAX) && xfer_channel_is_readable(channel);
         i++) {
        if (read_ring(channel, ROUND_MAX) == 0) {
            return;
        }
    }
}
