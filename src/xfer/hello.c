#include "xfer/hello.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "xfer/control.h"
#include "xfer/fetch.h"
#include "xfer/handout.h"
#include "xfer/mapping.h"
#include "xfer/pairing.h"
#include "xfer/request.h"
#include "xfer/watch.h"
#include "xfer/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Warnings about strangers go to the log once in this time. */
#define WARN_NS UINT64_C(1000000000)

static void fill_hello(ucxpool_channel_t *channel, proto_hello_t *hello,
                       uint32_t num_files)
{
    ucxpool_t *pool  = channel->pool;
    bool       by_ep = !channel->own_ep;

    hello->head.channel = 0;
    hello->head.key     = 0;
    memcpy(hello->to_id, channel->peer.id, sizeof(hello->to_id));
    memcpy(hello->to_key, channel->peer.key, sizeof(hello->to_key));
    memcpy(hello->from_id, pool->id, sizeof(hello->from_id));
    if (!by_ep) {
        memcpy(hello->from_key, pool->key, sizeof(hello->from_key));
    }
    hello->pair         = channel->pair;
    hello->channel_key  = channel->key;
    hello->channel      = channel->number;
    hello->flags        = (by_ep ? PROTO_HELLO_BY_EP : 0u) |
                   ((num_files != 0) ? PROTO_HELLO_MAP : 0u);
    hello->block_size   = pool->config.block_size;
    hello->max_runs     = pool->config.max_segments;
    hello->credits      = pool->config.credits;
    hello->max_metadata = (uint32_t)pool->config.max_metadata;
    hello->memory_kind  = xfer_mapping_kind(pool);
    hello->num_files    = num_files;
    mem_share_host_fill(&hello->host);
}

static void send_hello(ucxpool_channel_t *channel)
{
    uint32_t       num_files = xfer_mapping_num_files(channel);
    void          *files;
    proto_fixed_t *fixed;

    if (num_files != 0) {
        xfer_handout_open(channel->pool);
    }
    fixed = xfer_control_begin(channel, PROTO_HELLO,
                               num_files * sizeof(mem_share_file_t),
                               XFER_BY_UCX, &files);
    if (fixed == NULL) {
        return;
    }
    fill_hello(channel, &fixed->hello, num_files);
    if (num_files != 0) {
        xfer_mapping_fill(channel, files);
    }
    channel->handshake |= XFER_HELLO_SENT;
    xfer_control_end(channel);
}

