/*
 * The pool's round of progress.
 */
#include "base/clock.h"
#include "base/error.h"
#include "copy/engine.h"
#include "core/inbox.h"
#include "core/remote.h"
#include "core/wire.h"
#include "pool/pool.h"
#include "wire/wire.h"
#include "wireup/wireup.h"
#include "window/service.h"
#include "xfer/send.h"
#include "xfer/recv.h"
#include "xfer/state.h"

/* --- dispatch ------------------------------------------------------------- */

static void credits_received(ucxpool_channel_t *channel, uint32_t credits)
{
    if (credits == 0) {
        return;
    }
    channel->flow.credits = (uint32_t)base_min(
        (uint64_t)channel->flow.credits + credits, (uint64_t)UINT16_MAX);
    if (channel->flow.announce_at != 0) {
        xfer_queue_end_announce(channel);
    }
    xfer_queue_wake(channel);
}

/* Handle DONE or CANCEL, which may contain a reason. */
static void handle_end(ucxpool_channel_t *channel, const proto_fixed_t *message,
                       const void *data, size_t data_size)
{
    char reason[PROTO_TEXT_MAX + 1];

    proto_copy_text(reason, sizeof(reason), data, data_size);
    if (message->head.type == PROTO_DONE) {
        xfer_send_done(channel, &message->done, reason);
    } else {
        xfer_recv_canceled(channel, &message->cancel, reason);
    }
}

/* A peer that refuses the channel's path sends UNSUPPORTED before the channel
 * is open. Any other failure of the channel at the peer is a lost peer here. */
static void handle_bye(ucxpool_channel_t *channel, const proto_bye_t *bye,
                       const void *data, size_t data_size)
{
    bool refused = (channel->state == UCXPOOL_CHANNEL_CONNECTING) &&
                   (bye->status == UCXPOOL_ERR_UNSUPPORTED);
    char reason[PROTO_REASON_MAX + 1];

    if (bye->status != UCXPOOL_OK) {
        proto_copy_text(reason, sizeof(reason), data, data_size);
        core_channel_fail(
            channel, refused ? UCXPOOL_ERR_UNSUPPORTED : UCXPOOL_ERR_PEER_LOST,
            "%s: %s",
            refused ? "the peer refused the channel"
                    : "the channel has failed at the peer",
            reason);
    }
    core_channel_peer_left(channel);
}

/* Dispatch one parsed message of a live channel. The message came from a ring
 * or from UCX. */
static void handle(ucxpool_channel_t *channel, const proto_fixed_t *message,
                   const void *data, size_t data_size)
{
    credits_received(channel, message->head.credits);
    switch (message->head.type) {
    case PROTO_READY:
        wireup_hello_ready(channel, &message->ready, data, data_size);
        break;
    case PROTO_DESC:
        xfer_message_desc(channel, &message->desc, data, data_size);
        break;
    case PROTO_SHORT:
        xfer_message_short(channel, &message->in_short, data);
        break;
    case PROTO_RUNS:
        xfer_message_runs(channel, &message->runs, data);
        break;
    case PROTO_ACCEPT:
        xfer_send_accepted(channel, &message->accept, data, data_size);
        break;
    case PROTO_DATA:
        channel->wire->arrived(channel, &message->data);
        break;
    case PROTO_TAKEN:
        xfer_send_taken(channel, &message->taken);
        break;
    case PROTO_DONE:
    case PROTO_CANCEL:
        handle_end(channel, message, data, data_size);
        break;
    case PROTO_RETURNED:
        wire_loan_returned(channel, message->returned.message);
        break;
    case PROTO_MAILBOX:
        xfer_mailbox_lent(channel, &message->mailbox);
        break;
    case PROTO_BYE:
        handle_bye(channel, &message->bye, data, data_size);
        break;
    case PROTO_WINDOW_OPEN:
    case PROTO_WINDOW_OPENED:
    case PROTO_WINDOW_CLOSE:
    case PROTO_WINDOW_REVOKE:
    case PROTO_WINDOW_END:
        window_received(channel, message, data, data_size);
        break;
    default: /* CREDIT and DOORBELL consist of their header only; GO and KEPT
              * never come through a ring */
        break;
    }
}

