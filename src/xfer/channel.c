#include "xfer/channel.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "mem/ucx_status.h"
#include "xfer/control.h"
#include "xfer/connect.h"
#include "xfer/fetch.h"
#include "xfer/inbox.h"
#include "xfer/mapping.h"
#include "xfer/message.h"
#include "xfer/recv.h"
#include "xfer/send.h"
#include "xfer/watch.h"
#include "xfer/wire.h"

#include <openssl/rand.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A free number of the pool's table, which grows by doubling. */
static ucxpool_status_t table_add(ucxpool_t *pool, ucxpool_channel_t *channel)
{
    uint32_t            size = base_max(pool->table_size * 2, 16u);
    ucxpool_channel_t **table;

    for (uint32_t i = 0; i < pool->table_size; i++) {
        if (pool->table[i] == NULL) {
            pool->table[i]  = channel;
            channel->number = i;
            return UCXPOOL_OK;
        }
    }
    table = calloc(size, sizeof(table[0]));
    if (table == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a channel");
    }
    if (pool->table_size != 0) {
        memcpy(table, pool->table, pool->table_size * sizeof(table[0]));
    }
    free(pool->table);
    channel->number        = pool->table_size;
    table[channel->number] = channel;
    pool->table            = table;
    pool->table_size       = size;
    return UCXPOOL_OK;
}

static void init_lists(ucxpool_channel_t *channel)
{
    base_list_init(&channel->link);
    base_list_init(&channel->greet_link);
    base_list_init(&channel->queue);
    base_list_init(&channel->packing);
    base_list_init(&channel->arriving);
    base_list_init(&channel->free_messages);
    base_list_init(&channel->backlog);
}

ucxpool_status_t xfer_channel_create(ucxpool_t *pool, const char *name,
                                     ucxpool_channel_t **channel_p)
{
    ucxpool_channel_t *channel = calloc(1, sizeof(*channel));
    ucxpool_status_t   status;

    if (channel == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a channel");
    }
    init_lists(channel);
    channel->pool          = pool;
    channel->refs          = 1; /* the pool's, until it is closed */
    channel->next_number   = 1;
    channel->ring.fd       = -1;
    channel->peer.watch_fd  = -1;
    channel->peer.next_look = BASE_CLOCK_FOREVER;
    channel->peer.am_id     = pool->config.am_id; /* until it says */
    channel->close_deadline = BASE_CLOCK_FOREVER;
    status                 = table_add(pool, channel);
    if (status != UCXPOOL_OK) {
        goto err_free_channel;
    }
    snprintf(channel->name, sizeof(channel->name), "%s",
             (name == NULL) ? "" : name);
    if (channel->name[0] == '\0') {
        snprintf(channel->name, sizeof(channel->name), "channel-%u",
                 channel->number);
    }
    if (RAND_bytes((unsigned char *)&channel->key, sizeof(channel->key)) != 1) {
        status = base_error(UCXPOOL_ERR_IO, "no random numbers to be had");
        goto err_table_del;
    }
    if (pool->config.wire != BASE_WIRE_UCX) {
        status = xfer_ring_init(&channel->ring);
        if (status != UCXPOOL_OK) {
            goto err_table_del;
        }
    }
    base_list_add_tail(&pool->channels, &channel->link);
    pool->num_channels++;
    *channel_p = channel;
    return UCXPOOL_OK;

err_table_del:
    pool->table[channel->number] = NULL;
err_free_channel:
    free(channel);
    return status;
}

void xfer_channel_get(ucxpool_channel_t *channel)
{
    channel->refs++;
}

void xfer_channel_put(ucxpool_channel_t *channel)
{
    if (--channel->refs != 0) {
        return;
    }
    channel->pool->table[channel->number] = NULL;
    base_list_del(&channel->link);
    xfer_message_destroy_all(channel);
    xfer_fetch_stop(channel);
    xfer_mapping_close(channel);
    xfer_watch_stop(channel);
    xfer_ring_cleanup(&channel->ring);
    free(channel);
}

