/*
 * What happens to a send: what its peer says, and how it ends.
 */
#include "core/control.h"
#include "core/wire.h"
#include "xfer/fragment.h"
#include "xfer/send.h"
#include "xfer/slice.h"

#include <string.h>

/* The smallest block of a receiver, and so its shortest limit for a fragment:
 * with less, a peer would have us work for each byte. */
#define FRAG_SIZE_MIN 4096u

/* The send with this number, if it is still known. */
static ucxpool_request_t *find(ucxpool_channel_t *channel, uint64_t message)
{
    ucxpool_request_t *request = channel->sends[message % PROTO_SENDS_MAX];

    if ((request == NULL) || (request->send.message != message)) {
        return NULL;
    }
    return request;
}

/* Is the caller's own memory still being read: by operations of UCX, or by
 * copies on the GPU? */
static bool is_being_read(const ucxpool_request_t *request)
{
    for (unsigned i = 0; i < CORE_FRAGMENTS_MAX; i++) {
        const core_fragment_t *fragment = request->send.fragments[i];

        if ((request->send.busy & (UINT64_C(1) << i)) &&
            (((fragment->ucx != NULL) && fragment->in_place) ||
             (fragment->copy.job != NULL))) {
            return true;
        }
    }
    return false;
}

static void send_cancel(ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;
    proto_fixed_t     *fixed;

    if (channel->wire->is_read) {
        core_ring_revoke(&channel->ring, request->send.message);
    }
    fixed = core_control_begin(channel, PROTO_CANCEL, 0, CORE_MUST, NULL);
    if (fixed != NULL) {
        fixed->cancel.message = request->send.message;
        core_control_end(channel);
    }
}

/*
 * End the request, or do so when nothing reads the caller's memory any more:
 * until then the caller must neither change it, or the receiver would take the
 * new bytes for the message, nor free it.
 */
static void end(ucxpool_request_t *request, ucxpool_status_t status,
                const char *detail)
{
    if (!is_being_read(request)) {
        core_request_end(request, status, detail);
    } else if (!request->send.ending) {
        request->send.ending = true;
        request->send.end    = status;
        xfer_slice_leave(request);
        core_request_set_detail(request, detail);
        core_request_linger(request);
    }
}

void xfer_send_accepted(ucxpool_channel_t    *channel,
                        const proto_accept_t *accept)
{
    ucxpool_request_t *request = find(channel, accept->message);

    if ((request == NULL) || (request->send.receive != 0)) {
        return;
    }
    if (core_request_has_ended(request)) {
        /* Our CANCEL came before the descriptor was known there. */
        send_cancel(request);
        return;
    }
    if ((accept->receive == 0) || (accept->frag_size < FRAG_SIZE_MIN) ||
        (accept->window == 0)) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer accepted a message in fragments of %llu "
                          "bytes, %u at a time",
                          (unsigned long long)accept->frag_size,
                          accept->window);
        return;
    }
    request->send.receive = accept->receive;
    xfer_fragment_set_limits(request, accept->frag_size, accept->window);
    core_request_wake(request);
}

void xfer_send_taken(ucxpool_channel_t *channel, const proto_taken_t *taken)
{
    ucxpool_request_t *request = find(channel, taken->message);
    uint32_t           number  = taken->piece;
    core_fragment_t   *fragment;

    if (!channel->wire->is_read || (request == NULL) ||
        (number >= CORE_FRAGMENTS_MAX) ||
        !(request->send.busy & (UINT64_C(1) << number))) {
        return;
    }
    fragment = request->send.fragments[number];
    if ((fragment->ucx == NULL) && (fragment->copy.job == NULL)) {
        xfer_send_fragment_done(fragment);
    }
}

void xfer_send_fragment_done(core_fragment_t *fragment)
{
    ucxpool_request_t *request = fragment->request;

    xfer_fragment_free(fragment);
    if (request->send.ending && !is_being_read(request)) {
        core_request_end(request, request->send.end, request->detail);
    }
    if (!core_request_has_ended(request)) {
        core_request_wake(request);
    } else {
        core_request_reuse(request);
    }
}

