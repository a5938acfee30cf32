#include "wireup/hello.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "core/control.h"
#include "core/local.h"
#include "core/remote.h"
#include "core/request.h"
#include "core/wire.h"
#include "wireup/choice.h"
#include "wireup/hello_say.h"
#include "wireup/match.h"

#include <stdlib.h>
#include <string.h>

/* Who does not begin waits for so long, and then begins as well: the peer may
 * have no way here. */
#define PATIENCE_NS UINT64_C(2000000000)

/* When the peer has hung up before it answered. */
#define UNHEARD_NS UINT64_C(100000000)

/* When the peer's socket has more callers waiting than the system keeps. */
#define RETRY_NS UINT64_C(10000000)

static bool has_way(const ucxpool_channel_t *channel)
{
    return core_local_is_up(channel) || (channel->endpoint != NULL);
}

/* When a call for the channel has failed, so does the channel. */
static void fail_unless_ok(ucxpool_channel_t *channel, ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        core_channel_fail(channel, status, "%s", ucxpool_error_detail());
    }
}

/* Go on by an endpoint. */
static void take_endpoint(ucxpool_channel_t *channel, ucp_ep_h reply_ep)
{
    core_local_close(channel);
    fail_unless_ok(channel, core_remote_take_endpoint(channel, reply_ep));
}

/* On `ucx` GO goes over the endpoint, which who has begun makes first. */
static bool can_go(ucxpool_channel_t *channel)
{
    if (channel->wire->has_endpoint && (channel->endpoint == NULL) &&
        channel->has_begun) {
        take_endpoint(channel, NULL);
    }
    return core_channel_is_live(channel) &&
           (!channel->wire->has_endpoint || (channel->endpoint != NULL));
}

static void try_open(ucxpool_channel_t *channel)
{
    const unsigned needed = CORE_READY_SENT | CORE_READY_RECEIVED;
    ucxpool_t     *pool   = channel->pool;

    if (((channel->handshake & needed) != needed) ||
        !core_channel_is_live(channel)) {
        return;
    }
    if (!(channel->handshake & CORE_GO_SENT)) {
        if (!wireup_choice_make(channel) || !can_go(channel)) {
            return;
        }
        channel->handshake |= CORE_GO_SENT;
        core_control_post(channel, PROTO_GO, CORE_OUTSIDE);
    }
    if (!(channel->handshake & CORE_GO_RECEIVED) || !has_way(channel) ||
        (channel->state != UCXPOOL_CHANNEL_CONNECTING)) {
        return;
    }
    channel->state = UCXPOOL_CHANNEL_OPEN;
    core_event_set(&channel->event, UCXPOOL_EVENT_STATE);
    if (channel->wire->has_endpoint) {
        core_endpoint_close_on_exec(channel->endpoint);
    } else {
        core_lifeline_end(channel, XFER_LAST_WORD_SPARE);
    }
    pool->stats.channels_open++;
    pool->num_mapped += channel->wire->has_ring ? 1 : 0;
    base_info("%s: open over the %s wire: %s", channel->name,
              channel->wire->name, channel->wire_reason);
    if (!base_list_is_empty(&channel->queue)) {
        core_request_wake(
            base_list_head(&channel->queue, ucxpool_request_t, link));
    }
}

/* Say it, and again after a while: the peer may have had no room for it. */
static void say_hello(ucxpool_channel_t *channel)
{
    core_channel_say_hello_at(channel, base_clock_deadline(CORE_HELLO_NS));
    /* What UCX still holds is as good as another. */
    if (channel->num_controls == 0) {
        wireup_hello_say(channel);
    }
}

/* Once more what was said over a connection that has broken. */
static void say_rest(ucxpool_channel_t *channel)
{
    if (channel->handshake & CORE_READY_SENT) {
        wireup_hello_say_ready(channel);
    }
    if (channel->handshake & CORE_GO_SENT) {
        core_control_post(channel, PROTO_GO, CORE_OUTSIDE);
    }
}