/* May this side try the `map` wire? */
static bool may_map(ucxpool_channel_t *channel, const proto_hello_t *hello)
{
    xfer_peer_t *peer = &channel->peer;

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
    if (!xfer_mapping_fits(channel, hello)) {
        return false;
    }
    if (!mem_share_host_fits(&hello->host, peer->we_reason,
                             sizeof(peer->we_reason))) {
        return false;
    }
    if (!xfer_watch_start(channel, &hello->host)) {
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
static xfer_mapping_result_t try_take(ucxpool_channel_t      *channel,
                                      const proto_hello_t    *hello,
                                      const mem_share_file_t *files)
{
    base_log_level_t      level = base_error_log_at(BASE_LOG_DEBUG);
    xfer_mapping_result_t result;

    result = xfer_mapping_open(channel, hello, files, NULL);
    base_error_log_at(level);
    if (result == XFER_MAPPING_DONE) {
        return result;
    }
    xfer_mapping_close(channel);
    if (result == XFER_MAPPING_IMPOSSIBLE) {
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

/* Try the `map` wire, as far as this side is concerned. False: that takes time,
 * and xfer_hello_fetched() goes on. */
static bool try_map(ucxpool_channel_t *channel, const proto_hello_t *hello,
                    const mem_share_file_t *files)
{
    xfer_mapping_result_t result;

    if (!may_map(channel, hello)) {
        return true;
    }
    result               = try_take(channel, hello, files);
    channel->peer.we_map = result == XFER_MAPPING_DONE;
    return (result != XFER_MAPPING_FORBIDDEN) ||
           !xfer_fetch_start(channel, hello, files,
                             xfer_mapping_num_fds_of(hello, files));
}

static void send_ready(ucxpool_channel_t *channel)
{
    size_t         size = strlen(channel->peer.we_reason);
    void          *text;
    proto_fixed_t *fixed;

    fixed = xfer_control_begin(channel, PROTO_READY, size, XFER_BY_UCX, &text);
    if (fixed == NULL) {
        return;
    }
    channel->handshake |= XFER_READY_SENT;
    fixed->ready.can_map = channel->peer.we_map;
    memcpy(text, channel->peer.we_reason, size);
    xfer_control_end(channel);
}

/* Which wire it is, when both sides have said what they can. */
static bool choose_wire(ucxpool_channel_t *channel)
{
    xfer_peer_t *peer = &channel->peer;
    bool         map  = peer->we_map && peer->it_maps;

    if (map) {
        channel->wire = &xfer_wire_map;
        snprintf(channel->wire_reason, sizeof(channel->wire_reason),
                 "same host and user, each side%s reads the other's blocks",
                 (channel->pool->engine != NULL) ? "'s GPU" : "");
        return true;
    }
    snprintf(channel->wire_reason, sizeof(channel->wire_reason), "%s%s",
             peer->we_map ? "the peer cannot map our memory: "
                          : "its memory cannot be mapped: ",
             peer->we_map ? peer->it_reason : peer->we_reason);
    if (channel->pool->config.wire == BASE_WIRE_MAP) {
        xfer_channel_fail(channel, UCXPOOL_ERR_UNSUPPORTED,
                          "UCXPOOL_WIRE=map, but %.120s",
                          channel->wire_reason);
        return false;
    }
    channel->wire = &xfer_wire_ucx;
    return true;
}

static void try_open(ucxpool_channel_t *channel)
{
    const unsigned needed = XFER_READY_SENT | XFER_READY_RECEIVED;
    ucxpool_t     *pool   = channel->pool;

    if ((channel->handshake & needed) != needed) {
        return;
    }
    if (!(channel->handshake & XFER_GO_SENT)) {
        channel->handshake |= XFER_GO_SENT;
        xfer_control_post(channel, PROTO_GO, XFER_BY_UCX);
        if (!choose_wire(channel)) {
            return;
        }
    }
    if (!(channel->handshake & XFER_GO_RECEIVED) ||
        (channel->state != UCXPOOL_CHANNEL_CONNECTING)) {
        return;
    }
    channel->state = UCXPOOL_CHANNEL_OPEN;
    pool->stats.channels_open++;
    pool->num_mapped += (channel->wire == &xfer_wire_map) ? 1 : 0;
    base_info("%s: open over the %s wire: %s", channel->name,
              channel->wire->name, channel->wire_reason);
    if (!base_list_is_empty(&channel->queue)) {
        xfer_request_wake(
            base_list_head(&channel->queue, ucxpool_request_t, link));
    }
}

/* A HELLO and its channel have met. */
static void meet(ucxpool_channel_t *channel, const proto_hello_t *hello,
                 const mem_share_file_t *files)
{
    xfer_peer_t *peer = &channel->peer;

    if ((channel->handshake & XFER_HELLO_RECEIVED) ||
        !xfer_channel_is_live(channel)) {
        return;
    }
    channel->handshake |= XFER_HELLO_RECEIVED;
    memcpy(peer->id, hello->from_id, sizeof(peer->id));
    peer->channel      = hello->channel;
    peer->channel_key  = hello->channel_key;
    peer->max_runs     = hello->max_runs;
    peer->max_metadata = hello->max_metadata;
    peer->block_size   = hello->block_size;
    channel->credits   = hello->credits;
    peer->host         = hello->host;
    if (try_map(channel, hello, files)) {
        send_ready(channel);
        try_open(channel);
    }
}

void xfer_hello_fetched(ucxpool_channel_t *channel, const proto_hello_t *hello,
                        const mem_share_file_t *files, const int *fds)
{
    xfer_mapping_result_t result = XFER_MAPPING_IMPOSSIBLE;

    if (fds != NULL) {
        result = xfer_mapping_open(channel, hello, files, fds);
    } else {
        base_warn("%s: the peer's memory is not mapped: %s", channel->name,
                  channel->peer.we_reason);
    }
    if (result == XFER_MAPPING_DONE) {
        snprintf(channel->peer.we_reason, sizeof(channel->peer.we_reason),
                 "same host and user, by what it has given");
    } else {
        xfer_mapping_close(channel);
    }
    channel->peer.we_map = result == XFER_MAPPING_DONE;
    send_ready(channel);
    try_open(channel);
}

/* Say it, and again after a while: the peer may have had no room for it. */
static void say_hello(ucxpool_channel_t *channel)
{
    ucxpool_t *pool = channel->pool;

    channel->next_hello = base_clock_deadline(XFER_HELLO_NS);
    pool->next_hello    = base_min(pool->next_hello, channel->next_hello);
    /* What UCX still holds is as good as another. */
    if (channel->num_controls == 0) {
        send_hello(channel);
    }
}

void xfer_hello_start(ucxpool_channel_t *channel)
{
    xfer_early_t *early;

    say_hello(channel);
    early = xfer_pairing_take(channel);
    if (early != NULL) {
        meet(channel, &early->hello, early->files);
        free(early);
    }
}

/* READY answers a HELLO. */
static bool is_unanswered(const ucxpool_channel_t *channel)
{
    return (channel->state == UCXPOOL_CHANNEL_CONNECTING) &&
           (channel->handshake & XFER_HELLO_SENT) &&
           !(channel->handshake & XFER_READY_RECEIVED);
}

unsigned xfer_hello_progress(ucxpool_t *pool)
{
    unsigned           count = 0;
    uint64_t           now;
    ucxpool_channel_t *channel;
    ucxpool_channel_t *next;

    if (pool->next_hello == BASE_CLOCK_FOREVER) {
        return 0;
    }
    now = base_clock_now();
    if (now < pool->next_hello) {
        return 0;
    }
    pool->next_hello = xfer_pairing_expire(pool, now);
    base_list_for_each_safe(channel, next, &pool->channels, ucxpool_channel_t,
                            link) {
        if (!is_unanswered(channel)) {
            continue;
        }
        if (channel->next_hello <= now) {
            say_hello(channel);
            count++;
        } else {
            pool->next_hello = base_min(pool->next_hello, channel->next_hello);
        }
    }
    return count;
}

/* Does the sender know what it must know to speak to this pool? */
static bool may_speak(const ucxpool_t *pool, const proto_hello_t *hello)
{
    return (hello->flags & PROTO_HELLO_BY_EP) ||
           ((memcmp(hello->to_id, pool->id, XFER_ID_SIZE) == 0) &&
            (memcmp(hello->to_key, pool->key, XFER_ID_SIZE) == 0));
}

static void refuse(ucxpool_t *pool)
{
    uint64_t now = base_clock_now();

    pool->stats.handshakes_refused++;
    if (now >= pool->next_warning) {
        pool->next_warning = now + WARN_NS;
        base_warn("a HELLO was refused: it does not know this pool's address");
    }
}

void xfer_hello_received(ucxpool_t *pool, const proto_hello_t *hello,
                         const void *files, ucp_ep_h reply_ep)
{
    mem_share_file_t   copies[PROTO_FILES_MAX];
    ucxpool_channel_t *channel;

    if (!may_speak(pool, hello)) {
        refuse(pool);
        return;
    }
    channel = xfer_pairing_find(pool, hello, reply_ep);
    if (channel == NULL) {
        xfer_pairing_keep(pool, hello, files, reply_ep);
        return;
    }
    memcpy(copies, files, hello->num_files * sizeof(copies[0]));
    meet(channel, hello, copies);
}

void xfer_hello_ready(ucxpool_channel_t *channel, const proto_ready_t *ready,
                      const void *text, size_t text_size)
{
    if (channel->handshake & XFER_READY_RECEIVED) {
        return;
    }
    channel->handshake |= XFER_READY_RECEIVED;
    channel->peer.it_maps = ready->can_map != 0;
    proto_copy_text(channel->peer.it_reason, sizeof(channel->peer.it_reason),
                    text, text_size);
    try_open(channel);
}

void xfer_hello_go(ucxpool_channel_t *channel)
{
    channel->handshake |= XFER_GO_RECEIVED;
    try_open(channel);
}
