#include "wireup/connect.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/greet.h"
#include "core/remote.h"
#include "wireup/hello.h"

#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

/* Both sides connect of themselves: their n-th channels are a pair. A pool that
 * connects to itself makes both ends of a pair, one after the other. */
static void number_pair(ucxpool_channel_t *channel)
{
    uint64_t number = channel->conn.remote->num_pairs++;

    channel->pair = number;
    if (core_remote_is_self(channel->conn.remote)) {
        channel->pair   = number / 2;
        channel->begins = (number % 2) == 0;
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
    if (!channel->at_door) {
        number_pair(channel);
    } else if (head.pair != 0) {
        channel->pair = head.pair; /* who came to a listener has drawn it */
    }
    core_remote_set_turn(remote, channel, (core_blob_turn_t)head.turn);
    status = wireup_hello_start(channel);
    if ((status != UCXPOOL_OK) && !channel->at_door) {
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
    if (RAND_bytes((unsigned char *)&channel->pair, sizeof(channel->pair)) !=
        1) {
        return base_error(UCXPOOL_ERR_IO, "no random numbers to be had");
    }
    channel->at_door = true;
    channel->begins  = true;
    channel->pair |= UINT64_C(1) << 63;
    return UCXPOOL_OK;
}

static ucxpool_status_t start_greet(ucxpool_channel_t  *channel,
                                    const xfer_where_t *where)
{
    ucxpool_t       *pool = channel->pool;
    core_blob_t     *blob;
    size_t           length;
    ucxpool_status_t status;

    status = core_blob_create(pool, channel->pair, &blob, &length);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status =
        xfer_greet_connect(where, channel->secret, blob, length,
                           pool->config.handshake_timeout_ns, &channel->greet);
    free(blob);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = core_source_add(&channel->greet_source, pool,
                             xfer_greet_fd(channel->greet), NULL);
    if (status != UCXPOOL_OK) {
        xfer_greet_destroy(channel->greet);
        channel->greet = NULL;
        return status;
    }
    channel->called_at = base_clock_now();
    base_list_add_tail(&pool->wireup.clients, &channel->greet_link);
    return UCXPOOL_OK;
}

ucxpool_status_t wireup_connect_door(ucxpool_channel_t  *channel,
                                     const xfer_where_t *where)
{
    ucxpool_status_t status;

    status = xfer_secret_of(&channel->pool->config, &channel->secret);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = draw_pair(channel);
    if (status == UCXPOOL_OK) {
        status = start_greet(channel, where);
    }
    if (status != UCXPOOL_OK) {
        xfer_secret_release(channel->secret);
        channel->secret = NULL;
    }
    return status;
}

void wireup_connect_stop(ucxpool_channel_t *channel)
{
    if (channel->greet != NULL) {
        base_list_del(&channel->greet_link);
        core_source_remove(&channel->greet_source);
        xfer_greet_destroy(channel->greet);
        xfer_secret_release(channel->secret);
        channel->greet  = NULL;
        channel->secret = NULL;
    }
}

/* The listener has proven itself. */
static ucxpool_status_t connect_proven(ucxpool_channel_t *channel)
{
    const void *blob;
    size_t      length;

    core_lifeline_start(channel, xfer_greet_take_fd(channel->greet));
    xfer_greet_peer(channel->greet, &blob, &length);
    return wireup_connect_address(channel, blob, length);
}

/* Why it failed is the channel's to tell, once. */
static ucxpool_status_t greet_on(ucxpool_channel_t *channel)
{
    base_log_level_t level  = base_error_log_at(BASE_LOG_DEBUG);
    ucxpool_status_t status = xfer_greet_progress(channel->greet);

    if (status != UCXPOOL_INPROGRESS) {
        channel->ends = *xfer_greet_ends(channel->greet);
    }
    if (status == UCXPOOL_OK) {
        status = connect_proven(channel);
    }
    base_error_log_at(level);
    return status;
}

static unsigned progress_greet(ucxpool_channel_t *channel)
{
    ucxpool_status_t status = UCXPOOL_INPROGRESS;

    if (core_channel_is_live(channel)) {
        status = greet_on(channel);
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
                            ucxpool_channel_t, greet_link) {
        count += progress_greet(channel);
    }
    return count;
}

uint64_t wireup_connect_deadline(ucxpool_t *pool)
{
    uint64_t           deadline = BASE_CLOCK_FOREVER;
    ucxpool_channel_t *channel;

    base_list_for_each(channel, &pool->wireup.clients, ucxpool_channel_t,
                       greet_link) {
        deadline = base_min(deadline, xfer_greet_deadline(channel->greet));
    }
    return deadline;
}
