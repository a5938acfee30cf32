#include "perf/lane.h"
#include "common/clock.h"
#include "perf/error.h"

#include <stdlib.h>
#include <string.h>

/* A polite close may take so long. */
#define CLOSE_NS UINT64_C(2000000000)

void lane_fail(end_t *end, ucs_status_t status, const char *what)
{
    char name[SIDE_NAME_SIZE];

    if (!end->failed) {
        end->failed = true;
        perf_error("%s: %s: %s", side_name(end->side, name), what,
                   ucs_status_string(status));
    }
}

void lane_send_done(void *request, ucs_status_t status, void *user_data)
{
    end_slot_t *slot = user_data;

    slot->pending--;
    ucp_request_free(request);
    if (status != UCS_OK) {
        lane_fail(slot->end, status, "a send ended early");
    }
}

int lane_post(lane_t *lane, end_slot_t *slot, ucs_status_ptr_t post)
{
    if (UCS_PTR_IS_ERR(post)) {
        lane_fail(slot->end, UCS_PTR_STATUS(post), "UCX took no message");
        return -1;
    }
    if (post != NULL) {
        slot->pending++;
    }
    return 0;
}

void lane_enter(lane_t *lane, end_t *end)
{
    if (end->is_sender) {
        lane->sender = end;
    } else {
        lane->receiver = end;
    }
}

void lane_leave(lane_t *lane, const end_t *end)
{
    if (lane->sender == end) {
        lane->sender = NULL;
    }
    if (lane->receiver == end) {
        lane->receiver = NULL;
    }
}

void lane_progress(lane_t *lane, end_t *end)
{
    lane_enter(lane, end);
    ucp_worker_progress(lane->worker);
    if (lane->failed) {
        end->failed = true;
    }
}

/* UCX does not align headers. */
static ucs_status_t data_arrived(void *arg, const void *header,
                                 size_t header_length, void *data,
                                 size_t                     length,
                                 const ucp_am_recv_param_t *param)
{
    lane_t       *lane = arg;
    lane_header_t at;

    if ((lane->receiver == NULL) || (header_length != sizeof(at))) {
        return UCS_OK;
    }
    memcpy(&at, header, sizeof(at));
    return lane->handlers->data(lane, &at, data, length, param);
}

static ucs_status_t reply_arrived(void *arg, const void *header,
                                  size_t header_length, void *data,
                                  size_t                     length,
                                  const ucp_am_recv_param_t *param)
{
    lane_t       *lane = arg;
    lane_header_t at   = {UINT32_MAX, 0};

    if (lane->sender == NULL) {
        return UCS_OK;
    }
    if (header_length == sizeof(at)) {
        memcpy(&at, header, sizeof(at));
    }
    return lane->handlers->reply(lane, at.slot, data, length, param);
}

static void ep_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    lane_t *lane = arg;

    if (!lane->closing && !lane->failed) {
        lane->failed = true;
        perf_error("raw UCX lost the other process: %s",
                   ucs_status_string(status));
    }
}

static int create_context(lane_t *lane)
{
    ucp_config_t *config;
    ucp_params_t  params = {
         .field_mask = UCP_PARAM_FIELD_FEATURES,
         /* RMA: without it UCX 1.15 and later reach no remote memory by its
          * handle. */
         .features = UCP_FEATURE_AM | UCP_FEATURE_TAG | UCP_FEATURE_RMA,
    };
    ucs_status_t status;

    status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) {
        return perf_error("UCX cannot read its settings (UCX_*): %s",
                          ucs_status_string(status));
    }
    status = ucp_init(&params, config, &lane->context);
    ucp_config_release(config);
    if (status != UCS_OK) {
        return perf_error("UCX does not start: %s; look at UCX_TLS and "
                          "UCX_NET_DEVICES",
                          ucs_status_string(status));
    }
    return 0;
}

int lane_is_for_gpu(bool *is_for_gpu_p)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    lane_t             lane;
    ucs_status_t       status;

    if (create_context(&lane) != 0) {
        return -1;
    }
    status = ucp_context_query(lane.context, &attr);
    ucp_cleanup(lane.context);
    if (status != UCS_OK) {
        return perf_error("UCX does not tell what memory it knows: %s",
                          ucs_status_string(status));
    }
    *is_for_gpu_p = (attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
    return 0;
}

static int set_handler(lane_t *lane, unsigned id, ucp_am_recv_callback_t cb)
{
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                      UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id  = id,
        .cb  = cb,
        .arg = lane,
    };
    ucs_status_t status = ucp_worker_set_am_recv_handler(lane->worker, &param);

    if (status != UCS_OK) {
        return perf_error("UCX takes no handler: %s",
                          ucs_status_string(status));
    }
    return 0;
}

