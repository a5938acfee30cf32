/*
 * The `ucx` wire: a fragment is the data of an active message, from registered
 * memory by rendezvous with its memory handle.
 *
 * On the receiving side a landing is one fragment that UCX writes, into a
 * receive block, or straight into the target where that is one piece of memory
 * and needs no registration that it has not. A fragment for which no receive
 * block is free stays with UCX, as a descriptor, until one is; its sender's
 * block waits as long.
 */
#include "base/error.h"
#include "base/log.h"
#include "mem/ucx_status.h"
#include "xfer/recv.h"
#include "xfer/send.h"
#include "xfer/wire.h"

#include <stdlib.h>
#include <string.h>

/* Short enough to be still in the cache when it is sent, long enough for the
 * messages of a rendezvous not to count. */
#define FRAG_SIZE (1024u * 1024u)
/* Shorter fragments go by whatever protocol UCX thinks best. */
#define RNDV_MIN (32u * 1024u)

typedef struct xfer_landing {
    base_list_t        link; /* free, waiting for a block, or none */
    ucxpool_t         *pool;
    ucxpool_channel_t *channel; /* a reference */
    ucxpool_request_t *request;
    proto_data_t       data;
    void              *descriptor;
    uint32_t           block; /* valid unless in_place */
    bool               in_place;
    bool               in_quarantine;
} landing_t;

static uint64_t ucx_frag_size(const ucxpool_channel_t *channel)
{
    (void)channel;
    return FRAG_SIZE;
}

static void piece_sent(void *request, ucs_status_t status, void *arg)
{
    xfer_piece_t *piece = arg;
    ucxpool_t    *pool  = piece->request->pool;

    /* An error is the endpoint's, whose handler fails the channel. */
    (void)status;
    ucp_request_free(request);
    xfer_send_piece_done(piece);
    xfer_operation_end(pool);
}

static ucxpool_status_t ucx_send(ucxpool_channel_t *channel,
                                 xfer_piece_t *piece)
{
    ucxpool_t          *pool  = channel->pool;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .flags       = 0,
        .cb.send     = piece_sent,
        .user_data   = piece,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    ucs_status_ptr_t result;

    if ((channel->ep == NULL) || xfer_channel_ep_failed(channel)) {
        return UCXPOOL_ERR_PEER_LOST;
    }
    if (piece->data.length >= RNDV_MIN) {
        param.flags = UCP_AM_SEND_FLAG_RNDV;
    }
    if (!piece->in_place || (piece->buffer != NULL)) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param.memh = pool->regions.regions[piece->where.region].memh;
    }
    piece->data.head = (proto_head_t){
        .type    = PROTO_DATA,
        .version = PROTO_VERSION,
        .channel = channel->peer.channel,
        .key     = channel->peer.channel_key,
    };
    result = ucp_am_send_nbx(channel->ep, channel->peer.am_id + 1,
                             &piece->data, sizeof(piece->data), piece->bytes,
                             piece->data.length, &param);
    if (UCS_PTR_IS_ERR(result)) {
        xfer_channel_set_ep_failed(channel);
        return mem_ucx_status(UCS_PTR_STATUS(result));
    }
    piece->ucx = result;
    if (result != NULL) {
        xfer_operation_start(pool);
    } else {
        /* Done already: the request goes on by itself. */
        xfer_send_piece_done(piece);
    }
    return UCXPOOL_OK;
}

static landing_t *landing_get(ucxpool_channel_t *channel)
{
    ucxpool_t *pool = channel->pool;
    landing_t *landing;

    if (!base_list_is_empty(&pool->free_landings)) {
        landing = base_list_head(&pool->free_landings, landing_t, link);
        base_list_del(&landing->link);
    } else {
        landing = xfer_alloc(pool, sizeof(*landing));
        if (landing == NULL) {
            return NULL;
        }
        base_list_init(&landing->link);
    }
    landing->pool          = pool;
    landing->channel       = channel;
    landing->in_place      = false;
    landing->in_quarantine = false;
    xfer_channel_get(channel);
    return landing;
}

static void landing_put(landing_t *landing)
{
    landing->request->recv.pending--;
    base_list_add_tail(&landing->pool->free_landings, &landing->link);
    xfer_channel_put(landing->channel);
}

