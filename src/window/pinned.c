/*
 * Reads by a GPU from a window in host memory of another pool. The window is
 * mapped and pinned for the GPU, whose kernel then reads it like the memory of
 * another GPU.
 *
 * A kernel needs the window at contiguous addresses, so the window must be in
 * one part of one file. It is pinned for reading only: writes use messages.
 */
#include "window/service.h"
#include "window/way.h"

#include "base/error.h"
#include "core/memory.h"

/* Returns true if the importer can pin the window. If the owner's pool is on a
 * GPU, the window's parts are GPU memory, which is not pinned. */
static bool is_shared(const window_grant_t *grant)
{
    return (grant->access & UCXPOOL_WINDOW_READ) &&
           (grant->window->num_parts == 1) &&
           (grant->window->pool->windows->reach == CORE_REACH_HOST);
}

static void pinned_offer(window_grant_t *grant, window_offer_t *offer)
{
    if (is_shared(grant)) {
        window_mapped.offer(grant, offer);
    }
}

/* The importer does not report whether it has pinned the window. */
static bool pinned_may_touch(const window_grant_t *grant)
{
    return is_shared(grant) && window_device.may_touch(grant);
}

/* Pin the mapped file. A window in the peer's blocks needs no pinning if the
 * channel has pinned these blocks. */
static ucxpool_status_t pin(ucxpool_remote_window_t *remote)
{
    ucxpool_channel_t *channel = remote->channel;
    const ipc_view_t  *view    = &remote->views[0].view;
    const uint8_t     *start   = view->start;
    const uint64_t     size    = view->size;
    ucxpool_status_t   status;

    if (remote->num_views != 1) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the window is not in one part of one file");
    }
    if (size == 0) {
        return channel->peer.mapping->is_pinned
                   ? UCXPOOL_OK
                   : base_error(UCXPOOL_ERR_UNSUPPORTED,
                                "the peer's blocks are not pinned");
    }
    status            = core_memory_pin_peers(channel->pool, &start, &size, 1);
    remote->is_pinned = status == UCXPOOL_OK;
    return status;
}

static void pinned_close(ucxpool_remote_window_t *remote)
{
    const uint8_t *start;
    uint64_t       size;

    if (remote->is_pinned) {
        start             = remote->views[0].view.start;
        size              = remote->views[0].view.size;
        remote->is_pinned = false;
        core_memory_unpin_peers(remote->channel->pool, &start, &size, 1);
    }
    window_mapped.close(remote);
}

static unsigned pinned_open(ucxpool_remote_window_t *remote,
                            const window_answer_t   *answer)
{
    const ucxpool_t *pool = remote->channel->pool;
    base_log_level_t level;
    ucxpool_status_t status;

    if ((copy_engine_memory_kind(pool->engine) == UCXPOOL_MEMORY_HOST) ||
        !(remote->access & UCXPOOL_WINDOW_READ) ||
        (window_mapped.open(remote, answer) == 0)) {
        return 0;
    }
    level  = base_error_log_at(BASE_LOG_DEBUG);
    status = pin(remote);
    base_error_log_at(level);
    remote->way_reason[0] = '\0';
    if (status != UCXPOOL_OK) {
        window_remote_set_reason(remote, "not pinned: %s",
                                 ucxpool_error_detail());
        pinned_close(remote);
        return 0;
    }
    remote->address = (uintptr_t)remote->views[0].address - remote->length;
    window_remote_set_reason(remote, "the GPU reads pinned host memory; writes "
                                     "use messages");
    return UCXPOOL_WINDOW_READ;
}

const window_way_t window_pinned = {
    .id            = UCXPOOL_WAY_CUDA,
    .reach         = CORE_REACH_MIXED,
    .offer         = pinned_offer,
    .may_touch     = pinned_may_touch,
    .open          = pinned_open,
    .close         = pinned_close,
    .fits          = window_device_fits,
    .checks_places = window_device_checks_places,
    .start         = window_device_start,
    .copy          = window_device_copy,
};