ucxpool_channel_t *xfer_channel_find(ucxpool_t *pool, const proto_head_t *head)
{
    ucxpool_channel_t *channel;

    if (head->channel >= pool->table_size) {
        return NULL;
    }
    channel = pool->table[head->channel];
    if ((channel == NULL) || (channel->key != head->key)) {
        return NULL;
    }
    return channel;
}

block_pool_t *xfer_channel_blocks(const ucxpool_channel_t *channel)
{
    const ucxpool_t *pool = channel->pool;

    return (channel->wire == &xfer_wire_ucx) ? pool->ucx_blocks : pool->blocks;
}

ucxpool_status_t xfer_channel_say_ended(const ucxpool_channel_t *channel)
{
    return base_error((channel->status == UCXPOOL_OK) ? UCXPOOL_ERR_CLOSED
                                                      : channel->status,
                      "%s: %s", channel->name,
                      (channel->reason[0] == '\0') ? "the channel is closed"
                                                   : channel->reason);
}

bool xfer_channel_is_live(const ucxpool_channel_t *channel)
{
    return channel->state <= UCXPOOL_CHANNEL_OPEN;
}

bool xfer_channel_is_readable(const ucxpool_channel_t *channel)
{
    if ((channel->wire != &xfer_wire_map) || channel->peer.gone) {
        return false;
    }
    /* A peer that has sent nonsense is not listened to any more. */
    return xfer_channel_is_live(channel) ||
           ((channel->num_sends != 0) &&
            (channel->status != UCXPOOL_ERR_PROTOCOL));
}

bool xfer_channel_ep_failed(const ucxpool_channel_t *channel)
{
    return __atomic_load_n(&channel->ep_failed, __ATOMIC_ACQUIRE);
}

void xfer_channel_set_ep_failed(ucxpool_channel_t *channel)
{
    __atomic_store_n(&channel->ep_failed, true, __ATOMIC_RELEASE);
}

/* End every request of the channel, for the same reason. */
static void abort_requests(ucxpool_channel_t *channel, ucxpool_status_t status)
{
    ucxpool_request_t *request;
    ucxpool_request_t *next;

    base_list_for_each_safe(request, next, &channel->pool->posted,
                            ucxpool_request_t, link) {
        if (request->channel == channel) {
            xfer_recv_abort(request, status, channel->reason);
        }
    }
    base_list_for_each_safe(request, next, &channel->queue, ucxpool_request_t,
                            link) {
        xfer_send_abort(request, status, channel->reason);
        xfer_request_reuse(request);
    }
    for (unsigned i = 0; i < PROTO_SENDS_MAX; i++) {
        if (channel->sends[i] != NULL) {
            xfer_send_abort(channel->sends[i], status, channel->reason);
        }
        if (channel->receives[i] != NULL) {
            xfer_recv_abort(channel->receives[i], status, channel->reason);
        }
    }
    xfer_message_channel_ended(channel);
}

/* Tell the peer of every request that is under way, while it can be told. */
static void cancel_requests(ucxpool_channel_t *channel)
{
    static const char text[] = "the channel was closed";

    for (unsigned i = 0; i < PROTO_SENDS_MAX; i++) {
        if (channel->sends[i] != NULL) {
            xfer_send_stop(channel->sends[i], UCXPOOL_ERR_CANCELED, text);
        }
        if (channel->receives[i] != NULL) {
            xfer_recv_stop(channel->receives[i], UCXPOOL_ERR_CANCELED, text);
        }
    }
}

static void leave(ucxpool_channel_t *channel, ucxpool_channel_state_t state,
                  ucxpool_status_t status)
{
    if (channel->wire == &xfer_wire_map) {
        channel->pool->num_mapped -=
            (channel->state == UCXPOOL_CHANNEL_OPEN) ? 1 : 0;
    }
    if (channel->state == UCXPOOL_CHANNEL_OPEN) {
        channel->pool->stats.channels_open--;
    }
    channel->state  = state;
    channel->status = status;
    /* The requests hold references, and the last one may go here. */
    xfer_channel_get(channel);
    abort_requests(channel, status);
    xfer_channel_put(channel);
}

