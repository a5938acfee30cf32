#include "wireup/choice.h"

#include "base/error.h"
#include "base/log.h"
#include "wireup/mapping.h"
#include "wireup/process_watch.h"
#include "wire/wires.h"

#include <stdio.h>

/* May this side try the `map` wire? */
static bool may_map(ucxpool_channel_t *channel, const proto_hello_t *hello)
{
    core_peer_t *peer = &channel->peer;

    if (channel->pool->config.wire == BASE_WIRE_UCX) {
        snprintf(peer->we_reason, sizeof(peer->we_reason),
                 "UCXPOOL_WIRE=ucx is set");
        return false;
    }
    if (!(hello->flags & PROTO_HELLO_MAP) || (hello->num_files == 0)) {
        snprintf(peer->we_reason, sizeof(peer->we_reason),
                 "it does not offer its memory");
        return false;
    }
    if (!wireup_mapping_fits(channel, hello)) {
        return false;
    }
    if (!ipc_host_fits(&hello->host, peer->we_reason,
                       sizeof(peer->we_reason))) {
        return false;
    }
    if (!wireup_process_watch_start(channel, &hello->host)) {
        snprintf(peer->we_reason, sizeof(peer->we_reason),
                 "its process cannot be watched");
        return false;
    }
    return true;
}

/*
 * Take the peer's descriptors and map them. To be forbidden it is no error yet:
 * the peer may give them to us.
 */
static wireup_mapping_result_t try_take(ucxpool_channel_t   *channel,
                                        const proto_hello_t *hello,
                                        const ipc_file_t    *files)
{
    base_log_level_t        level = base_error_log_at(BASE_LOG_DEBUG);
    wireup_mapping_result_t result;

    result = wireup_mapping_open(channel, hello, files, NULL);
    base_error_log_at(level);
    if (result == WIREUP_MAPPING_DONE) {
        return result;
    }
    wireup_mapping_close(channel);
    if (result == WIREUP_MAPPING_IMPOSSIBLE) {
        base_warn("%s: the peer's memory is not mapped: %s", channel->name,
                  channel->peer.we_reason);
    } else if (!channel->pool->was_forbidden) {
        channel->pool->was_forbidden = true;
        base_info("%s: peers are asked for descriptors over a socket, since "
                  "they may not be taken: %s",
                  channel->pool->name, channel->peer.we_reason);
    }
    return result;
}

bool wireup_choice_try(ucxpool_channel_t *channel, const proto_hello_t *hello,
                       const ipc_file_t *files, wireup_fd_import_cb_t fetched)
{
    wireup_mapping_result_t result;

    if (!may_map(channel, hello)) {
        return true;
    }
    result               = try_take(channel, hello, files);
    channel->peer.we_map = result == WIREUP_MAPPING_DONE;
    return (result != WIREUP_MAPPING_FORBIDDEN) ||
           !wireup_fd_import_start(channel, hello, files,
                                   wireup_mapping_num_fds_of(hello, files),
                                   fetched);
}

void wireup_choice_try_given(ucxpool_channel_t   *channel,
                             const proto_hello_t *hello,
                             const ipc_file_t *files, const int *fds)
{
    wireup_mapping_result_t result = WIREUP_MAPPING_IMPOSSIBLE;

    if (fds != NULL) {
        result = wireup_mapping_open(channel, hello, files, fds);
    } else {
        base_warn("%s: the peer's memory is not mapped: %s", channel->name,
                  channel->peer.we_reason);
    }
    if (result == WIREUP_MAPPING_DONE) {
        snprintf(channel->peer.we_reason, sizeof(channel->peer.we_reason),
                 "same host and user, by what it has given");
    } else {
        wireup_mapping_close(channel);
    }
    channel->peer.we_map = result == WIREUP_MAPPING_DONE;
}

/* Why the wire is not `map`: because it is not to be, or because it cannot. */
static void explain_ucx(ucxpool_channel_t *channel)
{
    const core_peer_t *peer   = &channel->peer;
    const char        *prefix = "its memory cannot be mapped: ";

    if (channel->pool->config.wire == BASE_WIRE_UCX) {
        prefix = "";
    } else if (peer->we_map) {
        prefix = "the peer cannot map our memory: ";
    }
    snprintf(channel->wire_reason, sizeof(channel->wire_reason), "%s%s", prefix,
             peer->we_map ? peer->it_reason : peer->we_reason);
}

/* It was to be `map`. A peer that has died looks like one that forbids it. */
static void fail_without_map(ucxpool_channel_t *channel)
{
    if (ipc_host_has_ended(&channel->peer.host)) {
        core_channel_fail(channel, UCXPOOL_ERR_PEER_LOST,
                          "the peer's process has ended");
    } else {
        core_channel_fail(channel, UCXPOOL_ERR_UNSUPPORTED,
                          "UCXPOOL_WIRE=map, but %.120s", channel->wire_reason);
    }
}

bool wireup_choice_make(ucxpool_channel_t *channel)
{
    core_peer_t *peer = &channel->peer;
    bool         map  = peer->we_map && peer->it_maps;

    if (map) {
        channel->wire = &wire_map;
        snprintf(channel->wire_reason, sizeof(channel->wire_reason),
                 "same host and user, each side%s reads the other's blocks",
                 (channel->pool->engine != NULL) ? "'s GPU" : "");
        return true;
    }
    explain_ucx(channel);
    if (channel->pool->config.wire == BASE_WIRE_MAP) {
        fail_without_map(channel);
        return false;
    }
    channel->wire = &wire_ucx;
    return true;
}
