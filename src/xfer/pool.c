#include "xfer/pool.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "mem/rdma.h"
#include "mem/share.h"
#include "mem/ucx_status.h"
#include "xfer/arrival.h"
#include "xfer/connect.h"
#include "xfer/control.h"
#include "xfer/descriptors.h"
#include "xfer/engine.h"
#include "xfer/features.h"
#include "xfer/handout.h"
#include "xfer/inbox.h"
#include "xfer/landing.h"
#include "xfer/pairing.h"
#include "xfer/progress.h"
#include "xfer/remote.h"
#include "xfer/signals.h"
#include "xfer/spare.h"
#include "xfer/tune.h"
#include "xfer/tune_peer.h"
#include "xfer/wire.h"
#include "xfer/worker.h"

#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

/* The log tells of somebody who was turned away once in this time. */
#define WARN_NS UINT64_C(1000000000)

/* How long a pool that goes waits for UCX to hand over what it holds of
 * endpoints that no channel uses. */
#define IDLE_NS UINT64_C(50000000)

void xfer_lock(ucxpool_t *pool)
{
    pthread_mutex_lock(&pool->lock);
    xfer_engine_enter(pool->engine);
}

void xfer_unlock(ucxpool_t *pool)
{
    xfer_engine_leave(pool->engine);
    pthread_mutex_unlock(&pool->lock);
}

void xfer_unlock_posted(ucxpool_t *pool)
{
    if (pool->asleep) {
        xfer_wake(pool);
    }
    xfer_unlock(pool);
}

void xfer_pool_end_operation(ucxpool_t *pool)
{
    if ((--pool->num_operations == 0) && (pool->finish != NULL)) {
        pool->finish(pool);
    }
}

bool xfer_pool_turn_away(ucxpool_t *pool)
{
    uint64_t now = base_clock_now();

    pool->stats.handshakes_refused++;
    if (now < pool->next_warning) {
        return false;
    }
    pool->next_warning = now + WARN_NS;
    return true;
}

void *xfer_alloc(ucxpool_t *pool, size_t size)
{
    pool->stats.allocations++;
    return malloc(size);
}

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

/* What is in flight of one message, some MiB at most, has come through in that
 * time, unless the peer does not progress. */
#define LINGER_NS UINT64_C(250000000)

ucxpool_status_t xfer_pool_init_ucx(ucxpool_t *pool, bool for_gpu,
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

void xfer_pool_destroy_worker(ucxpool_t *pool)
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

void xfer_pool_cleanup_context(ucxpool_t *pool)
{
    if (pool->own_context && !pool->worker_stays) {
        ucp_cleanup(pool->context);
    }
}

static void init_lists(ucxpool_t *pool)
{
    base_list_t *lists[] = {
        &pool->channels,        &pool->gone_channels, &pool->hellos,
        &pool->listeners,       &pool->greetings,     &pool->posted,
        &pool->unexpected,      &pool->probed,        &pool->runnable,
        &pool->waiters,         &pool->stalled,       &pool->landings,
        &pool->landing_waiters, &pool->completed,     &pool->deadlines,
        &pool->free_requests,   &pool->free_controls, &pool->free_landings,
        &pool->requests,        &pool->remotes,       &pool->arrivals,
        &pool->free_arrivals,   &pool->fetches,       &pool->endpoints,
        &pool->events,
    };

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        base_list_init(lists[i]);
    }
    pool->next_deadline = BASE_CLOCK_FOREVER;
    pool->next_hello    = BASE_CLOCK_FOREVER;
    pool->timer_moment  = BASE_CLOCK_FOREVER;
}

/* The two ids of which a pool has handlers, where others may want them too. */
static ucxpool_status_t take_ids(ucxpool_t *pool)
{
    base_list_init(&pool->claim.link);
    if (pool->own_worker) {
        return UCXPOOL_OK;
    }
    pool->claim = (xfer_claim_t){
        .worker = pool->worker,
        .first  = pool->config.am_id,
        .count  = 2,
        .name   = pool->name,
    };
    return xfer_claim_take(&pool->claim);
}

