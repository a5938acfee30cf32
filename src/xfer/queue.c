#include "xfer/send.h"

#include "base/clock.h"
#include "core/control.h"
#include "xfer/state.h"

static ucxpool_request_t *first_of(const ucxpool_channel_t *channel)
{
    return base_list_is_empty(&channel->xfer->queue)
               ? NULL
               : base_list_head(&channel->xfer->queue, ucxpool_request_t, link);
}

bool xfer_queue_add(ucxpool_request_t *request)
{
    request->order = request->channel->flow.num_posted++;
    base_list_add_tail(&request->channel->xfer->queue, &request->link);
    return xfer_queue_is_first(request);
}

bool xfer_queue_is_first(const ucxpool_request_t *request)
{
    return request->channel->xfer->queue.next == &request->link;
}

void xfer_queue_wake(ucxpool_channel_t *channel)
{
    ucxpool_request_t *first = first_of(channel);

    if (first != NULL) {
        core_request_wake(first);
    }
}

void xfer_queue_leave(ucxpool_request_t *request)
{
    base_list_del(&request->link);
    xfer_queue_wake(request->channel);
}

void xfer_queue_end(ucxpool_request_t *request, ucxpool_status_t status,
                    const char *detail)
{
    ucxpool_channel_t *channel   = request->channel;
    bool               was_first = xfer_queue_is_first(request);

    core_request_end(request, status, detail);
    if (was_first) {
        xfer_queue_wake(channel);
    }
}

void xfer_queue_count(ucxpool_request_t *request, ucxpool_status_t status)
{
    core_counters_t *counts = &request->channel->counts;

    if (status == UCXPOOL_OK) {
        counts->messages_sent++;
    } else {
        counts->messages_failed++;
    }
}

static void end_credit_wait(ucxpool_channel_t *channel)
{
    core_flow_t *flow = &channel->flow;

    if (flow->credit_since != 0) {
        channel->counts.credit_wait_ns += base_clock_now() - flow->credit_since;
        flow->credit_since = 0;
    }
}

bool xfer_queue_may_announce(ucxpool_channel_t *channel)
{
    core_flow_t *flow = &channel->flow;
    ucxpool_t   *pool = channel->pool;

    if (flow->announce_at == 0) {
        flow->announce_at  = base_clock_deadline(pool->announce_ns);
        flow->credit_since = base_clock_now();
        channel->counts.credit_waits++;
        pool->xfer->next_announce =
            base_min(pool->xfer->next_announce, flow->announce_at);
    }
    if (base_clock_now() < flow->announce_at) {
        return false;
    }
    end_credit_wait(channel);
    return true;
}

void xfer_queue_end_announce(ucxpool_channel_t *channel)
{
    end_credit_wait(channel);
    channel->flow.announce_at = 0;
}

unsigned xfer_queue_announce(ucxpool_t *pool)
{
    unsigned           count = 0;
    uint64_t           now   = base_clock_now();
    ucxpool_channel_t *channel;

    if (now < pool->xfer->next_announce) {
        return 0;
    }
    pool->xfer->next_announce = BASE_CLOCK_FOREVER;
    base_list_for_each(channel, &pool->channels.open, ucxpool_channel_t, link) {
        uint64_t moment = channel->flow.announce_at;

        if (moment > now) {
            pool->xfer->next_announce =
                base_min(pool->xfer->next_announce, moment);
        } else if (moment != 0) {
            end_credit_wait(channel);
            xfer_queue_wake(channel);
            count++;
        }
    }
    return count;
}

/* Returns the first send if it can send all its data now with a credit; else
 * NULL. */
static ucxpool_request_t *next_quick(const ucxpool_channel_t *channel)
{
    ucxpool_request_t *first = first_of(channel);

    if ((first == NULL) || (channel->flow.credits == 0) ||
        (channel->state != UCXPOOL_CHANNEL_OPEN)) {
        return NULL;
    }
    return first->kind->is_quick(first) ? first : NULL;
}

unsigned xfer_queue_progress(ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;
    bool               moved   = request->kind->advance(request);
    unsigned           count   = 0;
    ucxpool_request_t *next;

    core_channel_get(channel);
    core_control_hold(channel->pool);
    while (moved) {
        count++;
        core_request_reuse(request);
        next = next_quick(channel);
        if (next == NULL) {
            break;
        }
        request = next;
        moved   = request->kind->advance(request);
    }
    if (!moved) {
        core_request_reuse(request);
    }
    core_control_release(channel->pool);
    core_channel_put(channel);
    return count;
}

void xfer_queue_abort(ucxpool_channel_t *channel, ucxpool_status_t status,
                      const char *detail)
{
    ucxpool_request_t *request;

    end_credit_wait(channel);
    /* Aborting one send may also end the next one. For example, aborting the
     * CALL of a window's write also ends the send of its data. So each
     * iteration takes the first send. */
    while ((request = first_of(channel)) != NULL) {
        base_list_del(&request->link);
        request->kind->abort(request, status, detail);
        core_request_reuse(request);
    }
}
