/*
 * Remote windows: windows of peers, imported by this process.
 */
#include "window/remote.h"

#include "base/error.h"
#include "base/log.h"
#include "core/control.h"
#include "core/inbox.h"
#include "window/service.h"
#include "window/way.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The ways to access a window, best first. */
const window_way_t *const window_ways[] = {
    &window_mapped, &window_process,  &window_device, &window_pinned,
    &window_rma,    &window_messages, NULL,
};

/* --- import --------------------------------------------------------------- */

static ucxpool_status_t check_blob(const void *bytes, size_t size,
                                   window_blob_t *blob_p)
{
    if (size == sizeof(*blob_p)) {
        memcpy(blob_p, bytes, sizeof(*blob_p));
    }
    if ((size != sizeof(*blob_p)) || (blob_p->magic != WINDOW_BLOB_MAGIC)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "these %zu bytes are not a window: they must come "
                          "from ucxpool_window_export()",
                          size);
    }
    if (blob_p->checksum != window_blob_checksum(blob_p)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the window's blob is damaged (its checksum is "
                          "wrong): hand over the bytes of "
                          "ucxpool_window_export() unchanged");
    }
    if (blob_p->version != PROTO_VERSION) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "the window's owner uses protocol version %u, this "
                          "pool uses %u; use the same version of libucxpool on "
                          "both sides",
                          blob_p->version, PROTO_VERSION);
    }
    if (blob_p->reserved != 0) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the reserved bytes of the window's blob are %#x, "
                          "not 0",
                          blob_p->reserved);
    }
    return UCXPOOL_OK;
}

/* Returns true if the channel's peer exported the blob. The peer is not known
 * until the channel is open. */
static bool is_peers(const ucxpool_remote_window_t *remote)
{
    return memcmp(remote->blob.pool, remote->channel->peer.id,
                  sizeof(remote->blob.pool)) == 0;
}

#define NOT_PEERS \
    "the window belongs to another pool than the channel's peer: import it " \
    "over a channel to its owner"

static void tried(ucxpool_remote_window_t *remote);

ucxpool_status_t window_import(ucxpool_channel_t *channel, const void *blob,
                               size_t                    blob_size,
                               ucxpool_remote_window_t **remote_p)
{
    ucxpool_remote_window_t *remote;
    ucxpool_status_t         status;
    window_blob_t            checked;

    if (!core_channel_is_live(channel)) {
        return core_channel_ended_error(channel);
    }
    status = check_blob(blob, blob_size, &checked);
    if (status != UCXPOOL_OK) {
        return status;
    }
    remote = core_alloc(channel->pool, sizeof(*remote));
    if (remote == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for an import");
    }
    *remote = (ucxpool_remote_window_t){
        .channel  = channel,
        .number   = ++channel->windows->next_number,
        .blob     = checked,
        .user_ref = true,
        .status   = UCXPOOL_INPROGRESS,
        .length   = checked.length,
        .access   = checked.access,
        .tried    = tried,
    };
    base_list_init(&remote->waiting);
    if ((channel->state == UCXPOOL_CHANNEL_OPEN) && !is_peers(remote)) {
        free(remote);
        return base_error(UCXPOOL_ERR_INVALID_PARAM, NOT_PEERS);
    }
    core_channel_get(channel);
    base_list_add_tail(&channel->windows->remotes, &remote->link);
    *remote_p = remote;
    return UCXPOOL_OK;
}

static bool wants_messages(const ucxpool_remote_window_t *remote)
{
    return remote->channel->pool->config.window_way == BASE_WINDOW_WAY_MESSAGES;
}

/* Returns the flags that all ways set in the OPEN message. */
static uint32_t ask_ways(ucxpool_remote_window_t *remote)
{
    const ucxpool_channel_t *channel = remote->channel;
    uint32_t                 flags   = 0;
    const window_way_t      *way;

    if (wants_messages(remote)) {
        return 0;
    }
    window_for_each_way(way, channel->wire->reach) {
        flags |= (way->ask != NULL) ? way->ask(remote) : 0;
    }
    return flags;
}

