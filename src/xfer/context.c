#include "xfer/context.h"

#include "base/error.h"
#include "base/log.h"
#include "mem/rdma.h"
#include "mem/ucx_status.h"
#include "xfer/features.h"
#include "xfer/pool.h"
#include "xfer/signals.h"
#include "xfer/spare.h"
#include "xfer/tune.h"
#include "xfer/tune_peer.h"
#include "xfer/worker.h"

/* What is in flight of one message, some MiB at most, has come through in that
 * time, unless the peer does not progress. */
#define LINGER_NS UINT64_C(250000000)

static ucxpool_status_t create_context(ucxpool_t *pool, bool for_gpu)
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
        return base_error(mem_ucx_status(status),
                          "UCX could not read its settings: %s (look at the "
                          "UCX_* variables of the environment)",
                          ucs_status_string(status));
    }
    xfer_tune(config, for_gpu);
    xfer_tune_peer(config, pool->config.peer_timeout_ns,
                   pool->needs_registration);
    status = ucp_init(&params, config, &pool->context);
    ucp_config_release(config);
    if (status != UCS_OK) {
        return base_error(mem_ucx_status(status),
                          "UCX could not be started: %s (look at UCX_TLS and "
                          "UCX_NET_DEVICES)",
                          ucs_status_string(status));
    }
    pool->own_context = true;
    return UCXPOOL_OK;
}

static ucxpool_status_t create_worker(ucxpool_t *pool)
{
    ucp_worker_params_t params = {
        .field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED, /* our lock sees to it */
    };
    ucs_status_t status = ucp_worker_create(pool->context, &params,
                                            &pool->worker);

    if (status != UCS_OK) {
        return base_error(mem_ucx_status(status),
                          "UCX could not create a worker: %s",
                          ucs_status_string(status));
    }
    pool->own_worker = true;
    return UCXPOOL_OK;
}

ucxpool_status_t xfer_context_init(ucxpool_t *pool, bool for_gpu,
                                   ucp_context_h context, ucp_worker_h worker)
{
    xfer_child_before_t before;
    ucxpool_status_t    status;

    pool->context            = context;
    pool->worker             = worker;
    pool->needs_registration = mem_has_rdma_device();
    pool->linger_ns          = LINGER_NS;
    xfer_signals_give_back();
    xfer_child_look_before(&before);
    if (context == NULL) {
        status = xfer_spare_check_ucx();
        if (status != UCXPOOL_OK) {
            return status;
        }
        status = create_context(pool, for_gpu);
    } else {
        status = xfer_features_check(context);
    }
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (worker == NULL) {
        status = create_worker(pool);
        if (status != UCXPOOL_OK) {
            goto err_cleanup_context;
        }
    }
    xfer_child_look_after(&before);
    return UCXPOOL_OK;

err_cleanup_context:
    if (pool->own_context) {
        ucp_cleanup(pool->context);
    }
    return status;
}

void xfer_context_settle_worker(ucxpool_t *pool)
{
    if (pool->own_worker) {
        pool->worker_stays = !xfer_worker_settle(pool->worker);
    }
}

void xfer_context_destroy_worker(ucxpool_t *pool)
{
    if (pool->worker_stays) {
        base_warn("%s: a peer has begun to connect and does not go on; this "
                  "UCX cannot take its worker away then, and it stays until "
                  "the process ends (UCX 1.14 can)", pool->name);
        return;
    }
    if (pool->own_worker) {
        ucp_worker_destroy(pool->worker);
    }
}

void xfer_context_cleanup(ucxpool_t *pool)
{
    if (pool->own_context && !pool->worker_stays) {
        ucp_cleanup(pool->context);
    }
}
