#include "wire/wire.h"

#include "core/memory.h"

#include <stdlib.h>

typedef struct rndv {
    base_list_t        link; /* in writing, waiting, free_rndvs, or no list */
    ucxpool_t         *pool;
    ucxpool_channel_t *channel; /* holds a reference */
    ucxpool_request_t *request;
    proto_data_t       data;
    void              *descriptor;
    uint32_t           block; /* valid unless in_place */
    bool               in_place;
    bool               in_quarantine;
    bool               is_written; /* UCX no longer uses the block */
    base_range_t       blocked;    /* profiler range of the wait for a block */
} rndv_t;

static rndv_t *rndv_get(ucxpool_channel_t *channel)
{
    ucxpool_t *pool = channel->pool;
    rndv_t    *rndv = base_list_pop(&pool->wire->free_rndvs, rndv_t, link);

    if (rndv == NULL) {
        rndv = core_alloc(pool, sizeof(*rndv));
        if (rndv == NULL) {
            return NULL;
        }
        base_list_init(&rndv->link);
    }
    rndv->pool            = pool;
    rndv->channel         = channel;
    rndv->in_place        = false;
    rndv->in_quarantine   = false;
    rndv->is_written      = false;
    rndv->blocked.is_open = false;
    core_channel_get(channel);
    return rndv;
}

static void rndv_put(rndv_t *rndv)
{
    base_range_end(&rndv->blocked);
    rndv->request->recv->pending--;
    base_list_add_tail(&rndv->pool->wire->free_rndvs, &rndv->link);
    core_channel_put(rndv->channel);
}

static void release_block(rndv_t *rndv)
{
    block_pool_t *blocks = rndv->pool->memory.ucx_blocks;

    if (rndv->in_place) {
        return;
    }
    if (rndv->in_quarantine) {
        block_pool_release(blocks, BLOCK_SHARE_RECV, rndv->block);
    } else {
        block_pool_put(blocks, BLOCK_SHARE_RECV, rndv->block);
    }
}

/* End the rendezvous. */
static void finish(rndv_t *rndv)
{
    ucxpool_request_t *request = rndv->request;

    base_list_del(&rndv->link);
    request->recv->rndvs--;
    release_block(rndv);
    rndv_put(rndv);
    wire_recv_release(request);
}

/* Called when the delivery of a fragment from its block has ended. */
static void delivered(ucxpool_request_t *request, const proto_data_t *data,
                      ucxpool_status_t status, void *arg)
{
    rndv_t *rndv = arg;

    base_list_del(&rndv->link); /* the block is safe to use again */
    wire_recv_delivered(request, data, status, CORE_MODE_UCX_PACKED);
    finish(rndv);
}

/* Copy a fragment from its block to the target, then end the rendezvous. */
static void deliver(rndv_t *rndv)
{
    const void *bytes =
        block_pool_address(rndv->pool->memory.ucx_blocks, rndv->block);

    rndv->is_written = true;
    base_list_add_tail(&rndv->pool->wire->writing, &rndv->link);
    wire_deliver(rndv->request, &(wire_delivery_params_t){.data  = &rndv->data,
                                                          .bytes = bytes,
                                                          .done  = delivered,
                                                          .arg   = rndv});
}

/* Called when UCX has written the fragment, or failed. */
static void written(rndv_t *rndv, ucs_status_t status)
{
    ucxpool_request_t *request = rndv->request;
    bool               wanted  = !rndv->in_quarantine &&
                  (request->recv->failing == UCXPOOL_OK) &&
                  !core_request_has_ended(request);
    proto_data_t data = rndv->data;

    base_list_del(&rndv->link);
    request->recv->in_place -= rndv->in_place;
    if (wanted && (status != UCS_OK)) {
        /* Without this fragment the message can never complete. */
        core_channel_set_broken(rndv->channel);
    } else if (wanted && rndv->in_place) {
        rndv->channel->counts.copies_avoided_bytes += data.length;
        wire_recv_delivered(request, &data, UCXPOOL_OK, CORE_MODE_UCX_INPLACE);
    } else if (wanted) {
        deliver(rndv);
        return;
    }
    finish(rndv);
}

static void rndv_done(void *ucx, ucs_status_t status, size_t length, void *arg)
{
    rndv_t            *rndv    = arg;
    ucxpool_channel_t *channel = rndv->channel;

    ucp_request_free(ucx);
    core_channel_get(channel);
    written(rndv, status);
    core_channel_end_operation(channel);
}

/* Let UCX write the fragment to its target. memh: the target's memory handle;
 * NULL: none. */
static void receive_data(rndv_t *rndv, void *target, ucp_mem_h memh)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.recv_am  = rndv_done,
        .user_data   = rndv,
        .memory_type = core_ucx_memory_type(rndv->pool->memory.ucx_blocks),
    };
    ucs_status_ptr_t result;

    if (memh != NULL) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param.memh = memh;
    }
    result = ucp_am_recv_data_nbx(rndv->pool->ucx.worker, rndv->descriptor,
                                  target, rndv->data.length, &param);
    rndv->descriptor = NULL;
    if (UCS_PTR_IS_ERR(result)) {
        core_channel_set_broken(rndv->channel);
        written(rndv, UCS_PTR_STATUS(result));
    } else if (result == NULL) {
        written(rndv, UCS_OK);
    } else {
        core_endpoint_start(rndv->channel->conn.endpoint);
    }
}

