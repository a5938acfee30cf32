#include "wireup/wireup.h"

#include "base/clock.h"
#include "base/error.h"
#include "bootstrap/listener.h"
#include "core/remote.h"

#include <stdlib.h>
#include <unistd.h>

struct ucxpool_listener {
    base_list_t           link;
    ucxpool_t            *pool;
    core_source_t         source;
    core_event_t          event;
    bootstrap_listener_t *bootstrap;
    base_secret_t        *secret;
    uint64_t              num_refused; /* refused clients already counted in the
                                          statistics */
};

/* Set, in the blob for a client, which side begins the handshake. */
static void fit_blob(void *arg, void *blob, const void *caller, size_t length)
{
    core_blob_turn_t turn = CORE_BLOB_NO_TURN;
    core_blob_t      head;

    if (core_blob_check(caller, length, &head) == UCXPOOL_OK) {
        turn = core_remote_called(arg, caller,
                                  core_local_folder(arg, &head) == NULL);
    }
    core_blob_set_turn(blob, turn);
}

static ucxpool_status_t open_socket(ucxpool_listener_t      *listener,
                                    const bootstrap_where_t *where)
{
    const base_config_t *config = &listener->pool->config;
    core_blob_t         *blob;
    size_t               length;
    ucxpool_status_t     status;

    status = core_blob_create(listener->pool, 0, &blob, &length);
    if (status != UCXPOOL_OK) {
        return status;
    }
    bootstrap_listener_params_t params = {
        .where                 = where,
        .secret                = listener->secret,
        .blob                  = blob,
        .blob_length           = length,
        .fit_blob              = fit_blob,
        .arg                   = listener->pool,
        .max_half_open         = config->max_half_open,
        .accept_queue          = config->accept_queue,
        .handshake_timeout_ns  = config->handshake_timeout_ns,
        .listen_without_secret = config->listen_without_secret,
    };
    status = bootstrap_listener_create(&params, &listener->bootstrap);
    free(blob);
    return status;
}

static ucxpool_status_t create(ucxpool_t *pool, const bootstrap_where_t *where,
                               ucxpool_listener_t **listener_p)
{
    ucxpool_listener_t *listener = calloc(1, sizeof(*listener));
    ucxpool_status_t    status;

    if (listener == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a listener");
    }
    listener->pool = pool;
    core_event_init(&listener->event, pool, NULL, listener);
    status = base_config_secret(&pool->config, &listener->secret);
    if (status != UCXPOOL_OK) {
        goto err_free_listener;
    }
    status = open_socket(listener, where);
    if (status != UCXPOOL_OK) {
        goto err_release_secret;
    }
    status = core_source_add(&listener->source, pool,
                             bootstrap_listener_fd(listener->bootstrap), NULL);
    if (status != UCXPOOL_OK) {
        goto err_destroy_listener;
    }
    base_list_add_tail(&pool->wireup.listeners, &listener->link);
    *listener_p = listener;
    return UCXPOOL_OK;

err_destroy_listener:
    bootstrap_listener_destroy(listener->bootstrap);
err_release_secret:
    base_secret_put(listener->secret);
err_free_listener:
    free(listener);
    return status;
}

bool wireup_listeners_have_callers(ucxpool_t *pool)
{
    ucxpool_listener_t *listener;

    base_list_find(listener, &pool->wireup.listeners, ucxpool_listener_t, link,
                   bootstrap_listener_has_callers(listener->bootstrap));
    return listener != NULL;
}

ucxpool_status_t wireup_listeners_renew(ucxpool_t *pool)
{
    ucxpool_listener_t *listener;
    core_blob_t        *blob;
    size_t              length;
    ucxpool_status_t    status = core_blob_create(pool, 0, &blob, &length);

    if ((status == UCXPOOL_OK) && (length > BOOTSTRAP_BLOB_MAX)) {
        status = base_error(UCXPOOL_ERR_LIMIT,
                            "the pool's address has %zu bytes, over the limit "
                            "of %u for listeners; set UCX_NET_DEVICES to fewer "
                            "devices",
                            length, BOOTSTRAP_BLOB_MAX);
        free(blob);
    }
    if (status != UCXPOOL_OK) {
        return status;
    }
    base_list_for_each(listener, &pool->wireup.listeners, ucxpool_listener_t,
                       link) {
        bootstrap_listener_set_blob(listener->bootstrap, blob, length);
    }
    free(blob);
    return UCXPOOL_OK;
}

