#include "xfer/flush.h"

#include "base/error.h"

static bool is_under_way(const ucxpool_request_t *request, uint64_t before)
{
    return (request != NULL) && (request->order < before) &&
           !core_request_has_ended(request);
}

bool xfer_flush_has_sends(const ucxpool_channel_t *channel, uint64_t before)
{
    const base_list_t *queue = &channel->requests.queue;

    /* The oldest comes first. */
    if (!base_list_is_empty(queue) &&
        is_under_way(base_list_head(queue, ucxpool_request_t, link), before)) {
        return true;
    }
    for (unsigned i = 0; i < PROTO_SENDS_MAX; i++) {
        if (is_under_way(channel->requests.sends[i], before)) {
            return true;
        }
    }
    return false;
}

unsigned xfer_flush_progress(ucxpool_channel_t *channel)
{
    unsigned           count = 0;
    ucxpool_request_t *request;
    ucxpool_request_t *next;

    base_list_for_each_safe(request, next, &channel->requests.flushes,
                            ucxpool_request_t, link) {
        if (!xfer_flush_has_sends(channel, request->order)) {
            core_request_end(request, UCXPOOL_OK, NULL);
            core_request_reuse(request);
            count++;
        }
    }
    return count;
}

void xfer_flush_abort(ucxpool_channel_t *channel, ucxpool_status_t status)
{
    ucxpool_request_t *request;

    while (!base_list_is_empty(&channel->requests.flushes)) {
        request =
            base_list_head(&channel->requests.flushes, ucxpool_request_t, link);
        core_request_end(request, status, channel->reason);
        core_request_reuse(request);
    }
}

static const core_request_kind_t flush_kind = {
    .stop = core_request_end,
};

static ucxpool_status_t post_flush(ucxpool_channel_t              *channel,
                                   const ucxpool_request_params_t *params,
                                   ucxpool_request_t             **request_p)
{
    static const copy_memory_t nothing;
    ucxpool_request_t         *request;
    ucxpool_status_t           status;

    if (!core_channel_is_live(channel)) {
        return core_channel_say_ended(channel);
    }
    status = core_request_create(channel->pool, &flush_kind, &nothing, params,
                                 &request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    core_request_set_channel(request, channel);
    request->order = channel->flow.num_posted;
    core_request_arm(request);
    base_list_add_tail(&channel->requests.flushes, &request->link);
    xfer_flush_progress(channel);
    core_request_hand_out(request, request_p);
    return UCXPOOL_OK;
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
    status = post_flush(channel, params, request_p);
    core_unlock_posted(pool);
    return status;
}
