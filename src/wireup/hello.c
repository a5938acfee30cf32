#include "wireup/wireup.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "copy/engine.h"
#include "core/control.h"
#include "core/memory.h"
#include "core/remote.h"
#include "core/wire.h"
#include "wire/wire.h"
#include "xfer/send.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the channel of a HELLO ----------------------------------------------- */

/* The maximum number of early HELLOs that are kept, and the time for which they
 * are kept. The time is several times the interval at which a sender repeats
 * its HELLO. */
#define EARLY_MAX 1024u
#define KEEP_NS   (10 * CORE_HELLO_NS)

/* Returns true if this channel itself sent the HELLO. A pool may connect to
 * itself. */
static bool is_of(const ucxpool_channel_t *channel, const proto_hello_t *hello)
{
    return (hello->channel == channel->number) &&
           (hello->channel_key == channel->key);
}

/* Returns false if a HELLO that arrived over a connection within the host was
 * not sent by the process that the peer's address names. The kernel has
 * confirmed the sender's process ID. Without this check, a sender could pose as
 * any pool whose address it has. */
static bool is_of_process(const core_remote_t *remote,
                          const proto_hello_t *hello, const core_way_t *way)
{
    const ipc_host_t *host = &remote->blob.host;
    char              reason[PROTO_TEXT_MAX + 1];

    return (way->fd < 0) || (ipc_host_is_same(&hello->host, host) &&
                             ipc_host_fits(host, reason, sizeof(reason)));
}

/* Returns true if a HELLO matches a channel: by endpoint if the channel was
 * created from one, otherwise by address. */
static bool fits(const ucxpool_channel_t *channel, const proto_hello_t *hello,
                 const core_way_t *way)
{
    const core_peer_t *peer = &channel->peer;

    if (is_of(channel, hello)) {
        return false;
    }
    if (hello->flags & PROTO_HELLO_BY_EP) {
        return channel->conn.by_ep && (channel->conn.endpoint != NULL) &&
               (channel->conn.endpoint->ep == way->reply_ep);
    }
    return (channel->conn.remote != NULL) &&
           (hello->pair == channel->wireup.pair) &&
           (memcmp(hello->from_id, peer->id, CORE_ID_SIZE) == 0) &&
           (memcmp(hello->from_key, peer->key, CORE_ID_SIZE) == 0) &&
           is_of_process(channel->conn.remote, hello, way);
}

/* Returns true if the HELLO has already been matched to this channel. */
static bool is_repeated(const ucxpool_channel_t *channel,
                        const proto_hello_t     *hello)
{
    return (channel->wireup.handshake & CORE_HELLO_RECEIVED) &&
           (channel->peer.channel == hello->channel) &&
           (channel->peer.channel_key == hello->channel_key);
}

/* Returns the channel that matches a HELLO, or that has already been matched to
 * it. NULL: none. */
static ucxpool_channel_t *
match_find(ucxpool_t *pool, const proto_hello_t *hello, const core_way_t *way)
{
    ucxpool_channel_t *channel;

    base_list_find(channel, &pool->channels.open, ucxpool_channel_t, link,
                   is_repeated(channel, hello) ||
                       (!(channel->wireup.handshake & CORE_HELLO_RECEIVED) &&
                        (channel->closing.step <= CORE_CLOSE_GOODBYE) &&
                        fits(channel, hello, way)));
    return channel;
}

/* Returns true if this side has closed its channel for the HELLO. This is known
 * only for a channel that connected to a listener. */
static bool was_closed(ucxpool_t *pool, const proto_hello_t *hello)
{
    ucxpool_channel_t *channel;

    if (!(hello->flags & PROTO_HELLO_CALLED)) {
        return false;
    }
    /* A HELLO may overtake the listener's proof. */
    base_list_find(channel, &pool->channels.open, ucxpool_channel_t, link,
                   (channel->conn.remote == NULL) && channel->wireup.begins &&
                       (channel->wireup.pair == hello->pair));
    return channel == NULL;
}

static void drop_early(ucxpool_t *pool, wireup_early_t *early)
{
    base_list_del(&early->link);
    pool->wireup.num_early--;
    core_way_close(&early->way);
    free(early);
}

/* Returns true if both HELLOs are from the same channel of the same pool. */
static bool is_same(const wireup_early_t *early, const proto_hello_t *hello)
{
    return (early->hello.channel_key == hello->channel_key) &&
           (early->hello.channel == hello->channel) &&
           (memcmp(early->hello.from_id, hello->from_id, CORE_ID_SIZE) == 0);
}

/* Make room for one more early HELLO. Drops an older HELLO of the same channel.
 * If there is none, and EARLY_MAX HELLOs are kept, drops the oldest HELLO. */
static void make_room(ucxpool_t *pool, const proto_hello_t *hello)
{
    wireup_early_t *early;

    base_list_find(early, &pool->wireup.early, wireup_early_t, link,
                   is_same(early, hello));
    if ((early == NULL) && (pool->wireup.num_early == EARLY_MAX)) {
        pool->stats.handshakes_refused++;
        early = base_list_head(&pool->wireup.early, wireup_early_t, link);
    }
    if (early != NULL) {
        drop_early(pool, early);
    }
}