ucxpool_status_t wireup_listener_create(ucxpool_t               *pool,
                                        const bootstrap_where_t *where,
                                        ucxpool_listener_t     **listener_p)
{
    ucxpool_listener_t *listener = NULL;
    ucxpool_status_t    status   = create(pool, where, &listener);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = wireup_network_listen(pool, where);
    if (status != UCXPOOL_OK) {
        wireup_listener_destroy(listener);
        return status;
    }
    *listener_p = listener;
    return UCXPOOL_OK;
}

ucxpool_t *wireup_listener_pool(const ucxpool_listener_t *listener)
{
    return listener->pool;
}

uint16_t wireup_listener_port(const ucxpool_listener_t *listener)
{
    return bootstrap_listener_port(listener->bootstrap);
}

static void update_event(ucxpool_listener_t *listener)
{
    if (bootstrap_listener_num_waiting(listener->bootstrap) != 0) {
        core_event_set(&listener->event, UCXPOOL_EVENT_CALLER);
    } else {
        core_event_clear(&listener->event, UCXPOOL_EVENT_CALLER);
    }
}

static unsigned progress(ucxpool_listener_t *listener)
{
    unsigned count = bootstrap_listener_progress(listener->bootstrap);
    uint64_t refused =
        bootstrap_listener_stats(listener->bootstrap)->num_refused;

    listener->pool->stats.handshakes_refused += refused - listener->num_refused;
    listener->num_refused = refused;
    if (count != 0) {
        update_event(listener);
    }
    return count;
}

unsigned wireup_listener_progress(ucxpool_t *pool)
{
    unsigned            count = 0;
    ucxpool_listener_t *listener;

    base_list_for_each(listener, &pool->wireup.listeners, ucxpool_listener_t,
                       link) {
        count += progress(listener);
    }
    return count;
}

uint64_t wireup_listener_deadline(ucxpool_t *pool)
{
    uint64_t            deadline = BASE_CLOCK_FOREVER;
    ucxpool_listener_t *listener;

    base_list_for_each(listener, &pool->wireup.listeners, ucxpool_listener_t,
                       link) {
        deadline = base_min(deadline,
                            bootstrap_listener_deadline(listener->bootstrap));
    }
    return deadline;
}

static ucxpool_status_t admit(ucxpool_t *pool, const bootstrap_peer_t *peer,
                              const ucxpool_channel_params_t *params,
                              ucxpool_channel_t             **channel_p)
{
    ucxpool_channel_t *channel;
    ucxpool_status_t   status;

    status = core_channel_create(pool, params, peer->ends.remote, &channel);
    if (status != UCXPOOL_OK) {
        bootstrap_close_notify(peer->fd, BOOTSTRAP_CLOSE_FAILED);
        close(peer->fd);
        return status;
    }
    channel->wireup.via_listener = true;
    channel->ends                = peer->ends;
    status                       = core_lifeline_start(channel, peer->fd);
    if (status == UCXPOOL_OK) {
        status = wireup_connect_address(channel, peer->blob, peer->length);
    }
    if (status != UCXPOOL_OK) {
        core_lifeline_end(channel, BOOTSTRAP_CLOSE_FAILED);
        wireup_channel_discard(channel);
        return status;
    }
    core_channel_hand_out(channel, channel_p);
    return UCXPOOL_OK;
}

ucxpool_status_t wireup_listener_accept(ucxpool_listener_t *listener,
                                        const ucxpool_channel_params_t *params,
                                        ucxpool_channel_t **channel_p)
{
    bootstrap_peer_t peer;
    ucxpool_status_t status;

    progress(listener);
    status = bootstrap_listener_accept(listener->bootstrap, &peer);
    if (status == UCXPOOL_OK) {
        status = admit(listener->pool, &peer, params, channel_p);
    }
    update_event(listener);
    return status;
}

void wireup_listener_destroy(ucxpool_listener_t *listener)
{
    base_list_del(&listener->link);
    base_list_del(&listener->event.link);
    core_source_remove(&listener->source);
    bootstrap_listener_destroy(listener->bootstrap);
    base_secret_put(listener->secret);
    free(listener);
}

void wireup_listener_destroy_all(ucxpool_t *pool)
{
    while (!base_list_is_empty(&pool->wireup.listeners)) {
        wireup_listener_destroy(
            base_list_head(&pool->wireup.listeners, ucxpool_listener_t, link));
    }
}
