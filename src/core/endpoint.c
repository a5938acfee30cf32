#include "core/endpoint.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "ucx/context.h"

#include <stdlib.h>

static core_endpoint_t *endpoint_alloc(ucxpool_t *pool)
{
    core_endpoint_t *endpoint = calloc(1, sizeof(*endpoint));

    if (endpoint == NULL) {
        base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for an endpoint");
        return NULL;
    }
    endpoint->pool     = pool;
    endpoint->deadline = BASE_CLOCK_FOREVER;
    base_list_init(&endpoint->link);
    base_list_init(&endpoint->idle_link);
    return endpoint;
}

/* Called when UCX reports that the endpoint has failed. Later, progress fails
 * the endpoint's channel, or closes the idle endpoint. */
static void ep_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    core_endpoint_t *endpoint = arg;

    base_debug("UCX reports a failed endpoint: %s", ucs_status_string(status));
    __atomic_store_n(&endpoint->failure, status, __ATOMIC_RELEASE);
    __atomic_store_n(&endpoint->pool->channels.endpoint_ended, true,
                     __ATOMIC_RELEASE);
}

static ucxpool_status_t endpoint_error(ucs_status_t status)
{
    /* UCX 1.22 also returns these errors if the peer has ended. */
    bool lacks_transport = (status == UCS_ERR_UNREACHABLE) ||
                           (status == UCS_ERR_UNSUPPORTED) ||
                           (status == UCS_ERR_NO_DEVICE);

    return base_error(
        ucx_status(status), "UCX cannot connect to the peer: %s%s",
        ucs_status_string(status),
        lacks_transport ? "; if the peer still runs, set UCX_TLS and "
                          "UCX_NET_DEVICES so that both sides have a transport "
                          "with error handling, such as tcp"
                        : "");
}

ucxpool_status_t core_endpoint_check(const ucxpool_t *pool)
{
    if (pool->ucx.is_lost) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the pool has no ucx wire, because UCX could not be "
                          "restarted on other devices; connect again, or set "
                          "UCX_NET_DEVICES");
    }
    return UCXPOOL_OK;
}

ucxpool_status_t core_endpoint_create(ucxpool_t *pool, const void *worker,
                                      core_endpoint_t **endpoint_p)
{
    core_endpoint_t *endpoint;
    ucp_ep_params_t  params = {
         .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                       UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                       UCP_EP_PARAM_FIELD_ERR_HANDLER,
         .address        = worker,
         .err_mode       = UCP_ERR_HANDLING_MODE_PEER,
         .err_handler.cb = ep_failed,
    };
    ucs_status_t     status;
    ucxpool_status_t spare = base_limits_check_endpoint();

    if (spare != UCXPOOL_OK) {
        return spare;
    }
    endpoint = endpoint_alloc(pool);
    if (endpoint == NULL) {
        return UCXPOOL_ERR_NO_MEMORY;
    }
    ucx_child_warn();
    params.err_handler.arg = endpoint;
    endpoint->is_own       = true;
    status = ucp_ep_create(pool->ucx.worker, &params, &endpoint->ep);
    if (status != UCS_OK) {
        free(endpoint);
        return endpoint_error(status);
    }
    base_list_add_tail(&pool->channels.endpoints, &endpoint->link);
    *endpoint_p = endpoint;
    return UCXPOOL_OK;
}

core_endpoint_t *core_endpoint_borrow(ucxpool_t *pool, ucp_ep_h ep)
{
    core_endpoint_t *endpoint = endpoint_alloc(pool);

    if (endpoint != NULL) {
        endpoint->ep = ep;
        base_list_add_tail(&pool->channels.endpoints, &endpoint->link);
    }
    return endpoint;
}

/* Does nothing for an endpoint that is reused from an earlier channel. */
void core_endpoint_close_on_exec(core_endpoint_t *endpoint)
{
    if (!endpoint->is_cloexec) {
        endpoint->is_cloexec = true;
        ucx_child_connected(&endpoint->pool->wakeup.child);
    }
}