/* Returns a copy of a HELLO, in which the files are aligned. The caller frees
 * it. If there is no memory, closes the connection of the HELLO and returns
 * NULL. The peer repeats its HELLO. */
static wireup_early_t *copy_hello(ucxpool_t *pool, const proto_hello_t *hello,
                                  const void *files, const core_way_t *way)
{
    size_t          size = hello->num_files * sizeof(ipc_file_t);
    wireup_early_t *copy = malloc(sizeof(*copy) + size);

    if (copy == NULL) {
        pool->stats.handshakes_refused++;
        core_way_close(way);
        return NULL;
    }
    copy->hello = *hello;
    copy->way   = *way;
    if (size != 0) {
        memcpy(copy->files, files, size);
    }
    return copy;
}

/* Keep a HELLO that does not match a channel, and its connection, until the
 * channel is created. */
static void keep(ucxpool_t *pool, const proto_hello_t *hello, const void *files,
                 const core_way_t *way)
{
    wireup_early_t *early;

    make_room(pool, hello);
    early = copy_hello(pool, hello, files, way);
    if (early == NULL) {
        return;
    }
    early->deadline = base_clock_deadline(KEEP_NS);
    base_list_add_tail(&pool->wireup.early, &early->link);
    pool->wireup.num_early++;
    pool->wireup.next_hello =
        base_min(pool->wireup.next_hello, early->deadline);
}

/* Returns the early HELLO for this channel, or NULL if there is none. The
 * caller frees it. */
static wireup_early_t *match_take(ucxpool_channel_t *channel)
{
    ucxpool_t      *pool = channel->pool;
    wireup_early_t *early;

    base_list_find(early, &pool->wireup.early, wireup_early_t, link,
                   fits(channel, &early->hello, &early->way));
    if (early != NULL) {
        base_list_del(&early->link);
        pool->wireup.num_early--;
    }
    return early;
}

/* Drop early HELLOs that the peer has not repeated. Returns the time at which
 * the next HELLO expires, or BASE_CLOCK_FOREVER. */
static uint64_t match_expire(ucxpool_t *pool, uint64_t now)
{
    wireup_early_t *early;

    while (!base_list_is_empty(&pool->wireup.early)) {
        early = base_list_head(&pool->wireup.early, wireup_early_t, link);
        if (early->deadline > now) {
            return early->deadline;
        }
        pool->stats.handshakes_refused++;
        drop_early(pool, early);
    }
    return BASE_CLOCK_FOREVER;
}

void wireup_match_destroy_all(ucxpool_t *pool)
{
    while (!base_list_is_empty(&pool->wireup.early)) {
        drop_early(pool,
                   base_list_head(&pool->wireup.early, wireup_early_t, link));
    }
}

/* --- HELLO and READY ------------------------------------------------------ */

static bool copies_with_gpu(const ucxpool_channel_t *channel)
{
    return copy_engine_memory_kind(channel->pool->engine) !=
           UCXPOOL_MEMORY_HOST;
}

static uint32_t hello_flags(const ucxpool_channel_t *channel, bool offers_map)
{
    uint32_t flags = wireup_mapping_push_flags(channel->pool);

    flags |= offers_map ? PROTO_HELLO_MAP : 0u;
    flags |= channel->closing.has_begun ? PROTO_HELLO_BEGINS : 0u;
    if (copies_with_gpu(channel) &&
        (wireup_mapping_kind(channel) == UCXPOOL_MEMORY_HOST)) {
        flags |= PROTO_HELLO_PINNED;
    }
    if (channel->conn.by_ep) {
        return flags | PROTO_HELLO_BY_EP;
    }
    if (channel->wireup.via_listener && !channel->wireup.begins) {
        flags |= PROTO_HELLO_CALLED;
    }
    return flags;
}

static void fill_hello(ucxpool_channel_t *channel, proto_hello_t *hello,
                       uint32_t num_files)
{
    ucxpool_t *pool = channel->pool;

    hello->head.channel = 0;
    hello->head.key     = 0;
    memcpy(hello->to_id, channel->peer.id, sizeof(hello->to_id));
    memcpy(hello->to_key, channel->peer.key, sizeof(hello->to_key));
    memcpy(hello->from_id, pool->id, sizeof(hello->from_id));
    if (!channel->conn.by_ep) {
        memcpy(hello->from_key, pool->key, sizeof(hello->from_key));
    }
    hello->pair           = channel->wireup.pair;
    hello->channel_key    = channel->key;
    hello->channel        = channel->number;
    hello->flags          = hello_flags(channel, num_files != 0);
    hello->block_size     = pool->config.block_size;
    hello->max_runs       = pool->config.max_segments;
    hello->credits        = pool->config.credits;
    hello->max_unexpected = pool->config.max_unexpected;
    hello->max_metadata   = (uint32_t)pool->config.max_metadata;
    hello->memory_kind    = wireup_mapping_kind(channel);
    hello->gpu            = pool->engine->gpu;
    hello->num_files      = num_files;
    ipc_host_fill(&hello->host);
}

static void send_hello(ucxpool_channel_t *channel)
{
    uint32_t       num_files = wireup_mapping_num_files(channel);
    void          *files;
    proto_fixed_t *fixed;

    fixed =
        core_control_begin(channel, PROTO_HELLO, num_files * sizeof(ipc_file_t),
                           CORE_OUTSIDE, &files);
    if (fixed == NULL) {
        return;
    }
    fill_hello(channel, &fixed->hello, num_files);
    if (num_files != 0) {
        wireup_mapping_fill(channel, files);
    }
    channel->wireup.handshake |= CORE_HELLO_SENT;
    core_control_end(channel);
}

