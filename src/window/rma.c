/*
 * Reads and writes through UCX's get and put, on the `ucx` wire. These can
 * access only windows that the owner has registered with UCX.
 *
 * Over transports without get and put (TCP, ud), UCX emulates them with
 * messages that the owner's worker answers. If the importer dies before the
 * answer, UCX aborts the owner's process (1.22: "Fatal: unexpected error" in
 * ucp_put_handler()). So get and put are not used over these transports.
 *
 * A get or put that UCX has begun ends only when UCX completes it, or when the
 * endpoint is closed by force. So a canceled operation ends only when UCX no
 * longer uses the local memory, like an in-place send or receive
 * (docs/internals/wires.md, "The `ucx` wire"). A write ends after a flush has
 * completed: its data is then in the window. So when the importer sends CLOSE,
 * none of its operations is in flight.
 */
#include "ucx/context.h"
#include "window/service.h"
#include "window/way.h"

#include "base/error.h"
#include "core/memory.h"

#include <stdio.h>
#include <string.h>

/* The minimum average length of an operation's pieces. For shorter pieces,
 * messages are as fast: on Soft-RoCE (rc), both reach 0.07 to 0.09 GB/s with
 * pieces of 4 and 16 KiB. With 32 KiB, get and put reach 0.10 GB/s and messages
 * 0.08. */
#define LONG_MIN ((uint64_t)32 << 10)

/* DEPTH is the maximum number of outstanding gets and puts of a channel: enough
 * to keep the link busy. PIECE_MAX and GPU_PIECE_MAX are the maximum length of
 * one get or put: short enough that a canceled operation ends soon. */
#define DEPTH         8u
#define PIECE_MAX     ((uint64_t)512 << 10)
#define GPU_PIECE_MAX ((uint64_t)16 << 20)

static_assert(UCX_RMA_KEY_MAX == PROTO_KEY_MAX,
              "a registered key must fit in a message");

/* --- owner ---------------------------------------------------------------- */

static ucxpool_status_t check_budget(const ucxpool_window_t *window)
{
    const ucxpool_t *pool   = window->pool;
    uint64_t         budget = pool->config.window_budget;
    uint64_t         used   = pool->stats.window_registered_bytes;

    if ((pool->config.window_budget == BASE_SIZE_INF) ||
        ((used <= budget) && (window->length <= budget - used))) {
        return UCXPOOL_OK;
    }
    return base_error(UCXPOOL_ERR_LIMIT,
                      "the owner's UCXPOOL_WINDOW_BUDGET=%llu (%llu used) has "
                      "no room for %llu bytes: raise it there",
                      (unsigned long long)budget, (unsigned long long)used,
                      (unsigned long long)window->length);
}

/* Find out whether the window is in GPU memory. GPU memory must be one
 * allocation, because UCX can access only the first of several allocations
 * through one registration. */
static ucxpool_status_t find_kind(const ucxpool_window_t *window,
                                  bool                   *is_on_gpu_p)
{
    const ucxpool_segment_t segment = {window->address, window->length};
    const copy_memory_t     memory  = copy_memory_of_segments(&segment, 1);
    unsigned                types;
    ucxpool_status_t        status;

    status = copy_engine_memtypes(window->pool->engine, &memory, &types);
    if (status != UCXPOOL_OK) {
        return status;
    }
    *is_on_gpu_p = (types & COPY_MEMTYPE_DEVICE) != 0;
    if ((types & COPY_MEMTYPE_MANAGED) ||
        (*is_on_gpu_p && (window->cuda.share.way != IPC_CUDA_IPC))) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the window is GPU memory, but not part of a single "
                          "cuMemAlloc() allocation");
    }
    return UCXPOOL_OK;
}

static const ucx_domains_t *domains_of(ucxpool_t *pool, bool is_on_gpu)
{
    const mem_regions_t *regions = core_memory_registered(pool);

    return (mem_regions_are_on_gpu(regions) == is_on_gpu) ? regions->domains
                                                          : NULL;
}

