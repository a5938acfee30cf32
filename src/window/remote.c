/*
 * Remotes: a peer's windows, as they are imported here.
 */
#include "window/window.h"

#include "base/error.h"
#include "core/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- import --------------------------------------------------------------- */

static ucxpool_status_t check_blob(const void *bytes, size_t size,
                                   window_blob_t *blob_p)
{
    if (size == sizeof(*blob_p)) {
        memcpy(blob_p, bytes, sizeof(*blob_p));
    }
    if ((size != sizeof(*blob_p)) || (blob_p->magic != WINDOW_BLOB_MAGIC)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "these %zu bytes are no window's: they must come "
                          "from ucxpool_window_export()",
                          size);
    }
    if (blob_p->version != PROTO_VERSION) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "the window's owner speaks protocol version %u, we "
                          "speak %u: use the same version of libucxpool on "
                          "both sides",
                          blob_p->version, PROTO_VERSION);
    }
    return UCXPOOL_OK;
}

/* Known when the channel is open. */
static bool is_peers(const ucxpool_remote_t *remote)
{
    return memcmp(remote->blob.pool, remote->channel->peer.id,
                  sizeof(remote->blob.pool)) == 0;
}

#define NOT_PEERS "the window is of another pool than the channel's peer"

ucxpool_status_t window_import(ucxpool_channel_t *channel, const void *blob,
                               size_t blob_size, ucxpool_remote_t **remote_p)
{
    ucxpool_remote_t *remote;
    ucxpool_status_t  status;
    window_blob_t     checked;

    if (!core_channel_is_live(channel)) {
        return core_channel_say_ended(channel);
    }
    status = check_blob(blob, blob_size, &checked);
    if (status != UCXPOOL_OK) {
        return status;
    }
    remote = core_alloc(channel->pool, sizeof(*remote));
    if (remote == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for an import");
    }
    *remote = (ucxpool_remote_t){
        .channel  = channel,
        .number   = ++channel->windows.next_number,
        .blob     = checked,
        .user_ref = true,
        .status   = UCXPOOL_INPROGRESS,
        .length   = checked.length,
        .access   = checked.access,
    };
    base_list_init(&remote->waiting);
    if ((channel->state == UCXPOOL_CHANNEL_OPEN) && !is_peers(remote)) {
        free(remote);
        return base_error(UCXPOOL_ERR_INVALID_PARAM, NOT_PEERS);
    }
    core_channel_get(channel);
    base_list_add_tail(&channel->windows.remotes, &remote->link);
    *remote_p = remote;
    return UCXPOOL_OK;
}

static void ask(ucxpool_remote_t *remote)
{
    const window_blob_t *blob = &remote->blob;
    proto_fixed_t       *fixed;

    remote->was_asked = true;
    if (!is_peers(remote)) {
        window_remote_end(remote, UCXPOOL_ERR_INVALID_PARAM, NOT_PEERS);
        return;
    }
    fixed = core_control_begin(remote->channel, PROTO_WINDOW_OPEN, 0, CORE_MUST,
                               NULL);
    if (fixed == NULL) {
        return; /* the channel has failed */
    }
    fixed->window_open.remote = remote->number;
    fixed->window_open.window = blob->window;
    fixed->window_open.access = blob->access;
    memcpy(fixed->window_open.key, blob->key, sizeof(blob->key));
    core_control_end(remote->channel);
}

unsigned window_remotes_progress(ucxpool_channel_t *channel)
{
    unsigned          count = 0;
    ucxpool_remote_t *remote;
    ucxpool_remote_t *next;

    base_list_for_each_safe(remote, next, &channel->windows.remotes,
                            ucxpool_remote_t, link) {
        if (!remote->was_asked) {
            ask(remote);
            count++;
        }
    }
    return count;
}

/* --- what the owner says -------------------------------------------------- */

static ucxpool_remote_t *find(const ucxpool_channel_t *channel, uint64_t number)
{
    ucxpool_remote_t *remote;

    base_list_for_each(remote, &channel->windows.remotes, ucxpool_remote_t,
                       link) {
        if (remote->number == number) {
            return remote;
        }
    }
    return NULL;
}