/* Send READY with channel->peer.local_maps and local_reason. */
static void send_ready(ucxpool_channel_t *channel)
{
    size_t         size = strlen(channel->peer.local_reason);
    void          *text;
    proto_fixed_t *fixed;

    fixed = core_control_begin(channel, PROTO_READY, size, CORE_OUTSIDE, &text);
    if (fixed == NULL) {
        return;
    }
    channel->wireup.handshake |= CORE_READY_SENT;
    fixed->ready.can_map = channel->peer.local_maps;
    fixed->ready.pinned  = channel->peer.offers_pinned;
    memcpy(text, channel->peer.local_reason, size);
    core_control_end(channel);
}

/* --- choice of the wire --------------------------------------------------- */

/* Watch the peer's process. A process in another PID namespace can be watched
 * only over a connection to it. Without a connection, the watch starts when
 * this side requests the peer's descriptors. */
static bool watch_peer(ucxpool_channel_t *channel, const ipc_host_t *host)
{
    if (ipc_host_is_visible(host)) {
        return wireup_process_watch_start(channel, host);
    }
    if (core_local_is_up(channel)) {
        (void)wireup_process_watch_socket(channel, channel->conn.local.fd);
    }
    return true;
}

/* Set the reason why this side cannot map the peer's memory, or the peer ours.
 * Returns false. */
static bool cannot(core_peer_t *peer, const char *reason)
{
    base_text_copy(peer->local_reason, sizeof(peer->local_reason), reason);
    return false;
}

/* Returns true if this side may try the `map` wire. Otherwise sets the
 * reason. */
static bool may_map(ucxpool_channel_t *channel, const proto_hello_t *hello,
                    const ipc_file_t *files)
{
    core_peer_t *peer = &channel->peer;

    if (channel->pool->config.wire == BASE_WIRE_UCX) {
        return cannot(peer, "UCXPOOL_WIRE=ucx is set");
    }
    if (!(hello->flags & PROTO_HELLO_MAP) || (hello->num_files == 0)) {
        return cannot(peer, "the owner does not offer its memory");
    }
    if (wireup_mapping_num_fds_of(hello, files) == 0) {
        return cannot(peer, "the owner announces no regions");
    }
    if (!ipc_host_fits(&hello->host, peer->local_reason,
                       sizeof(peer->local_reason))) {
        return false;
    }
    if (!watch_peer(channel, &hello->host)) {
        return cannot(peer, "its process cannot be watched");
    }
    return true;
}

/* Log that the peer's memory cannot be mapped. For GPU memory, the message is
 * not a warning, because host memory is tried next. */
static void report_failure(const ucxpool_channel_t *channel,
                           const proto_hello_t     *hello)
{
    base_log((hello->memory_kind == UCXPOOL_MEMORY_CUDA) ? BASE_LOG_INFO
                                                         : BASE_LOG_WARN,
             "%s: cannot map the peer's memory: %s", channel->name,
             channel->peer.local_reason);
}

/* Take the peer's descriptors and map the memory. If the system does not allow
 * this process to take them, this is not an error yet, because the peer may
 * send its descriptors. */
static wireup_mapping_result_t try_take(ucxpool_channel_t   *channel,
                                        const proto_hello_t *hello,
                                        const ipc_file_t    *files)
{
    wireup_mapping_result_t result;

    base_error_do_at(BASE_LOG_DEBUG,
                     result = wireup_mapping_open(channel, hello, files, NULL));
    if (result == WIREUP_MAPPING_DONE) {
        return result;
    }
    wireup_mapping_close(channel);
    if (result == WIREUP_MAPPING_IMPOSSIBLE) {
        report_failure(channel, hello);
    } else if (!channel->pool->wireup.was_forbidden) {
        channel->pool->wireup.was_forbidden = true;
        base_info("%s: descriptors are requested from peers over a socket, "
                  "because this process is not permitted to take them: %s",
                  channel->pool->name, channel->peer.local_reason);
    }
    return result;
}

/* Returns true if the peer has reported that it cannot map our memory. */
static bool has_refused(const ucxpool_channel_t *channel)
{
    return (channel->wireup.handshake & CORE_READY_RECEIVED) &&
           !channel->peer.peer_maps;
}

/*
 * Offer pinned host memory with another HELLO, because the peer cannot map our
 * GPU memory, or we cannot map the peer's. Does nothing if our memory is host
 * memory. Returns false, and sets the reason, if this is impossible.
 */
static bool offer_host(ucxpool_channel_t *channel)
{
    core_peer_t *peer = &channel->peer;

    if (wireup_mapping_kind(channel) == UCXPOOL_MEMORY_HOST) {
        return true;
    }
    if (has_refused(channel)) {
        return false;
    }
    if (core_memory_pin(channel->pool) != UCXPOOL_OK) {
        return cannot(peer, ucxpool_error_detail());
    }
    channel->wireup.offers_pinned = true;
    /* The peer's result for the GPU's memory is obsolete. */
    channel->wireup.handshake &= ~(unsigned)CORE_READY_RECEIVED;
    core_channel_schedule_hello(channel, base_clock_deadline(CORE_HELLO_NS));
    send_hello(channel);
    return true;
}

