/*
 * The `ucx` wire. A fragment is the data of an active message. For registered
 * memory, the memory handle is passed to UCX. Long fragments use rendezvous.
 */
#include "core/memory.h"
#include "ucx/context.h"
#include "ucx/reg.h"
#include "wire/wire.h"

/* The default size: short enough that a fragment is still in the cache when it
 * is sent, and long enough that the cost of the rendezvous messages is
 * negligible. */
#define FRAG_SIZE (1024u * 1024u)
/* The shortest fragment that always uses rendezvous. For shorter fragments, UCX
 * chooses the protocol. */
#define RNDV_MIN (32u * 1024u)

/* The default size between GPUs: UCX is fastest with long fragments, which copy
 * engines copy. */
#define GPU_FRAG_SIZE ((uint64_t)16 << 20)

static block_pool_t *ucx_blocks(const ucxpool_t *pool)
{
    return pool->memory.ucx_blocks;
}

/*
 * The caller's memory outside the pool is sent in place if its length is at
 * least INPLACE_MIN times this factor. For a shorter piece, a separate fragment
 * costs more than a copy. Between two processes over TCP, packing doubles the
 * rate of pieces of 64 KiB, but does not raise the rate of pieces of 256 KiB.
 */
#define ANY_MEMORY_FACTOR 16u

static bool ucx_takes_any_memory(const ucxpool_t *pool, uint64_t length)
{
    return !pool->needs_registration &&
           (length / ANY_MEMORY_FACTOR >= pool->config.inplace_min);
}

static unsigned ucx_path(const ucxpool_channel_t *channel)
{
    bool on_gpu =
        copy_engine_memory_kind(channel->pool->engine) != UCXPOOL_MEMORY_HOST;

    return ucx_rma_is_native(channel->conn.endpoint->ep, on_gpu)
               ? UCXPOOL_PATH_RMA
               : 0;
}

static void ucx_opened(ucxpool_channel_t *channel)
{
    core_endpoint_close_on_exec(channel->conn.endpoint);
}

static uint64_t ucx_frag_size(const ucxpool_channel_t  *channel,
                              const core_frag_params_t *params,
                              uint64_t                 *inplace_size_p)
{
    const block_pool_t *blocks = ucx_blocks(channel->pool);
    block_stats_t       share;

    if (core_ucx_memory_type(blocks) == UCS_MEMORY_TYPE_HOST) {
        *inplace_size_p = 0;
        return FRAG_SIZE;
    }
    *inplace_size_p = UINT64_MAX;
    block_pool_stats(blocks, BLOCK_SHARE_SEND, &share);
    return base_max((uint64_t)FRAG_SIZE,
                    base_min(GPU_FRAG_SIZE,
                             share.total * block_pool_block_size(blocks) / 4));
}

/* The limit is the block size, because a fragment must fit in a receive
 * block. */
static uint64_t ucx_frag_max(const ucxpool_t *pool)
{
    return block_pool_block_size(ucx_blocks(pool));
}

static void fragment_sent(void *request, ucs_status_t status, void *arg)
{
    core_fragment_t   *fragment = arg;
    ucxpool_channel_t *channel  = fragment->request->channel;

    /* Ignore the status: on an error, the endpoint's error handler fails the
     * channel. */
    ucp_request_free(request);
    core_channel_get(channel);
    fragment->done(fragment);
    core_channel_end_operation(channel);
}

static ucxpool_status_t ucx_send(ucxpool_channel_t *channel,
                                 core_fragment_t   *fragment)
{
    ucxpool_t          *pool  = channel->pool;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .flags       = 0,
        .cb.send     = fragment_sent,
        .user_data   = fragment,
        .memory_type = core_ucx_memory_type(pool->memory.ucx_blocks),
    };
    ucs_status_ptr_t result;

    if (!core_channel_can_send(channel)) {
        return UCXPOOL_ERR_PEER_LOST;
    }
    if (fragment->data.length >= RNDV_MIN) {
        param.flags = UCP_AM_SEND_FLAG_RNDV;
    }
    if (!fragment->in_place || (fragment->buffer != NULL)) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param.memh = core_ucx_memh(pool->memory.ucx_blocks, &fragment->where);
    }
    fragment->data.head = (proto_head_t){
        .type    = PROTO_DATA,
        .version = PROTO_VERSION,
        .channel = channel->peer.channel,
        .key     = channel->peer.channel_key,
    };
    result = ucp_am_send_nbx(
        channel->conn.endpoint->ep, channel->peer.am_id + 1, &fragment->data,
        sizeof(fragment->data), fragment->bytes, fragment->data.length, &param);
    if (UCS_PTR_IS_ERR(result)) {
        core_channel_set_broken(channel);
        return ucx_status(UCS_PTR_STATUS(result));
    }
    fragment->ucx = result;
    if (result != NULL) {
        core_endpoint_start(channel->conn.endpoint);
    } else {
        /* The operation is already complete, so UCX does not call
         * fragment_sent(). */
        fragment->done(fragment);
    }
    return UCXPOOL_OK;
}

/* Called when the delivery of an active message has ended. */
static void delivered(ucxpool_request_t *request, const proto_data_t *data,
                      ucxpool_status_t status, void *arg)
{
    wire_recv_delivered(request, data, status, CORE_MODE_UCX_PACKED);
}

static ucs_status_t ucx_arrived(ucxpool_channel_t  *channel,
                                const proto_data_t *data, void *payload,
                                size_t length, const ucp_am_recv_param_t *param)
{
    ucxpool_request_t *request = wire_recv_find(channel, data);

    if ((request == NULL) || (request->recv->failing != UCXPOOL_OK)) {
        return UCS_OK; /* the receive has ended: UCX drops the data */
    }
    if (length != data->length) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer announced %llu bytes and sent %zu",
                          (unsigned long long)data->length, length);
        return UCS_OK;
    }
    if (!wire_recv_check(request, data, false)) {
        return UCS_OK;
    }
    if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
        /* The data has arrived, and is valid only during this call. */
        wire_deliver(request, &(wire_delivery_params_t){.data      = data,
                                                        .bytes     = payload,
                                                        .must_copy = true,
                                                        .done = delivered});
        return UCS_OK;
    }
    if (!wire_rndv_start(request, data, payload)) {
        wire_recv_stop(request, UCXPOOL_ERR_NO_MEMORY,
                       "the receiver has no memory");
        return UCS_OK;
    }
    return UCS_INPROGRESS;
}

const core_wire_t wire_ucx = {
    .id               = UCXPOOL_WIRE_UCX,
    .name             = "ucx",
    .packed           = CORE_MODE_UCX_PACKED,
    .in_place         = CORE_MODE_UCX_INPLACE,
    .needs_endpoint   = true,
    .reach            = CORE_REACH_UCX,
    .path             = ucx_path,
    .opened           = ucx_opened,
    .takes_any_memory = ucx_takes_any_memory,
    .blocks           = ucx_blocks,
    .frag_size        = ucx_frag_size,
    .frag_max         = ucx_frag_max,
    .send             = ucx_send,
    .arrived_am       = ucx_arrived,
};
