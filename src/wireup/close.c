/*
 * The steps after a channel has ended. Other files set the channel's end state
 * (core/channel.h). First, the requests of the channel end. Then both sides
 * send BYE and release the endpoint.
 *
 * On `map`, BYE is written to the ring, where the peer can read it at any time,
 * so the channel does not wait for the peer. A channel with an endpoint waits
 * for the peer's BYE: the next channel can use the endpoint only after both
 * sides have finished with it (core/remote.h).
 */
#include "wireup/wireup.h"

#include "base/clock.h"
#include "core/control.h"
#include "core/inbox.h"
#include "core/remote.h"
#include "core/wire.h"
#include "wire/wire.h"
#include "window/service.h"
#include "xfer/recv.h"
#include "xfer/send.h"
#include "xfer/state.h"

#include <stdlib.h>

/* --- goodbyes ------------------------------------------------------------- */

/* The time that the destruction of a pool waits for a peer's answer. A peer
 * that makes progress answers within a few rounds. A busy peer must not delay
 * the destruction. By the end of this time, the system has sent the BYE. */
#define GOODBYE_NS UINT64_C(50000000)

/* The time that a failed channel waits for the peer. */
#define FAILED_NS UINT64_C(50000000)

static void start_close(ucxpool_channel_t *channel)
{
    uint64_t patience = (channel->state == UCXPOOL_CHANNEL_FAILED)
                            ? FAILED_NS
                            : channel->pool->config.close_timeout_ns;

    if (channel->closing.step == CORE_CLOSE_NONE) {
        channel->closing.step          = CORE_CLOSE_GOODBYE;
        channel->closing.waiting_since = base_clock_now();
        channel->closing.deadline      = base_clock_deadline(patience);
    }
}

/* Returns true if neither side has sent HELLO. The peer then reads the reason
 * in the lifeline's last byte, and needs no BYE. */
static bool is_silent(const ucxpool_channel_t *channel)
{
    return core_lifeline_is_up(channel) &&
           !(channel->wireup.handshake &
             (CORE_HELLO_SENT | CORE_HELLO_RECEIVED));
}

/* Returns true if the close must wait until the peer can be notified. The peer
 * has created its channel, or will create it. The peer can be notified after it
 * has sent HELLO. On `ucx`, the peer must also have created its endpoint. */
static bool is_way_due(const ucxpool_channel_t *channel)
{
    bool knows_way = (channel->wireup.handshake & CORE_HELLO_RECEIVED) &&
                     core_wire_is_connected(channel);

    return (channel->conn.remote != NULL) && !knows_way &&
           !is_silent(channel) && !channel->closing.bye_received &&
           !core_channel_is_broken(channel);
}

/* Returns true if the close waits for a message from the peer. */
static bool waits(const ucxpool_channel_t *channel)
{
    return channel->closing.bye_sent || is_way_due(channel);
}

/* Returns the time at which the close stops waiting for the peer. */
static uint64_t last_moment(const ucxpool_channel_t *channel)
{
    uint64_t goodbye = BASE_CLOCK_FOREVER;

    if (channel->pool->closing && waits(channel)) {
        goodbye = channel->closing.waiting_since + GOODBYE_NS;
    }
    return base_min(channel->closing.deadline, goodbye);
}

/* Send BYE. If the channel has failed, BYE contains the status and the reason.
 * Only a peer whose HELLO matched the channel receives it. */
static void post_bye(ucxpool_channel_t *channel)
{
    bool                has_failed = channel->state == UCXPOOL_CHANNEL_FAILED;
    const proto_fixed_t bye        = {.bye.status =
                                   has_failed ? channel->status : UCXPOOL_OK};

    core_control_send(channel, PROTO_BYE, &bye,
                      has_failed ? channel->reason : NULL);
}

/* Send the queued messages and BYE. Returns false if the wire has no room for
 * them now. */
static bool send_bye(ucxpool_channel_t *channel)
{
    if (channel->closing.bye_received && !channel->closing.bye_sent) {
        core_control_drop(channel); /* the peer ignores these messages */
    }
    core_control_flush(channel);
    if (!base_list_is_empty(&channel->control.backlog)) {
        return false;
    }
    if (!channel->closing.bye_sent) {
        channel->closing.bye_sent      = true;
        channel->closing.waiting_since = base_clock_now();
        if (channel->wireup.handshake & CORE_HELLO_RECEIVED) {
            post_bye(channel);
        }
    }
    return base_list_is_empty(&channel->control.backlog);
}

