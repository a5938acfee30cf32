/*
 * The public functions of channels, events and listeners.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "core/channel.h"
#include "core/memory.h"
#include "core/remote.h"
#include "core/wire.h"
#include "pool/pool.h"
#include "wireup/wireup.h"

#include <stdlib.h>

ucxpool_status_t ucxpool_address_get(ucxpool_t *pool, void **address_p,
                                     size_t *length_p)
{
    core_blob_t     *address;
    ucxpool_status_t status;

    if (base_missing(pool) || base_missing(address_p) ||
        base_missing(length_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    core_lock(pool);
    status = wireup_network_share(pool);
    if (status == UCXPOOL_OK) {
        status = core_blob_create(pool, 0, &address, length_p);
    }
    core_unlock_posted(pool);
    if (status == UCXPOOL_OK) {
        *address_p = address;
    }
    return status;
}

void ucxpool_address_release(void *address)
{
    free(address);
}

static ucxpool_status_t create(ucxpool_t                      *pool,
                               const ucxpool_channel_params_t *params,
                               ucxpool_channel_t             **channel_p)
{
    ucxpool_channel_t *channel;
    ucxpool_status_t   status;

    status = core_channel_create(pool, params, "", &channel);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (params->field_mask & UCXPOOL_CHANNEL_PARAM_FIELD_EP) {
        status = wireup_connect_ep(channel, params->ep);
    } else {
        status = wireup_connect_address(channel, params->address,
                                        params->address_length);
    }
    if (status != UCXPOOL_OK) {
        wireup_channel_discard(channel);
        return status;
    }
    core_channel_hand_out(channel, channel_p);
    return UCXPOOL_OK;
}

ucxpool_status_t ucxpool_channel_create(ucxpool_t                      *pool,
                                        const ucxpool_channel_params_t *params,
                                        ucxpool_channel_t **channel_p)
{
    const uint64_t   ways = CORE_CHANNEL_WAYS;
    uint64_t         way  = (params == NULL) ? 0 : params->field_mask & ways;
    ucxpool_status_t status;

    if (base_missing(pool) || base_missing(channel_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    if ((way == 0) || (way == ways)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "cannot create a channel: field_mask must name "
                          "either an address or an endpoint");
    }
    if (((way == UCXPOOL_CHANNEL_PARAM_FIELD_EP) && (params->ep == NULL)) ||
        ((way == UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS) &&
         (params->address == NULL))) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the address or endpoint of a channel is NULL");
    }
    status = core_channel_check_paths(params);
    if (status == UCXPOOL_OK) {
        status = core_memory_check(pool);
    }
    if (status != UCXPOOL_OK) {
        return status;
    }
    core_lock(pool);
    status = create(pool, params, channel_p);
    core_unlock_posted(pool);
    return status;
}

ucxpool_status_t ucxpool_channel_connect(ucxpool_t *pool, const char *where,
                                         const ucxpool_channel_params_t *params,
                                         ucxpool_channel_t **channel_p)
{
    bootstrap_where_t  resolved;
    ucxpool_channel_t *channel;
    ucxpool_status_t   status;
    bool               has_way;

    if (base_missing(pool) || base_missing(where) || base_missing(channel_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    status = core_channel_params_check(params);
    if (status == UCXPOOL_OK) {
        status = core_memory_check(pool);
    }
    if (status == UCXPOOL_OK) {
        status =
            bootstrap_where_resolve(where, BOOTSTRAP_WHERE_CONNECT, &resolved);
    }
    if (status != UCXPOOL_OK) {
        return status;
    }
    core_lock(pool);
    has_way = wireup_network_connect(pool, &resolved);
    status  = core_channel_create(pool, params, where, &channel);
    if (status == UCXPOOL_OK) {
        channel->conn.lacks_device = !has_way;
        status = wireup_connect_listener(channel, &resolved);
        if (status != UCXPOOL_OK) {
            wireup_channel_discard(channel);
        }
    }
    if (status == UCXPOOL_OK) {
        core_channel_hand_out(channel, channel_p);
    }
    core_unlock_posted(pool);
    return status;
}

void ucxpool_channel_set_name(ucxpool_channel_t *channel, const char *name)
{
    if (base_missing(channel) || base_missing(name)) {
        return;
    }
    core_lock(channel->pool);
    core_channel_set_name(channel, name);
    core_unlock(channel->pool);
}

void ucxpool_channel_set_user_ptr(ucxpool_channel_t *channel, void *user_ptr)
{
    if (base_missing(channel)) {
        return;
    }
    core_lock(channel->pool);
    channel->user_ptr = user_ptr;
    core_unlock(channel->pool);
}

_Static_assert((CORE_NAME_SIZE <= UCXPOOL_NAME_SIZE) &&
                   (CORE_LONG_REASON_SIZE <= UCXPOOL_REASON_SIZE) &&
                   (BOOTSTRAP_ADDRESS_NAME_SIZE <= UCXPOOL_HOST_PORT_SIZE),
               "queries copy whole strings");

/* Fill the attributes. The caller holds the lock, because progress changes the
 * strings. */
