#include "core/channel.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "core/inbox.h"
#include "core/wire.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static block_pool_t *any_blocks(const ucxpool_t *pool)
{
    return pool->memory.blocks;
}

const core_wire_t core_wire_none = {
    .id     = UCXPOOL_WIRE_NONE,
    .name   = "none",
    .blocks = any_blocks,
};

/* Give the channel a free number of the pool's table, which grows by
 * doubling. */
static ucxpool_status_t table_add(ucxpool_t *pool, ucxpool_channel_t *channel)
{
    uint32_t            size = base_max(pool->channels.table_size * 2, 16u);
    ucxpool_channel_t **table;

    for (uint32_t i = 0; i < pool->channels.table_size; i++) {
        if (pool->channels.table[i] == NULL) {
            pool->channels.table[i] = channel;
            channel->number         = i;
            return UCXPOOL_OK;
        }
    }
    table = calloc(size, sizeof(table[0]));
    if (table == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a channel");
    }
    if (pool->channels.table_size != 0) {
        memcpy(table, pool->channels.table,
               pool->channels.table_size * sizeof(table[0]));
    }
    free(pool->channels.table);
    channel->number           = pool->channels.table_size;
    table[channel->number]    = channel;
    pool->channels.table      = table;
    pool->channels.table_size = size;
    return UCXPOOL_OK;
}

static void init_lists(ucxpool_channel_t *channel)
{
    base_list_init(&channel->link);
    base_list_init(&channel->wireup.client_link);
    base_list_init(&channel->control.backlog);
    base_list_init(&channel->control.held_link);
}

void core_channel_set_name(ucxpool_channel_t *channel, const char *name)
{
    if (name[0] == '\0') {
        snprintf(channel->name, sizeof(channel->name), "channel-%u",
                 channel->number);
    } else {
        snprintf(channel->name, sizeof(channel->name), "%s", name);
    }
}

ucxpool_status_t
core_channel_check_paths(const ucxpool_channel_params_t *params)
{
    const uint64_t paths =
        UCXPOOL_PATH_MAP | UCXPOOL_PATH_RMA | UCXPOOL_PATH_DIRECT;

    if ((params != NULL) &&
        (params->field_mask & UCXPOOL_CHANNEL_PARAM_FIELD_REQUIRE) &&
        ((params->require & ~paths) != 0)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "a channel requires invalid paths (0x%llx); use bits "
                          "of ucxpool_path_t",
                          (unsigned long long)params->require);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t
core_channel_params_check(const ucxpool_channel_params_t *params)
{
    if ((params != NULL) && (params->field_mask & CORE_CHANNEL_WAYS)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "params of a channel through a listener must not "
                          "have an address or an endpoint");
    }
    return core_channel_check_paths(params);
}

/* The bits of ucxpool_path_t for the setting REQUIRE. */
static const unsigned required_paths[] = {
    [BASE_REQUIRE_ANY]        = 0,
    [BASE_REQUIRE_MAP]        = UCXPOOL_PATH_MAP,
    [BASE_REQUIRE_RMA]        = UCXPOOL_PATH_RMA,
    [BASE_REQUIRE_MAP_RMA]    = UCXPOOL_PATH_MAP | UCXPOOL_PATH_RMA,
    [BASE_REQUIRE_DIRECT]     = UCXPOOL_PATH_DIRECT,
    [BASE_REQUIRE_DIRECT_RMA] = UCXPOOL_PATH_DIRECT | UCXPOOL_PATH_RMA,
};

static void read_params(ucxpool_channel_t              *channel,
                        const ucxpool_channel_params_t *params,
                        const char                     *name)
{
    uint64_t fields = (params == NULL) ? 0 : params->field_mask;

    if ((fields & UCXPOOL_CHANNEL_PARAM_FIELD_NAME) && (params->name != NULL)) {
        name = params->name;
    }
    core_channel_set_name(channel, name);
    if (fields & UCXPOOL_CHANNEL_PARAM_FIELD_USER_PTR) {
        channel->user_ptr = params->user_ptr;
    }
    channel->require = (fields & UCXPOOL_CHANNEL_PARAM_FIELD_REQUIRE)
                           ? (unsigned)params->require
                           : required_paths[channel->pool->config.require];
}