static void scatter(ucxpool_request_t *request, const proto_data_t *data,
                    const void *bytes)
{
    if (xfer_recv_scatter(request, data, bytes)) {
        xfer_recv_count(request, data, UCXPOOL_MODE_UCX_PACKED);
    } else {
        xfer_recv_stop_corrupt(request);
    }
}

/* UCX has written the fragment, or has given up. */
static void landed(landing_t *landing, ucs_status_t status)
{
    ucxpool_request_t *request = landing->request;
    ucxpool_t         *pool    = landing->pool;
    bool               wanted  = !landing->in_quarantine &&
                  (request->recv.failing == UCXPOOL_OK) &&
                  !xfer_request_has_ended(request);
    proto_data_t data = landing->data;

    base_list_del(&landing->link);
    request->recv.landings--;
    request->recv.in_place -= landing->in_place;
    if (wanted && (status != UCS_OK)) {
        /* Without this fragment the message never gets whole. */
        xfer_channel_set_ep_failed(landing->channel);
    } else if (wanted && landing->in_place) {
        pool->stats.copies_avoided_bytes += data.length;
        xfer_recv_count(request, &data, UCXPOOL_MODE_UCX_INPLACE);
    } else if (wanted) {
        scatter(request, &data,
                block_pool_address(pool->blocks, landing->block));
    }
    if (!landing->in_place) {
        if (landing->in_quarantine) {
            block_pool_release(pool->blocks, UCXPOOL_SHARE_RECV,
                               landing->block);
        } else {
            block_pool_put(pool->blocks, UCXPOOL_SHARE_RECV, landing->block);
        }
    }
    if ((request->recv.failing != UCXPOOL_OK) &&
        (request->recv.in_place == 0)) {
        xfer_request_end(request, request->recv.failing, request->detail);
    }
    landing_put(landing);
    xfer_request_reuse(request);
}

static void landing_done(void *ucx, ucs_status_t status, size_t length,
                         void *arg)
{
    landing_t *landing = arg;
    ucxpool_t *pool    = landing->pool;

    (void)length;
    ucp_request_free(ucx);
    landed(landing, status);
    xfer_operation_end(pool);
}

/* Start UCX's write for a landing whose place is settled. */
static void land(landing_t *landing, void *target, ucp_mem_h memh)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.recv_am  = landing_done,
        .user_data   = landing,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    ucs_status_ptr_t result;

    if (memh != NULL) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param.memh = memh;
    }
    result = ucp_am_recv_data_nbx(landing->pool->worker, landing->descriptor,
                                  target, landing->data.length, &param);
    landing->descriptor = NULL;
    if (UCS_PTR_IS_ERR(result)) {
        xfer_channel_set_ep_failed(landing->channel);
        landed(landing, UCS_PTR_STATUS(result));
    } else if (result == NULL) {
        landed(landing, UCS_OK);
    } else {
        xfer_operation_start(landing->pool);
    }
}

/*
 * Can UCX write the fragment where it belongs? It can where the target is one
 * piece of memory that is registered, or that needs no registration, and where
 * no checksum is to be taken before the bytes are believed.
 */
static bool find_in_place(landing_t *landing, void **target_p,
                          ucp_mem_h *memh_p)
{
    ucxpool_request_t   *request = landing->request;
    ucxpool_t           *pool    = landing->pool;
    uint64_t             length  = landing->data.length;
    block_comm_buffer_t *buffer;
    pack_extent_t        extent;
    mem_piece_t          where;

    if (landing->data.flags & PROTO_DATA_CHECKSUM) {
        return false;
    }
    request->recv.restarts += landing->data.offset < request->plan.at.offset;
    pack_plan_extent(&request->plan, landing->data.offset, length, &extent);
    if ((extent.address == NULL) || (extent.length != length)) {
        return false;
    }
    *target_p = extent.address;
    *memh_p   = NULL;
    if (block_comm_find(pool->comm, extent.address, length, &where, &buffer) &&
        (where.length == length)) {
        const mem_region_t *region = &pool->regions.regions[where.region];

        *target_p = (uint8_t *)region->address + where.offset;
        *memh_p   = region->memh;
        return true;
    }
    return !pool->needs_registration;
}

