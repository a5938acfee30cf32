#include "xfer/rndv.h"

#include "core/ucx_memory.h"
#include "ucx/status.h"
#include "xfer/delivery.h"
#include "xfer/recv.h"

#include <stdlib.h>

typedef struct xfer_rndv {
    base_list_t        link; /* free, waiting for a block, or none */
    ucxpool_t         *pool;
    ucxpool_channel_t *channel; /* a reference */
    ucxpool_request_t *request;
    proto_data_t       data;
    void              *descriptor;
    uint32_t           block; /* valid unless in_place */
    bool               in_place;
    bool               in_quarantine;
    bool               is_written; /* UCX is through with it */
} landing_t;

static landing_t *landing_get(ucxpool_channel_t *channel)
{
    ucxpool_t *pool = channel->pool;
    landing_t *landing;

    if (!base_list_is_empty(&pool->free.rndvs)) {
        landing = base_list_head(&pool->free.rndvs, landing_t, link);
        base_list_del(&landing->link);
    } else {
        landing = core_alloc(pool, sizeof(*landing));
        if (landing == NULL) {
            return NULL;
        }
        base_list_init(&landing->link);
    }
    landing->pool          = pool;
    landing->channel       = channel;
    landing->in_place      = false;
    landing->in_quarantine = false;
    landing->is_written    = false;
    core_channel_get(channel);
    return landing;
}

static void landing_put(landing_t *landing)
{
    landing->request->recv.pending--;
    base_list_add_tail(&landing->pool->free.rndvs, &landing->link);
    core_channel_put(landing->channel);
}

static void give_block_back(landing_t *landing)
{
    block_pool_t *blocks = landing->pool->memory.ucx_blocks;

    if (landing->in_place) {
        return;
    }
    if (landing->in_quarantine) {
        block_pool_release(blocks, BLOCK_SHARE_RECV, landing->block);
    } else {
        block_pool_put(blocks, BLOCK_SHARE_RECV, landing->block);
    }
}

/* The landing is over. */
static void finish(landing_t *landing)
{
    ucxpool_request_t *request = landing->request;

    base_list_del(&landing->link);
    request->recv.landings--;
    give_block_back(landing);
    landing_put(landing);
    xfer_recv_let_go(request);
}

/* What UCX had written to a block is in its place. */
static void delivered(ucxpool_request_t *request, const proto_data_t *data,
                      ucxpool_status_t status, void *arg)
{
    landing_t *landing = arg;

    base_list_del(&landing->link); /* the block is safe to use again */
    xfer_recv_delivered(request, data, status, CORE_MODE_UCX_PACKED);
    finish(landing);
}

/* From the block to the target, which ends the landing. */
static void deliver(landing_t *landing)
{
    const void *bytes =
        block_pool_address(landing->pool->memory.ucx_blocks, landing->block);

    landing->is_written = true;
    base_list_add_tail(&landing->pool->requests.rndvs, &landing->link);
    xfer_deliver(landing->request,
                 &(xfer_delivery_params_t){.data  = &landing->data,
                                           .bytes = bytes,
                                           .done  = delivered,
                                           .arg   = landing});
}

/* UCX has written the fragment, or has given up. */
static void landed(landing_t *landing, ucs_status_t status)
{
    ucxpool_request_t *request = landing->request;
    ucxpool_t         *pool    = landing->pool;
    bool               wanted  = !landing->in_quarantine &&
                  (request->recv.failing == UCXPOOL_OK) &&
                  !core_request_has_ended(request);
    proto_data_t data = landing->data;

    base_list_del(&landing->link);
    request->recv.in_place -= landing->in_place;
    if (wanted && (status != UCS_OK)) {
        /* Without this fragment the message never gets whole. */
        core_channel_set_broken(landing->channel);
    } else if (wanted && landing->in_place) {
        pool->stats.copies_avoided_bytes += data.length;
        xfer_recv_count(request, &data, CORE_MODE_UCX_INPLACE);
    } else if (wanted) {
        deliver(landing);
        return;
    }
    finish(landing);
}

