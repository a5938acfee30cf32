/*
 * Operations that copy in turns: each turn copies one part of one operation.
 */
#include "window/window.h"

#include "base/error.h"

/* Operations of at most this many bytes are copied by the call that posts them.
 * Longer operations are copied in turns. */
#define AT_ONCE ((uint64_t)256 << 10)

static void end(window_operation_t *operation, ucxpool_status_t status)
{
    window_operation_end(operation, status,
                         (status == UCXPOOL_OK) ? NULL
                                                : ucxpool_error_detail());
}

void window_turns_wait(window_operation_t *operation, ucxpool_status_t status)
{
    if ((status == UCXPOOL_INPROGRESS) || (status == UCXPOOL_ERR_BUSY)) {
        base_list_add_tail(&operation->remote->channel->pool->windows->copying,
                           &operation->link);
    } else {
        end(operation, status);
    }
}

void window_turns_start(window_operation_t *operation)
{
    const window_way_t *way    = window_operation_way(operation);
    ucxpool_status_t    status = UCXPOOL_INPROGRESS;

    if (operation->size <= AT_ONCE) {
        while (status == UCXPOOL_INPROGRESS) {
            status = way->copy(operation);
        }
    }
    window_turns_wait(operation, status);
}

/* Returns UCXPOOL_ERR_BUSY if the channel has ended: its operations end later
 * in the same round of progress. */
ucxpool_status_t
window_turns_step(window_operation_t *operation,
                  ucxpool_status_t (*step)(window_operation_t *operation))
{
    ucxpool_channel_t *channel = operation->remote->channel;
    ucxpool_status_t   status;

    if (!core_channel_is_live(channel) ||
        !core_ring_begin_copy(&channel->ring, channel->windows->num_revokes)) {
        return UCXPOOL_ERR_BUSY;
    }
    status = step(operation);
    core_ring_end_copy(&channel->ring);
    return status;
}

bool window_grant_may_copy(const window_grant_t *grant)
{
    const ucxpool_channel_t *channel = grant->channel;

    return !channel->peer.is_detached &&
           (!grant->window->is_revoked ||
            core_ring_peer_copies(&channel->ring));
}

unsigned window_turns_progress(ucxpool_t *pool)
{
    base_list_t        *copying = &pool->windows->copying;
    window_operation_t *operation;
    ucxpool_status_t    status;

    if (base_list_is_empty(copying)) {
        return 0;
    }
    operation = base_list_head(copying, window_operation_t, link);
    base_list_del(&operation->link);
    base_list_add_tail(copying, &operation->link);
    status = window_operation_way(operation)->copy(operation);
    if (status == UCXPOOL_ERR_BUSY) {
        return 0;
    }
    if (status != UCXPOOL_INPROGRESS) {
        end(operation, status);
    }
    return 1;
}
