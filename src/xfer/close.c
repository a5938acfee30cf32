/*
 * The end of a channel: both sides say BYE, and then let go of the endpoint.
 *
 * On `map` BYE stands in the ring, where the peer finds it whenever it looks,
 * and nothing is waited for. With an endpoint the peer's answer is: only when
 * both are done with it can it serve the next channel (remote.h).
 */
#include "base/clock.h"
#include "xfer/control.h"
#include "xfer/local.h"
#include "xfer/remote.h"
#include "xfer/wire.h"

/* A peer that answers does so within some rounds of its progress. One that is
 * busy with something else should not hold up a pool that is being destroyed;
 * what we said is with the system long before. */
#define GOODBYE_NS UINT64_C(50000000)

/* A channel that has failed says no more than it must. */
#define FAILED_NS UINT64_C(50000000)

void xfer_channel_start_close(ucxpool_channel_t *channel)
{
    uint64_t patience = (channel->state == UCXPOOL_CHANNEL_FAILED)
                            ? FAILED_NS
                            : channel->pool->config.close_timeout_ns;

    if (channel->close == XFER_CLOSE_NONE) {
        channel->close          = XFER_CLOSE_GOODBYE;
        channel->waiting_since  = base_clock_now();
        channel->close_deadline = base_clock_deadline(patience);
    }
}

/* Has neither side said anything? Then the last word is enough. */
static bool is_silent(const ucxpool_channel_t *channel)
{
    return xfer_lifeline_is_up(channel) &&
           !(channel->handshake & (XFER_HELLO_SENT | XFER_HELLO_RECEIVED));
}

/* The peer has a channel, or will have one, and is to be told. It is when it
 * has said HELLO, and on `ucx`, when it has made its endpoint. */
static bool is_way_due(const ucxpool_channel_t *channel)
{
    bool knows_way = (channel->handshake & XFER_HELLO_RECEIVED) &&
                     (!channel->wire->has_endpoint ||
                      (channel->endpoint != NULL));

    return (channel->remote != NULL) && !knows_way && !is_silent(channel) &&
           !channel->bye_received && !xfer_channel_is_broken(channel);
}

/* Is a word of the peer waited for, now or until it has come? */
static bool waits(const ucxpool_channel_t *channel)
{
    return channel->bye_sent || is_way_due(channel);
}

/* From when on nothing is waited for. */
static uint64_t last_moment(const ucxpool_channel_t *channel)
{
    uint64_t goodbye = BASE_CLOCK_FOREVER;

    if (channel->pool->closing && waits(channel)) {
        goodbye = channel->waiting_since + GOODBYE_NS;
    }
    return base_min(channel->close_deadline, goodbye);
}

/* What was to be said before is on its way, and so is BYE. False: there is no
 * room now. */
static bool say_bye(ucxpool_channel_t *channel)
{
    if (channel->bye_received && !channel->bye_sent) {
        xfer_control_drop(channel); /* it listens to nothing else any more */
    }
    xfer_control_flush(channel);
    if (!base_list_is_empty(&channel->backlog)) {
        return false;
    }
    if (!channel->bye_sent) {
        channel->bye_sent      = true;
        channel->waiting_since = base_clock_now();
        if (channel->handshake & XFER_HELLO_RECEIVED) {
            xfer_control_post(channel, PROTO_BYE, XFER_MUST);
        }
    }
    return base_list_is_empty(&channel->backlog);
}

/* Would a peer answer that makes progress? It does when it has heard of the
 * channel, and is not gone itself. */
static bool is_answer_due(const ucxpool_channel_t *channel)
{
    return ((channel->endpoint != NULL) ||
            !xfer_wire_is_chosen(channel->wire)) &&
           (channel->handshake & XFER_HELLO_RECEIVED) &&
           !channel->bye_received && !channel->peer.gone;
}

