#include "ucx/context.h"

#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "ucx/child.h"
#include "ucx/features.h"
#include "ucx/peer_timeout.h"
#include "ucx/signals.h"
#include "ucx/status.h"
#include "ucx/tune.h"
#include "ucx/worker.h"

static ucxpool_status_t create_context(ucx_context_t              *ucx,
                                       const ucx_context_params_t *wish)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME |
                      UCP_PARAM_FIELD_MT_WORKERS_SHARED,
        .features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP,
        .mt_workers_shared = 1,
        .name              = "ucxpool",
    };
    ucp_config_t *config;
    ucs_status_t  status;

    status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) {
        return base_error(ucx_status(status),
                          "UCX could not read its settings: %s (look at the "
                          "UCX_* variables of the environment)",
                          ucs_status_string(status));
    }
    ucx_tune(config, wish->for_gpu);
    ucx_peer_timeout_tune(config, wish->peer_timeout_ns, wish->has_rdma);
    status = ucp_init(&params, config, &ucx->context);
    ucp_config_release(config);
    if (status != UCS_OK) {
        return base_error(ucx_status(status),
                          "UCX could not be started: %s (look at UCX_TLS and "
                          "UCX_NET_DEVICES)",
                          ucs_status_string(status));
    }
    ucx->own_context = true;
    return UCXPOOL_OK;
}

static ucxpool_status_t create_worker(ucx_context_t *ucx)
{
    ucp_worker_params_t params = {
        .field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED, /* our lock sees to it */
    };
    ucs_status_t status =
        ucp_worker_create(ucx->context, &params, &ucx->worker);

    if (status != UCS_OK) {
        return base_error(ucx_status(status),
                          "UCX could not create a worker: %s",
                          ucs_status_string(status));
    }
    ucx->own_worker = true;
    return UCXPOOL_OK;
}

ucxpool_status_t ucx_context_init(ucx_context_t              *ucx,
                                  const ucx_context_params_t *params)
{
    ucx_child_before_t before;
    ucxpool_status_t   status;

    *ucx = (ucx_context_t){
        .context = params->context,
        .worker  = params->worker,
    };
    base_list_init(&ucx->claim.link);
    ucx_signals_give_back();
    ucx_child_look_before(&before);
    if (params->context == NULL) {
        status = base_limits_check_ucx();
        if (status != UCXPOOL_OK) {
            return status;
        }
        status = create_context(ucx, params);
    } else {
        status = ucx_features_check(params->context);
    }
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (params->worker == NULL) {
        status = create_worker(ucx);
        if (status != UCXPOOL_OK) {
            goto err_cleanup_context;
        }
    }
    ucx_child_look_after(&before);
    return UCXPOOL_OK;

err_cleanup_context:
    if (ucx->own_context) {
        ucp_cleanup(ucx->context);
    }
    return status;
}

void ucx_context_settle_worker(ucx_context_t *ucx)
{
    if (ucx->own_worker) {
        ucx->worker_stays = !ucx_worker_settle(ucx->worker);
    }
}

void ucx_context_destroy_worker(ucx_context_t *ucx, const char *name)
{
    if (ucx->worker_stays) {
        base_warn("%s: a peer has begun to connect and does not go on; this "
                  "UCX cannot take its worker away then, and it stays until "
                  "the process ends (UCX 1.14 can)",
                  name);
        return;
    }
    if (ucx->own_worker) {
        ucp_worker_destroy(ucx->worker);
    }
}

void ucx_context_cleanup(ucx_context_t *ucx)
{
    if (ucx->own_context && !ucx->worker_stays) {
        ucp_cleanup(ucx->context);
    }
}