static ucxpool_status_t register_window(ucxpool_window_t *window)
{
    ucxpool_t       *pool = window->pool;
    bool             is_on_gpu;
    ucxpool_status_t status = check_budget(window);

    if (status == UCXPOOL_OK) {
        status = find_kind(window, &is_on_gpu);
    }
    if (status == UCXPOOL_OK) {
        status = ucx_rma_register(
            pool->ucx.context, window->address, window->length, is_on_gpu,
            domains_of(pool, is_on_gpu), &window->registered);
    }
    if (status != UCXPOOL_OK) {
        pool->stats.window_registrations_refused++;
        return status;
    }
    pool->stats.window_registrations++;
    pool->stats.window_registered_bytes += window->length;
    window->not_registered[0] = '\0';
    return UCXPOOL_OK;
}

static void rma_unshare(ucxpool_window_t *window)
{
    if (window->registered.memh != NULL) {
        ucx_rma_deregister(window->pool->ucx.context, &window->registered);
        window->pool->stats.window_registered_bytes -= window->length;
    }
}

/* Returns why the peer may not get the key; NULL: it may. A peer with the key
 * can access the window until its endpoint is closed, and the library never
 * closes an endpoint of the application. */
static const char *why_not_offered(const ucxpool_channel_t *channel)
{
    if (channel->pool->config.window_way == BASE_WINDOW_WAY_MESSAGES) {
        return "the owner has UCXPOOL_WINDOW_WAY=messages";
    }
    return channel->conn.endpoint->is_own
               ? NULL
               : "the owner's channel uses an endpoint that the application "
                 "supplied";
}

/* Register the window if it is not registered yet, and give the key to the
 * grant's peer. If this fails, set window->not_registered. */
static void give_key(window_grant_t *grant)
{
    ucxpool_window_t        *window  = grant->window;
    const ucxpool_channel_t *channel = grant->channel;
    const char              *why;

    if (channel->conn.endpoint == NULL) {
        return;
    }
    why = why_not_offered(channel);
    if (why != NULL) {
        snprintf(window->not_registered, sizeof(window->not_registered), "%s",
                 why);
    } else if ((window->registered.memh == NULL) &&
               (register_window(window) != UCXPOOL_OK)) {
        snprintf(window->not_registered, sizeof(window->not_registered), "%s",
                 ucxpool_error_detail());
    } else {
        grant->has_key = true;
    }
}

static void rma_offer(window_grant_t *grant, window_offer_t *offer)
{
    const ucxpool_window_t *window = grant->window;

    if (grant->wants_key) {
        give_key(grant);
    }
    if (grant->has_key) {
        *offer = (window_offer_t){PROTO_OPENED_KEY, window->registered.key,
                                  window->registered.key_size};
    } else {
        *offer = (window_offer_t){
            0, window->not_registered,
            base_min(strlen(window->not_registered), (size_t)PROTO_TEXT_MAX)};
    }
}

/* Returns true if the peer may still use the key. The peer may use it until it
 * sends BYE or the endpoint is closed. */
static bool rma_may_touch(const window_grant_t *grant)
{
    const ucxpool_channel_t *channel  = grant->channel;
    const core_endpoint_t   *endpoint = channel->conn.endpoint;

    return grant->has_key && !channel->closing.bye_received &&
           (endpoint != NULL) && (endpoint->step != CORE_ENDPOINT_CLOSED);
}

/* --- importer: the key ---------------------------------------------------- */

static bool is_native(ucxpool_remote_window_t *remote, bool for_gpu)
{
    ucxpool_channel_t *channel = remote->channel;

    if (channel->pool->windows->may_emulate ||
        ucx_rma_is_native(channel->conn.endpoint->ep, for_gpu)) {
        return true;
    }
    window_remote_set_reason(
        remote,
        "UCX's transports to this peer do not support get and put natively "
        "(%.96s)",
        channel->wire_reason);
    return false;
}

static uint32_t rma_ask(ucxpool_remote_window_t *remote)
{
    const ucxpool_channel_t *channel  = remote->channel;
    const core_endpoint_t   *endpoint = channel->conn.endpoint;
    bool for_gpu = channel->pool->windows->reach == CORE_REACH_GPU;

    if (endpoint == NULL) {
        return 0;
    }
    if (!endpoint->is_own) {
        window_remote_set_reason(remote,
                                 "the application supplied the endpoint");
        return 0;
    }
    return is_native(remote, for_gpu) ? PROTO_OPEN_KEY : 0;
}

/* Returns true if the status means that the endpoint has failed, not only one
 * operation. */
