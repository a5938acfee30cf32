#include "xfer/recv.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "copy/list.h"
#include "core/control.h"
#include "core/memory.h"
#include "core/wire.h"
#include "ucx/status.h"
#include "xfer/delivery.h"
#include "xfer/loan.h"
#include "xfer/mailbox.h"
#include "xfer/request.h"
#include "xfer/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANCELED_BY_SENDER "the sender canceled the message"

static void rndv_forget(ucxpool_request_t *request);

/* Fragments of one message that may be on their way into memory: several times
 * what any window allows, because on the `ucx` wire the sender may hear of a
 * fragment's end before we do. */
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

/* Where fragments come in their order, they cover all but padding, of which
 * there are fewer bytes than an alignment. */
static bool is_next(const ucxpool_request_t *request, const proto_data_t *data)
{
    const struct xfer_recv *recv = request->recv;

    return (data->index == recv->num_begun) && (data->offset >= recv->next) &&
           (data->offset - recv->next < COPY_ALIGNMENT);
}

/* Indices are counted, not listed: there are no more fragments than the last
 * one's index says, and none behind it. */
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
 * On the `ucx` wire fragments may overtake each other, and going back in a
 * plan costs a walk from its start. The bytes that have arrived must be worth
 * these walks: an honest sender's fragments are.
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

/* All fragments have arrived: do they make the message? Fails the channel if
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

/* End the receive now, or when UCX has stopped writing to its target. The
 * sender keeps the bytes as they are until then. */
