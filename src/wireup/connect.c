#include "wireup/connect.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/client.h"
#include "bootstrap/listener.h"
#include "core/local.h"
#include "core/memory.h"
#include "core/remote.h"
#include "wireup/close.h"
#include "wireup/hello.h"
#include "wireup/network.h"

#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- channels that are connected ------------------------------------------ */

/* Both sides connect of themselves: their n-th channels are a pair. A pool that
 * connects to itself makes both ends of a pair, one after the other. */
static void number_pair(ucxpool_channel_t *channel)
{
    uint64_t number = channel->conn.remote->num_pairs++;

    channel->wireup.pair = number;
    if (core_remote_is_self(channel->conn.remote)) {
        channel->wireup.pair   = number / 2;
        channel->wireup.begins = (number % 2) == 0;
    }
}

ucxpool_status_t wireup_connect_address(ucxpool_channel_t *channel,
                                        const void *address, size_t length)
{
    core_blob_t      head;
    core_remote_t   *remote;
    ucxpool_status_t status = core_blob_check(address, length, &head);

    if (status != UCXPOOL_OK) {
        return status;
    }
    remote = core_remote_get(channel->pool, address);
    if (remote == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a channel");
    }
    channel->conn.remote = remote;
    channel->peer.am_id  = head.am_id;
    memcpy(channel->peer.id, head.id, sizeof(channel->peer.id));
    memcpy(channel->peer.key, head.key, sizeof(channel->peer.key));
    if (!channel->wireup.via_listener) {
        number_pair(channel);
    } else if (head.pair != 0) {
        channel->wireup.pair = head.pair; /* drawn by the side that called */
    }
    core_remote_set_turn(remote, channel, (core_blob_turn_t)head.turn);
    status = wireup_hello_start(channel);
    if ((status != UCXPOOL_OK) && !channel->wireup.via_listener) {
        remote->num_pairs--; /* the peer will not count it either */
    }
    return status;
}

ucxpool_status_t wireup_connect_ep(ucxpool_channel_t *channel, ucp_ep_h ep)
{
    channel->conn.by_ep    = true;
    channel->conn.endpoint = core_endpoint_borrow(channel->pool, ep);
    if (channel->conn.endpoint == NULL) {
        return UCXPOOL_ERR_NO_MEMORY;
    }
    return wireup_hello_start(channel);
}

/* A number that no other channel between the two pools has. */
static ucxpool_status_t draw_pair(ucxpool_channel_t *channel)
{
    if (RAND_bytes((unsigned char *)&channel->wireup.pair,
                   sizeof(channel->wireup.pair)) != 1) {
        return base_error(UCXPOOL_ERR_IO, "no random numbers are available");
    }
    channel->wireup.via_listener = true;
    channel->wireup.begins       = true;
    channel->wireup.pair |= UINT64_C(1) << 63;
    return UCXPOOL_OK;
}

static ucxpool_status_t start_client(ucxpool_channel_t       *channel,
                                     const bootstrap_where_t *where)
{
    ucxpool_t       *pool = channel->pool;
    core_blob_t     *blob;
    size_t           length;
    ucxpool_status_t status;

    status = core_blob_create(pool, channel->wireup.pair, &blob, &length);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = bootstrap_client_connect(where, channel->wireup.secret, blob,
                                      length, pool->config.handshake_timeout_ns,
                                      &channel->wireup.client);
    free(blob);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = core_source_add(&channel->wireup.client_source, pool,
                             bootstrap_client_fd(channel->wireup.client), NULL);
    if (status != UCXPOOL_OK) {
        bootstrap_client_destroy(channel->wireup.client);
        channel->wireup.client = NULL;
        return status;
    }
    channel->wireup.called_at = base_clock_now();
    base_list_add_tail(&pool->wireup.clients, &channel->wireup.client_link);
    return UCXPOOL_OK;
}