static void landing_done(void *ucx, ucs_status_t status, size_t length,
                         void *arg)
{
    landing_t         *landing = arg;
    ucxpool_channel_t *channel = landing->channel;

    (void)length;
    ucp_request_free(ucx);
    core_channel_get(channel);
    landed(landing, status);
    core_channel_end_operation(channel);
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
        .memory_type = core_ucx_memory_type(landing->pool->memory.ucx_blocks),
    };
    ucs_status_ptr_t result;

    if (memh != NULL) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param.memh = memh;
    }
    result =
        ucp_am_recv_data_nbx(landing->pool->ucx.worker, landing->descriptor,
                             target, landing->data.length, &param);
    landing->descriptor = NULL;
    if (UCS_PTR_IS_ERR(result)) {
        core_channel_set_broken(landing->channel);
        landed(landing, UCS_PTR_STATUS(result));
    } else if (result == NULL) {
        landed(landing, UCS_OK);
    } else {
        core_endpoint_start(landing->channel->conn.endpoint);
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
    copy_extent_t        extent;
    mem_piece_t          where;

    if ((landing->data.flags & PROTO_DATA_CHECKSUM) ||
        (copy_engine_is_launched(pool->engine) &&
         (request->data.capacity / request->data.memory.num < length))) {
        return false; /* to look for one among many pieces costs a walk */
    }
    request->recv.restarts +=
        landing->data.offset < request->data.plan.at.offset;
    copy_plan_extent(&request->data.plan, landing->data.offset, length,
                     &extent);
    if ((extent.address == NULL) || (extent.length != length)) {
        return false;
    }
    *target_p = extent.address;
    *memh_p   = NULL;
    if ((pool->memory.ucx_blocks == pool->memory.blocks) &&
        block_comm_find(pool->memory.comm, extent.address, length, &where,
                        &buffer) &&
        (where.length == length)) {
        const mem_region_t *region =
            &pool->memory.regions.regions[where.region];

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
    block_pool_t      *blocks  = pool->memory.ucx_blocks;
    void              *target;
    ucp_mem_h          memh;
    mem_piece_t        where;

    if (request->stream.mark != NULL) {
        return false; /* the caller's stream may still use the target */
    }
    if (find_in_place(landing, &target, &memh)) {
        landing->in_place = true;
    } else if (block_pool_get(blocks, BLOCK_SHARE_RECV, &landing->block) ==
               UCXPOOL_OK) {
        block_pool_locate(blocks, landing->block, &where);
        target = block_pool_address(blocks, landing->block);
        memh   = core_ucx_memh(blocks, &where);
    } else {
        return false;
    }
    request->recv.landings++;
    request->recv.in_place += landing->in_place;
    base_list_add_tail(&pool->requests.rndvs, &landing->link);
    land(landing, target, memh);
    return true;
}

bool xfer_rndv_start(ucxpool_request_t *request, const proto_data_t *data,
                     void *descriptor)
{
    landing_t *landing = landing_get(request->channel);

    if (landing == NULL) {
        return false;
    }
    request->recv.pending++;
    landing->request    = request;
    landing->data       = *data;
    landing->descriptor = descriptor;
    if (!start_landing(landing)) {
        base_list_add_tail(&landing->pool->requests.rndv_waiters,
                           &landing->link);
    }
    return true;
}

/*
 * The first that can go on, if it does. Those whose callers' streams are not
 * there yet are passed over; behind one that finds no block nobody is asked,
 * because each look at another place of the message may cost a walk. Its start
 * may end requests, and the list is another one then.
 */
static bool start_one(ucxpool_t *pool)
{
    landing_t   *landing;
    base_list_t *next;

    base_list_for_each(landing, &pool->requests.rndv_waiters, landing_t, link) {
        if (landing->request->stream.mark != NULL) {
            continue;
        }
        next = landing->link.next;
        base_list_del(&landing->link);
        if (start_landing(landing)) {
            return true;
        }
        base_list_add_tail(next, &landing->link);
        break;
    }
    return false;
}

unsigned xfer_rndv_progress(ucxpool_t *pool)
{
    unsigned count = 0;

    while (start_one(pool)) {
        count++;
    }
    return count;
}

void xfer_rndv_forget(ucxpool_request_t *request)
{
    landing_t *landing;
    landing_t *next;

    base_list_for_each_safe(
        landing, next, &request->pool->requests.rndv_waiters, landing_t, link) {
        if (landing->request == request) {
            base_list_del(&landing->link);
            ucp_am_data_release(request->pool->ucx.worker, landing->descriptor);
            landing_put(landing);
        }
    }
    base_list_for_each(landing, &request->pool->requests.rndvs, landing_t,
                       link) {
        if ((landing->request == request) && !landing->in_place &&
            !landing->in_quarantine) {
            landing->in_quarantine = true;
            block_pool_quarantine(request->pool->memory.ucx_blocks,
                                  BLOCK_SHARE_RECV, landing->block);
        }
    }
}

void xfer_rndv_destroy_all(ucxpool_t *pool)
{
    landing_t *landing;
    landing_t *next;

    /* Those that UCX never came back from stay: it may write to them yet. */
    base_list_for_each_safe(landing, next, &pool->requests.rndvs, landing_t,
                            link) {
        if (landing->is_written) {
            base_list_del(&landing->link);
            free(landing);
        }
    }
    while (!base_list_is_empty(&pool->free.rndvs)) {
        landing = base_list_head(&pool->free.rndvs, landing_t, link);
        base_list_del(&landing->link);
        free(landing);
    }
}
