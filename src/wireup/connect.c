#include "wireup/wireup.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "bootstrap/client.h"
#include "core/remote.h"

#include <stdlib.h>
#include <string.h>

/* Set the channel's pair number if both sides connect by address: the n-th
 * channels of the two pools are a pair. A pool that connects to itself creates
 * both ends of a pair, one after the other. */
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
        channel->wireup.pair = head.pair; /* chosen by the client */
    }
    core_remote_set_turn(remote, channel, (core_blob_turn_t)head.turn);
    status = wireup_hello_start(channel);
    if ((status != UCXPOOL_OK) && !channel->wireup.via_listener) {
        remote->num_pairs--; /* the peer does not count this channel either */
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

/* Choose a random pair number, so that no other channel between the two pools
 * has the same pair number. */
static ucxpool_status_t draw_pair(ucxpool_channel_t *channel)
{
    ucxpool_status_t status =
        base_random(&channel->wireup.pair, sizeof(channel->wireup.pair));

    if (status != UCXPOOL_OK) {
        return status;
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

/* Connect to a listener that has been authenticated. */
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

/* Make progress on the connection to the listener. Errors are logged at debug
 * level, because the channel reports the reason of a failure. */
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
    ucxpool_channel_t *channel, *next;

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