static void describe(const ucxpool_channel_t *channel,
                     ucxpool_channel_attr_t  *attr)
{
    attr->state    = channel->state;
    attr->status   = channel->status;
    attr->wire     = channel->wire->id;
    attr->user_ptr = channel->user_ptr;
    attr->pool     = channel->pool;
    base_text_copy(attr->reason, sizeof(attr->reason), channel->reason);
    base_text_copy(attr->wire_reason, sizeof(attr->wire_reason),
                   channel->wire_reason);
    base_text_copy(attr->name, sizeof(attr->name), channel->name);
    base_text_copy(attr->local_address, sizeof(attr->local_address),
                   channel->ends.local);
    base_text_copy(attr->remote_address, sizeof(attr->remote_address),
                   channel->ends.remote);
}

void ucxpool_channel_query(const ucxpool_channel_t *channel,
                           ucxpool_channel_attr_t *attr_p, size_t attr_size)
{
    ucxpool_channel_attr_t attr = {
        .state  = UCXPOOL_CHANNEL_FAILED,
        .status = UCXPOOL_ERR_INVALID_PARAM,
        .reason = "the channel is NULL",
        .wire   = UCXPOOL_WIRE_NONE,
    };

    if (base_missing(attr_p)) {
        return;
    }
    if (!base_missing(channel)) {
        core_lock(channel->pool);
        describe(channel, &attr);
        core_unlock(channel->pool);
    }
    base_output(attr_p, attr_size, &attr, sizeof(attr));
}

void ucxpool_channel_fail(ucxpool_channel_t *channel)
{
    if (base_missing(channel)) {
        return;
    }
    core_channel_set_broken(channel);
    core_wake(channel->pool);
}

void ucxpool_channel_close(ucxpool_channel_t *channel)
{
    ucxpool_t *pool;

    if (channel == NULL) {
        return;
    }
    pool = channel->pool;
    core_lock(pool);
    wireup_channel_close(channel);
    core_unlock_posted(pool);
}

void ucxpool_channel_abort(ucxpool_channel_t *channel)
{
    ucxpool_t *pool;

    if (channel == NULL) {
        return;
    }
    pool = channel->pool;
    core_lock(pool);
    wireup_channel_abort(channel);
    core_unlock_posted(pool);
}

static bool is_settled(const void *object)
{
    const ucxpool_channel_t *channel = object;
    bool                     settled;

    core_lock(channel->pool);
    settled = channel->state != UCXPOOL_CHANNEL_CONNECTING;
    core_unlock(channel->pool);
    return settled;
}

ucxpool_status_t ucxpool_channel_wait(ucxpool_channel_t *channel,
                                      uint64_t           timeout_ns)
{
    pool_goal_t            goal = {.is_reached = is_settled, .object = channel};
    ucxpool_channel_attr_t attr;

    if (base_missing(channel)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    if (!is_settled(channel)) {
        pool_wait(channel->pool, &goal, base_clock_deadline(timeout_ns));
    }
    ucxpool_channel_query(channel, &attr, sizeof(attr));
    switch (attr.state) {
    case UCXPOOL_CHANNEL_OPEN:
        return UCXPOOL_OK;
    case UCXPOOL_CHANNEL_CONNECTING:
        return UCXPOOL_INPROGRESS;
    default:
        return base_error(attr.status, "%s: %s", attr.name, attr.reason);
    }
}

ucxpool_status_t ucxpool_event_get(ucxpool_t *pool, ucxpool_event_t *events,
                                   size_t max, size_t *num_p)
{
    if (base_missing(pool) || base_missing(events) || base_missing(num_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    core_lock(pool);
    __atomic_store_n(&pool->wakeup.polls_events, true, __ATOMIC_RELAXED);
    *num_p = core_event_report(pool, events, max);
    core_unlock(pool);
    return UCXPOOL_OK;
}

/* --- listeners ------------------------------------------------------------ */

ucxpool_status_t ucxpool_listener_create(ucxpool_t *pool, const char *where,
                                         ucxpool_listener_t **listener_p)
{
    bootstrap_where_t resolved;
    ucxpool_status_t  status;

    if (base_missing(pool) || base_missing(where) || base_missing(listener_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    status = core_memory_check(pool);
    if (status == UCXPOOL_OK) {
        status =
            bootstrap_where_resolve(where, BOOTSTRAP_WHERE_LISTEN, &resolved);
    }
    if (status != UCXPOOL_OK) {
        return status;
    }
    core_lock(pool);
    status = wireup_listener_create(pool, &resolved, listener_p);
    core_unlock_posted(pool);
    return status;
}

uint16_t ucxpool_listener_port(const ucxpool_listener_t *listener)
{
    return base_missing(listener) ? 0 : wireup_listener_port(listener);
}

ucxpool_status_t ucxpool_listener_accept(ucxpool_listener_t *listener,
                                         const ucxpool_channel_params_t *params,
                                         ucxpool_channel_t **channel_p)
{
    ucxpool_t       *pool;
    ucxpool_status_t status;

    if (base_missing(listener) || base_missing(channel_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    status = core_channel_params_check(params);
    if (status != UCXPOOL_OK) {
        return status;
    }
    pool = wireup_listener_pool(listener);
    core_lock(pool);
    status = wireup_listener_accept(listener, params, channel_p);
    core_unlock_posted(pool);
    return status;
}

void ucxpool_listener_destroy(ucxpool_listener_t *listener)
{
    ucxpool_t *pool;

    if (listener == NULL) {
        return;
    }
    pool = wireup_listener_pool(listener);
    core_lock(pool);
    wireup_listener_destroy(listener);
    core_unlock(pool);
}