/* What we had of the owner's is its own again. */
static void close_grant(ucxpool_channel_t *channel, uint64_t grant)
{
    proto_fixed_t *fixed;

    if ((grant == 0) || !core_channel_is_live(channel)) {
        return;
    }
    fixed = core_control_begin(channel, PROTO_WINDOW_CLOSE, 0, CORE_MUST, NULL);
    if (fixed != NULL) {
        fixed->window_close.grant = grant;
        core_control_end(channel);
    }
}

/* By ourselves, if that can be. */
static bool goes_directly(ucxpool_remote_t            *remote,
                          const proto_window_opened_t *opened, const void *data)
{
    proto_window_cuda_t cuda;

    if (opened->flags & PROTO_OPENED_CUDA) {
        memcpy(&cuda, data, sizeof(cuda));
        if (window_device_map(remote, opened, &cuda)) {
            remote->way = UCXPOOL_WAY_CUDA;
            return true;
        }
    } else if (window_process_fits(remote->channel, opened, remote->way_reason,
                                   sizeof(remote->way_reason))) {
        remote->way = UCXPOOL_WAY_PROCESS;
        return true;
    }
    return false;
}

/* False: the one that was demanded does not fit. */
static bool choose_way(ucxpool_remote_t            *remote,
                       const proto_window_opened_t *opened, const void *data)
{
    base_window_way_t wanted = remote->channel->pool->config.window_way;

    remote->way = UCXPOOL_WAY_MESSAGES;
    if (wanted == BASE_WINDOW_WAY_MESSAGES) {
        snprintf(remote->way_reason, sizeof(remote->way_reason),
                 "UCXPOOL_WINDOW_WAY=messages");
        return true;
    }
    return goes_directly(remote, opened, data) ||
           (wanted == BASE_WINDOW_WAY_AUTO);
}

void window_remote_opened(ucxpool_channel_t           *channel,
                          const proto_window_opened_t *opened, const void *data,
                          const char *reason)
{
    ucxpool_remote_t *remote = find(channel, opened->remote);

    if ((remote == NULL) || (remote->status != UCXPOOL_INPROGRESS)) {
        close_grant(channel, opened->grant);
        return;
    }
    if (opened->grant == 0) {
        window_remote_end(remote, UCXPOOL_ERR_REFUSED, reason);
        return;
    }
    if (opened->length != remote->blob.length) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer's window has another length than its blob "
                          "says");
        return;
    }
    remote->status  = UCXPOOL_OK;
    remote->grant   = opened->grant;
    remote->address = opened->address;
    if (choose_way(remote, opened, data)) {
        window_operations_begin(remote);
    } else {
        window_remote_end(remote, UCXPOOL_ERR_UNSUPPORTED, remote->way_reason);
    }
}

void window_remote_revoked(ucxpool_channel_t *channel, uint64_t number)
{
    ucxpool_remote_t *remote = find(channel, number);

    if (remote != NULL) {
        window_remote_end(remote, UCXPOOL_ERR_CANCELED,
                          "the owner has revoked the window");
    }
}

/* --- its end -------------------------------------------------------------- */

/* Give back the grant when nothing of ours touches the window. */
static void put_grant(ucxpool_remote_t *remote)
{
    if (remote->refs == 0) {
        window_device_unmap(remote);
        close_grant(remote->channel, remote->grant);
        remote->grant = 0;
    }
}

static void free_if_unused(ucxpool_remote_t *remote)
{
    ucxpool_channel_t *channel = remote->channel;

    if (!remote->user_ref && (remote->refs == 0)) {
        put_grant(remote);
        base_list_del(&remote->link);
        free(remote);
        core_channel_put(channel);
    }
}

void window_remote_release(ucxpool_remote_t *remote)
{
    remote->user_ref = false;
    free_if_unused(remote);
}

void window_remote_put(ucxpool_remote_t *remote)
{
    remote->refs--;
    if (remote->status < UCXPOOL_OK) {
        put_grant(remote);
    }
    free_if_unused(remote);
}

void window_remote_end(ucxpool_remote_t *remote, ucxpool_status_t status,
                       const char *reason)
{
    if (remote->status < UCXPOOL_OK) {
        return;
    }
    remote->status = status;
    snprintf(remote->reason, sizeof(remote->reason), "%s", reason);
    remote->refs++; /* until we are through here */
    window_operations_abort(remote, status, remote->reason);
    window_remote_put(remote);
}