ucxpool_status_t wireup_connect_listener(ucxpool_channel_t       *channel,
                                         const bootstrap_where_t *where)
{
    ucxpool_status_t status;

    status =
        base_config_secret(&channel->pool->config, &channel->wireup.secret);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = draw_pair(channel);
    if (status == UCXPOOL_OK) {
        status = start_client(channel, where);
    }
    if (status != UCXPOOL_OK) {
        base_secret_put(channel->wireup.secret);
        channel->wireup.secret = NULL;
    }
    return status;
}

void wireup_connect_stop(ucxpool_channel_t *channel)
{
    if (channel->wireup.client != NULL) {
        base_list_del(&channel->wireup.client_link);
        core_source_remove(&channel->wireup.client_source);
        bootstrap_client_destroy(channel->wireup.client);
        base_secret_put(channel->wireup.secret);
        channel->wireup.client = NULL;
        channel->wireup.secret = NULL;
    }
}

/* The listener has proven itself. */
static ucxpool_status_t connect_proven(ucxpool_channel_t *channel)
{
    int              fd = bootstrap_client_detach_fd(channel->wireup.client);
    ucxpool_status_t status = core_lifeline_start(channel, fd);
    const void      *blob;
    size_t           length;

    if (status != UCXPOOL_OK) {
        return status;
    }
    bootstrap_client_peer(channel->wireup.client, &blob, &length);
    return wireup_connect_address(channel, blob, length);
}

/* Why it failed is the channel's to tell, once. */
static ucxpool_status_t try_client(ucxpool_channel_t *channel)
{
    base_log_level_t level  = base_error_log_at(BASE_LOG_DEBUG);
    ucxpool_status_t status = bootstrap_client_progress(channel->wireup.client);

    if (status != UCXPOOL_INPROGRESS) {
        channel->ends = *bootstrap_client_ends(channel->wireup.client);
    }
    if (status == UCXPOOL_OK) {
        status = connect_proven(channel);
    }
    base_error_log_at(level);
    return status;
}

static unsigned progress_client(ucxpool_channel_t *channel)
{
    ucxpool_status_t status = UCXPOOL_INPROGRESS;

    if (core_channel_is_live(channel)) {
        status = try_client(channel);
    }
    if (status == UCXPOOL_INPROGRESS) {
        return 0;
    }
    if (status == UCXPOOL_OK) {
        wireup_connect_stop(channel);
    } else {
        core_channel_fail(channel, status, "%s", ucxpool_error_detail());
    }
    return 1;
}

unsigned wireup_connect_progress(ucxpool_t *pool)
{
    unsigned           count = 0;
    ucxpool_channel_t *channel;
    ucxpool_channel_t *next;

    base_list_for_each_safe(channel, next, &pool->wireup.clients,
                            ucxpool_channel_t, wireup.client_link) {
        count += progress_client(channel);
    }
    return count;
}

uint64_t wireup_connect_deadline(ucxpool_t *pool)
{
    uint64_t           deadline = BASE_CLOCK_FOREVER;
    ucxpool_channel_t *channel;

    base_list_for_each(channel, &pool->wireup.clients, ucxpool_channel_t,
                       wireup.client_link) {
        deadline = base_min(deadline,
                            bootstrap_client_deadline(channel->wireup.client));
    }
    return deadline;
}

/* --- listeners ------------------------------------------------------------ */

struct ucxpool_listener {
    base_list_t           link;
    ucxpool_t            *pool;
    core_source_t         source;
    core_event_t          event;
    bootstrap_listener_t *bootstrap;
    base_secret_t        *secret;
    uint64_t              num_refused; /* counted already */
};