/* Returns true if the peer will answer with BYE when it makes progress. The
 * peer knows the channel, and has neither sent BYE nor ended. */
static bool is_answer_due(const ucxpool_channel_t *channel)
{
    return ((channel->conn.endpoint != NULL) ||
            !(channel->wireup.handshake & CORE_GO_SENT)) &&
           (channel->wireup.handshake & CORE_HELLO_RECEIVED) &&
           !channel->closing.bye_received && !channel->peer.is_detached;
}

/* Returns true while this process copies to or from the peer's memory. Without
 * a ring, UCX moves the bytes of windows. It may never complete this. */
static bool copies(const ucxpool_channel_t *channel)
{
    return (channel->xfer->num_pushes != 0) ||
           (channel->wire->has_ring && window_channel_is_busy(channel));
}

/* Send BYE if possible, and return true if no more messages need to be sent.
 * BYE guarantees that this process no longer accesses the peer's memory. Until
 * BYE arrives or this process ends, the peer does not reuse the blocks that it
 * has granted. So BYE is sent only after the GPU's copies in flight have
 * completed, even if this is after the deadline. These copies always
 * complete. */
static bool finish_goodbye(ucxpool_channel_t *channel)
{
    bool is_late = base_clock_now() >= last_moment(channel);
    bool is_sent;

    if (copies(channel)) {
        return false;
    }
    if (core_channel_is_broken(channel) && !channel->wire->has_ring) {
        return true;
    }
    if (is_way_due(channel) && !is_late) {
        return false;
    }
    is_sent = !window_channel_is_busy(channel) && send_bye(channel);
    return is_late || (is_sent && !is_answer_due(channel));
}

/*
 * Returns true if another channel can use the endpoint. If the other end of an
 * endpoint was closed by force, UCX loses messages without an error. So the
 * side that answered HELLO sends KEPT after it has received the peer's BYE. The
 * peer uses the endpoint again only after it has received KEPT. The side that
 * sent KEPT uses the endpoint again only after the peer has used it. If the
 * HELLO was never answered, the peer has no endpoint that it could close.
 */
static bool can_be_kept(const ucxpool_channel_t *channel)
{
    return (channel->conn.remote != NULL) && !channel->pool->closing &&
           !core_channel_is_broken(channel) &&
           (channel->conn.endpoint->step == CORE_ENDPOINT_OPEN) &&
           ((channel->closing.bye_sent && channel->closing.bye_received) ||
            !(channel->wireup.handshake & CORE_HELLO_RECEIVED));
}

static bool is_kept(const ucxpool_channel_t *channel)
{
    return channel->closing.kept ||
           (channel->closing.has_begun &&
            !(channel->wireup.handshake & CORE_HELLO_RECEIVED));
}

/* Keep the endpoint for the next channel if both sides keep it. Returns false
 * if the peer's decision is not known yet. */
static bool try_keep_endpoint(ucxpool_channel_t *channel)
{
    bool is_late = base_clock_now() >= last_moment(channel);

    if (!channel->closing.has_begun && !channel->closing.kept && !is_late) {
        channel->closing.kept = true;
        core_control_post(channel, PROTO_KEPT, CORE_OUTSIDE);
    }
    if (is_kept(channel) && (channel->conn.endpoint->num_operations == 0)) {
        core_remote_keep_endpoint(channel);
        return true;
    }
    return is_late;
}

static void close_endpoint(ucxpool_channel_t *channel)
{
    core_endpoint_t *endpoint = channel->conn.endpoint;

    if ((endpoint != NULL) && can_be_kept(channel)) {
        if (!try_keep_endpoint(channel)) {
            return;
        }
        endpoint = channel->conn.endpoint;
    }
    core_local_close(channel);
    if (endpoint == NULL) {
        channel->closing.step = CORE_CLOSE_DONE;
        return;
    }
    core_endpoint_close(endpoint, last_moment(channel));
    core_endpoint_progress(endpoint);
    if (endpoint->step == CORE_ENDPOINT_CLOSED) {
        channel->closing.step = CORE_CLOSE_DONE;
    }
}