/* Returns true if the peer's GPU memory could not be mapped, and both sides use
 * host memory instead. */
static bool falls_back(ucxpool_channel_t *channel, const proto_hello_t *hello)
{
    return !channel->peer.local_maps &&
           (hello->memory_kind == UCXPOOL_MEMORY_CUDA) &&
           !has_refused(channel) && offer_host(channel);
}

/*
 * Map the memory that the peer's HELLO offers. Returns true when the result is
 * in channel->peer.local_maps and local_reason. Returns false if descriptors
 * must be requested first; `imported` is then called later. Also returns false
 * if the peer must offer host memory instead of its GPU's memory.
 */
static bool map(ucxpool_channel_t *channel, const proto_hello_t *hello,
                const ipc_file_t *files, wireup_fd_import_cb_t imported)
{
    wireup_mapping_result_t result = try_take(channel, hello, files);

    channel->peer.local_maps = result == WIREUP_MAPPING_DONE;
    if ((result == WIREUP_MAPPING_FORBIDDEN) &&
        wireup_fd_import_start(channel, hello, files,
                               wireup_mapping_num_fds_of(hello, files),
                               imported)) {
        return false;
    }
    return !falls_back(channel, hello);
}

/*
 * Try the `map` wire on this side. Two pools on GPUs try to map their GPUs'
 * memory, unless UCXPOOL_MAP_WAY=host is set. All other pairs of pools use host
 * memory. Returns the same values as map().
 */
static bool try_map(ucxpool_channel_t *channel, const proto_hello_t *hello,
                    const ipc_file_t *files, wireup_fd_import_cb_t imported)
{
    bool on_gpu   = wireup_mapping_kind(channel) == UCXPOOL_MEMORY_CUDA;
    bool theirs   = hello->memory_kind == UCXPOOL_MEMORY_CUDA;
    bool directly = on_gpu && theirs &&
                    (channel->pool->config.map_way != BASE_MAP_WAY_HOST);

    channel->peer.offers_map = (hello->flags & PROTO_HELLO_MAP) != 0;
    if (!may_map(channel, hello, files) ||
        (!directly && !offer_host(channel))) {
        return true;
    }
    if (theirs && !directly) {
        return has_refused(channel);
    }
    return map(channel, hello, files, imported);
}

/* Try the `map` wire with descriptors that the peer has sent. fds is NULL if
 * the request for the descriptors failed. */
static void try_map_given(ucxpool_channel_t   *channel,
                          const proto_hello_t *hello, const ipc_file_t *files,
                          const int *fds)
{
    wireup_mapping_result_t result = WIREUP_MAPPING_IMPOSSIBLE;

    if (fds != NULL) {
        result = wireup_mapping_open(channel, hello, files, fds);
    } else {
        report_failure(channel, hello);
    }
    if (result == WIREUP_MAPPING_DONE) {
        snprintf(channel->peer.local_reason, sizeof(channel->peer.local_reason),
                 "same host and user, with descriptors passed over a socket");
    } else {
        wireup_mapping_close(channel);
    }
    channel->peer.local_maps = result == WIREUP_MAPPING_DONE;
}

/* Set the reason why the wire is not `map`: the configuration, or a failure. */
static void set_ucx_reason(ucxpool_channel_t *channel)
{
    const core_peer_t *peer   = &channel->peer;
    const char        *prefix = "the peer's memory cannot be mapped: ";

    if (channel->pool->config.wire == BASE_WIRE_UCX) {
        prefix = "";
    } else if (peer->local_maps) {
        prefix = "the peer cannot map our memory: ";
    }
    snprintf(channel->wire_reason, sizeof(channel->wire_reason), "%s%s", prefix,
             peer->local_maps ? peer->peer_reason : peer->local_reason);
}

/* Fail the channel because the peer cannot be reached over the required path.
 * First check whether the peer has died, because its death looks like a missing
 * permission. */
static void __attribute__((format(printf, 2, 3)))
fail_unreachable(ucxpool_channel_t *channel, const char *format, ...)
{
    char    reason[CORE_LONG_REASON_SIZE];
    va_list arguments;

    if (core_channel_peer_has_ended(channel)) {
        core_channel_fail(channel, UCXPOOL_ERR_PEER_LOST,
                          "the peer's process has ended");
        return;
    }
    va_start(arguments, format);
    vsnprintf(reason, sizeof(reason), format, arguments);
    va_end(arguments);
    core_channel_fail(channel, UCXPOOL_ERR_UNSUPPORTED, "%s", reason);
}

/* Warn if two processes on one host use a slower path than usual. */
static void warn_of_ucx(const ucxpool_channel_t *channel)
{
    if ((channel->pool->config.wire == BASE_WIRE_AUTO) &&
        (channel->require == 0) && channel->peer.offers_map &&
        ipc_host_is_local(&channel->peer.host)) {
        base_warn("%s: the peer is on this host, but the channel uses the ucx "
                  "wire, which is slower than map: %s. UCXPOOL_REQUIRE=map "
                  "makes this an error",
                  channel->name, channel->wire_reason);
    }
}