static bool is_of_endpoint(ucs_status_t status)
{
    ucxpool_status_t ours = ucx_status(status);

    return (ours == UCXPOOL_ERR_PEER_LOST) || (ours == UCXPOOL_ERR_CANCELED);
}

/* Returns true if the test of the key succeeded. Sets the reason. */
static bool is_good(ucxpool_remote_window_t *remote, ucs_status_t status)
{
    if (status != UCS_OK) {
        window_remote_set_reason(remote, "UCX cannot read from the window: %s",
                                 ucs_status_string(status));
        return false;
    }
    window_remote_set_reason(remote, "%.96s; with UCX's get and put",
                             remote->channel->wire_reason);
    return true;
}

static void take_result(ucxpool_remote_window_t *remote, ucs_status_t status)
{
    if (remote->status != UCXPOOL_INPROGRESS) {
        return; /* the channel has ended, or the owner revoked the window */
    }
    if (is_of_endpoint(status)) {
        core_channel_set_broken(remote->channel); /* this fails the remote
                                                     window */
        return;
    }
    remote->is_trying = false;
    if (is_good(remote, status)) {
        remote->way       = &window_rma;
        remote->write_way = &window_rma;
    }
}

static void probe_done(void *request, ucs_status_t status, void *arg)
{
    ucxpool_remote_window_t *remote  = arg;
    ucxpool_channel_t       *channel = remote->channel;

    ucp_request_free(request);
    take_result(remote, status);
    remote->tried(remote);
    core_channel_end_operation(channel);
}

/* Test the key by getting one byte, because UCX may not reject a bad key before
 * it is used. Returns true if the get completed at once. Otherwise the key is
 * rejected, or is_trying is set. */
static bool try_key(ucxpool_remote_window_t *remote)
{
    ucxpool_channel_t        *channel = remote->channel;
    const ucp_request_param_t param   = {
          .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                          UCP_OP_ATTR_FIELD_USER_DATA |
                          UCP_OP_ATTR_FIELD_MEMORY_TYPE,
          .cb.send     = probe_done,
          .user_data   = remote,
          .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    ucs_status_ptr_t result =
        ucp_get_nbx(channel->conn.endpoint->ep, &remote->probe, 1,
                    remote->address, remote->key, &param);

    if (UCS_PTR_IS_PTR(result)) {
        remote->is_trying = true;
        remote->refs++;
        core_channel_get(channel);
        core_endpoint_start(channel->conn.endpoint);
        return false;
    }
    if (is_of_endpoint(UCS_PTR_STATUS(result))) {
        remote->is_trying = true; /* until the channel has failed */
        core_channel_set_broken(channel);
        return false;
    }
    return is_good(remote, UCS_PTR_STATUS(result));
}

/* Unpack the key and test it. Returns true if the key can be used now. A key
 * for GPU memory is not tested: `probe` is host memory, and UCX uses a
 * different method to copy GPU memory to host memory. */
static bool take_key(ucxpool_remote_window_t *remote, const void *key,
                     size_t key_size)
{
    ucxpool_channel_t *channel = remote->channel;

    if (!ucx_rma_key_check(key, key_size, &remote->is_on_gpu)) {
        remote->is_trying = true; /* until the channel has failed */
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer sent %zu bytes that are not a UCX key",
                          key_size);
        return false;
    }
    if (!core_channel_can_send(channel) || !channel->conn.endpoint->is_own) {
        window_remote_set_reason(
            remote, "the endpoint cannot be used for UCX's get and put");
        return false;
    }
    if (!is_native(remote, remote->is_on_gpu)) {
        return false;
    }
    if (ucx_rma_key_unpack(channel->conn.endpoint->ep, key, key_size,
                           &remote->key) != UCXPOOL_OK) {
        window_remote_set_reason(remote, "%s", ucxpool_error_detail());
        return false;
    }
    return remote->is_on_gpu ? is_good(remote, UCS_OK) : try_key(remote);
}

static unsigned rma_open(ucxpool_remote_window_t *remote,
                         const window_answer_t   *answer)
{
    if (!(answer->opened.flags & PROTO_OPENED_KEY)) {
        if (answer->reason[0] != '\0') {
            window_remote_set_reason(remote, "%s", answer->reason);
        }
        return 0;
    }
    return take_key(remote, answer->data, answer->data_size)
               ? UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE
               : 0;
}