ucxpool_status_t core_channel_create(ucxpool_t                      *pool,
                                     const ucxpool_channel_params_t *params,
                                     const char                     *name,
                                     ucxpool_channel_t             **channel_p)
{
    ucxpool_channel_t *channel = calloc(1, sizeof(*channel));
    ucxpool_status_t   status;

    if (channel == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a channel");
    }
    init_lists(channel);
    channel->pool    = pool;
    channel->refs    = 1; /* the pool's reference, until closed */
    channel->ring.fd = -1;
    channel->wire    = &core_wire_none;
    channel->latency = core_latency_of(&pool->latency, UCXPOOL_WIRE_MAP);
    core_event_init(&channel->event, pool, channel, NULL);
    core_source_init(&channel->peer.watch);
    core_source_init(&channel->wireup.client_source);
    core_source_init(&channel->conn.local);
    core_source_init(&channel->conn.lifeline.source);
    channel->peer.next_check   = BASE_CLOCK_FOREVER;
    channel->peer.am_id        = pool->config.am_id; /* until HELLO arrives */
    channel->closing.deadline  = BASE_CLOCK_FOREVER;
    channel->wireup.next_hello = BASE_CLOCK_FOREVER;
    channel->conn.lost_at      = BASE_CLOCK_FOREVER;
    channel->conn.lifeline.deadline = BASE_CLOCK_FOREVER;
    status                          = table_add(pool, channel);
    if (status != UCXPOOL_OK) {
        goto err_free_channel;
    }
    read_params(channel, params, name);
    status = base_random(&channel->key, sizeof(channel->key));
    if (status != UCXPOOL_OK) {
        goto err_table_del;
    }
    if (pool->config.wire != BASE_WIRE_UCX) {
        status = core_ring_init(&channel->ring);
        if (status != UCXPOOL_OK) {
            goto err_table_del;
        }
    }
    status = pool->dispatch->channel_created(channel);
    if (status != UCXPOOL_OK) {
        goto err_cleanup_ring;
    }
    base_list_add_tail(&pool->channels.open, &channel->link);
    pool->channels.count++;
    *channel_p = channel;
    return UCXPOOL_OK;

err_cleanup_ring:
    core_ring_cleanup(&channel->ring);
err_table_del:
    pool->channels.table[channel->number] = NULL;
err_free_channel:
    free(channel);
    return status;
}

void core_channel_hand_out(ucxpool_channel_t  *channel,
                           ucxpool_channel_t **channel_p)
{
    channel->user_ref = true;
    core_event_update(&channel->event);
    *channel_p = channel;
}

void core_channel_put(ucxpool_channel_t *channel)
{
    if (--channel->refs != 0) {
        return;
    }
    channel->pool->channels.table[channel->number] = NULL;
    core_counters_add(&channel->pool->stats.counts, &channel->counts);
    base_list_del(&channel->event.link);
    base_list_move(&channel->pool->channels.unreferenced, &channel->link);
}

ucxpool_channel_t *core_channel_find(ucxpool_t *pool, const proto_head_t *head)
{
    ucxpool_channel_t *channel;

    if (head->channel >= pool->channels.table_size) {
        return NULL;
    }
    channel = pool->channels.table[head->channel];
    if ((channel == NULL) || (channel->key != head->key)) {
        return NULL;
    }
    return channel;
}

block_pool_t *core_channel_blocks(const ucxpool_channel_t *channel)
{
    return channel->wire->blocks(channel->pool);
}

bool core_channel_shares_gpu(const ucxpool_channel_t *channel)
{
    return channel->peer.gpu == channel->pool->engine->gpu;
}

ucxpool_status_t core_channel_ended_error(const ucxpool_channel_t *channel)
{
    return base_error((channel->status == UCXPOOL_OK) ? UCXPOOL_ERR_CLOSED
                                                      : channel->status,
                      "%s: %s", channel->name,
                      (channel->reason[0] == '\0') ? "the channel is closed"
                                                   : channel->reason);
}

bool core_channel_lends_memory(const ucxpool_channel_t *channel)
{
    return (channel->requests.sends.num != 0) || (channel->num_lent != 0);
}

bool core_channel_is_readable(const ucxpool_channel_t *channel)
{
    if (!channel->wire->has_ring || channel->peer.is_detached) {
        return false;
    }
    /* After an invalid message, the peer is ignored. */
    return core_channel_is_live(channel) ||
           ((core_channel_lends_memory(channel) ||
             (channel->closing.step == CORE_CLOSE_GOODBYE)) &&
            (channel->status != UCXPOOL_ERR_PROTOCOL));
}

void core_channel_schedule_hello(ucxpool_channel_t *channel, uint64_t moment)
{
    channel->wireup.next_hello = moment;
    channel->pool->wireup.next_hello =
        base_min(channel->pool->wireup.next_hello, moment);
}

void core_channel_hasten_hello(ucxpool_channel_t *channel)
{
    if (channel->wireup.next_hello != BASE_CLOCK_FOREVER) {
        core_channel_schedule_hello(channel, base_clock_now());
    }
}

bool core_channel_is_broken(const ucxpool_channel_t *channel)
{
    return __atomic_load_n(&channel->conn.broken, __ATOMIC_ACQUIRE) ||
           ((channel->conn.endpoint != NULL) &&
            core_endpoint_has_failed(channel->conn.endpoint));
}

bool core_channel_can_send(const ucxpool_channel_t *channel)
{
    return (channel->conn.endpoint != NULL) &&
           (channel->conn.endpoint->step < CORE_ENDPOINT_CLOSING) &&
           !core_channel_is_broken(channel);
}

bool core_channel_has_operations(const ucxpool_channel_t *channel)
{
    return (channel->conn.endpoint != NULL) &&
           (channel->conn.endpoint->num_operations != 0);
}