/* Returns the wire between two processes that have mapped each other's
 * memory. */
static const core_wire_t *map_wire(const ucxpool_channel_t *channel)
{
    if (channel->peer.mapping->gpu.way != 0) {
        return &wire_map_gpu;
    }
    return (copies_with_gpu(channel) || channel->peer.offers_pinned)
               ? &wire_map_host
               : &wire_map;
}

static void set_wire(ucxpool_channel_t *channel, const core_wire_t *wire)
{
    channel->wire    = wire;
    channel->latency = core_latency_of(&channel->pool->latency, wire->id);
}

/* Returns the names of the paths that the channel requires. */
static const char *required_paths(const ucxpool_channel_t *channel)
{
    static const char *const names[]   = {"map", "direct", "map or rma",
                                          "direct or rma"};
    bool                     is_direct = !(channel->require & UCXPOOL_PATH_MAP);
    bool has_rma = (channel->require & UCXPOOL_PATH_RMA) != 0;

    return names[2 * has_rma + is_direct];
}

/* Choose the wire after both sides have reported whether they can map. Returns
 * false if the channel has failed because another wire is required. */
static bool choose_wire(ucxpool_channel_t *channel)
{
    core_peer_t *peer = &channel->peer;
    bool         map  = peer->local_maps && peer->peer_maps;

    if (map) {
        set_wire(channel, map_wire(channel));
        snprintf(channel->wire_reason, sizeof(channel->wire_reason),
                 "same host and user, %s", channel->wire->how(channel));
        return true;
    }
    set_ucx_reason(channel);
    wireup_mapping_close(channel);
    if (channel->pool->config.wire == BASE_WIRE_MAP) {
        fail_unreachable(channel, "UCXPOOL_WIRE=map, but %s",
                         channel->wire_reason);
        return false;
    }
    if ((channel->require != 0) && !(channel->require & UCXPOOL_PATH_RMA)) {
        fail_unreachable(channel,
                         "the channel requires %s, but %s; allow rma, or "
                         "any path",
                         required_paths(channel), channel->wire_reason);
        return false;
    }
    peer->peer_maps = false; /* `ucx` does not use the ring */
    set_wire(channel, &wire_ucx);
    return true;
}

/* Check that the connected channel uses one of the paths that the application
 * requires. Otherwise fails the channel and returns false. */
static bool has_required_path(ucxpool_channel_t *channel)
{
    unsigned path;

    if (channel->require == 0) {
        return true;
    }
    path = channel->wire->path(channel);
    if (path & channel->require) {
        return true;
    }
    if ((path != 0) && (channel->require & UCXPOOL_PATH_DIRECT)) {
        fail_unreachable(channel,
                         "the channel requires %s, but the map wire copies "
                         "through host memory: a side has set "
                         "UCXPOOL_MAP_WAY=host, or the pools are not on two "
                         "GPUs that can access each other; allow map, or "
                         "change this",
                         required_paths(channel));
    } else if (path & UCXPOOL_PATH_MAP) {
        fail_unreachable(channel, "the channel requires rma, but uses the map "
                                  "wire; set UCXPOOL_WIRE=ucx, or allow map");
    } else if (channel->require != UCXPOOL_PATH_RMA) {
        fail_unreachable(channel,
                         "the channel requires %s, but UCX has no RDMA "
                         "transport to the peer, and %s; allow any path",
                         required_paths(channel), channel->wire_reason);
    } else {
        fail_unreachable(
            channel,
            "the channel requires rma, but UCX has no RDMA "
            "transport to the peer; check UCX_TLS and UCX_NET_DEVICES");
    }
    return false;
}

/* --- the handshake -------------------------------------------------------- */

/* One side sends HELLO first (core/remote.h). The other side waits this long
 * for that HELLO. Then it sends its own HELLO, because the peer may be unable
 * to reach it. */
#define PATIENCE_NS UINT64_C(2000000000)

/* The delay before a retry if the peer has closed the connection without an
 * answer. */
#define UNANSWERED_NS UINT64_C(100000000)

static bool has_way(const ucxpool_channel_t *channel)
{
    return core_local_is_up(channel) || (channel->conn.endpoint != NULL);
}

/* Fail the channel if the status is an error. */
static void fail_unless_ok(ucxpool_channel_t *channel, ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        core_channel_fail(channel, status, "%s", ucxpool_error_detail());
    }
}

/* Continue the handshake over an endpoint. */
static void take_endpoint(ucxpool_channel_t *channel, ucp_ep_h reply_ep)
{
    core_local_close(channel);
    fail_unless_ok(channel, core_remote_take_endpoint(channel, reply_ep));
}

/* Returns true if GO can be sent. On `ucx`, GO needs the endpoint. The side
 * that begins the handshake creates its endpoint first. */
static bool can_send_go(ucxpool_channel_t *channel)
{
    if (!core_wire_is_connected(channel)) {
        ucx_child_warn();
        if (channel->closing.has_begun) {
            take_endpoint(channel, NULL);
        }
    }
    return core_channel_is_live(channel) && core_wire_is_connected(channel);
}

