/*
 * Messages for windows, progress, and the end of a channel.
 */
#include "window/service.h"

#include "base/error.h"
#include "copy/engine.h"
#include "xfer/recv.h"
#include "window/way.h"

#include <stdlib.h>

/* --- messages ------------------------------------------------------------- */

static void release_grant(ucxpool_channel_t *channel, uint64_t number)
{
    window_grant_t *grant = window_grant_find(channel, number);

    if ((grant != NULL) && !grant->is_released) {
        window_grant_release(grant);
    }
}

void window_received(ucxpool_channel_t *channel, const proto_fixed_t *message,
                     const void *data, size_t data_size)
{
    char reason[PROTO_TEXT_MAX + 1];

    proto_copy_text(reason, sizeof(reason), data, data_size);
    switch (message->head.type) {
    case PROTO_WINDOW_OPEN:
        window_grant_open(channel, &message->window_open);
        break;
    case PROTO_WINDOW_OPENED:
        window_remote_opened(channel, &message->window_opened, data, data_size,
                             reason);
        break;
    case PROTO_WINDOW_CLOSE:
        release_grant(channel, message->window_close.grant);
        break;
    case PROTO_WINDOW_REVOKE:
        window_remote_revoked(channel, message->window_revoke.remote);
        break;
    case PROTO_WINDOW_END:
        if (message->window_end.refused) {
            window_messages_refused(channel, &message->window_end, reason);
        } else {
            window_served_abandon(channel, message->window_end.operation);
        }
        break;
    default:
        break;
    }
}

void window_message(ucxpool_message_t *message)
{
    if (message->desc.flags & PROTO_DESC_CALL) {
        window_served_start(message);
    } else if (message->desc.flags & PROTO_DESC_READ) {
        window_messages_answered(message);
    } else {
        window_served_data_received(message);
    }
}

/* --- progress ------------------------------------------------------------- */

unsigned window_progress(ucxpool_t *pool)
{
    return window_served_progress(pool) + window_turns_progress(pool);
}

bool window_channel_is_quiet(const ucxpool_channel_t *channel)
{
    const struct window_channel *windows = channel->windows;

    if (base_list_is_empty(&windows->remotes)) {
        return true;
    }
    /* OPEN is sent in the order of the list, so checking the last remote window
     * is enough. */
    return base_container_of(windows->remotes.prev, ucxpool_remote_window_t,
                             link)
               ->was_asked &&
           base_list_is_empty(&windows->queued);
}

unsigned window_channel_progress(ucxpool_channel_t *channel)
{
    unsigned count = 0;

    if (channel->state == UCXPOOL_CHANNEL_OPEN) {
        if (!base_list_is_empty(&channel->windows->remotes)) {
            count += window_remotes_progress(channel);
            count += window_messages_progress(channel);
        }
    } else if (!core_channel_is_live(channel) &&
               !base_list_is_empty(&channel->windows->grants)) {
        window_grants_release(channel, false);
    }
    return count;
}

/* --- the end -------------------------------------------------------------- */

bool window_channel_is_busy(const ucxpool_channel_t *channel)
{
    const ucxpool_remote_window_t *remote;

    base_list_find(remote, &channel->windows->remotes, ucxpool_remote_window_t,
                   link, remote->refs != 0);
    return remote != NULL;
}

void window_channel_ended(ucxpool_channel_t *channel)
{
    ucxpool_remote_window_t *remote, *next;

    base_list_for_each_safe(remote, next, &channel->windows->remotes,
                            ucxpool_remote_window_t, link) {
        window_remote_end(remote, channel->status, channel->reason);
    }
    window_served_cancel(channel, NULL);
}

void window_channel_drop_all(ucxpool_channel_t *channel)
{
    ucxpool_remote_window_t *remote;

    channel->refs++; /* destroying the served operations must not free the
                        channel */
    /* The requests of the served operations have already ended, so progress
     * only destroys these operations. */
    window_served_cancel(channel, NULL);
    window_served_progress(channel->pool);
    window_grants_release(channel, true);
    while ((remote = base_list_pop(&channel->windows->remotes,
                                   ucxpool_remote_window_t, link)) != NULL) {
        remote->key = NULL; /* the key's worker may have been destroyed */
        window_remote_unmap(remote);
        free(remote);
    }
}

/* --- state ---------------------------------------------------------------- */

ucxpool_status_t window_pool_create(ucxpool_t *pool)
{
    struct window_pool *windows = calloc(1, sizeof(*windows));

    if (windows == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a pool");
    }
    base_list_init(&windows->all);
    base_list_init(&windows->copying);
    base_list_init(&windows->runnable);
    base_list_init(&windows->free_operations);
    windows->reach = 1 << copy_engine_memory_kind(pool->engine);
    pool->windows  = windows;
    return UCXPOOL_OK;
}

void window_pool_destroy(ucxpool_t *pool)
{
    while (!base_list_is_empty(&pool->windows->all)) {
        window_free(
            base_list_head(&pool->windows->all, ucxpool_window_t, link));
    }
    window_operations_destroy_all(pool);
    free(pool->windows);
    pool->windows = NULL;
}

ucxpool_status_t window_channel_create(ucxpool_channel_t *channel)
{
    struct window_channel *windows = calloc(1, sizeof(*windows));

    if (windows == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a channel");
    }
    base_list_init(&windows->remotes);
    base_list_init(&windows->grants);
    base_list_init(&windows->served);
    base_list_init(&windows->queued);
    base_list_init(&windows->called);
    base_list_init(&windows->moving);
    base_list_init(&windows->moved);
    channel->windows = windows;
    return UCXPOOL_OK;
}

void window_channel_destroy(ucxpool_channel_t *channel)
{
    free(channel->windows);
    channel->windows = NULL;
}