ucs_status_t core_endpoint_failure(const core_endpoint_t *endpoint)
{
    return __atomic_load_n(&endpoint->failure, __ATOMIC_ACQUIRE);
}

bool core_endpoint_has_failed(const core_endpoint_t *endpoint)
{
    return core_endpoint_failure(endpoint) != UCS_OK;
}

void core_endpoint_start(core_endpoint_t *endpoint)
{
    endpoint->num_operations++;
    endpoint->pool->num_operations++;
}

void core_endpoint_end(core_endpoint_t *endpoint)
{
    ucxpool_t *pool = endpoint->pool;

    endpoint->num_operations--;
    core_pool_end_operation(pool);
}

/* --- closing -------------------------------------------------------------- */

void core_endpoint_close(core_endpoint_t *endpoint, uint64_t deadline)
{
    endpoint->deadline = base_min(endpoint->deadline, deadline);
    if (endpoint->step == CORE_ENDPOINT_OPEN) {
        endpoint->step = CORE_ENDPOINT_DRAINING;
    }
}

static void flushed(void *request, ucs_status_t status, void *arg)
{
    core_endpoint_t *endpoint = arg;

    ucp_request_free(request);
    endpoint->flush = NULL;
    core_endpoint_end(endpoint);
}

/* Flush the endpoint. */
static void flush(core_endpoint_t *endpoint)
{
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send   = flushed,
        .user_data = endpoint,
    };
    ucs_status_ptr_t result = ucp_ep_flush_nbx(endpoint->ep, &param);

    if (UCS_PTR_IS_PTR(result)) {
        endpoint->flush = result;
        core_endpoint_start(endpoint);
    }
}

static void closed(void *request, ucs_status_t status, void *arg)
{
    core_endpoint_t *endpoint = arg;

    ucp_request_free(request);
    endpoint->step = CORE_ENDPOINT_CLOSED;
    endpoint->ep   = NULL;
    core_endpoint_end(endpoint);
}

/*
 * Close the endpoint by force. UCX then aborts all operations of the endpoint,
 * so that the state of each block is known. Without force, UCX would keep the
 * endpoint as long as the worker, because the peer may still send.
 */
static void close_ep(core_endpoint_t *endpoint)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .flags     = UCP_EP_CLOSE_FLAG_FORCE,
        .cb.send   = closed,
        .user_data = endpoint,
    };
    ucs_status_ptr_t result = NULL;

    endpoint->step = CORE_ENDPOINT_CLOSING;
    if (endpoint->is_own) {
        result = ucp_ep_close_nbx(endpoint->ep, &param);
    }
    if (UCS_PTR_IS_PTR(result)) {
        core_endpoint_start(endpoint);
    } else {
        endpoint->step = CORE_ENDPOINT_CLOSED;
        endpoint->ep   = NULL;
    }
}

unsigned core_endpoint_progress(core_endpoint_t *endpoint)
{
    core_endpoint_step_t step = endpoint->step;
    bool                 must;

    if ((step == CORE_ENDPOINT_OPEN) || (step >= CORE_ENDPOINT_CLOSING)) {
        return 0;
    }
    must = !endpoint->is_own || core_endpoint_has_failed(endpoint) ||
           (base_clock_now() >= endpoint->deadline);
    if (!must && (step == CORE_ENDPOINT_DRAINING) &&
        (endpoint->num_operations == 0)) {
        endpoint->step = CORE_ENDPOINT_FLUSHING;
        flush(endpoint);
    } else if (must || ((step == CORE_ENDPOINT_FLUSHING) &&
                        (endpoint->flush == NULL))) {
        close_ep(endpoint);
    }
    return (endpoint->step != step) ? 1 : 0;
}

bool core_endpoint_is_over(const core_endpoint_t *endpoint)
{
    return (endpoint->step == CORE_ENDPOINT_CLOSED) &&
           (endpoint->num_operations == 0);
}

void core_endpoint_destroy(core_endpoint_t *endpoint)
{
    base_list_del(&endpoint->link);
    free(endpoint);
}