void core_channel_end_operation(ucxpool_channel_t *channel)
{
    core_endpoint_t *endpoint = channel->conn.endpoint;

    core_channel_put(channel);
    core_endpoint_end(endpoint);
}

void core_channel_set_broken(ucxpool_channel_t *channel)
{
    __atomic_store_n(&channel->conn.broken, true, __ATOMIC_RELEASE);
}

static void record_end(ucxpool_channel_t      *channel,
                       ucxpool_channel_state_t state, ucxpool_status_t status)
{
    ucxpool_t *pool = channel->pool;

    if (channel->state == UCXPOOL_CHANNEL_OPEN) {
        pool->stats.channels_open--;
    }
    channel->state  = state;
    channel->status = status;
    core_event_set(&channel->event, UCXPOOL_EVENT_STATE);
    if (pool->wakeup.is_armed) {
        core_wake(pool); /* progress ends the requests */
    }
}

void core_channel_fail(ucxpool_channel_t *channel, ucxpool_status_t status,
                       const char *format, ...)
{
    va_list arguments;

    if (!core_channel_is_live(channel)) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(channel->reason, sizeof(channel->reason), format, arguments);
    va_end(arguments);
    base_error_detail(channel->reason, sizeof(channel->reason), status,
                      channel->reason);
    base_warn("%s: the channel has failed: %s", channel->name, channel->reason);
    channel->pool->stats.channels_failed++;
    /* After a protocol error, do not wait for the peer, not even for TAKEN.
     * Memory that the peer still reads is revoked, so that the peer does not
     * mistake later data for a message. */
    channel->peer.is_detached |= (status == UCXPOOL_ERR_PROTOCOL);
    record_end(channel, UCXPOOL_CHANNEL_FAILED, status);
}

bool core_channel_peer_has_ended(const ucxpool_channel_t *channel)
{
    const core_peer_t *peer = &channel->peer;
    struct pollfd      end  = {.fd = peer->watch.fd, .events = POLLIN};

    return peer->has_ended || ((end.fd >= 0) && (poll(&end, 1, 0) == 1)) ||
           ipc_host_has_ended(&peer->host);
}

void core_channel_peer_left(ucxpool_channel_t *channel)
{
    if (core_channel_is_live(channel)) {
        snprintf(channel->reason, sizeof(channel->reason), "%s",
                 (channel->state == UCXPOOL_CHANNEL_OPEN)
                     ? "the peer closed the channel"
                     : "the peer closed the channel before it opened");
        record_end(channel, UCXPOOL_CHANNEL_CLOSED, UCXPOOL_ERR_CLOSED);
    }
    channel->closing.bye_received = true;
    channel->peer.is_detached     = true;
}

void core_channel_set_closed(ucxpool_channel_t *channel)
{
    snprintf(channel->reason, sizeof(channel->reason), "%s", CORE_CLOSED_HERE);
    record_end(channel, UCXPOOL_CHANNEL_CLOSED, UCXPOOL_ERR_CANCELED);
}

void core_channel_end_drain(ucxpool_channel_t *channel)
{
    channel->closing.drain_deadline = 0;
    channel->closing.deadline       = 0;
}

/* --- numbers -------------------------------------------------------------- */

#define SIZE_MIN 64u

static struct core_number_slot *slot_of(const core_numbers_t *numbers,
                                        uint64_t              number)
{
    return &numbers->slots[number & (numbers->size - 1)];
}

/* Numbers with different slots also have different slots in a table of twice
 * the size. */
bool core_numbers_reserve(core_numbers_t *numbers)
{
    core_numbers_t old = *numbers;

    if (2 * old.num < old.size) {
        return true;
    }
    numbers->size  = (old.size == 0) ? SIZE_MIN : 2 * old.size;
    numbers->slots = calloc(numbers->size, sizeof(numbers->slots[0]));
    if (numbers->slots == NULL) {
        *numbers = old;
        return false;
    }
    for (uint32_t i = 0; i < old.size; i++) {
        if (old.slots[i].request != NULL) {
            *slot_of(numbers, old.slots[i].number) = old.slots[i];
        }
    }
    free(old.slots);
    return true;
}

uint64_t core_numbers_take(core_numbers_t *numbers, ucxpool_request_t *request)
{
    struct core_number_slot *slot;

    do {
        slot = slot_of(numbers, ++numbers->last);
    } while (slot->request != NULL);
    slot->number  = numbers->last;
    slot->request = request;
    numbers->num++;
    return numbers->last;
}

void core_numbers_put(core_numbers_t *numbers, uint64_t number)
{
    slot_of(numbers, number)->request = NULL;
    numbers->num--;
}

ucxpool_request_t *core_numbers_find(const core_numbers_t *numbers,
                                     uint64_t              number)
{
    const struct core_number_slot *slot;

    if (numbers->size == 0) {
        return NULL;
    }
    slot = slot_of(numbers, number);
    return (slot->number == number) ? slot->request : NULL;
}

void core_numbers_cleanup(core_numbers_t *numbers)
{
    free(numbers->slots);
    *numbers = (core_numbers_t){.slots = NULL};
}