static unsigned progress_goodbye(ucxpool_channel_t *channel)
{
    core_close_t before = channel->closing.step;

    if ((channel->closing.step == CORE_CLOSE_GOODBYE) &&
        finish_goodbye(channel)) {
        channel->closing.step = CORE_CLOSE_ENDPOINT;
        core_control_drop(channel);
    }
    if (channel->closing.step == CORE_CLOSE_ENDPOINT) {
        close_endpoint(channel);
    }
    if (channel->closing.step == CORE_CLOSE_DONE) {
        core_lifeline_end(channel, (channel->state == UCXPOOL_CHANNEL_FAILED)
                                       ? BOOTSTRAP_CLOSE_FAILED
                                       : BOOTSTRAP_CLOSE_CLOSED);
    }
    return (channel->closing.step != before) ? 1 : 0;
}

uint64_t wireup_channel_close_deadline(const ucxpool_channel_t *channel)
{
    if (channel->closing.step == CORE_CLOSE_NONE) {
        return channel->closing.drains ? channel->closing.drain_deadline
                                       : BASE_CLOCK_FOREVER;
    }
    /* The end of a copy wakes the pool by itself. */
    return ((channel->closing.step == CORE_CLOSE_DONE) || copies(channel))
               ? BASE_CLOCK_FOREVER
               : last_moment(channel);
}

/* --- after the end -------------------------------------------------------- */

typedef void (*end_t)(ucxpool_request_t *request, ucxpool_status_t status,
                      const char *detail);

/* Call `end` for all requests in the table. Ending one request may end
 * others. */
static void for_each_of(const core_numbers_t *numbers, end_t end,
                        ucxpool_status_t status, const char *detail)
{
    for (uint32_t i = 0; i < numbers->size; i++) {
        if (numbers->slots[i].request != NULL) {
            end(numbers->slots[i].request, status, detail);
        }
    }
}

static void abort_requests(ucxpool_channel_t *channel)
{
    ucxpool_status_t status = channel->status;

    xfer_posted_abort(channel, status, channel->reason);
    xfer_queue_abort(channel, status, channel->reason);
    for_each_of(&channel->requests.sends, xfer_send_abort, status,
                channel->reason);
    for_each_of(&channel->requests.receives, wire_recv_end, status,
                channel->reason);
    xfer_flush_abort(channel, status);
    window_channel_ended(channel);
    xfer_message_channel_ended(channel);
}

/* Cancel the pending requests, and notify the peer. Called while the peer can
 * still be reached. */
static void cancel_requests(ucxpool_channel_t *channel)
{
    static const char text[] = "the channel was closed";

    for_each_of(&channel->requests.sends, xfer_send_stop, UCXPOOL_ERR_CANCELED,
                text);
    for_each_of(&channel->requests.receives, wire_recv_stop,
                UCXPOOL_ERR_CANCELED, text);
}

/* Free the sends that were kept after their end because the peer could read
 * their memory. Called when the peer can no longer read it. */
static void forget_sends(ucxpool_channel_t *channel)
{
    const core_numbers_t *sends = &channel->requests.sends;

    for (uint32_t i = 0; i < sends->size; i++) {
        ucxpool_request_t *request = sends->slots[i].request;

        if ((request != NULL) && core_request_has_ended(request)) {
            xfer_send_forget(request);
        }
    }
}

static bool is_unused(const ucxpool_channel_t *channel)
{
    /* On `map`, the peer may still access this pool's memory. The channel is
     * then kept until this access has ended. */
    return (channel->closing.step == CORE_CLOSE_DONE) &&
           !core_channel_lends_memory(channel) &&
           ((channel->conn.endpoint == NULL) ||
            core_endpoint_is_over(channel->conn.endpoint)) &&
           !channel->user_ref;
}

/* If the channel has ended, end its requests and start to close it. */
static unsigned settle(ucxpool_channel_t *channel)
{
    if (!core_channel_must_settle(channel)) {
        return 0;
    }
    abort_requests(channel);
    if ((channel->state == UCXPOOL_CHANNEL_FAILED) ||
        channel->closing.bye_received) {
        core_control_drop(channel); /* the peer needs no more messages */
    }
    start_close(channel);
    wireup_connect_stop(channel);
    wireup_fd_import_stop(channel, 0);
    return 1;
}