static void try_open(ucxpool_channel_t *channel)
{
    const unsigned needed = CORE_READY_SENT | CORE_READY_RECEIVED;
    ucxpool_t     *pool   = channel->pool;

    if (((channel->wireup.handshake & needed) != needed) ||
        !core_channel_is_live(channel)) {
        return;
    }
    if (!(channel->wireup.handshake & CORE_GO_SENT)) {
        if (!choose_wire(channel) || !can_send_go(channel) ||
            !has_required_path(channel)) {
            return;
        }
        if (!channel->peer.peer_maps) {
            warn_of_ucx(channel);
        }
        channel->wireup.handshake |= CORE_GO_SENT;
        core_control_post(channel, PROTO_GO, CORE_OUTSIDE);
    }
    if (!(channel->wireup.handshake & CORE_GO_RECEIVED) || !has_way(channel) ||
        (channel->state != UCXPOOL_CHANNEL_CONNECTING)) {
        return;
    }
    channel->state = UCXPOOL_CHANNEL_OPEN;
    core_event_set(&channel->event, UCXPOOL_EVENT_STATE);
    channel->wire->opened(channel);
    pool->stats.channels_open++;
    base_info("%s: open over the %s wire: %s", channel->name,
              channel->wire->name, channel->wire_reason);
    xfer_send_opened(channel);
}

/* Send the messages that follow HELLO again, because a connection has
 * failed. */
static void send_rest(ucxpool_channel_t *channel)
{
    if (channel->wireup.handshake & CORE_READY_SENT) {
        send_ready(channel);
    }
    if (channel->wireup.handshake & CORE_GO_SENT) {
        core_control_post(channel, PROTO_GO, CORE_OUTSIDE);
    }
}

/* Send all messages of the handshake that are due. HELLO is repeated later,
 * because the peer may have no room for it. */
static void send_all(ucxpool_channel_t *channel)
{
    core_channel_schedule_hello(channel, base_clock_deadline(CORE_HELLO_NS));
    /* A HELLO that UCX has not sent yet need not be repeated. */
    if (!(channel->wireup.handshake & CORE_HELLO_SENT) ||
        (channel->control.num_in_ucx == 0)) {
        send_hello(channel);
    }
    send_rest(channel);
}

/* Connect within the host if possible, otherwise over an endpoint. */
static ucxpool_status_t open_way(ucxpool_channel_t *channel)
{
    ucxpool_status_t status = UCXPOOL_OK;

    if (!has_way(channel)) {
        status = core_local_connect(channel);
        if (status == UCXPOOL_ERR_UNSUPPORTED) {
            status = core_remote_take_endpoint(channel, NULL);
        }
    }
    return status;
}

/* Begin the handshake: send HELLO before the peer's HELLO has arrived. */
static ucxpool_status_t begin(ucxpool_channel_t *channel)
{
    ucxpool_status_t status = open_way(channel);

    if (status == UCXPOOL_INPROGRESS) {
        core_channel_schedule_hello(channel,
                                    base_clock_deadline(CORE_LOCAL_RETRY_NS));
        return UCXPOOL_OK;
    }
    if (status == UCXPOOL_OK) {
        channel->closing.has_begun |=
            !(channel->wireup.handshake & CORE_HELLO_RECEIVED);
        send_all(channel);
        try_open(channel);
    }
    return status;
}

/* Returns true if both sides have begun over endpoints that UCX has not paired.
 * UCX aborts the operations of a channel only if both sides use the same pair.
 * So the side whose turn it is not changes to the other side's pair. */
static bool must_change(const ucxpool_channel_t *channel, const core_way_t *way)
{
    const core_endpoint_t *endpoint = channel->conn.endpoint;

    return (endpoint != NULL) && (way->reply_ep != NULL) &&
           (endpoint->ep != way->reply_ep) && !core_remote_is_our_turn(channel);
}

/* Answer a HELLO over its connection, or over the endpoint that is connected to
 * the peer's endpoint. */
static ucxpool_status_t answer(ucxpool_channel_t *channel,
                               const core_way_t  *way)
{
    ucxpool_status_t status = UCXPOOL_OK;

    if (way->fd >= 0) {
        if (!core_local_adopt(channel, way->fd)) {
            return UCXPOOL_ERR_NO_MEMORY;
        }
        channel->closing.has_begun = false;
        channel->wireup.handshake &= ~(unsigned)CORE_HELLO_SENT;
    } else if (!has_way(channel) || must_change(channel, way)) {
        status = core_remote_take_endpoint(channel, way->reply_ep);
        channel->closing.has_begun = false;
        channel->wireup.handshake &= ~(unsigned)CORE_HELLO_SENT;
    }
    if ((status == UCXPOOL_OK) &&
        !(channel->wireup.handshake & CORE_HELLO_SENT)) {
        send_all(channel);
    }
    return status;
}

static void set_peer(ucxpool_channel_t *channel, const proto_hello_t *hello)
{
    core_peer_t *peer = &channel->peer;

    channel->wireup.handshake |= CORE_HELLO_RECEIVED;
    memcpy(peer->id, hello->from_id, sizeof(peer->id));
    peer->channel         = hello->channel;
    peer->channel_key     = hello->channel_key;
    peer->max_runs        = hello->max_runs;
    peer->max_metadata    = hello->max_metadata;
    peer->max_unexpected  = hello->max_unexpected;
    peer->gpu             = hello->gpu;
    peer->block_size      = hello->block_size;
    channel->flow.credits = hello->credits;
    peer->host            = hello->host;
    peer->offers_pinned   = (hello->flags & PROTO_HELLO_PINNED) != 0;
    /* If both sides have begun over endpoints, the side whose turn it is not
     * answers. */
    if ((hello->flags & PROTO_HELLO_BEGINS) &&
        (channel->conn.endpoint != NULL) && !core_remote_is_our_turn(channel)) {
        channel->closing.has_begun = false;
    }
}