static void ask(ucxpool_remote_window_t *remote)
{
    const window_blob_t *blob = &remote->blob;
    proto_fixed_t        open = {.window_open = {.remote = remote->number,
                                                 .window = blob->window,
                                                 .access = blob->access}};

    remote->was_asked = true;
    if (!is_peers(remote)) {
        window_remote_end(remote, UCXPOOL_ERR_INVALID_PARAM, NOT_PEERS);
        return;
    }
    open.window_open.flags = ask_ways(remote);
    memcpy(open.window_open.key, blob->key, sizeof(blob->key));
    core_control_send(remote->channel, PROTO_WINDOW_OPEN, &open, NULL);
}

unsigned window_remotes_progress(ucxpool_channel_t *channel)
{
    unsigned                 count = 0;
    ucxpool_remote_window_t *remote, *next;

    base_list_for_each_safe(remote, next, &channel->windows->remotes,
                            ucxpool_remote_window_t, link) {
        if (!remote->was_asked) {
            ask(remote);
            count++;
        }
    }
    return count;
}

/* --- the owner's answer --------------------------------------------------- */

static ucxpool_remote_window_t *find(const ucxpool_channel_t *channel,
                                     uint64_t                 number)
{
    ucxpool_remote_window_t *remote;

    base_list_find(remote, &channel->windows->remotes, ucxpool_remote_window_t,
                   link, remote->number == number);
    return remote;
}

/* Notify the owner that this process no longer accesses the window. */
static void close_grant(ucxpool_channel_t *channel, uint64_t grant)
{
    if ((grant != 0) && core_channel_is_live(channel)) {
        core_control_send(channel, PROTO_WINDOW_CLOSE,
                          &(proto_fixed_t){.window_close.grant = grant}, NULL);
    }
}

/* Returns true if all accesses that the blob allows work without messages. */
static bool is_direct(const ucxpool_remote_window_t *remote)
{
    return (!(remote->access & UCXPOOL_WINDOW_READ) ||
            (remote->way != &window_messages)) &&
           (!(remote->access & UCXPOOL_WINDOW_WRITE) ||
            (remote->write_way != &window_messages));
}

/* Choose, for each kind of access, the first way that supports it. */
static void choose_ways(ucxpool_remote_window_t *remote,
                        const window_answer_t   *answer)
{
    const ucxpool_channel_t *channel = remote->channel;
    unsigned                 left    = remote->access;
    const window_way_t      *way;
    unsigned                 taken;

    remote->way       = &window_messages;
    remote->write_way = &window_messages;
    if (wants_messages(remote)) {
        window_remote_set_reason(remote, "UCXPOOL_WINDOW_WAY=messages");
        return;
    }
    window_for_each_way(way, channel->wire->reach) {
        taken = (left == 0) ? 0 : left & way->open(remote, answer);
        left &= ~taken;
        if (taken & UCXPOOL_WINDOW_READ) {
            remote->way = way;
        }
        if (taken & UCXPOOL_WINDOW_WRITE) {
            remote->write_way = way;
        }
    }
}

static uint32_t num_files(const ucxpool_remote_window_t *remote,
                          const window_answer_t         *answer)
{
    uint32_t count = remote->range.num;

    for (size_t i = 0; i < answer->num_parts; i++) {
        count += (answer->parts[i].region == 0) ? 1 : 0;
    }
    return count;
}

#define NO_REQUEST "no memory to request the window's files"

/* Request files from the owner. Returns true if window_remote_files_received()
 * will be called. */