void xfer_send_forget(ucxpool_request_t *request)
{
    for (unsigned i = 0; i < CORE_FRAGMENTS_MAX; i++) {
        core_fragment_t *fragment = request->send.fragments[i];

        /* UCX itself says when it is through with a fragment, and so does the
         * GPU. */
        if ((request->send.busy & (UINT64_C(1) << i)) &&
            (fragment->ucx == NULL) && (fragment->copy.job == NULL)) {
            xfer_fragment_free(fragment);
        }
    }
    if (request->send.message != 0) {
        xfer_send_put_number(request);
    }
    core_request_reuse(request);
}

void xfer_send_done(ucxpool_channel_t *channel, const proto_done_t *done,
                    const char *reason)
{
    ucxpool_request_t *request = find(channel, done->message);
    ucxpool_status_t   status  = (ucxpool_status_t)done->status;

    if (request == NULL) {
        return;
    }
    if ((status > UCXPOOL_OK) || (status < UCXPOOL_ERR_LIMIT)) {
        status = UCXPOOL_ERR_PROTOCOL;
    }
    if ((status != UCXPOOL_OK) && (status != UCXPOOL_ERR_CANCELED)) {
        status = UCXPOOL_ERR_REFUSED;
    }
    /* The receiver is done with our memory, so fragments on the `map` wire are
     * free; UCX may still be about to tell us of its own. */
    end(request, status, reason);
    xfer_send_forget(request);
}

void xfer_send_stop(ucxpool_request_t *request, ucxpool_status_t status,
                    const char *detail)
{
    ucxpool_channel_t *channel   = request->channel;
    bool               was_first = channel->queue.next == &request->link;

    if (request->send.step <= CORE_SEND_DESC) {
        core_request_end(request, status, detail);
        if (was_first && !base_list_is_empty(&channel->queue)) {
            core_request_wake(
                base_list_head(&channel->queue, ucxpool_request_t, link));
        }
        return;
    }
    if (request->send.ending) {
        core_request_hurry(request, request->send.end,
                           "the peer kept reading a send in place over the ucx "
                           "wire that had been ended");
        return;
    }
    if (request->send.step == CORE_SEND_RUNS) {
        xfer_send_leave_queue(request);
    }
    send_cancel(request);
    end(request, status, detail);
}

void xfer_send_abort(ucxpool_request_t *request, ucxpool_status_t status,
                     const char *detail)
{
    ucxpool_channel_t *channel = request->channel;

    if ((request->send.message != 0) && channel->wire->is_read) {
        core_ring_revoke(&channel->ring, request->send.message);
    }
    end(request, status, detail);
    if (!channel->wire->is_read || channel->peer.gone) {
        xfer_send_forget(request);
    }
}

/* --- as a request --------------------------------------------------------- */

static void init(ucxpool_request_t *request)
{
    /* Those of fragments[] are set when they are used. */
    memset(&request->send, 0, offsetof(core_send_t, fragments));
    base_list_init(&request->send.unsent);
}

static void resume(ucxpool_request_t *request)
{
    if (request->send.step == CORE_SEND_FRAGMENTS) {
        core_request_wake(request);
    }
}

static void ended(ucxpool_request_t *request, ucxpool_status_t status)
{
    ucxpool_stats_t *stats = &request->pool->stats;

    if (status == UCXPOOL_OK) {
        stats->messages_sent++;
    } else {
        stats->messages_failed++;
    }
    xfer_send_release(request);
}

static bool lingers(const ucxpool_request_t *request)
{
    return (request->send.busy != 0) || (request->send.message != 0);
}

const core_request_kind_t xfer_send_kind = {
    .init    = init,
    .resume  = resume,
    .stop    = xfer_send_stop,
    .ended   = ended,
    .lingers = lingers,
};