/* Continue the handshake after the import of the peer's descriptors has
 * completed or failed. */
static void imported(ucxpool_channel_t *channel, const proto_hello_t *hello,
                     const ipc_file_t *files, const int *fds)
{
    try_map_given(channel, hello, files, fds);
    if (!falls_back(channel, hello)) {
        send_ready(channel);
        try_open(channel);
    }
}

/* Returns true if an earlier HELLO of the channel offered GPU memory, and this
 * HELLO offers pinned memory of the same process instead. */
static bool offers_instead(const ucxpool_channel_t *channel,
                           const proto_hello_t *hello, const ipc_file_t *files)
{
    const unsigned handshake = channel->wireup.handshake;

    return (hello->flags & PROTO_HELLO_PINNED) &&
           (hello->flags & PROTO_HELLO_MAP) &&
           (hello->memory_kind == UCXPOOL_MEMORY_HOST) &&
           (wireup_mapping_num_fds_of(hello, files) != 0) &&
           ipc_host_is_same(&hello->host, &channel->peer.host) &&
           !channel->peer.offers_pinned && (handshake & CORE_HELLO_RECEIVED) &&
           !(handshake & CORE_GO_SENT) &&
           (channel->state == UCXPOOL_CHANNEL_CONNECTING) &&
           (channel->peer.local_maps || !(handshake & CORE_READY_SENT));
}

/* Map the peer's pinned memory instead of its GPU's memory. */
static void handle_instead(ucxpool_channel_t   *channel,
                           const proto_hello_t *hello, const ipc_file_t *files)
{
    wireup_fd_import_stop(channel, 0);
    wireup_mapping_close(channel);
    channel->wireup.handshake &= ~(unsigned)CORE_READY_SENT;
    channel->peer.offers_pinned = true;
    channel->peer.local_maps    = false;
    if (!offer_host(channel) || map(channel, hello, files, imported)) {
        send_ready(channel);
        try_open(channel);
    }
}

/* Handle a HELLO that has been matched to its channel. A channel that was
 * closed in the meantime also answers, so that it can send BYE. */
static void handle_hello(ucxpool_channel_t *channel, const proto_hello_t *hello,
                         const ipc_file_t *files, const core_way_t *way)
{
    ucxpool_status_t status;

    if (core_local_is_up(channel) && (way->fd >= 0) &&
        core_remote_is_our_turn(channel)) {
        core_way_close(way); /* the channel uses its own connection instead */
        return;
    }
    if ((way->fd < 0) && offers_instead(channel, hello, files)) {
        handle_instead(channel, hello, files);
        return;
    }
    if ((channel->wireup.handshake & CORE_HELLO_RECEIVED) &&
        ((way->fd < 0) || (channel->state != UCXPOOL_CHANNEL_CONNECTING))) {
        core_way_close(way);
        if (core_channel_is_live(channel) && has_way(channel)) {
            send_rest(channel);
        }
        return;
    }
    status = answer(channel, way);
    if (status == UCXPOOL_ERR_NO_MEMORY) {
        return; /* the peer repeats its HELLO */
    }
    fail_unless_ok(channel, status);
    if (status != UCXPOOL_OK) {
        return;
    }
    if (channel->wireup.handshake & CORE_HELLO_RECEIVED) {
        return; /* this HELLO is a repetition */
    }
    set_peer(channel, hello);
    if (core_channel_is_live(channel) &&
        try_map(channel, hello, files, imported)) {
        send_ready(channel);
        try_open(channel);
    }
}

/* Handle and free a copy. Returns false if it is NULL. */
static bool handle_copy(ucxpool_channel_t *channel, wireup_early_t *copy)
{
    if (copy == NULL) {
        return false;
    }
    handle_hello(channel, &copy->hello, copy->files, &copy->way);
    free(copy);
    return true;
}

/* Handle the early HELLO for this channel, if one has arrived. Returns true if
 * a HELLO was handled. */
static bool handle_early_hello(ucxpool_channel_t *channel)
{
    return handle_copy(channel, match_take(channel));
}

ucxpool_status_t wireup_hello_start(ucxpool_channel_t *channel)
{
    ucxpool_status_t status;

    if (handle_early_hello(channel)) {
        return UCXPOOL_OK;
    }
    if (core_remote_is_our_turn(channel)) {
        return begin(channel);
    }
    if (core_local_folder(channel->pool, &channel->conn.remote->blob) == NULL) {
        status = core_endpoint_check(channel->pool);
        if (status != UCXPOOL_OK) {
            return status;
        }
        if (!channel->wireup.via_listener || channel->wireup.begins) {
            core_remote_prepare_endpoint(channel->conn.remote);
        }
    }
    core_channel_schedule_hello(channel, base_clock_deadline(PATIENCE_NS));
    return UCXPOOL_OK;
}

/* Returns true if the channel's HELLO has not been answered. The answer is
 * READY, or HELLO if the channel is being closed. */