/* Drop the caller's reference. */
static void release(ucxpool_channel_t *channel)
{
    channel->user_ref = false;
    core_event_update(&channel->event);
}

/* Deliver all messages that have arrived, so that they can be received after
 * the channel has ended. Each call of xfer_message_progress() delivers only a
 * limited number of them. */
static void deliver_arrived(ucxpool_channel_t *channel)
{
    while (xfer_message_has_turn(channel)) {
        (void)xfer_message_progress(channel);
    }
}

void wireup_channel_abort(ucxpool_channel_t *channel)
{
    core_channel_get(channel);
    deliver_arrived(channel);
    release(channel);
    if (core_channel_is_live(channel)) {
        cancel_requests(channel);
    }
    /* If the peer could not be notified, the channel has already failed. */
    if (core_channel_is_live(channel)) {
        core_channel_set_closed(channel);
    }
    settle(channel);
    core_channel_put(channel);
}

/* Returns true if the channel has sends or window operations in progress, or
 * receives that have matched a message. */
static bool has_requests(const ucxpool_channel_t *channel)
{
    return xfer_flush_has_sends(channel, UINT64_MAX) ||
           window_channel_is_busy(channel) ||
           (channel->requests.receives.num != 0);
}

void wireup_channel_close(ucxpool_channel_t *channel)
{
    deliver_arrived(channel);
    if (!core_channel_is_live(channel) || !has_requests(channel)) {
        wireup_channel_abort(channel);
        return;
    }
    core_channel_get(channel);
    release(channel);
    channel->closing.drains = true;
    channel->closing.drain_deadline =
        base_clock_deadline(channel->pool->config.close_timeout_ns);
    xfer_posted_abort(channel, UCXPOOL_ERR_CANCELED, CORE_CLOSED_HERE);
    core_channel_put(channel);
}

/* End a draining channel when its requests have ended, or at drain_deadline. */
static unsigned progress_drain(ucxpool_channel_t *channel)
{
    if (!channel->closing.drains || !core_channel_is_live(channel) ||
        (has_requests(channel) &&
         (base_clock_now() < channel->closing.drain_deadline))) {
        return 0;
    }
    wireup_channel_abort(channel);
    return 1;
}

/* Fail the channel. If UCX has reported the failure, the reason includes UCX's
 * status. */
static void fail_broken(ucxpool_channel_t *channel)
{
    const core_endpoint_t *endpoint = channel->conn.endpoint;
    ucs_status_t           failure =
        (endpoint != NULL) ? core_endpoint_failure(endpoint) : UCS_OK;

    core_channel_fail(channel, UCXPOOL_ERR_PEER_LOST,
                      "the connection to the peer failed%s%s",
                      (failure != UCS_OK) ? "; UCX reports: " : "",
                      (failure != UCS_OK) ? ucs_status_string(failure) : "");
}

/* Detect failures that were not reported. Messages that the peer wrote before
 * the failure are still received. */
static void detect_failure(ucxpool_channel_t *channel)
{
    if ((channel->conn.lost_at != BASE_CLOCK_FOREVER) &&
        (base_clock_now() >= channel->conn.lost_at)) {
        core_channel_set_broken(channel);
    }
    if (channel->peer.has_ended && !channel->peer.is_detached) {
        core_inbox_drain(channel);
        channel->peer.is_detached = true;
        core_channel_fail(channel, UCXPOOL_ERR_PEER_LOST,
                          "the peer's process has ended");
    }
    if (core_channel_is_broken(channel) && core_channel_is_live(channel)) {
        core_inbox_drain(channel);
        fail_broken(channel);
    }
}

static unsigned progress_close(ucxpool_channel_t *channel)
{
    unsigned count = progress_goodbye(channel);

    if (channel->peer.is_detached && (channel->requests.sends.num != 0)) {
        forget_sends(channel);
    }
    if (channel->peer.is_detached) {
        wire_loans_end(channel);
        wire_mailbox_end(channel);
    }
    if (is_unused(channel) && !base_list_is_empty(&channel->link)) {
        base_list_del(&channel->link);
        channel->pool->channels.count--;
        core_channel_put(channel); /* the pool's reference */
    }
    return count;
}