static void rma_close(ucxpool_remote_window_t *remote)
{
    if (remote->key != NULL) {
        ucp_rkey_destroy(remote->key);
        remote->key = NULL;
    }
}

/* --- importer: which operations ------------------------------------------- */

/* Returns an upper bound on the number of pieces. The operation must not be
 * empty. */
static uint64_t count_pieces(const window_operation_t *operation)
{
    const copy_memory_t *memory = &operation->request->data.memory;

    if ((operation->places.places == NULL) && copy_memory_is_pieces(memory) &&
        (memory->length == operation->places.length)) {
        return operation->places.count;
    }
    return (uint64_t)operation->places.count + memory->num - 1;
}

/* Returns true if all local memory is of the kind that post() passes to UCX:
 * GPU memory for a window in GPU memory, otherwise host memory. */
static bool is_of_kind(const window_operation_t *operation)
{
    const copy_engine_t *engine = operation->remote->channel->pool->engine;
    unsigned             types;

    if (copy_engine_memtypes(engine, &operation->request->data.memory,
                             &types) != UCXPOOL_OK) {
        return false;
    }
    return operation->remote->is_on_gpu
               ? types == COPY_MEMTYPE_DEVICE
               : (types & (COPY_MEMTYPE_DEVICE | COPY_MEMTYPE_MANAGED)) == 0;
}

/* Returns true if the pieces are long enough and the local memory is of the
 * right kind. */
static bool rma_fits(const window_operation_t *operation)
{
    const ucxpool_t *pool = operation->remote->channel->pool;

    return ((pool->config.window_way == BASE_WINDOW_WAY_DIRECT) ||
            (operation->size / count_pieces(operation) >= LONG_MIN)) &&
           is_of_kind(operation);
}

/* --- importer: operations ------------------------------------------------- */

/* Handle a UCX error, which may concern the endpoint or only this operation. */
static void ucx_failed(window_operation_t *operation, ucs_status_t status)
{
    char detail[CORE_REASON_SIZE];

    if (is_of_endpoint(status)) {
        core_channel_set_broken(operation->remote->channel);
        window_operation_fail(operation, UCXPOOL_ERR_PEER_LOST,
                              "the connection to the peer failed");
        return;
    }
    snprintf(detail, sizeof(detail), "UCX's %s failed: %s",
             operation->is_write ? "put" : "get", ucs_status_string(status));
    window_operation_fail(operation, ucx_status(status), detail);
}

static void done(void *request, ucs_status_t status, void *arg);

/* Handle the result of a UCX call. Returns true if done() will be called. */
static bool has_begun(window_operation_t *operation, ucs_status_ptr_t result)
{
    ucxpool_channel_t *channel = operation->remote->channel;

    if (UCS_PTR_IS_PTR(result)) {
        operation->num_rma++;
        channel->windows->num_rma++;
        core_channel_get(channel);
        core_endpoint_start(channel->conn.endpoint);
        return true;
    }
    if (UCS_PTR_IS_ERR(result)) {
        ucx_failed(operation, UCS_PTR_STATUS(result));
    }
    return false;
}

static bool flush(window_operation_t *operation)
{
    const ucxpool_channel_t  *channel = operation->remote->channel;
    const ucp_request_param_t param   = {
          .op_attr_mask =
              UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
          .cb.send   = done,
          .user_data = operation,
    };

    operation->is_flushed = true;
    return core_channel_can_send(channel) &&
           has_begun(operation,
                     ucp_ep_flush_nbx(channel->conn.endpoint->ep, &param));
}

/* Called when all pieces of the operation have been posted, or the operation
 * has failed. Does nothing while posted pieces or a flush are outstanding.
 * Otherwise starts the flush of a write. Ends the operation if no flush is
 * needed, or if the flush has completed or failed. May free the operation. */
static void end_if_done(window_operation_t *operation)
{
    ucxpool_request_t *request = operation->request;

    if ((operation->num_rma != 0) ||
        (operation->is_write && !operation->is_flushed && flush(operation))) {
        return;
    }
    core_request_finish(request, operation->end, core_request_detail(request));
}