static bool has_said_goodbye(ucxpool_channel_t *channel)
{
    if (base_clock_now() >= last_moment(channel)) {
        return true;
    }
    if (xfer_channel_is_broken(channel) && !channel->wire->has_ring) {
        return true;
    }
    if (is_way_due(channel)) {
        return false;
    }
    return say_bye(channel) && !is_answer_due(channel);
}

/*
 * Can the endpoint serve another channel? UCX loses what is sent over one whose
 * other end was closed by force, and tells nobody. So who answered HELLO says
 * KEPT, when it has BYE of the peer, and uses the endpoint again only when the
 * peer does; and the peer does not use it before KEPT. One over which no answer
 * has come to the HELLO has no other end that could be closed.
 */
static bool can_be_kept(const ucxpool_channel_t *channel)
{
    return (channel->remote != NULL) && !channel->pool->closing &&
           !xfer_channel_is_broken(channel) &&
           (channel->endpoint->step == XFER_ENDPOINT_OPEN) &&
           ((channel->bye_sent && channel->bye_received) ||
            !(channel->handshake & XFER_HELLO_RECEIVED));
}

static bool is_kept(const ucxpool_channel_t *channel)
{
    return channel->kept || (channel->has_begun &&
                             !(channel->handshake & XFER_HELLO_RECEIVED));
}

/* False: that is not known yet. */
static bool try_keep_endpoint(ucxpool_channel_t *channel)
{
    if (!channel->has_begun && !channel->kept) {
        channel->kept = true;
        xfer_control_post(channel, PROTO_KEPT, XFER_OUTSIDE);
    }
    if (is_kept(channel) && (channel->endpoint->num_operations == 0)) {
        xfer_remote_keep_endpoint(channel);
        return true;
    }
    return base_clock_now() >= last_moment(channel);
}

static void close_endpoint(ucxpool_channel_t *channel)
{
    xfer_endpoint_t *endpoint = channel->endpoint;

    if ((endpoint != NULL) && can_be_kept(channel)) {
        if (!try_keep_endpoint(channel)) {
            return;
        }
        endpoint = channel->endpoint;
    }
    xfer_local_close(channel);
    if (endpoint == NULL) {
        channel->close = XFER_CLOSE_DONE;
        return;
    }
    xfer_endpoint_close(endpoint, last_moment(channel));
    xfer_endpoint_progress(endpoint);
    if (endpoint->step == XFER_ENDPOINT_CLOSED) {
        channel->close = XFER_CLOSE_DONE;
    }
}

unsigned xfer_channel_progress_close(ucxpool_channel_t *channel)
{
    xfer_close_t before = channel->close;

    if ((channel->close == XFER_CLOSE_GOODBYE) && has_said_goodbye(channel)) {
        channel->close = XFER_CLOSE_ENDPOINT;
        xfer_control_drop(channel);
    }
    if (channel->close == XFER_CLOSE_ENDPOINT) {
        close_endpoint(channel);
    }
    if (channel->close == XFER_CLOSE_DONE) {
        xfer_lifeline_end(channel, (channel->state == UCXPOOL_CHANNEL_FAILED)
                                        ? XFER_LAST_WORD_FAILED
                                        : XFER_LAST_WORD_CLOSED);
    }
    return (channel->close != before) ? 1 : 0;
}

uint64_t xfer_channel_close_deadline(const ucxpool_channel_t *channel)
{
    if (channel->close == XFER_CLOSE_NONE) {
        return channel->drains ? channel->drain_deadline : BASE_CLOCK_FOREVER;
    }
    return (channel->close == XFER_CLOSE_DONE) ? BASE_CLOCK_FOREVER
                                               : last_moment(channel);
}

void xfer_channel_hurry_all(ucxpool_t *pool)
{
    ucxpool_channel_t *channel;

    xfer_lock(pool);
    base_list_for_each(channel, &pool->channels, ucxpool_channel_t, link) {
        xfer_channel_hurry(channel);
    }
    xfer_unlock(pool);
}