static void say_all(ucxpool_channel_t *channel)
{
    say_hello(channel);
    say_rest(channel);
}

/* Within the host, if that goes; else by an endpoint. */
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

/* Say it before one has come. */
static ucxpool_status_t begin(ucxpool_channel_t *channel)
{
    ucxpool_status_t status = open_way(channel);

    if (status == UCXPOOL_INPROGRESS) {
        core_channel_say_hello_at(channel, base_clock_deadline(RETRY_NS));
        return UCXPOOL_OK;
    }
    if (status == UCXPOOL_OK) {
        channel->has_begun |= !(channel->handshake & CORE_HELLO_RECEIVED);
        say_all(channel);
        try_open(channel);
    }
    return status;
}

/* A HELLO is answered over its connection, or over the endpoint that belongs to
 * the peer's. */
static ucxpool_status_t answer(ucxpool_channel_t *channel,
                               const core_way_t  *way)
{
    ucxpool_status_t status = UCXPOOL_OK;

    if (way->fd >= 0) {
        if (!core_local_adopt(channel, way->fd)) {
            return UCXPOOL_ERR_NO_MEMORY;
        }
        channel->handshake &= ~(unsigned)CORE_HELLO_SENT;
    } else if (!has_way(channel)) {
        status = core_remote_take_endpoint(channel, way->reply_ep);
    }
    if ((status == UCXPOOL_OK) && !(channel->handshake & CORE_HELLO_SENT)) {
        say_all(channel);
    }
    return status;
}

static void take_over(ucxpool_channel_t *channel, const proto_hello_t *hello)
{
    core_peer_t *peer = &channel->peer;

    channel->handshake |= CORE_HELLO_RECEIVED;
    memcpy(peer->id, hello->from_id, sizeof(peer->id));
    peer->channel      = hello->channel;
    peer->channel_key  = hello->channel_key;
    peer->max_runs     = hello->max_runs;
    peer->max_metadata = hello->max_metadata;
    peer->block_size   = hello->block_size;
    channel->credits   = hello->credits;
    peer->host         = hello->host;
}

/* The descriptors of the peer's memory have come, or they have not. */
static void fetched(ucxpool_channel_t *channel, const proto_hello_t *hello,
                    const ipc_file_t *files, const int *fds)
{
    wireup_choice_try_given(channel, hello, files, fds);
    wireup_hello_say_ready(channel);
    try_open(channel);
}

/* A HELLO and its channel have met. One that was closed meanwhile answers as
 * well, so that it can say BYE. */
static void meet(ucxpool_channel_t *channel, const proto_hello_t *hello,
                 const ipc_file_t *files, const core_way_t *way)
{
    ucxpool_status_t status;

    if (core_local_is_up(channel) && (way->fd >= 0) &&
        core_remote_is_our_turn(channel)) {
        core_way_close(way); /* ours will be answered */
        return;
    }
    if ((channel->handshake & CORE_HELLO_RECEIVED) &&
        ((way->fd < 0) || (channel->state != UCXPOOL_CHANNEL_CONNECTING))) {
        core_way_close(way);
        if (core_channel_is_live(channel) && has_way(channel)) {
            say_rest(channel);
        }
        return;
    }
    status = answer(channel, way);
    if (status == UCXPOOL_ERR_NO_MEMORY) {
        return; /* the peer says it again */
    }
    fail_unless_ok(channel, status);
    if (status != UCXPOOL_OK) {
        return;
    }
    if (channel->handshake & CORE_HELLO_RECEIVED) {
        return; /* it was said once more */
    }
    take_over(channel, hello);
    if (core_channel_is_live(channel) &&
        wireup_choice_try(channel, hello, files, fetched)) {
        wireup_hello_say_ready(channel);
        try_open(channel);
    }
}

