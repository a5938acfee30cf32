/*
 * The public functions that wait.
 */
#include "base/clock.h"
#include "base/error.h"
#include "pool/progress.h"

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