static bool ask_for_files(ucxpool_remote_window_t *remote,
                          const window_answer_t   *answer)
{
    const ucxpool_channel_t *channel = remote->channel;

    remote->needs_files = false;
    remote->answer      = malloc(sizeof(*answer));
    if (remote->answer == NULL) {
        window_remote_set_reason(remote, NO_REQUEST);
        return false;
    }
    *remote->answer        = *answer;
    remote->answer->reason = ""; /* the caller's text is only valid during this
                                    call */
    if (channel->pool->dispatch->window_files(
            remote->channel, remote->number, remote->grant,
            num_files(remote, answer), remote->range.num != 0)) {
        return true;
    }
    free(remote->answer);
    remote->answer = NULL;
    window_remote_set_reason(remote, NO_REQUEST);
    return false;
}

/* Start the operations after the ways have been chosen. If the configuration
 * requires direct access and a chosen way is messages, fail the remote window
 * instead. */
static void begin(ucxpool_remote_window_t *remote)
{
    if (!is_direct(remote) &&
        (remote->channel->pool->config.window_way == BASE_WINDOW_WAY_DIRECT)) {
        window_remote_end(remote,
                          core_channel_peer_has_ended(remote->channel)
                              ? UCXPOOL_ERR_PEER_LOST
                              : UCXPOOL_ERR_UNSUPPORTED,
                          remote->way_reason);
        return;
    }
    if (!is_direct(remote)) {
        base_debug("%s: a window of %" PRIu64 " bytes uses messages: %s",
                   remote->channel->name, remote->length, remote->way_reason);
    }
    remote->status = UCXPOOL_OK;
    window_operations_begin(remote);
}

static void use_answer(ucxpool_remote_window_t *remote,
                       const window_answer_t   *answer)
{
    choose_ways(remote, answer);
    if (!remote->is_trying &&
        (!remote->needs_files || !ask_for_files(remote, answer))) {
        begin(remote);
    }
}

static void tried(ucxpool_remote_window_t *remote)
{
    if ((remote->status == UCXPOOL_INPROGRESS) && !remote->is_trying) {
        begin(remote);
    }
    window_remote_put(remote);
}

static void fill_answer(window_answer_t             *answer,
                        const proto_window_opened_t *opened, const void *data,
                        size_t size, const char *reason)
{
    answer->opened    = *opened;
    answer->data      = data;
    answer->data_size = size;
    answer->reason    = reason;
    answer->fds       = NULL;
    answer->num_parts = 0;
    if (opened->flags & PROTO_OPENED_CUDA) {
        memcpy(&answer->cuda, data, sizeof(answer->cuda));
    } else if (opened->flags & PROTO_OPENED_VIRTUAL) {
        memcpy(&answer->layout, data, size);
        answer->layout.num_runs =
            (uint32_t)((size - ipc_virtual_layout_size(0)) /
                       sizeof(answer->layout.runs[0]));
    } else if (opened->flags & PROTO_OPENED_PARTS) {
        answer->num_parts = size / sizeof(answer->parts[0]);
        memcpy(answer->parts, data, size);
    }
}

/* Fail the remote window, because the length in the blob differs from the
 * length of the owner's window. */
static void end_of_other_length(ucxpool_remote_window_t *remote,
                                uint64_t                 length)
{
    char reason[CORE_REASON_SIZE];

    snprintf(reason, sizeof(reason),
             "the owner's window has %" PRIu64
             " bytes, but its blob says %" PRIu64,
             length, remote->blob.length);
    window_remote_end(remote, UCXPOOL_ERR_INVALID_PARAM, reason);
}

void window_remote_opened(ucxpool_channel_t           *channel,
                          const proto_window_opened_t *opened, const void *data,
                          size_t data_size, const char *reason)
{
    ucxpool_remote_window_t *remote = find(channel, opened->remote);
    window_answer_t          answer;

    if ((remote == NULL) || (remote->status != UCXPOOL_INPROGRESS) ||
        (remote->grant != 0)) {
        close_grant(channel, opened->grant);
        return;
    }
    if (opened->grant == 0) {
        window_remote_end(remote, UCXPOOL_ERR_REFUSED, reason);
        return;
    }
    remote->grant   = opened->grant;
    remote->address = opened->address;
    if (opened->length != remote->blob.length) {
        end_of_other_length(remote, opened->length);
        return;
    }
    fill_answer(&answer, opened, data, data_size, reason);
    use_answer(remote, &answer);
}