static ucs_status_ptr_t post(window_operation_t   *operation,
                             const window_piece_t *piece)
{
    const ucxpool_remote_window_t *remote  = operation->remote;
    ucp_ep_h                       ep      = remote->channel->conn.endpoint->ep;
    uint64_t                       address = remote->address + piece->offset;
    const ucp_request_param_t      param   = {
               .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                               UCP_OP_ATTR_FIELD_USER_DATA |
                               UCP_OP_ATTR_FIELD_MEMORY_TYPE,
               .cb.send   = done,
               .user_data = operation,
               .memory_type =
            remote->is_on_gpu ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST,
    };

    return operation->is_write ? ucp_put_nbx(ep, piece->ours, piece->length,
                                             address, remote->key, &param)
                               : ucp_get_nbx(ep, piece->ours, piece->length,
                                             address, remote->key, &param);
}

static void post_next(window_operation_t *operation)
{
    uint64_t most = operation->remote->is_on_gpu ? GPU_PIECE_MAX : PIECE_MAX;
    window_piece_t piece = {.length = 0};

    while ((piece.length == 0) &&
           window_operation_next(operation, most, &piece)) {
    }
    if (piece.length == 0) {
        return;
    }
    if (piece.ours == NULL) {
        window_operation_fail(
            operation, UCXPOOL_ERR_INVALID_PARAM,
            "a piece has a length but no address; set its address");
        return;
    }
    (void)has_begun(operation, post(operation, &piece));
}

/* Post pieces of the operations in turn, one piece of each operation. */
static void post_some(ucxpool_channel_t *channel)
{
    base_list_t        *moving = &channel->windows->moving;
    window_operation_t *operation;

    while (!base_list_is_empty(moving) && (channel->windows->num_rma < DEPTH) &&
           core_channel_can_send(channel)) {
        operation = base_list_head(moving, window_operation_t, link);
        post_next(operation);
        base_list_del(&operation->link);
        if (window_operation_has_more(operation)) {
            base_list_add_tail(moving, &operation->link);
        } else {
            base_list_add_tail(&channel->windows->moved, &operation->link);
            end_if_done(operation);
        }
    }
}

/* UCX callback: a get, a put, or a flush has completed. */
static void done(void *request, ucs_status_t status, void *arg)
{
    window_operation_t *operation = arg;
    ucxpool_channel_t  *channel   = operation->remote->channel;

    ucp_request_free(request);
    operation->num_rma--;
    channel->windows->num_rma--;
    if (status != UCS_OK) {
        ucx_failed(operation, status);
    }
    if (!window_operation_has_more(operation)) {
        base_list_move(&channel->windows->moved, &operation->link);
        end_if_done(operation);
    }
    post_some(channel);
    core_channel_end_operation(channel);
}

static void stop(ucxpool_request_t *request, ucxpool_status_t status,
                 const char *detail)
{
    window_operation_t *operation = request->notify.hook_arg;
    ucxpool_channel_t  *channel   = operation->remote->channel;

    if (operation->end != UCXPOOL_OK) {
        core_request_end_drain(request, operation->end,
                               "UCX did not complete a read or write that "
                               "has failed");
        return;
    }
    window_operation_fail(operation, status, detail);
    base_list_move(&channel->windows->moved, &operation->link);
    core_request_drain(request);
    end_if_done(operation);
}

/* Start the operation. Called when the earlier work on the caller's stream has
 * ended. */
static void resume(ucxpool_request_t *request)
{
    window_operation_t *operation = request->notify.hook_arg;
    ucxpool_channel_t  *channel   = operation->remote->channel;

    if (operation->end == UCXPOOL_OK) {
        base_list_move(&channel->windows->moving, &operation->link);
        post_some(channel);
    }
}

static const core_request_kind_t rma_kind = {.resume = resume, .stop = stop};

static void rma_start(window_operation_t *operation)
{
    ucxpool_channel_t *channel = operation->remote->channel;
    ucxpool_request_t *request = operation->request;

    request->kind = &rma_kind;
    if (request->stream.marker != NULL) {
        base_list_add_tail(&channel->windows->moved, &operation->link);
        return;
    }
    base_list_add_tail(&channel->windows->moving, &operation->link);
    post_some(channel);
}

const window_way_t window_rma = {
    .id        = UCXPOOL_WAY_RMA,
    .reach     = CORE_REACH_UCX,
    .unshare   = rma_unshare,
    .offer     = rma_offer,
    .may_touch = rma_may_touch,
    .ask       = rma_ask,
    .open      = rma_open,
    .close     = rma_close,
    .fits      = rma_fits,
    .start     = rma_start,
};