/* Returns true if the message belongs to a transfer, but no wire has been
 * chosen yet. */
static bool is_too_early(const ucxpool_channel_t *channel, unsigned type)
{
    return !(channel->wireup.handshake & CORE_GO_SENT) &&
           (type >= PROTO_DESC) && (type != PROTO_BYE);
}

/* Handle a message for a channel that has ended. Ignores all messages except
 * those about the peer's access to memory and about the close. */
static void handle_after_end(ucxpool_channel_t   *channel,
                             const proto_fixed_t *message)
{
    switch (message->head.type) {
    case PROTO_TAKEN:
        xfer_send_taken(channel, &message->taken);
        break;
    case PROTO_DONE:
        xfer_send_done(channel, &message->done, "");
        break;
    case PROTO_WINDOW_CLOSE:
        window_received(channel, message, NULL, 0);
        break;
    case PROTO_BYE:
        core_channel_peer_left(channel);
        break;
    case PROTO_KEPT:
        channel->closing.kept = channel->closing.has_begun;
        break;
    default:
        break;
    }
}

/* Dispatch a control message that did not arrive through the ring. Its channel
 * exists. */
static void handle_outside(ucxpool_channel_t   *channel,
                           const proto_fixed_t *message, const void *data,
                           size_t data_size, ucp_ep_h reply_ep)
{
    unsigned type = message->head.type;

    if (type == PROTO_GO) {
        wireup_hello_go(channel, reply_ep);
    } else if (!core_channel_is_live(channel)) {
        handle_after_end(channel, message);
    } else if ((type != PROTO_DATA) && (type != PROTO_SHORT) &&
               !is_too_early(channel, type)) {
        handle(channel, message, data, data_size);
    }
}

static void handle_ring(ucxpool_channel_t   *channel,
                        const proto_fixed_t *message, const void *data,
                        size_t data_size)
{
    if (core_channel_is_live(channel)) {
        handle(channel, message, data, data_size);
    } else {
        handle_after_end(channel, message);
    }
}

static void handle_local(ucxpool_channel_t   *channel,
                         const proto_fixed_t *message, const void *data,
                         size_t data_size)
{
    if (message->head.type == PROTO_HELLO) {
        wireup_hello_answered(channel, &message->hello, data);
    } else if (core_channel_find(channel->pool, &message->head) == channel) {
        handle_outside(channel, message, data, data_size, NULL);
    }
}

static ucxpool_status_t channel_created(ucxpool_channel_t *channel)
{
    ucxpool_status_t status = xfer_channel_create(channel);

    if (status == UCXPOOL_OK) {
        status = window_channel_create(channel);
    }
    if (status != UCXPOOL_OK) {
        xfer_channel_destroy(channel);
    }
    return status;
}

const core_dispatch_t pool_dispatch = {
    .channel_created   = channel_created,
    .hello             = wireup_hello_received,
    .from_ring         = handle_ring,
    .from_local        = handle_local,
    .from_ucx          = handle_outside,
    .window_message    = window_message,
    .window_files      = wireup_fd_import_window,
    .window_files_stop = wireup_fd_import_stop,
    .unanswered        = wireup_hello_unanswered,
};

/* --- rounds --------------------------------------------------------------- */

/*
 * Each call of ucp_worker_progress() may make a system call. So if all channels
 * have rings, most rounds do not progress UCX. A pool with endpoints progresses
 * UCX in every UCX_EVERY-th round. A pool without endpoints does so only in
 * every NEW_EVERY-th round, because only unknown senders and new channels can
 * send messages to it over UCX. The watched descriptors are checked at least
 * every EVENTS_EVERY rounds.
 */