static void end(ucxpool_request_t *request, ucxpool_status_t status,
                const char *detail)
{
    put_number(request);
    xfer_delivery_forget(request);
    rndv_forget(request);
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

/* Keep what the request needs of the message: its runs. */
static ucxpool_status_t take_runs(ucxpool_request_t *request,
                                  ucxpool_message_t *message)
{
    size_t           num_runs = message->desc.num_runs;
    ucxpool_status_t status;

    status = core_request_reserve_runs(request, num_runs);
    if (status != UCXPOOL_OK) {
        return status;
    }
    /* An empty message has none, and no place for them either. */
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

/* They are in their place. */
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

/* Everything that came with the descriptor, or there is nothing to come. */
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

/* A fragment is in its place. */
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
                               "the peer did not send the rest of a receive in "
                               "place over the ucx wire that had been ended");
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

/* What the receiver is told: its caller has asked for nothing of the kind. */
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

/* The receive of a message that has met one; NULL: it has not, or has ended. A
 * sender that has not heard of it cannot name it. */
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
 * A CANCEL does not overtake a DESC whose RUNS are missing, which would wait
 * for them forever: UCX documents no order of active messages, but sends the
 * eager ones of an endpoint over one lane (UCX_MAX_EAGER_RAILS=1, the default),
 * and a lane keeps their order. For any other DESC the sender cancels again
 * when we accept.
 */
void xfer_recv_canceled(ucxpool_channel_t    *channel,
                        const proto_cancel_t *cancel, const char *reason)
{
    ucxpool_request_t *request;
    char               text[CORE_REASON_SIZE];

    if (cancel->message == 0) {
        return; /* the number of all that came with their descriptors */
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

/* --- rendezvous ----------------------------------------------------------- */

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
    base_range_t       blocked;    /* while it waits for a block */
} rndv_t;

static rndv_t *rndv_get(ucxpool_channel_t *channel)
{
    ucxpool_t *pool = channel->pool;
    rndv_t    *rndv;

    if (!base_list_is_empty(&pool->xfer->free_rndvs)) {
        rndv = base_list_head(&pool->xfer->free_rndvs, rndv_t, link);
        base_list_del(&rndv->link);
    } else {
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
    base_list_add_tail(&rndv->pool->xfer->free_rndvs, &rndv->link);
    core_channel_put(rndv->channel);
}

static void give_block_back(rndv_t *rndv)
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

/* The rendezvous is over. */
static void finish(rndv_t *rndv)
{
    ucxpool_request_t *request = rndv->request;

    base_list_del(&rndv->link);
    request->recv->rndvs--;
    give_block_back(rndv);
    rndv_put(rndv);
    xfer_recv_let_go(request);
}

/* What UCX had written to a block is in its place. */
static void delivered(ucxpool_request_t *request, const proto_data_t *data,
                      ucxpool_status_t status, void *arg)
{
    rndv_t *rndv = arg;

    base_list_del(&rndv->link); /* the block is safe to use again */
    xfer_recv_delivered(request, data, status, CORE_MODE_UCX_PACKED);
    finish(rndv);
}

/* From the block to the target, which ends the rendezvous. */
static void deliver(rndv_t *rndv)
{
    const void *bytes =
        block_pool_address(rndv->pool->memory.ucx_blocks, rndv->block);

    rndv->is_written = true;
    base_list_add_tail(&rndv->pool->xfer->rndvs, &rndv->link);
    xfer_deliver(rndv->request, &(xfer_delivery_params_t){.data  = &rndv->data,
                                                          .bytes = bytes,
                                                          .done  = delivered,
                                                          .arg   = rndv});
}

/* UCX has written the fragment, or has given up. */
static void written(rndv_t *rndv, ucs_status_t status)
{
    ucxpool_request_t *request = rndv->request;
    ucxpool_t         *pool    = rndv->pool;
    bool               wanted  = !rndv->in_quarantine &&
                  (request->recv->failing == UCXPOOL_OK) &&
                  !core_request_has_ended(request);
    proto_data_t data = rndv->data;

    base_list_del(&rndv->link);
    request->recv->in_place -= rndv->in_place;
    if (wanted && (status != UCS_OK)) {
        /* Without this fragment the message never gets whole. */
        core_channel_set_broken(rndv->channel);
    } else if (wanted && rndv->in_place) {
        pool->stats.copies_avoided_bytes += data.length;
        recv_count(request, &data, CORE_MODE_UCX_INPLACE);
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

    (void)length;
    ucp_request_free(ucx);
    core_channel_get(channel);
    written(rndv, status);
    core_channel_end_operation(channel);
}

/* Start UCX's write for a rndv whose place is settled. */
static void land(rndv_t *rndv, void *target, ucp_mem_h memh)
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
 * Can UCX write the fragment where it belongs? It can where the target is one
 * piece of memory that is registered, or that needs no registration, and where
 * no checksum is to be taken before the bytes are believed.
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
        (request->stream.has_gpu_segments &&
         (request->data.capacity / request->data.memory.num < length))) {
        return false; /* to look for one among many pieces costs a walk */
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

/* Settle where a fragment goes; false: it must wait for a receive block. */
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
    base_list_add_tail(&pool->xfer->rndvs, &rndv->link);
    land(rndv, target, memh);
    return true;
}

bool xfer_rndv_start(ucxpool_request_t *request, const proto_data_t *data,
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
        base_list_add_tail(&rndv->pool->xfer->rndv_waiters, &rndv->link);
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
    rndv_t      *rndv;
    base_list_t *next;

    base_list_for_each(rndv, &pool->xfer->rndv_waiters, rndv_t, link) {
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

unsigned xfer_rndv_progress(ucxpool_t *pool)
{
    unsigned count = 0;

    while (start_one(pool)) {
        count++;
    }
    return count;
}

/* The request has ended: its fragments are not wanted any more, and receive
 * blocks that UCX still writes to go to quarantine. */
static void rndv_forget(ucxpool_request_t *request)
{
    rndv_t *rndv;
    rndv_t *next;

    base_list_for_each_safe(rndv, next, &request->pool->xfer->rndv_waiters,
                            rndv_t, link) {
        if (rndv->request == request) {
            base_list_del(&rndv->link);
            ucp_am_data_release(request->pool->ucx.worker, rndv->descriptor);
            rndv_put(rndv);
        }
    }
    base_list_for_each(rndv, &request->pool->xfer->rndvs, rndv_t, link) {
        if ((rndv->request == request) && !rndv->in_place &&
            !rndv->in_quarantine) {
            rndv->in_quarantine = true;
            block_pool_quarantine(request->pool->memory.ucx_blocks,
                                  BLOCK_SHARE_RECV, rndv->block);
        }
    }
}

void xfer_rndv_destroy_all(ucxpool_t *pool)
{
    rndv_t *rndv;
    rndv_t *next;

    /* Those that UCX never came back from stay: it may write to them yet. */
    base_list_for_each_safe(rndv, next, &pool->xfer->rndvs, rndv_t, link) {
        if (rndv->is_written) {
            base_list_del(&rndv->link);
            free(rndv);
        }
    }
    while (!base_list_is_empty(&pool->xfer->free_rndvs)) {
        rndv = base_list_head(&pool->xfer->free_rndvs, rndv_t, link);
        base_list_del(&rndv->link);
        free(rndv);
    }
}
