#include "core/inbox.h"

#include "base/error.h"
#include "core/control.h"
#include "core/wire.h"
#include "ucx/context.h"

/* The maximum number of entries that are read from one ring before the next
 * ring is read. On a GPU the limit is lower, because handling a message may
 * include a kernel launch. */
#define ROUND_MAX 64u

/* In this many rounds, every message that was in the ring at the start is read,
 * even if the peer is still writing. */
#define DRAIN_MAX (CORE_RING_SIZE / sizeof(proto_head_t) / ROUND_MAX)

static ucs_status_t handle_control(void *arg, const void *header,
                                   size_t header_length, void *data,
                                   size_t                     length,
                                   const ucp_am_recv_param_t *param)
{
    ucxpool_t         *pool = arg;
    core_way_t         way  = {.fd = -1};
    ucxpool_channel_t *channel;
    proto_fixed_t      message;

    core_lock(pool);
    if (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) {
        way.reply_ep = param->reply_ep;
    }
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) ||
        (proto_parse(header, header_length, length, &message) != UCXPOOL_OK)) {
        pool->stats.handshakes_refused++;
        goto out;
    }
    if (message.head.type == PROTO_HELLO) {
        pool->dispatch->hello(pool, &message.hello, data, &way);
        goto out;
    }
    channel = core_channel_find(pool, &message.head);
    if (channel != NULL) {
        pool->dispatch->from_ucx(channel, &message, data, length, way.reply_ep);
    }
out:
    core_unlock(pool);
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

    core_lock(pool);
    if ((proto_parse(header, header_length, length, &message) == UCXPOOL_OK) &&
        (message.head.type == PROTO_DATA)) {
        channel = core_channel_find(pool, &message.head);
        if ((channel != NULL) && core_channel_is_live(channel) &&
            (channel->wire->arrived_am != NULL)) {
            status = channel->wire->arrived_am(channel, &message.data, data,
                                               length, param);
        }
    }
    core_unlock(pool);
    return status;
}

static ucxpool_status_t set_handler(ucxpool_t *pool, unsigned id,
                                    ucp_am_recv_callback_t callback)
{
    ucp_am_handler_param_t param = {
        .field_mask =
            UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
            UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id    = id,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb    = callback,
        .arg   = pool,
    };
    ucs_status_t status =
        ucp_worker_set_am_recv_handler(pool->ucx.worker, &param);

    /* The id is in range, so the caller's context must be the cause. */
    if ((status == UCS_ERR_INVALID_PARAM) && !pool->ucx.own_context) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the borrowed UCX context was created without "
                          "UCP_FEATURE_AM");
    }
    if (status != UCS_OK) {
        return base_error(ucx_status(status),
                          "UCX cannot set a handler for the active message id "
                          "%u: %s; choose another id with UCXPOOL_AM_ID",
                          id, ucs_status_string(status));
    }
    return UCXPOOL_OK;
}

ucxpool_status_t core_inbox_init(ucxpool_t *pool)
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

void core_inbox_cleanup(ucxpool_t *pool)
{
    (void)set_handler(pool, pool->config.am_id + 1, NULL);
    (void)set_handler(pool, pool->config.am_id, NULL);
}

/* Handle one entry, and return the type of its message. Returns false if the
 * ring is empty, or the channel has ended. */
static bool read_one(ucxpool_channel_t *channel, unsigned *type_p)
{
    core_ring_entry_t entry;
    proto_fixed_t     message;
    ucxpool_status_t  status = core_ring_peek(&channel->ring, &entry);

    if (status == UCXPOOL_INPROGRESS) {
        return false;
    }
    if (status == UCXPOOL_OK) {
        status = proto_parse(entry.fixed, entry.fixed_size, entry.data_size,
                             &message);
    }
    if ((status == UCXPOOL_OK) && (message.head.type == PROTO_HELLO)) {
        status =
            base_error(UCXPOOL_ERR_PROTOCOL, "the peer sent HELLO in the ring");
    }
    if (status != UCXPOOL_OK) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL, "%s",
                          ucxpool_error_detail());
        channel->status = UCXPOOL_ERR_PROTOCOL;
        return false;
    }
    *type_p = message.head.type;
    channel->pool->dispatch->from_ring(channel, &message, entry.data,
                                       entry.data_size);
    if (core_ring_consume(&channel->ring) && core_channel_is_live(channel)) {
        core_control_doorbell(channel);
    }
    return true;
}

/* Read at most `max` entries. Lists of runs do not count, because they are
 * only copied. */
static unsigned read_ring(ucxpool_channel_t *channel, unsigned max)
{
    unsigned count = 0;
    unsigned lists = 0;
    unsigned type;

    while ((count - lists < max) && (count < ROUND_MAX) &&
           core_channel_is_readable(channel) && read_one(channel, &type)) {
        count++;
        lists += (type == PROTO_RUNS) ? 1 : 0;
        /* With credits, the peer can write while the other messages are
         * read. */
        core_control_give_credits(channel);
    }
    return count;
}

unsigned core_inbox_progress(ucxpool_t *pool)
{
    unsigned           max      = copy_engine_batch(pool->engine);
    unsigned           count    = 0;
    unsigned           num_read = 0;
    ucxpool_channel_t *channel, *next;

    base_list_for_each_safe(channel, next, &pool->channels.open,
                            ucxpool_channel_t, link) {
        if (core_channel_is_readable(channel)) {
            num_read++;
            count += read_ring(channel, max);
        }
    }
    pool->channels.num_read = num_read;
    return count;
}

void core_inbox_drain(ucxpool_channel_t *channel)
{
    for (size_t i = 0; (i < DRAIN_MAX) && core_channel_is_readable(channel);
         i++) {
        if (read_ring(channel, ROUND_MAX) == 0) {
            return;
        }
    }
}
