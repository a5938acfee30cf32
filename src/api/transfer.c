/* The public functions that send and receive: data, requests, messages. */
#include <ucxpool/transfer.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "core/control.h"
#include "core/request.h"
#include "pool/pool.h"
#include "xfer/recv.h"
#include "xfer/post.h"
#include "xfer/send.h"

/* --- send and receive -------------------------------------------------------
 */

ucxpool_status_t api_post_send(ucxpool_channel_t    *channel,
                               const ucxpool_data_t *data, uint64_t tag,
                               const ucxpool_request_params_t *params,
                               ucxpool_request_t             **request_p)
{
    api_data_t       caller;
    ucxpool_status_t status = api_data_read(data, &caller);

    return (status == UCXPOOL_OK)
               ? xfer_post_send(channel, &caller.memory, tag, params, request_p)
               : status;
}

ucxpool_status_t ucxpool_send(ucxpool_channel_t    *channel,
                              const ucxpool_data_t *data, uint64_t tag,
                              const ucxpool_request_params_t *params,
                              ucxpool_request_t             **request_p)
{
    ucxpool_status_t status;

    if (base_missing(channel) || base_missing(data)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    core_lock(channel->pool);
    status = api_post_send(channel, data, tag, params, request_p);
    core_unlock_posted(channel->pool);
    return status;
}

ucxpool_status_t ucxpool_send_buffer(ucxpool_channel_t *channel,
                                     const void *address, size_t length,
                                     uint64_t                        tag,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p)
{
    /* Casts away const, because sends only read their segments. */
    const ucxpool_segment_t segment = {(void *)address, length};
    const copy_memory_t     memory  = copy_memory_of_segments(&segment, 1);
    ucxpool_status_t        status;

    if (base_missing(channel)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    core_lock(channel->pool);
    status = xfer_post_send(channel, &memory, tag, params, request_p);
    core_unlock_posted(channel->pool);
    return status;
}

ucxpool_status_t api_post_recv(ucxpool_t *pool, ucxpool_channel_t *channel,
                               const ucxpool_data_t *data, uint64_t tag,
                               uint64_t                        mask,
                               const ucxpool_request_params_t *params,
                               ucxpool_request_t             **request_p)
{
    api_data_t       caller;
    ucxpool_status_t status = api_data_read_target(data, &caller);

    return (status == UCXPOOL_OK)
               ? xfer_post_recv(pool, channel, &caller.memory, tag, mask,
                                params, request_p)
               : status;
}

ucxpool_status_t ucxpool_recv(ucxpool_t *pool, ucxpool_channel_t *channel,
                              const ucxpool_data_t *data, uint64_t tag,
                              uint64_t                        mask,
                              const ucxpool_request_params_t *params,
                              ucxpool_request_t             **request_p)
{
    ucxpool_status_t status;

    if (base_missing(pool) || base_missing(data) ||
        api_foreign(pool, channel)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    core_lock(pool);
    status = api_post_recv(pool, channel, data, tag, mask, params, request_p);
    core_unlock_posted(pool);
    return status;
}

ucxpool_status_t ucxpool_recv_buffer(ucxpool_t         *pool,
                                     ucxpool_channel_t *channel, void *address,
                                     size_t length, uint64_t tag, uint64_t mask,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p)
{
    ucxpool_status_t status;

    if (base_missing(pool) || api_foreign(pool, channel)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    core_lock(pool);
    status = xfer_post_recv_buffer(pool, channel, address, length, tag, mask,
                                   params, request_p);
    core_unlock_posted(pool);
    return status;
}

ucxpool_status_t ucxpool_message_recv(ucxpool_message_t              *message,
                                      const ucxpool_data_t           *data,
                                      const ucxpool_request_params_t *params,
                                      ucxpool_request_t             **request_p)
{
    api_data_t       caller;
    ucxpool_t       *pool;
    ucxpool_status_t status;

    if (base_missing(message) || base_missing(data)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    status = api_data_read_target(data, &caller);
    if (status != UCXPOOL_OK) {
        return status;
    }
    pool = message->pool;
    core_lock(pool);
    status = xfer_post_message_recv(message, &caller.memory, params, request_p);
    core_unlock_posted(pool);
    return status;
}

/* --- requests and messages ------------------------------------------------ */

ucxpool_status_t ucxpool_request_test(const ucxpool_request_t *request)
{
    if (base_missing(request)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return core_request_shown(request);
}

_Static_assert(CORE_DETAIL_SIZE <= UCXPOOL_REASON_SIZE,
               "queries copy whole strings");

static void describe_request(const ucxpool_request_t *request,
                             ucxpool_request_attr_t  *attr)
{
    ucxpool_channel_t *channel = request->channel;
    ucxpool_status_t   status  = core_request_shown(request);
    size_t             length =
        (status == UCXPOOL_INPROGRESS) ? 0 : request->metadata.length;

    *attr = (ucxpool_request_attr_t){
        .status          = status,
        .tag             = request->tag,
        .length          = request->data.totals.payload_size,
        .metadata        = (length != 0) ? request->metadata.bytes : NULL,
        .metadata_length = length,
        .channel = ((channel != NULL) && channel->user_ref) ? channel : NULL,
    };
    if (status < UCXPOOL_OK) {
        base_text_copy(attr->detail, sizeof(attr->detail),
                       core_request_detail(request));
    }
}

void ucxpool_request_query(const ucxpool_request_t *request,
                           ucxpool_request_attr_t *attr_p, size_t attr_size)
{
    ucxpool_request_attr_t attr = {
        .status = UCXPOOL_ERR_INVALID_PARAM,
        .detail = "the request is NULL",
    };

    if (base_missing(attr_p)) {
        return;
    }
    if (!base_missing(request)) {
        core_lock(request->pool);
        describe_request(request, &attr);
        core_unlock(request->pool);
    }
    base_output(attr_p, attr_size, &attr, sizeof(attr));
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

void ucxpool_request_release(ucxpool_request_t *request)
{
    ucxpool_t *pool;

    if (request == NULL) {
        return;
    }
    pool = request->pool;
    core_lock(pool);
    core_request_release(request);
    core_unlock(pool);
}

ucxpool_status_t ucxpool_completion_get(ucxpool_t            *pool,
                                        ucxpool_completion_t *completions,
                                        size_t max, size_t *num_p)
{
    if (base_missing(pool) || base_missing(completions) ||
        base_missing(num_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    core_lock(pool);
    *num_p = core_request_report(pool, completions, max);
    core_unlock(pool);
    return UCXPOOL_OK;
}

ucxpool_status_t ucxpool_probe(ucxpool_t *pool, ucxpool_channel_t *channel,
                               uint64_t tag, uint64_t mask,
                               ucxpool_message_t **message_p)
{
    ucxpool_message_t *message;

    if (base_missing(pool) || base_missing(message_p) ||
        api_foreign(pool, channel)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    core_lock(pool);
    message = xfer_message_match(pool, channel, tag, mask);
    if (message != NULL) {
        xfer_message_keep(message);
        *message_p = message;
    }
    core_unlock(pool);
    return (message == NULL) ? UCXPOOL_ERR_NO_MESSAGE : UCXPOOL_OK;
}

static ucxpool_message_attr_t describe_message(const ucxpool_message_t *message)
{
    ucxpool_channel_t *channel = message->channel;
    size_t             length  = message->desc.metadata_size;

    return (ucxpool_message_attr_t){
        .tag             = message->desc.tag,
        .length          = message->totals.payload_size,
        .num_segments    = message->totals.num_segments,
        .metadata        = (length != 0) ? message->metadata : NULL,
        .metadata_length = length,
        .channel         = channel->user_ref ? channel : NULL,
    };
}

void ucxpool_message_query(const ucxpool_message_t *message,
                           ucxpool_message_attr_t *attr_p, size_t attr_size)
{
    ucxpool_message_attr_t attr = {.tag = 0};

    if (base_missing(attr_p)) {
        return;
    }
    if (!base_missing(message)) {
        core_lock(message->pool);
        attr = describe_message(message);
        core_unlock(message->pool);
    }
    base_output(attr_p, attr_size, &attr, sizeof(attr));
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
                          UCXPOOL_ERR_REFUSED, (reason == NULL) ? "" : reason);
    }
    message->channel->counts.messages_refused++;
    xfer_message_release(message);
    core_unlock_posted(pool);
}

static bool has_ended(const void *request)
{
    return ucxpool_request_test(request) != UCXPOOL_INPROGRESS;
}

/* Set the calling thread's error detail to the request's detail. Returns the
 * request's status. */
static ucxpool_status_t set_detail(const ucxpool_request_t *request)
{
    ucxpool_request_attr_t attr;

    ucxpool_request_query(request, &attr, sizeof(attr));
    return base_error(attr.status, "%s", attr.detail);
}

ucxpool_status_t ucxpool_request_wait(ucxpool_request_t *request,
                                      uint64_t           timeout_ns)
{
    pool_goal_t      goal = {.is_reached = has_ended, .object = request};
    ucxpool_status_t status;

    if (base_missing(request)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    if (!has_ended(request)) {
        pool_wait(request->pool, &goal, base_clock_deadline(timeout_ns));
    }
    status = ucxpool_request_test(request);
    return (status < 0) ? set_detail(request) : status;
}

ucxpool_status_t ucxpool_channel_flush(ucxpool_channel_t              *channel,
                                       const ucxpool_request_params_t *params,
                                       ucxpool_request_t **request_p)
{
    ucxpool_t       *pool;
    ucxpool_status_t status;

    if (base_missing(channel)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    pool = channel->pool;
    core_lock(pool);
    status = xfer_flush_post(channel, params, request_p);
    core_unlock_posted(pool);
    return status;
}