/*
 * Find the target of a fragment that UCX can write in place. The target must be
 * contiguous, and registered unless no registration is needed. Returns false
 * for any other target. Also returns false if the fragment has a checksum,
 * which must be verified before the data is in the caller's memory.
 */
static bool find_in_place(rndv_t *rndv, void **target_p, ucp_mem_h *memh_p)
{
    ucxpool_request_t   *request = rndv->request;
    ucxpool_t           *pool    = rndv->pool;
    uint64_t             length  = rndv->data.length;
    block_comm_buffer_t *buffer;
    copy_extent_t        extent;
    mem_piece_t          where;

    if ((rndv->data.flags & PROTO_DATA_CHECKSUM) ||
        request->data.memory.is_unseen ||
        (request->has_gpu_segments &&
         (request->data.capacity / request->data.memory.num < length))) {
        return false; /* to find the target among many pieces, the plan would be
                         walked */
    }
    request->recv->restarts += rndv->data.offset < request->plan->at.offset;
    copy_plan_extent(request->plan, rndv->data.offset, length, &extent);
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

/* Choose the target of a fragment and start the fragment. Returns false if it
 * must wait for a receive block or for the caller's stream. */
static bool start_rndv(rndv_t *rndv)
{
    ucxpool_request_t *request = rndv->request;
    ucxpool_t         *pool    = rndv->pool;
    block_pool_t      *blocks  = pool->memory.ucx_blocks;
    void              *target;
    ucp_mem_h          memh;
    mem_piece_t        where;

    if (request->stream.marker != NULL) {
        return false; /* the caller's stream may still use the target */
    }
    if (find_in_place(rndv, &target, &memh)) {
        rndv->in_place = true;
    } else if (block_pool_get(blocks, BLOCK_SHARE_RECV, &rndv->block) ==
               UCXPOOL_OK) {
        block_pool_locate(blocks, rndv->block, &where);
        target = block_pool_address(blocks, rndv->block);
        memh   = core_ucx_memh(blocks, &where);
    } else {
        base_range_begin(&rndv->blocked, BASE_RANGE_BLOCK, rndv->data.length);
        return false;
    }
    base_range_end(&rndv->blocked);
    request->recv->rndvs++;
    request->recv->in_place += rndv->in_place;
    base_list_add_tail(&pool->wire->writing, &rndv->link);
    receive_data(rndv, target, memh);
    return true;
}

bool wire_rndv_start(ucxpool_request_t *request, const proto_data_t *data,
                     void *descriptor)
{
    rndv_t *rndv = rndv_get(request->channel);

    if (rndv == NULL) {
        return false;
    }
    request->recv->pending++;
    rndv->request    = request;
    rndv->data       = *data;
    rndv->descriptor = descriptor;
    if (!start_rndv(rndv)) {
        base_list_add_tail(&rndv->pool->wire->waiting, &rndv->link);
    }
    return true;
}

/*
 * Start the first waiting fragment that can start. Skips fragments that wait
 * for a caller's stream. Stops at the first fragment for which no block is
 * free, because each further attempt may walk a plan. Starts only one fragment:
 * if it completes immediately, requests may end and their fragments leave the
 * list, so the loop cannot continue.
 */
static bool start_one(ucxpool_t *pool)
{
    rndv_t      *rndv;
    base_list_t *next;

    base_list_for_each(rndv, &pool->wire->waiting, rndv_t, link) {
        if (rndv->request->stream.marker != NULL) {
            continue;
        }
        next = rndv->link.next;
        base_list_del(&rndv->link);
        if (start_rndv(rndv)) {
            return true;
        }
        base_list_add_tail(next, &rndv->link);
        break;
    }
    return false;
}

unsigned wire_rndv_progress(ucxpool_t *pool)
{
    unsigned count = 0;

    while (start_one(pool)) {
        count++;
    }
    return count;
}

void wire_rndv_forget(ucxpool_request_t *request)
{
    rndv_t *rndv;
    rndv_t *next;

    base_list_for_each_safe(rndv, next, &request->pool->wire->waiting, rndv_t,
                            link) {
        if (rndv->request == request) {
            base_list_del(&rndv->link);
            ucp_am_data_release(request->pool->ucx.worker, rndv->descriptor);
            rndv_put(rndv);
        }
    }
    base_list_for_each(rndv, &request->pool->wire->writing, rndv_t, link) {
        if ((rndv->request == request) && !rndv->in_place &&
            !rndv->in_quarantine) {
            rndv->in_quarantine = true;
            block_pool_quarantine(request->pool->memory.ucx_blocks,
                                  BLOCK_SHARE_RECV, rndv->block);
        }
    }
}

void wire_rndv_destroy_all(ucxpool_t *pool)
{
    rndv_t *rndv;
    rndv_t *next;

    /* Leak the fragments that UCX never completed, because UCX may still use
     * them. */
    base_list_for_each_safe(rndv, next, &pool->wire->writing, rndv_t, link) {
        if (rndv->is_written) {
            base_list_del(&rndv->link);
            free(rndv);
        }
    }
    while ((rndv = base_list_pop(&pool->wire->free_rndvs, rndv_t, link)) !=
           NULL) {
        free(rndv);
    }
}