ucxpool_status_t wireup_hello_start(ucxpool_channel_t *channel)
{
    wireup_early_t *early = wireup_match_take(channel);

    if (early != NULL) {
        meet(channel, &early->hello, early->files, &early->way);
        free(early);
        return UCXPOOL_OK;
    }
    if (core_remote_is_our_turn(channel)) {
        return begin(channel);
    }
    core_channel_say_hello_at(channel, base_clock_deadline(PATIENCE_NS));
    return UCXPOOL_OK;
}

/* READY answers a HELLO; one that was closed before wants HELLO. */
static bool is_unanswered(const ucxpool_channel_t *channel)
{
    if (channel->next_hello == BASE_CLOCK_FOREVER) {
        return false;
    }
    return (channel->state == UCXPOOL_CHANNEL_CONNECTING)
               ? (!(channel->handshake & CORE_READY_RECEIVED) ||
                  !has_way(channel))
               : ((channel->close == CORE_CLOSE_GOODBYE) &&
                  !(channel->handshake & CORE_HELLO_RECEIVED));
}

unsigned wireup_hello_progress(ucxpool_t *pool)
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
    pool->next_hello = wireup_match_expire(pool, now);
    base_list_for_each_safe(channel, next, &pool->channels, ucxpool_channel_t,
                            link) {
        if (!is_unanswered(channel)) {
            continue;
        }
        if (channel->next_hello <= now) {
            fail_unless_ok(channel, begin(channel));
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
           ((memcmp(hello->to_id, pool->id, CORE_ID_SIZE) == 0) &&
            (memcmp(hello->to_key, pool->key, CORE_ID_SIZE) == 0));
}

void wireup_hello_received(ucxpool_t *pool, const proto_hello_t *hello,
                           const void *files, const core_way_t *way)
{
    ipc_file_t         copies[PROTO_FILES_MAX];
    ucxpool_channel_t *channel;

    if (!may_speak(pool, hello)) {
        core_way_close(way);
        if (core_pool_turn_away(pool)) {
            base_warn("%s: a HELLO was refused: it does not know this pool's "
                      "address",
                      pool->name);
        }
        return;
    }
    channel = wireup_match_find(pool, hello, way->reply_ep);
    if (channel == NULL) {
        wireup_match_put_aside(pool, hello, files, way);
        return;
    }
    memcpy(copies, files, hello->num_files * sizeof(copies[0]));
    meet(channel, hello, copies, way);
}

void wireup_hello_answered(ucxpool_channel_t   *channel,
                           const proto_hello_t *hello, const void *files)
{
    ipc_file_t       copies[PROTO_FILES_MAX];
    const core_way_t none = {.fd = -1};

    if (may_speak(channel->pool, hello) &&
        (wireup_match_find(channel->pool, hello, NULL) == channel)) {
        memcpy(copies, files, hello->num_files * sizeof(copies[0]));
        meet(channel, hello, copies, &none);
    }
}

void wireup_hello_unheard(ucxpool_channel_t *channel)
{
    channel->handshake &= ~(unsigned)CORE_HELLO_SENT;
    core_channel_say_hello_at(
        channel,
        base_clock_deadline(channel->has_begun ? UNHEARD_NS : PATIENCE_NS));
}

void wireup_hello_ready(ucxpool_channel_t *channel, const proto_ready_t *ready,
                        const void *text, size_t text_size)
{
    if (channel->handshake & CORE_READY_RECEIVED) {
        return;
    }
    channel->handshake |= CORE_READY_RECEIVED;
    channel->peer.it_maps = ready->can_map != 0;
    proto_copy_text(channel->peer.it_reason, sizeof(channel->peer.it_reason),
                    text, text_size);
    try_open(channel);
}

void wireup_hello_go(ucxpool_channel_t *channel, ucp_ep_h reply_ep)
{
    if ((reply_ep != NULL) && (channel->endpoint == NULL) &&
        (channel->close <= CORE_CLOSE_GOODBYE)) {
        take_endpoint(channel, reply_ep); /* for BYE, if it was closed */
    }
    channel->handshake |= CORE_GO_RECEIVED;
    try_open(channel);
}
