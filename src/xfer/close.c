/*
 * The end of a channel: BYE, flush, and the endpoint closed.
 */
#include "base/clock.h"
#include "xfer/control.h"
#include "xfer/wire.h"

static void ep_flushed(void *request, ucs_status_t status, void *arg)
{
    ucxpool_channel_t *channel = arg;
    ucxpool_t         *pool    = channel->pool;

    (void)status;
    ucp_request_free(request);
    channel->close_request = NULL;
    xfer_channel_put(channel);
    xfer_operation_end(pool);
}

/* UCX's flush waits for the peer to make progress, which may be busy with
 * something else; what we said is with the system long before. */
#define FLUSH_NS UINT64_C(50000000)

/*
 * Let UCX hand over what it holds, before the endpoint is closed by force. On
 * the `map` wire BYE stands in the ring, where the peer finds it whenever it
 * looks.
 */
static void flush_ep(ucxpool_channel_t *channel)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send   = ep_flushed,
        .user_data = channel,
    };
    ucs_status_ptr_t result;

    channel->flushed = true;
    if ((channel->ep == NULL) || (channel->wire == &xfer_wire_map)) {
        return;
    }
    channel->close_deadline = base_min(channel->close_deadline,
                                       base_clock_deadline(FLUSH_NS));
    xfer_channel_get(channel);
    result = ucp_ep_flush_nbx(channel->ep, &param);
    if (UCS_PTR_IS_PTR(result)) {
        channel->close_request = result;
        xfer_operation_start(channel->pool);
    } else {
        xfer_channel_put(channel);
    }
}

static void ep_closed(void *request, ucs_status_t status, void *arg)
{
    ucxpool_channel_t *channel = arg;
    ucxpool_t         *pool    = channel->pool;

    (void)status;
    ucp_request_free(request);
    channel->ep_closed = true;
    channel->ep        = NULL;
    xfer_channel_put(channel);
    xfer_operation_end(pool);
}

static void close_ep(ucxpool_channel_t *channel)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .flags     = UCP_EP_CLOSE_FLAG_FORCE,
        .cb.send   = ep_closed,
        .user_data = channel,
    };
    ucs_status_ptr_t result;

    if ((channel->ep == NULL) || !channel->own_ep) {
        channel->ep        = NULL;
        channel->ep_closed = true;
        return;
    }
    xfer_channel_get(channel);
    result = ucp_ep_close_nbx(channel->ep, &param);
    if (UCS_PTR_IS_PTR(result)) {
        xfer_operation_start(channel->pool);
        return;
    }
    channel->ep_closed = true;
    channel->ep        = NULL;
    xfer_channel_put(channel);
}

/* BYE has been said, or need not be. */
static bool has_said_bye(ucxpool_channel_t *channel)
{
    if (channel->bye_sent) {
        return true;
    }
    if (channel->handshake & XFER_HELLO_RECEIVED) {
        xfer_control_flush(channel);
        if (!base_list_is_empty(&channel->backlog)) {
            return false;
        }
        xfer_control_post(channel, PROTO_BYE, XFER_MUST);
    }
    channel->bye_sent = true;
    return true;
}

/*
 * The steps of a close, as far as they can go now: BYE, flush, and the
 * endpoint closed by force: UCX then ends every operation on it, so that no
 * block stays in doubt.
 */
unsigned xfer_channel_progress_close(ucxpool_channel_t *channel)
{
    bool late   = base_clock_now() >= channel->close_deadline;
    bool broken = xfer_channel_ep_failed(channel);

    if (channel->ep_closed) {
        return 0;
    }
    if (!late && (!broken || (channel->wire == &xfer_wire_map))) {
        /* A ring works without the endpoint. */
        if (!has_said_bye(channel)) {
            return 0;
        }
        xfer_control_flush(channel);
        if (!base_list_is_empty(&channel->backlog)) {
            return 0;
        }
    }
    if (!late && !broken) {
        if (!channel->flushed) {
            flush_ep(channel);
            return 1;
        }
        if (channel->close_request != NULL) {
            return 0;
        }
    }
    if (!channel->ep_closing) {
        channel->ep_closing = true;
        xfer_control_drop(channel);
        close_ep(channel);
        return 1;
    }
    return 0;
}

void xfer_channel_hurry_all(ucxpool_t *pool)
{
    ucxpool_channel_t *channel;

    xfer_lock(pool);
    base_list_for_each(channel, &pool->channels, ucxpool_channel_t, link) {
        channel->close_deadline = 0;
    }
    xfer_unlock(pool);
}