/* Returns true if the channel is open, with no messages to send or wait for,
 * and no checks due. This is true for most channels in most rounds. */
static bool is_quiet(const ucxpool_channel_t *channel)
{
    return (channel->state == UCXPOOL_CHANNEL_OPEN) &&
           (channel->peer.next_check == BASE_CLOCK_FOREVER) &&
           (channel->conn.lifeline.deadline == BASE_CLOCK_FOREVER) &&
           (channel->conn.lost_at == BASE_CLOCK_FOREVER) &&
           !channel->peer.has_ended && !core_channel_is_broken(channel) &&
           !channel->closing.drains && !xfer_message_has_turn(channel) &&
           base_list_is_empty(&channel->xfer->flushes) &&
           window_channel_is_quiet(channel) && !core_control_is_due(channel);
}

unsigned wireup_channel_progress(ucxpool_channel_t *channel)
{
    unsigned count = 0;
    unsigned num_delivered;

    if (is_quiet(channel)) {
        return 0;
    }
    core_channel_get(channel);
    if (channel->peer.next_check != BASE_CLOCK_FOREVER) {
        count += wireup_process_watch_look(channel);
    }
    if (channel->conn.lifeline.deadline != BASE_CLOCK_FOREVER) {
        count += core_lifeline_progress(channel);
    }
    detect_failure(channel);
    /* First deliver the messages that arrived before the channel ended. Settle
     * the channel only after that. */
    num_delivered =
        xfer_message_has_turn(channel) ? xfer_message_progress(channel) : 0;
    count += (num_delivered != 0) ? num_delivered : settle(channel);
    count += xfer_flush_progress(channel);
    count += window_channel_progress(channel);
    count += progress_drain(channel);
    if (channel->closing.step != CORE_CLOSE_NONE) {
        count += progress_close(channel);
    } else {
        count += core_control_flush(channel);
    }
    core_channel_put(channel);
    return count;
}

void wireup_channel_end_drains(ucxpool_t *pool)
{
    ucxpool_channel_t *channel;

    core_lock(pool);
    base_list_for_each(channel, &pool->channels.open, ucxpool_channel_t, link) {
        core_channel_end_drain(channel);
    }
    core_unlock(pool);
}

/* --- destruction ---------------------------------------------------------- */

static void destroy(ucxpool_channel_t *channel)
{
    base_list_del(&channel->link);
    xfer_message_destroy_all(channel);
    core_local_close(channel);
    core_lifeline_end(channel, BOOTSTRAP_CLOSE_CLOSED);
    wireup_fd_import_stop(channel, 0);
    wireup_mapping_close(channel);
    wireup_process_watch_stop(channel);
    core_ring_cleanup(&channel->ring);
    core_numbers_cleanup(&channel->requests.sends);
    core_numbers_cleanup(&channel->requests.receives);
    if (channel->conn.endpoint != NULL) {
        core_endpoint_destroy(channel->conn.endpoint);
    }
    if (channel->conn.remote != NULL) {
        core_remote_put(channel->conn.remote);
    }
    window_channel_destroy(channel);
    xfer_channel_destroy(channel);
    free(channel);
}

void wireup_channel_destroy_unreferenced(ucxpool_t *pool)
{
    while (!base_list_is_empty(&pool->channels.unreferenced)) {
        destroy(base_list_head(&pool->channels.unreferenced, ucxpool_channel_t,
                               link));
    }
}

void wireup_channel_discard(ucxpool_channel_t *channel)
{
    ucxpool_t *pool = channel->pool;

    base_list_del(&channel->link);
    pool->channels.count--;
    channel->state = UCXPOOL_CHANNEL_FAILED;
    core_channel_put(channel);
    wireup_channel_destroy_unreferenced(pool);
}

void wireup_channel_destroy_all(ucxpool_t *pool)
{
    for (uint32_t i = 0; i < pool->channels.table_size; i++) {
        ucxpool_channel_t *channel = pool->channels.table[i];

        if (channel == NULL) {
            continue;
        }
        channel->peer.is_detached = true;
        forget_sends(channel);
        window_channel_drop_all(channel);
        xfer_message_drop_all(channel);
        channel->refs = 1;
        core_channel_put(channel);
    }
    wireup_channel_destroy_unreferenced(pool);
}