#define UCX_EVERY    16u
#define NEW_EVERY    128u
#define EVENTS_EVERY 256u
/* The watched descriptors are checked every STRANGERS_EVERY rounds while a
 * channel connects to a listener, while the pool has a listener, or while the
 * descriptors of memory are passed between processes. */
#define STRANGERS_EVERY 16u

static bool has_endpoints(const ucxpool_t *pool)
{
    return !base_list_is_empty(&pool->channels.endpoints);
}

bool pool_ucx_sleeps(const ucxpool_t *pool)
{
    return pool->ucx.is_lost ||
           (pool->wakeup.is_ucx_armed && pool->ucx.own_worker &&
            !has_endpoints(pool) && (pool->num_operations == 0));
}

static unsigned progress_ucx(ucxpool_t *pool)
{
    unsigned count = 0;

    if (pool_ucx_sleeps(pool)) {
        return 0;
    }
    pool->wakeup.is_ucx_armed = false;
    while ((count < 64) && (ucp_worker_progress(pool->ucx.worker) != 0)) {
        count++;
    }
    return count;
}

static unsigned progress_deadlines(ucxpool_t *pool)
{
    uint64_t           now;
    unsigned           count = 0;
    base_list_t        late;
    ucxpool_request_t *request, *next;

    if (pool->requests.next_deadline == BASE_CLOCK_FOREVER) {
        return 0;
    }
    now = base_clock_now();
    if (now < pool->requests.next_deadline) {
        return 0;
    }
    base_list_init(&late);
    pool->requests.next_deadline = BASE_CLOCK_FOREVER;
    base_list_for_each_safe(request, next, &pool->requests.deadlines,
                            ucxpool_request_t, deadline_link) {
        if (request->deadline <= now) {
            base_list_move(&late, &request->deadline_link);
        } else {
            pool->requests.next_deadline =
                base_min(pool->requests.next_deadline, request->deadline);
        }
    }
    /* Ending one request may end others, which are then removed from `late`. */
    while ((request = base_list_pop(&late, ucxpool_request_t, deadline_link)) !=
           NULL) {
        core_request_stop(request, UCXPOOL_ERR_TIMED_OUT,
                          "the deadline passed");
        core_request_reuse(request);
        count++;
    }
    return count;
}

static unsigned progress_runnable(ucxpool_t *pool)
{
    unsigned           count = 0;
    base_list_t        round;
    ucxpool_request_t *request;

    base_list_init(&round);
    base_list_splice_tail(&round, &pool->requests.runnable);
    base_list_splice_tail(&round, &pool->requests.stalled);
    while ((request = base_list_pop(&round, ucxpool_request_t, run_link)) !=
           NULL) {
        count += xfer_queue_progress(request);
    }
    return count;
}

static unsigned progress_channels(ucxpool_t *pool)
{
    unsigned           count = 0;
    ucxpool_channel_t *channel, *next;

    base_list_for_each_safe(channel, next, &pool->channels.open,
                            ucxpool_channel_t, link) {
        count += wireup_channel_progress(channel);
    }
    if (!base_list_is_empty(&pool->channels.unreferenced)) {
        wireup_channel_destroy_unreferenced(pool);
    }
    return count;
}

static bool has_unidentified_peers(const ucxpool_t *pool)
{
    return !base_list_is_empty(&pool->wireup.clients) ||
           !base_list_is_empty(&pool->wireup.listeners) ||
           !base_list_is_empty(&pool->wireup.fd_imports) ||
           wireup_fd_export_is_busy(pool);
}

/* Make progress on all watched descriptors, and on UCX's sockets. */
static unsigned progress_sockets(ucxpool_t *pool)
{
    unsigned count = core_source_progress(pool);

    count += wireup_connect_progress(pool);
    count += wireup_listener_progress(pool);
    count += wireup_fd_export_progress(pool);
    count += wireup_fd_import_progress(pool);
    ucx_child_progress(&pool->wakeup.child);
    if (has_endpoints(pool)) {
        count += ucx_tcp_watch_progress(&pool->wakeup.tcp_watch);
    }
    return count;
}

