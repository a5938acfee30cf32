/*
 * The public functions of requests and of messages that were probed.
 */
#include "base/clock.h"
#include "base/error.h"
#include "core/control.h"
#include "pool/progress.h"
#include "xfer/message.h"

/* --- requests and messages ------------------------------------------------ */

ucxpool_status_t ucxpool_request_test(const ucxpool_request_t *request)
{
    if (base_missing(request)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return core_request_status(request);
}

void ucxpool_request_query(const ucxpool_request_t *request,
                           ucxpool_request_attr_t  *attr_p)
{
    if (base_missing(attr_p)) {
        return;
    }
    if (base_missing(request)) {
        *attr_p = (ucxpool_request_attr_t){
            .status = UCXPOOL_ERR_INVALID_PARAM,
            .detail = "the request is NULL",
        };
        return;
    }
    core_lock(request->pool);
    attr_p->status = core_request_status(request);
    attr_p->detail = request->detail;
    attr_p->tag    = request->tag;
    attr_p->length = request->data.totals.payload_size;
    attr_p->metadata =
        (request->metadata.length != 0) ? request->metadata.bytes : NULL;
    attr_p->metadata_length = request->metadata.length;
    attr_p->channel = ((request->channel != NULL) && request->channel->user_ref)
                          ? request->channel
                          : NULL;
    core_unlock(request->pool);
}

void ucxpool_request_cancel(ucxpool_request_t *request)
{
    if (base_missing(request)) {
        return;
    }
    core_lock(request->pool);
    core_request_cancel(request);
    core_unlock_posted(request->pool);
}

void ucxpool_request_free(ucxpool_request_t *request)
{
    ucxpool_t *pool;

    if (request == NULL) {
        return;
    }
    pool = request->pool;
    core_lock(pool);
    request->user_ref = false;
    core_request_reuse(request);
    core_unlock(pool);
}

ucxpool_status_t ucxpool_probe(ucxpool_t *pool, ucxpool_channel_t *channel,
                               uint64_t tag, uint64_t mask,
                               ucxpool_message_t **message_p)
{
    ucxpool_message_t *message;

    if (base_missing(pool) || base_missing(message_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    core_lock(pool);
    message = xfer_message_match(pool, channel, tag, mask);
    if (message != NULL) {
        message->probed = true;
        base_list_add_tail(&pool->requests.probed, &message->link);
        *message_p = message;
    }
    core_unlock(pool);
    return (message == NULL) ? UCXPOOL_ERR_NO_MESSAGE : UCXPOOL_OK;
}

void ucxpool_message_query(const ucxpool_message_t *message,
                           ucxpool_message_attr_t  *attr_p)
{
    if (base_missing(attr_p)) {
        return;
    }
    if (base_missing(message)) {
        *attr_p = (ucxpool_message_attr_t){.tag = 0};
        return;
    }
    core_lock(message->pool);
    attr_p->tag             = message->desc.tag;
    attr_p->length          = message->totals.payload_size;
    attr_p->num_segments    = message->totals.num_segments;
    attr_p->metadata_length = message->desc.metadata_size;
    attr_p->metadata =
        (message->desc.metadata_size != 0) ? message->metadata : NULL;
    attr_p->channel = message->channel->user_ref ? message->channel : NULL;
    core_unlock(message->pool);
}

size_t ucxpool_message_lengths(const ucxpool_message_t *message, size_t first,
                               size_t num_lengths, size_t *lengths)
{
    if (base_missing(message) ||
        ((num_lengths != 0) && base_missing(lengths))) {
        return 0;
    }
    return copy_lengths_expand(message->runs, message->desc.num_runs, first,
                               num_lengths, lengths);
}

void ucxpool_message_refuse(ucxpool_message_t *message, const char *reason)
{
    ucxpool_t *pool;

    if (base_missing(message)) {
        return;
    }
    pool = message->pool;
    core_lock(pool);
    if ((message->desc.message != 0) && !message->canceled) {
        core_control_done(message->channel, message->desc.message,
                          UCXPOOL_ERR_REFUSED,
                          (reason == NULL) ? "no reason given" : reason);
    }
    pool->stats.messages_refused++;
    xfer_message_release(message);
    core_unlock_posted(pool);
}

/* --- waiting -------------------------------------------------------------- */

ucxpool_status_t ucxpool_wait(ucxpool_t *pool, uint64_t timeout_ns)
{
    static const pool_goal_t any = {.is_reached = NULL};

    if (base_missing(pool)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return pool_wait(pool, &any, base_clock_deadline(timeout_ns));
}

static bool has_ended(const void *request)
{
    return ucxpool_request_test(request) != UCXPOOL_INPROGRESS;
}

ucxpool_status_t ucxpool_request_wait(ucxpool_request_t *request,
                                      uint64_t           timeout_ns)
{
    pool_goal_t goal = {has_ended, request};

    if (!has_ended(request)) {
        pool_wait(request->pool, &goal, base_clock_deadline(timeout_ns));
    }
    return ucxpool_request_test(request);
}

static bool is_settled(const void *channel)
{
    ucxpool_channel_attr_t attr;

    ucxpool_channel_query(channel, &attr);
    return attr.state != UCXPOOL_CHANNEL_CONNECTING;
}

ucxpool_status_t ucxpool_channel_wait(ucxpool_channel_t *channel,
                                      uint64_t           timeout_ns)
{
    pool_goal_t            goal = {is_settled, channel};
    ucxpool_channel_attr_t attr;

    if (!is_settled(channel)) {
        pool_wait(channel->pool, &goal, base_clock_deadline(timeout_ns));
    }
    ucxpool_channel_query(channel, &attr);
    switch (attr.state) {
    case UCXPOOL_CHANNEL_OPEN:
        return UCXPOOL_OK;
    case UCXPOOL_CHANNEL_CONNECTING:
        return base_error(UCXPOOL_ERR_TIMED_OUT,
                          "%s: no answer from the peer yet", attr.name);
    default:
        return base_error(attr.status, "%s: %s", attr.name, attr.reason);
    }
}