void xfer_channel_fail(ucxpool_channel_t *channel, ucxpool_status_t status,
                       const char *format, ...)
{
    va_list arguments;

    if (!xfer_channel_is_live(channel)) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(channel->reason, sizeof(channel->reason), format, arguments);
    va_end(arguments);
    base_warn("%s: the channel has failed: %s", channel->name,
              channel->reason);
    channel->pool->stats.channels_failed++;
    /* No word of such a peer is waited for, TAKEN neither: what it still reads
     * of ours is revoked, so that it can not take it for a message. */
    channel->peer.gone |= (status == UCXPOOL_ERR_PROTOCOL);
    leave(channel, UCXPOOL_CHANNEL_FAILED, status);
    xfer_control_drop(channel);
    xfer_channel_start_close(channel);
}

void xfer_channel_peer_left(ucxpool_channel_t *channel)
{
    if (xfer_channel_is_live(channel)) {
        snprintf(channel->reason, sizeof(channel->reason),
                 "the peer closed the channel");
        leave(channel, UCXPOOL_CHANNEL_CLOSED, UCXPOOL_ERR_CLOSED);
    }
    xfer_control_drop(channel);
    /* The good-bye is answered, so that the peer knows that nothing of its
     * memory is read any more. */
    channel->bye_sent = channel->wire != &xfer_wire_map;
    xfer_channel_peer_gone(channel);
    xfer_channel_start_close(channel);
}

void xfer_channel_peer_gone(ucxpool_channel_t *channel)
{
    xfer_channel_get(channel);
    channel->peer.gone = true;
    for (unsigned i = 0; i < PROTO_SENDS_MAX; i++) {
        ucxpool_request_t *request = channel->sends[i];

        if ((request != NULL) && xfer_request_has_ended(request)) {
            xfer_send_forget(request);
        }
    }
    xfer_channel_put(channel);
}

void xfer_channel_start_close(ucxpool_channel_t *channel)
{
    if (channel->closing) {
        return;
    }
    channel->closing        = true;
    channel->close_deadline = base_clock_deadline(
        channel->pool->config.close_timeout_ns);
    xfer_connect_stop(channel);
    xfer_fetch_stop(channel);
}

void xfer_channel_close(ucxpool_channel_t *channel)
{
    xfer_channel_get(channel);
    channel->user_ref = false;
    if (xfer_channel_is_live(channel)) {
        cancel_requests(channel);
        snprintf(channel->reason, sizeof(channel->reason),
                 "the channel was closed here");
        leave(channel, UCXPOOL_CHANNEL_CLOSED, UCXPOOL_ERR_CANCELED);
    }
    xfer_channel_start_close(channel);
    xfer_channel_put(channel);
}

static bool is_unused(const ucxpool_channel_t *channel)
{
    /* On the `map` wire the peer may still read; the channel then stays, to
     * watch for its end. */
    return channel->ep_closed && (channel->num_sends == 0) &&
           !channel->user_ref;
}

unsigned xfer_channel_progress(ucxpool_channel_t *channel)
{
    unsigned count = 0;

    xfer_channel_get(channel);
    count += xfer_watch_look(channel);
    if (xfer_channel_ep_failed(channel) && xfer_channel_is_live(channel)) {
        xfer_inbox_drain(channel);
        xfer_channel_fail(channel, UCXPOOL_ERR_PEER_LOST,
                          "the connection to the peer broke");
        count++;
    }
    if (channel->closing) {
        count += xfer_channel_progress_close(channel);
        if (is_unused(channel) && !base_list_is_empty(&channel->link)) {
            base_list_del(&channel->link);
            channel->pool->num_channels--;
            xfer_channel_put(channel); /* the pool's */
        }
    } else {
        count += xfer_control_flush(channel);
    }
    xfer_channel_put(channel);
    return count;
}

void xfer_channel_destroy_all(ucxpool_t *pool)
{
    for (uint32_t i = 0; i < pool->table_size; i++) {
        ucxpool_channel_t *channel = pool->table[i];

        if (channel == NULL) {
            continue;
        }
        xfer_channel_peer_gone(channel);
        xfer_message_drop_all(channel);
        channel->refs = 1;
        xfer_channel_put(channel);
    }
}
