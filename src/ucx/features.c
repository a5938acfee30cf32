#include <config.h>

#include "ucx/features.h"

#include "base/error.h"
#include "ucx/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_SIZE 4096u

/* A worker of the context with an endpoint to itself, and some memory. */
typedef struct probe {
    ucp_context_h context;
    ucp_worker_h  worker;
    ucp_ep_h      ep;
    ucp_mem_h     memory;
    ucp_rkey_h    rkey;
    void         *address;
} probe_t;

static bool connect_to_itself(probe_t *probe)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t  *address;
    size_t          length;
    ucs_status_t    status;

    if (ucp_worker_get_address(probe->worker, &address, &length) != UCS_OK) {
        return false;
    }
    params.address = address;
    status         = ucp_ep_create(probe->worker, &params, &probe->ep);
    ucp_worker_release_address(probe->worker, address);
    return status == UCS_OK;
}

static bool map_memory(probe_t *probe)
{
    ucp_mem_map_params_t params = {
        .field_mask =
            UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
        .length = PROBE_SIZE,
        .flags  = UCP_MEM_MAP_ALLOCATE,
    };
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};

    if (ucp_mem_map(probe->context, &params, &probe->memory) != UCS_OK) {
        return false;
    }
    if (ucp_mem_query(probe->memory, &attr) != UCS_OK) {
        return false;
    }
    probe->address = attr.address;
    return true;
}

static bool unpack_key(probe_t *probe)
{
    void        *key;
    size_t       size;
    ucs_status_t status;

    if (ucp_rkey_pack(probe->context, probe->memory, &key, &size) != UCS_OK) {
        return false;
    }
    status = ucp_ep_rkey_unpack(probe->ep, key, &probe->rkey);
    ucp_rkey_buffer_release(key);
    return status == UCS_OK;
}

static void probe_cleanup(probe_t *probe)
{
    if (probe->rkey != NULL) {
        ucp_rkey_destroy(probe->rkey);
    }
    if (probe->memory != NULL) {
        (void)ucp_mem_unmap(probe->context, probe->memory);
    }
    if (ucx_worker_settle(probe->worker)) {
        ucp_worker_destroy(probe->worker);
    }
}

/* False: it cannot be asked. */
static bool probe_init(probe_t *probe, ucp_context_h context)
{
    ucp_worker_params_t params = {.field_mask = 0};

    *probe = (probe_t){.context = context};
    if (ucp_worker_create(context, &params, &probe->worker) != UCS_OK) {
        return false;
    }
    if (connect_to_itself(probe) && map_memory(probe) && unpack_key(probe)) {
        return true;
    }
    probe_cleanup(probe);
    return false;
}

static bool lacks_am(const probe_t *probe)
{
    ucp_worker_attr_t attr = {
        .field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER,
    };

    return (ucp_worker_query(probe->worker, &attr) == UCS_OK) &&
           (attr.max_am_header == 0);
}

/* Does UCX say so itself? */
static bool is_refused(const probe_t *probe)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    char                byte;
    ucs_status_ptr_t    request;

    request = ucp_get_nbx(probe->ep, &byte, 0, (uintptr_t)probe->address,
                          probe->rkey, &param);
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
    return UCS_PTR_RAW_STATUS(request) == UCS_ERR_INVALID_PARAM;
}

typedef struct shown {
    bool goes_over_self;
    bool puts;
} shown_t;

/* What UCX prints of the endpoint and the worker. */
static shown_t look_at_text(const probe_t *probe)
{
    shown_t shown = {false, false};
    char   *text  = NULL;
    size_t  size;
    FILE   *stream = open_memstream(&text, &size);

    if (stream == NULL) {
        return shown;
    }
    ucp_ep_print_info(probe->ep, stream);
    ucp_worker_print_info(probe->worker, stream);
    if (fclose(stream) == 0) {
        shown.goes_over_self = strstr(text, ":self/") != NULL;
        shown.puts           = (strstr(text, "put_short:") != NULL) ||
                     (strstr(text, "put[") != NULL);
    }
    free(text);
    return shown;
}

static ucs_status_t create_reference(ucp_context_h *context_p)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features   = UCP_FEATURE_AM | UCP_FEATURE_RMA,
    };
    ucp_config_t *config;
    ucs_status_t  status = ucp_config_read(NULL, NULL, &config);

    if (status != UCS_OK) {
        return status;
    }
    (void)ucp_config_modify(config, "TLS", "self");
    status = ucp_init(&params, config, context_p);
    ucp_config_release(config);
    return status;
}

/* Does this UCX show the feature of a context that has it? */
static bool is_shown(void)
{
    shown_t       shown = {false, false};
    ucp_context_h context;
    probe_t       probe;

    if (create_reference(&context) != UCS_OK) {
        return false;
    }
    if (probe_init(&probe, context)) {
        shown = look_at_text(&probe);
        probe_cleanup(&probe);
    }
    ucp_cleanup(context);
    return shown.goes_over_self && shown.puts;
}

static bool lacks_rma(const probe_t *probe)
{
    shown_t shown;

    if (is_refused(probe)) {
        return true;
    }
    shown = look_at_text(probe);
    return shown.goes_over_self && !shown.puts && is_shown();
}

ucxpool_status_t ucx_features_check(ucp_context_h context)
{
    ucxpool_status_t status = UCXPOOL_OK;
    probe_t          probe;

    if (!probe_init(&probe, context)) {
        return UCXPOOL_OK;
    }
    if (lacks_am(&probe)) {
        status = base_error(UCXPOOL_ERR_UNSUPPORTED,
                            "the borrowed UCX context was made without "
                            "UCP_FEATURE_AM");
    } else if (lacks_rma(&probe)) {
        status = base_error(UCXPOOL_ERR_UNSUPPORTED,
                            "the borrowed UCX context was made without "
                            "UCP_FEATURE_RMA");
    }
    probe_cleanup(&probe);
    return status;
}