/* A caller is told who begins. */
static void fit_blob(void *arg, void *blob, const void *caller, size_t length)
{
    core_blob_turn_t turn = CORE_BLOB_NO_TURN;
    core_blob_t      head;

    if (core_blob_check(caller, length, &head) == UCXPOOL_OK) {
        turn = core_remote_called(arg, caller, !core_local_reaches(arg, &head));
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

static void destroy(ucxpool_listener_t *listener);

bool wireup_listeners_have_callers(ucxpool_t *pool)
{
    ucxpool_listener_t *listener;

    base_list_for_each(listener, &pool->wireup.listeners, ucxpool_listener_t,
                       link) {
        if (bootstrap_listener_has_callers(listener->bootstrap)) {
            return true;
        }
    }
    return false;
}

ucxpool_status_t wireup_listeners_renew(ucxpool_t *pool)
{
    ucxpool_listener_t *listener;
    core_blob_t        *blob;
    size_t              length;
    ucxpool_status_t    status = core_blob_create(pool, 0, &blob, &length);

    if ((status == UCXPOOL_OK) && (length > BOOTSTRAP_BLOB_MAX)) {
        status = base_error(UCXPOOL_ERR_LIMIT,
                            "the pool's address has %zu bytes, and a listener "
                            "hands out %u at most: set UCX_NET_DEVICES to "
                            "fewer devices",
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

/* The networks come after the socket, which may be refused. */
static ucxpool_status_t create_and_open(ucxpool_t               *pool,
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
        destroy(listener);
        return status;
    }
    *listener_p = listener;
    return UCXPOOL_OK;
}

ucxpool_status_t ucxpool_listener_create(ucxpool_t *pool, const char *where,
                                         ucxpool_listener_t **listener_p)
{
    bootstrap_where_t resolved;
    ucxpool_status_t  status;

    if (base_missing(pool) || base_missing(where) || base_missing(listener_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    status = core_memory_check(pool);
    if (status == UCXPOOL_OK) {
        status =
            bootstrap_where_resolve(where, BOOTSTRAP_WHERE_LISTEN, &resolved);
    }
    if (status != UCXPOOL_OK) {
        return status;
    }
    core_lock(pool);
    status = create_and_open(pool, &resolved, listener_p);
    core_unlock_posted(pool);
    return status;
}

uint16_t ucxpool_listener_port(const ucxpool_listener_t *listener)
{
    return base_missing(listener)
               ? 0
               : bootstrap_listener_port(listener->bootstrap);
}

static void look_who_waits(ucxpool_listener_t *listener)
{
    if (bootstrap_listener_num_waiting(listener->bootstrap) != 0) {
        core_event_set(&listener->event, UCXPOOL_EVENT_CALLER);
    } else {
        core_event_clear(&listener->event, UCXPOOL_EVENT_CALLER);
    }
}

static unsigned progress(ucxpool_listener_t *listener)
{
    unsigned count   = bootstrap_listener_progress(listener->bootstrap);
    uint64_t refused = bootstrap_listener_num_refused(listener->bootstrap);

    listener->pool->stats.handshakes_refused += refused - listener->num_refused;
    listener->num_refused = refused;
    if (count != 0) {
        look_who_waits(listener);
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

/* Make a channel of a peer that has proven itself. */
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

ucxpool_status_t ucxpool_listener_accept(ucxpool_listener_t *listener,
                                         const ucxpool_channel_params_t *params,
                                         ucxpool_channel_t **channel_p)
{
    bootstrap_peer_t peer;
    ucxpool_status_t status;

    if (base_missing(listener) || base_missing(channel_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    status = core_channel_params_check(params);
    if (status != UCXPOOL_OK) {
        return status;
    }
    core_lock(listener->pool);
    progress(listener);
    status = bootstrap_listener_accept(listener->bootstrap, &peer);
    if (status == UCXPOOL_OK) {
        status = admit(listener->pool, &peer, params, channel_p);
    }
    look_who_waits(listener);
    core_unlock_posted(listener->pool);
    return status;
}

static void destroy(ucxpool_listener_t *listener)
{
    base_list_del(&listener->link);
    base_list_del(&listener->event.link);
    core_source_remove(&listener->source);
    bootstrap_listener_destroy(listener->bootstrap);
    base_secret_put(listener->secret);
    free(listener);
}

void ucxpool_listener_destroy(ucxpool_listener_t *listener)
{
    ucxpool_t *pool;

    if (listener == NULL) {
        return;
    }
    pool = listener->pool;
    core_lock(pool);
    destroy(listener);
    core_unlock(pool);
}

void wireup_listener_destroy_all(ucxpool_t *pool)
{
    while (!base_list_is_empty(&pool->wireup.listeners)) {
        destroy(
            base_list_head(&pool->wireup.listeners, ucxpool_listener_t, link));
    }
}