/* Settle where a fragment goes; false: it must wait for a receive block. */
static bool start_landing(landing_t *landing)
{
    ucxpool_request_t *request = landing->request;
    ucxpool_t         *pool    = landing->pool;
    void              *target;
    ucp_mem_h          memh;
    mem_piece_t        where;

    if (find_in_place(landing, &target, &memh)) {
        landing->in_place = true;
    } else if (block_pool_get(pool->blocks, UCXPOOL_SHARE_RECV,
                              &landing->block) == UCXPOOL_OK) {
        block_pool_locate(pool->blocks, landing->block, &where);
        target = block_pool_address(pool->blocks, landing->block);
        memh   = pool->regions.regions[where.region].memh;
    } else {
        return false;
    }
    request->recv.landings++;
    request->recv.in_place += landing->in_place;
    base_list_add_tail(&pool->landings, &landing->link);
    land(landing, target, memh);
    return true;
}

ucs_status_t xfer_wire_ucx_data(ucxpool_channel_t *channel,
                                const proto_data_t *data, void *payload,
                                size_t length,
                                const ucp_am_recv_param_t *param)
{
    ucxpool_request_t *request = xfer_recv_find(channel, data);
    landing_t         *landing;

    if ((request == NULL) || (request->recv.failing != UCXPOOL_OK)) {
        return UCS_OK; /* not wanted any more: UCX drops it */
    }
    if (length != data->length) {
        xfer_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer announced %llu bytes and sent %zu",
                          (unsigned long long)data->length, length);
        return UCS_OK;
    }
    if (!xfer_recv_check(request, data)) {
        return UCS_OK;
    }
    if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
        /* The bytes are there already. */
        scatter(request, data, payload);
        return UCS_OK;
    }
    landing = landing_get(channel);
    if (landing == NULL) {
        xfer_recv_stop(request, UCXPOOL_ERR_NO_MEMORY,
                       "the receiver has no memory");
        return UCS_OK;
    }
    request->recv.pending++;
    landing->request    = request;
    landing->data       = *data;
    landing->descriptor = payload;
    if (!start_landing(landing)) {
        base_list_add_tail(&channel->pool->landing_waiters, &landing->link);
    }
    return UCS_INPROGRESS;
}

unsigned xfer_wire_ucx_progress(ucxpool_t *pool)
{
    unsigned   count = 0;
    landing_t *landing;

    while (!base_list_is_empty(&pool->landing_waiters)) {
        landing = base_list_head(&pool->landing_waiters, landing_t, link);
        base_list_del(&landing->link);
        if (!start_landing(landing)) {
            base_list_add_head(&pool->landing_waiters, &landing->link);
            break;
        }
        count++;
    }
    return count;
}

void xfer_wire_ucx_forget(ucxpool_request_t *request)
{
    landing_t *landing;
    landing_t *next;

    base_list_for_each_safe(landing, next, &request->pool->landing_waiters,
                            landing_t, link) {
        if (landing->request == request) {
            base_list_del(&landing->link);
            ucp_am_data_release(request->pool->worker, landing->descriptor);
            landing_put(landing);
        }
    }
    base_list_for_each(landing, &request->pool->landings, landing_t, link) {
        if ((landing->request == request) && !landing->in_place &&
            !landing->in_quarantine) {
            landing->in_quarantine = true;
            block_pool_quarantine(request->pool->blocks, UCXPOOL_SHARE_RECV,
                                  landing->block);
        }
    }
}

void xfer_wire_ucx_destroy_all(ucxpool_t *pool)
{
    landing_t *landing;

    while (!base_list_is_empty(&pool->free_landings)) {
        landing = base_list_head(&pool->free_landings, landing_t, link);
        base_list_del(&landing->link);
        free(landing);
    }
}

const xfer_wire_t xfer_wire_ucx = {
    .id         = UCXPOOL_WIRE_UCX,
    .name       = "ucx",
    .packed     = UCXPOOL_MODE_UCX_PACKED,
    .in_place   = UCXPOOL_MODE_UCX_INPLACE,
    .any_memory = true,
    .frag_size  = ucx_frag_size,
    .send       = ucx_send,
};
