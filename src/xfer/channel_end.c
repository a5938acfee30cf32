/*
 * How a channel ends: it is closed, it fails, or the peer leaves.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "xfer/connect.h"
#include "xfer/control.h"
#include "xfer/fetch.h"
#include "xfer/flush.h"
#include "xfer/message.h"
#include "xfer/recv.h"
#include "xfer/send.h"
#include "xfer/wire.h"

#include <stdarg.h>
#include <stdio.h>

static const char closed_here[] = "the channel was closed here";

/* Receives from this channel that have no message will have none. */
static void abort_posted(ucxpool_channel_t *channel, ucxpool_status_t status,
                         const char *reason)
{
    ucxpool_request_t *request;
    ucxpool_request_t *next;

    base_list_for_each_safe(request, next, &channel->pool->posted,
                            ucxpool_request_t, link) {
        if (request->channel == channel) {
            xfer_recv_abort(request, status, reason);
        }
    }
}

/* End every request of the channel, for the same reason. */
static void abort_requests(ucxpool_channel_t *channel, ucxpool_status_t status)
{
    ucxpool_request_t *request;
    ucxpool_request_t *next;

    abort_posted(channel, status, channel->reason);
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
    xfer_flush_abort(channel, status);
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
    xfer_event_set(&channel->event, UCXPOOL_EVENT_STATE);
    /* The requests hold references, and the last one may go here. */
    xfer_channel_get(channel);
    abort_requests(channel, status);
    xfer_channel_put(channel);
}

/* It has ended, in whatever way. */
static void start_close(ucxpool_channel_t *channel)
{
    xfer_channel_start_close(channel);
    xfer_connect_stop(channel);
    xfer_fetch_stop(channel);
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
    start_close(channel);
}

void xfer_channel_peer_left(ucxpool_channel_t *channel)
{
    if (xfer_channel_is_live(channel)) {
        snprintf(channel->reason, sizeof(channel->reason),
                 "the peer closed the channel");
        leave(channel, UCXPOOL_CHANNEL_CLOSED, UCXPOOL_ERR_CLOSED);
    }
    xfer_control_drop(channel);
    /* It is answered, so that the peer knows that nothing of its memory is read
     * any more. */
    channel->bye_received = true;
    xfer_channel_peer_gone(channel);
    start_close(channel);
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

/* The caller has it no more. */
static void release(ucxpool_channel_t *channel)
{
    channel->user_ref = false;
    xfer_event_update(&channel->event);
}

void xfer_channel_abort(ucxpool_channel_t *channel)
{
    xfer_channel_get(channel);
    release(channel);
    if (xfer_channel_is_live(channel)) {
        cancel_requests(channel);
        snprintf(channel->reason, sizeof(channel->reason), "%s", closed_here);
        leave(channel, UCXPOOL_CHANNEL_CLOSED, UCXPOOL_ERR_CANCELED);
    }
    start_close(channel);
    xfer_channel_put(channel);
}

/* Sends that were posted, and receives that have their message. */
static bool has_requests(const ucxpool_channel_t *channel)
{
    bool any = xfer_flush_has_sends(channel, UINT64_MAX);

    for (unsigned i = 0; (i < PROTO_SENDS_MAX) && !any; i++) {
        any = (channel->receives[i] != NULL) &&
              !xfer_request_has_ended(channel->receives[i]);
    }
    return any;
}

void xfer_channel_close(ucxpool_channel_t *channel)
{
    if (!xfer_channel_is_live(channel) || !has_requests(channel)) {
        xfer_channel_abort(channel);
        return;
    }
    xfer_channel_get(channel);
    release(channel);
    channel->drains         = true;
    channel->drain_deadline = base_clock_deadline(
        channel->pool->config.close_timeout_ns);
    abort_posted(channel, UCXPOOL_ERR_CANCELED, closed_here);
    xfer_channel_put(channel);
}

unsigned xfer_channel_progress_drain(ucxpool_channel_t *channel)
{
    if (!channel->drains || !xfer_channel_is_live(channel) ||
        (has_requests(channel) &&
         (base_clock_now() < channel->drain_deadline))) {
        return 0;
    }
    xfer_channel_abort(channel);
    return 1;
}