uint64_t pool_sockets_deadline(ucxpool_t *pool)
{
    const uint64_t deadlines[] = {
        wireup_connect_deadline(pool),
        wireup_listener_deadline(pool),
        wireup_fd_import_deadline(pool),
        wireup_fd_export_deadline(pool),
        ucx_child_deadline(&pool->wakeup.child),
        has_endpoints(pool) ? ucx_tcp_watch_deadline(&pool->wakeup.tcp_watch)
                            : BASE_CLOCK_FOREVER,
    };
    uint64_t first = BASE_CLOCK_FOREVER;

    for (size_t i = 0; i < sizeof(deadlines) / sizeof(deadlines[0]); i++) {
        first = base_min(first, deadlines[i]);
    }
    return first;
}

static bool is_ucx_due(const ucxpool_t *pool)
{
    unsigned every =
        (has_endpoints(pool) || !pool->ucx.own_worker) ? UCX_EVERY : NEW_EVERY;

    return (pool->channels.num_read != pool->channels.count) ||
           (pool->channels.num_read == 0) ||
           (pool->progress_count % every == 0);
}

/* Do one round. This function checks which parts have work, and calls only
 * those. Most rounds have no work, and the length of a round adds to message
 * latency. */
static unsigned progress(ucxpool_t *pool)
{
    unsigned count = 0;

    pool->progress_count++;
    count += core_inbox_progress(pool);
    if (!base_list_is_empty(&pool->engine->copies)) {
        count += copy_engine_progress(pool->engine);
    }
    if (!base_list_is_empty(&pool->engine->marked)) {
        count += core_request_markers_progress(pool);
    }
    for (unsigned i = 0; i < CORE_NUM_LINKS; i++) {
        if (!base_list_is_empty(&pool->links[i].queue)) {
            core_link_progress(&pool->links[i]);
        }
    }
    if (!base_list_is_empty(&pool->wire->deliveries)) {
        count += wire_delivery_progress(pool);
    }
    if (is_ucx_due(pool)) {
        count += progress_ucx(pool);
    }
    if ((pool->progress_count % EVENTS_EVERY == 0) ||
        ((pool->progress_count % STRANGERS_EVERY == 0) &&
         has_unidentified_peers(pool))) {
        count += progress_sockets(pool);
    }
    if (!base_list_is_empty(&pool->wire->waiting)) {
        count += wire_rndv_progress(pool);
    }
    if (!base_list_is_empty(&pool->xfer->waiters)) {
        count += xfer_send_wake_waiters(pool);
    }
    if (!base_list_is_empty(&pool->requests.runnable) ||
        !base_list_is_empty(&pool->requests.stalled)) {
        count += progress_runnable(pool);
    }
    count += window_progress(pool);
    count += progress_deadlines(pool);
    if (pool->xfer->next_announce != BASE_CLOCK_FOREVER) {
        count += xfer_queue_announce(pool);
    }
    if (pool->wireup.next_hello != BASE_CLOCK_FOREVER) {
        count += wireup_hello_progress(pool);
    }
    count += progress_channels(pool);
    if (__atomic_load_n(&pool->channels.endpoint_ended, __ATOMIC_ACQUIRE)) {
        count += core_remote_progress(pool);
    }
    return count;
}

unsigned pool_progress(ucxpool_t *pool)
{
    unsigned count;

    base_error_do_at(BASE_LOG_WARN, count = progress(pool));
    return count;
}

unsigned pool_progress_all(ucxpool_t *pool)
{
    base_log_level_t level = base_error_log_at(BASE_LOG_WARN);
    unsigned         count = progress_sockets(pool);

    count += progress_ucx(pool);
    count += progress(pool);
    base_error_log_at(level);
    return count;
}

unsigned pool_call_back(ucxpool_t *pool)
{
    unsigned count = 0;

    while (!base_list_is_empty(&pool->requests.completed)) {
        core_request_call_back(base_list_head(&pool->requests.completed,
                                              ucxpool_request_t, end_link));
        count++;
    }
    return count;
}