ucxpool_status_t xfer_pool_init(ucxpool_t *pool)
{
    ucxpool_status_t status;
    mem_share_host_t host;

    init_lists(pool);
    /* To have it when there is no descriptor left to read it. */
    mem_share_host_fill(&host);
    if ((RAND_bytes(pool->id, sizeof(pool->id)) != 1) ||
        (RAND_bytes(pool->key, sizeof(pool->key)) != 1)) {
        return base_error(UCXPOOL_ERR_IO, "no random numbers to be had");
    }
    status = xfer_spare_check_pool();
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = xfer_descriptors_init(pool);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = take_ids(pool);
    if (status != UCXPOOL_OK) {
        goto err_cleanup_descriptors;
    }
    status = xfer_inbox_init(pool);
    if (status != UCXPOOL_OK) {
        goto err_release_ids;
    }
    status = xfer_handout_create(pool);
    if (status != UCXPOOL_OK) {
        goto err_cleanup_inbox;
    }
    return UCXPOOL_OK;

err_cleanup_inbox:
    xfer_inbox_cleanup(pool);
err_release_ids:
    xfer_claim_release(&pool->claim);
err_cleanup_descriptors:
    xfer_descriptors_cleanup(pool);
    return status;
}

static void close_channels(ucxpool_t *pool)
{
    ucxpool_channel_t *channel;
    ucxpool_channel_t *next;

    base_list_for_each_safe(channel, next, &pool->channels, ucxpool_channel_t,
                            link) {
        /* Callbacks that are still to come may name it: it goes last. */
        xfer_channel_get(channel);
        if (!channel->drains) {
            xfer_channel_abort(channel);
        }
    }
}

static bool has_open_channels(ucxpool_t *pool)
{
    ucxpool_channel_t *channel;

    base_list_for_each(channel, &pool->channels, ucxpool_channel_t, link) {
        if (channel->close != XFER_CLOSE_DONE) {
            return true;
        }
    }
    return false;
}

/* Receives that no channel ended. */
static void cancel_posted(ucxpool_t *pool)
{
    while (!base_list_is_empty(&pool->posted)) {
        ucxpool_request_cancel(
            base_list_head(&pool->posted, ucxpool_request_t, link));
    }
}

/* Own ones end with their endpoints. */
static bool has_borrowed_operations(const ucxpool_t *pool)
{
    return !pool->own_worker && (pool->num_operations != 0);
}

/* Those that no channel uses. What was said over them was answered; only UCX
 * may hold on to one whose other end is gone. */
static void close_endpoints(ucxpool_t *pool, uint64_t deadline, uint64_t limit)
{
    xfer_lock(pool);
    xfer_remote_close_all(pool,
                          base_min(deadline, base_clock_deadline(IDLE_NS)));
    while (xfer_remote_has_endpoints(pool) && (base_clock_now() < limit)) {
        xfer_progress(pool);
    }
    xfer_unlock(pool);
}

void xfer_pool_shutdown(ucxpool_t *pool)
{
    uint64_t deadline = base_clock_deadline(pool->config.close_timeout_ns);
    /* Forced closes are local work, but UCX may need some rounds for them. */
    uint64_t limit = base_clock_deadline(pool->config.close_timeout_ns +
                                         1000000000u);

    xfer_lock(pool);
    pool->closing = true;
    close_channels(pool);
    cancel_posted(pool);
    xfer_call_back(pool);
    xfer_unlock(pool);
    while ((has_open_channels(pool) && (base_clock_now() < limit)) ||
           (has_borrowed_operations(pool) && (base_clock_now() < deadline))) {
        ucxpool_progress(pool);
        if (base_clock_now() >= deadline) {
            xfer_channel_hurry_all(pool);
        }
    }
    close_endpoints(pool, deadline, limit);
    xfer_lock(pool);
    xfer_call_back(pool);
    xfer_unlock(pool);
    if (pool->own_worker) {
        /* The handlers still stand, and find nobody to speak to. */
        xfer_lock(pool);
        pool->worker_stays = !xfer_worker_settle(pool->worker);
        xfer_unlock(pool);
    }
    xfer_inbox_cleanup(pool);
    xfer_claim_release(&pool->claim);
}

void xfer_pool_cleanup(ucxpool_t *pool)
{
    xfer_listener_destroy_all(pool);
    xfer_pairing_destroy_all(pool);
    xfer_channel_destroy_all(pool);
    xfer_request_destroy_all(pool);
    xfer_arrival_destroy_all(pool);
    xfer_landing_destroy_all(pool);
    xfer_control_destroy_all(pool);
    xfer_remote_destroy_all(pool);
    free(pool->table);
    xfer_handout_destroy(pool);
    xfer_descriptors_cleanup(pool);
}