ucxpool_status_t window_remote_map_files(ucxpool_channel_t *channel,
                                         uint64_t number, const int *fds,
                                         unsigned num_fds)
{
    ucxpool_remote_window_t *remote = find(channel, number);
    ucxpool_status_t         status;

    base_error_do_at(
        BASE_LOG_DEBUG,
        status = ipc_virtual_map(channel->pool->engine->device,
                                 &remote->answer->layout, fds, num_fds,
                                 (remote->access & UCXPOOL_WINDOW_WRITE) != 0,
                                 &remote->range));
    return status;
}

void window_remote_files_received(ucxpool_channel_t *channel, uint64_t number,
                                  const int *fds, const char *reason)
{
    ucxpool_remote_window_t *remote = find(channel, number);
    window_answer_t         *answer;

    if ((remote == NULL) || (remote->answer == NULL) ||
        (remote->status != UCXPOOL_INPROGRESS)) {
        return; /* the remote window has failed since the files were
                   requested */
    }
    answer                = remote->answer;
    remote->answer        = NULL;
    remote->way_reason[0] = '\0';
    answer->fds           = fds;
    if (fds == NULL) {
        answer->num_parts = 0;
        answer->opened.flags &=
            ~(uint32_t)(PROTO_OPENED_CUDA | PROTO_OPENED_VIRTUAL);
        answer->reason = reason;
    }
    use_answer(remote, answer);
    free(answer);
}

void window_remote_revoked(ucxpool_channel_t *channel, uint64_t number)
{
    ucxpool_remote_window_t *remote = find(channel, number);

    channel->windows->num_revokes++;
    if (remote != NULL) {
        window_remote_end(remote, UCXPOOL_ERR_CANCELED,
                          "the owner has revoked the window");
    }
}

/* --- the end of a remote window ------------------------------------------- */

void window_remote_unmap(ucxpool_remote_window_t *remote)
{
    const ucxpool_channel_t *channel = remote->channel;
    const window_way_t      *way;

    if (remote->answer != NULL) {
        channel->pool->dispatch->window_files_stop(remote->channel,
                                                   remote->number);
        free(remote->answer);
        remote->answer = NULL;
    }
    window_for_each_way(way, channel->wire->reach) {
        if (way->close != NULL) {
            way->close(remote);
        }
    }
}

/* Unmap the window and close its grant if no operation uses the window. */
static void put_grant(ucxpool_remote_window_t *remote)
{
    if (remote->refs == 0) {
        window_remote_unmap(remote);
        close_grant(remote->channel, remote->grant);
        remote->grant = 0;
    }
}

static void free_if_unused(ucxpool_remote_window_t *remote)
{
    ucxpool_channel_t *channel = remote->channel;

    if (!remote->user_ref && (remote->refs == 0)) {
        put_grant(remote);
        base_list_del(&remote->link);
        free(remote);
        core_channel_put(channel);
    }
}

void window_remote_release(ucxpool_remote_window_t *remote)
{
    remote->user_ref = false;
    free_if_unused(remote);
}

void window_remote_put(ucxpool_remote_window_t *remote)
{
    remote->refs--;
    if (remote->status < UCXPOOL_OK) {
        put_grant(remote);
    }
    free_if_unused(remote);
}

void window_remote_end(ucxpool_remote_window_t *remote, ucxpool_status_t status,
                       const char *reason)
{
    if (remote->status < UCXPOOL_OK) {
        return;
    }
    remote->status = status;
    base_error_detail(remote->reason, sizeof(remote->reason), status, reason);
    remote->refs++; /* keeps the remote window until its operations have
                       ended */
    window_operations_abort(remote, status, remote->reason);
    window_remote_put(remote);
}