static int create_worker(lane_t *lane)
{
    ucp_worker_params_t params = {
        .field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    ucs_status_t status;

    status = ucp_worker_create(lane->context, &params, &lane->worker);
    if (status != UCS_OK) {
        return perf_error("UCX makes no worker: %s", ucs_status_string(status));
    }
    if ((set_handler(lane, LANE_AM_DATA, data_arrived) != 0) ||
        (set_handler(lane, LANE_AM_REPLY, reply_arrived) != 0)) {
        ucp_worker_destroy(lane->worker);
        return -1;
    }
    return 0;
}

static int create_ep(lane_t *lane, const ucp_address_t *address)
{
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address         = address,
        .err_mode        = UCP_ERR_HANDLING_MODE_NONE,
        .err_handler.cb  = ep_failed,
        .err_handler.arg = lane,
    };
    ucs_status_t status;

    if (lane->mode == MODE_PEER) {
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER;
    }
    status = ucp_ep_create(lane->worker, &params, &lane->ep);
    if (status != UCS_OK) {
        return perf_error("%s: no way to the other process: %s; look at "
                          "UCX_TLS",
                          side_mode_title(lane->mode),
                          ucs_status_string(status));
    }
    return 0;
}

static int connect_lane(lane_t *lane, control_t *control)
{
    ucp_address_t *mine;
    void          *theirs;
    size_t         length;
    ucs_status_t   status;
    int            result;

    status = ucp_worker_get_address(lane->worker, &mine, &length);
    if (status != UCS_OK) {
        return perf_error("UCX tells no address: %s",
                          ucs_status_string(status));
    }
    result = control_exchange(control, mine, length, &theirs, &length);
    ucp_worker_release_address(lane->worker, mine);
    if (result != 0) {
        return -1;
    }
    result = create_ep(lane, theirs);
    free(theirs);
    return result;
}

int lane_create(uint32_t mode, bool is_on_gpu, const lane_handlers_t *handlers,
                control_t *control, lane_t **lane_p)
{
    lane_t *lane = calloc(1, sizeof(*lane));

    if (lane == NULL) {
        return perf_error("out of memory for a lane");
    }
    lane->handlers    = handlers;
    lane->mode        = mode;
    lane->memory_type = is_on_gpu ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
    if (create_context(lane) != 0) {
        goto err_free_lane;
    }
    if (create_worker(lane) != 0) {
        goto err_cleanup_context;
    }
    if (connect_lane(lane, control) != 0) {
        goto err_destroy_worker;
    }
    *lane_p = lane;
    return 0;

err_destroy_worker:
    ucp_worker_destroy(lane->worker);
err_cleanup_context:
    ucp_cleanup(lane->context);
err_free_lane:
    free(lane);
    return -1;
}

/* Without failure handling UCX closes only by flushing. */
static void close_ep(lane_t *lane)
{
    ucp_request_param_t param = {0};
    ucs_status_ptr_t    request;
    uint64_t            deadline = clock_now() + CLOSE_NS;

    lane->closing = true;
    request       = ucp_ep_close_nbx(lane->ep, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        return;
    }
    while ((ucp_request_check_status(request) == UCS_INPROGRESS) &&
           (clock_now() < deadline)) {
        ucp_worker_progress(lane->worker);
    }
    ucp_request_free(request);
}

void lane_destroy(lane_t *lane)
{
    if (lane == NULL) {
        return;
    }
    close_ep(lane);
    ucp_worker_destroy(lane->worker);
    ucp_cleanup(lane->context);
    free(lane);
}

int lane_memory_create(lane_t *lane, size_t length, ucp_mem_h *memh_p,
                       void **address_p)
{
    ucp_mem_map_params_t params = {
        .field_mask =
            UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
            UCP_MEM_MAP_PARAM_FIELD_FLAGS | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address     = *address_p,
        .length      = length,
        .flags       = *address_p == NULL ? UCP_MEM_MAP_ALLOCATE : 0,
        .memory_type = lane->memory_type,
    };
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    ucs_status_t   status;

    status = ucp_mem_map(lane->context, &params, memh_p);
    if (status != UCS_OK) {
        return perf_error("UCX registers no %zu bytes: %s; lower -s or -O, or "
                          "raise `ulimit -l`",
                          length, ucs_status_string(status));
    }
    status = ucp_mem_query(*memh_p, &attr);
    if (status != UCS_OK) {
        ucp_mem_unmap(lane->context, *memh_p);
        return perf_error("UCX does not tell where its memory lies: %s",
                          ucs_status_string(status));
    }
    *address_p = attr.address;
    return 0;
}

void lane_memory_destroy(lane_t *lane, ucp_mem_h memh)
{
    ucp_mem_unmap(lane->context, memh);
}