static bool is_unanswered(const ucxpool_channel_t *channel)
{
    if (channel->wireup.next_hello == BASE_CLOCK_FOREVER) {
        return false;
    }
    return (channel->state == UCXPOOL_CHANNEL_CONNECTING)
               ? (!(channel->wireup.handshake & CORE_READY_RECEIVED) ||
                  !has_way(channel))
               : ((channel->closing.step == CORE_CLOSE_GOODBYE) &&
                  !(channel->wireup.handshake & CORE_HELLO_RECEIVED));
}

unsigned wireup_hello_progress(ucxpool_t *pool)
{
    unsigned           count = 0;
    uint64_t           now;
    ucxpool_channel_t *channel;
    ucxpool_channel_t *next;

    now = base_clock_now();
    if (now < pool->wireup.next_hello) {
        return 0;
    }
    pool->wireup.next_hello = match_expire(pool, now);
    base_list_for_each_safe(channel, next, &pool->channels.open,
                            ucxpool_channel_t, link) {
        if (!is_unanswered(channel)) {
            continue;
        }
        if (channel->wireup.next_hello <= now) {
            /* An early HELLO that did not match when it arrived may match now.
             * For example, no descriptor may have been available at that time
             * to check its process. */
            if (!handle_early_hello(channel)) {
                fail_unless_ok(channel, begin(channel));
            }
            count++;
        } else {
            pool->wireup.next_hello =
                base_min(pool->wireup.next_hello, channel->wireup.next_hello);
        }
    }
    return count;
}

/* Returns true if the sender has proven that it knows the pool's address. */
static bool knows_address(const ucxpool_t *pool, const proto_hello_t *hello)
{
    return (hello->flags & PROTO_HELLO_BY_EP) ||
           ((memcmp(hello->to_id, pool->id, CORE_ID_SIZE) == 0) &&
            (memcmp(hello->to_key, pool->key, CORE_ID_SIZE) == 0));
}

void wireup_hello_received(ucxpool_t *pool, const proto_hello_t *hello,
                           const void *files, const core_way_t *way)
{
    ucxpool_channel_t *channel;

    if (!knows_address(pool, hello)) {
        core_way_close(way);
        if (core_pool_count_refused(pool)) {
            base_warn("%s: rejected a HELLO: its sender does not know the "
                      "pool's address",
                      pool->name);
        }
        return;
    }
    channel = match_find(pool, hello, way);
    if (channel != NULL) {
        (void)handle_copy(channel, copy_hello(pool, hello, files, way));
    } else if (was_closed(pool, hello)) {
        core_way_close(way); /* the peer is notified in other ways */
    } else {
        keep(pool, hello, files, way);
    }
}

void wireup_hello_answered(ucxpool_channel_t   *channel,
                           const proto_hello_t *hello, const void *files)
{
    /* The HELLO has arrived over the channel's own connection, so it has no
     * connection to take over or to close. */
    const core_way_t none = {.fd = -1};
    ucxpool_t       *pool = channel->pool;

    if (knows_address(pool, hello) &&
        (match_find(pool, hello, &none) == channel)) {
        (void)handle_copy(channel, copy_hello(pool, hello, files, &none));
    }
}

void wireup_hello_unanswered(ucxpool_channel_t *channel)
{
    channel->wireup.handshake &= ~(unsigned)CORE_HELLO_SENT;
    core_channel_schedule_hello(
        channel, base_clock_deadline(channel->closing.has_begun ? UNANSWERED_NS
                                                                : PATIENCE_NS));
}

/* The peer cannot map our memory: stop importing the peer's memory, and send
 * READY with the peer's reason. */
static void refuse_too(ucxpool_channel_t *channel)
{
    core_peer_t *peer = &channel->peer;

    wireup_fd_import_stop(channel, 0);
    snprintf(peer->local_reason, sizeof(peer->local_reason), "%s",
             peer->peer_reason);
    send_ready(channel);
}

void wireup_hello_ready(ucxpool_channel_t *channel, const proto_ready_t *ready,
                        const void *text, size_t text_size)
{
    if ((channel->wireup.handshake & CORE_READY_RECEIVED) ||
        ((ready->can_map != 0) && channel->wireup.offers_pinned &&
         !ready->pinned)) {
        return; /* a repetition, or about GPU memory that is no longer
                   offered */
    }
    channel->wireup.handshake |= CORE_READY_RECEIVED;
    channel->peer.peer_maps = ready->can_map != 0;
    proto_copy_text(channel->peer.peer_reason,
                    sizeof(channel->peer.peer_reason), text, text_size);
    if (has_refused(channel) &&
        !(channel->wireup.handshake & CORE_READY_SENT) &&
        (channel->wireup.handshake & CORE_HELLO_RECEIVED)) {
        refuse_too(channel);
    }
    try_open(channel);
}

void wireup_hello_go(ucxpool_channel_t *channel, ucp_ep_h reply_ep)
{
    if ((reply_ep != NULL) && (channel->conn.endpoint == NULL) &&
        (channel->closing.step <= CORE_CLOSE_GOODBYE)) {
        take_endpoint(channel, reply_ep); /* a closed channel needs the endpoint
                                             for BYE */
    }
    channel->wireup.handshake |= CORE_GO_RECEIVED;
    try_open(channel);
}
