/*
 * The public functions of windows.
 */
#include "window/way.h"

#include "api/api.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "pool/pool.h"

/* --- the owner's side ----------------------------------------------------- */

ucxpool_status_t ucxpool_window_create(ucxpool_t *pool, void *address,
                                       size_t                         length,
                                       const ucxpool_window_params_t *params,
                                       ucxpool_window_t             **window_p)
{
    ucxpool_status_t status;

    if (base_missing(pool) || base_missing(address) || base_missing(window_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    core_lock(pool);
    status = window_create(pool, address, length, params, window_p);
    core_unlock(pool);
    return status;
}

ucxpool_status_t ucxpool_window_export(const ucxpool_window_t *window,
                                       unsigned access, void *blob)
{
    ucxpool_status_t status;

    if (base_missing(window) || base_missing(blob)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    core_lock(window->pool);
    status = window_export(window, access, blob);
    core_unlock(window->pool);
    return status;
}

static bool is_free(const void *window)
{
    const ucxpool_window_t *asked = window;
    bool                    free;

    core_lock(asked->pool);
    free = window_is_free(asked);
    core_unlock(asked->pool);
    return free;
}

/* While it revokes a window, the owner polls the importers' ring pages
 * (core_ring_page_t) at this interval. An importer that finishes its copy and
 * then makes no progress sends no message. */
#define LOOK_NS UINT64_C(10000000)

/* Revoke the window, and make progress until no peer accesses it, or until the
 * time `moment`. */
static ucxpool_status_t revoke_until(ucxpool_window_t *window, uint64_t moment)
{
    const pool_goal_t goal  = {.is_reached = is_free, .object = window};
    bool              is_in = true;

    while (is_in) {
        core_lock(window->pool);
        window_revoke(window);
        core_unlock_posted(window->pool);
        if (is_free(window)) {
            return UCXPOOL_OK;
        }
        pool_wait(window->pool, &goal,
                  base_min(moment, base_clock_deadline(LOOK_NS)));
        is_in = base_clock_now() < moment;
    }
    return is_free(window) ? UCXPOOL_OK : UCXPOOL_INPROGRESS;
}

ucxpool_status_t ucxpool_window_revoke(ucxpool_window_t *window,
                                       uint64_t          timeout_ns)
{
    return base_missing(window)
               ? UCXPOOL_ERR_INVALID_PARAM
               : revoke_until(window, base_clock_deadline(timeout_ns));
}

void ucxpool_window_destroy(ucxpool_window_t *window)
{
    ucxpool_t *pool;
    uint64_t   moment;
    bool       ends_soon;

    if (window == NULL) {
        return;
    }
    pool   = window->pool;
    moment = base_clock_deadline(pool->config.close_timeout_ns);
    if (revoke_until(window, moment) != UCXPOOL_OK) {
        core_lock(pool);
        ends_soon = window_abandon(window);
        core_unlock_posted(pool);
        if (ends_soon) {
            revoke_until(window, base_clock_deadline(POOL_FORCED_NS));
        }
    }
    core_lock(pool);
    window_destroy(window);
    core_unlock(pool);
}

_Static_assert(WINDOW_REASON_SIZE <= UCXPOOL_REASON_SIZE,
               "queries copy whole strings");

static void describe(const ucxpool_window_t *window,
                     ucxpool_window_attr_t  *attr)
{
    const window_grant_t *grant;

    *attr = (ucxpool_window_attr_t){
        .address    = window->address,
        .length     = window->length,
        .is_revoked = window->is_revoked,
        .registered = (window->registered.memh != NULL) ? window->length : 0,
    };
    base_text_copy(attr->name, sizeof(attr->name), window->name);
    base_text_copy(attr->not_registered, sizeof(attr->not_registered),
                   window->not_registered);
    base_list_for_each(grant, &window->grants, const window_grant_t, link) {
        attr->num_peers++;
    }
}

void ucxpool_window_query(const ucxpool_window_t *window,
                          ucxpool_window_attr_t *attr_p, size_t attr_size)
{
    ucxpool_window_attr_t attr = {.name = ""};

    if (base_missing(attr_p)) {
        return;
    }
    if (!base_missing(window)) {
        core_lock(window->pool);
        describe(window, &attr);
        core_unlock(window->pool);
    }
    base_output(attr_p, attr_size, &attr, sizeof(attr));
}

/* --- the peer's side ------------------------------------------------------ */

ucxpool_status_t
ucxpool_remote_window_import(ucxpool_channel_t *channel, const void *blob,
                             size_t                    blob_size,
                             ucxpool_remote_window_t **remote_p)
{
    ucxpool_status_t status;

    if (base_missing(channel) || base_missing(blob) || base_missing(remote_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    core_lock(channel->pool);
    status = window_import(channel, blob, blob_size, remote_p);
    core_unlock_posted(channel->pool);
    return status;
}

void ucxpool_remote_window_release(ucxpool_remote_window_t *remote)
{
    ucxpool_t *pool;

    if (remote == NULL) {
        return;
    }
    pool = remote->channel->pool;
    core_lock(pool);
    window_remote_release(remote);
    core_unlock_posted(pool);
}

static void describe_remote(const ucxpool_remote_window_t *remote,
                            ucxpool_remote_window_attr_t  *attr)
{
    ucxpool_channel_t  *channel = remote->channel;
    const window_way_t *way     = (remote->access & UCXPOOL_WINDOW_READ)
                                      ? remote->way
                                      : remote->write_way;

    *attr = (ucxpool_remote_window_attr_t){
        .status  = remote->status,
        .length  = remote->length,
        .access  = remote->access,
        .way     = ((way == NULL) || (remote->status == UCXPOOL_INPROGRESS))
                       ? UCXPOOL_WAY_NONE
                       : way->id,
        .channel = channel->user_ref ? channel : NULL,
    };
    base_text_copy(attr->reason, sizeof(attr->reason), remote->reason);
    base_text_copy(attr->way_reason, sizeof(attr->way_reason),
                   remote->way_reason);
}

void ucxpool_remote_window_query(const ucxpool_remote_window_t *remote,
                                 ucxpool_remote_window_attr_t  *attr_p,
                                 size_t                         attr_size)
{
    ucxpool_remote_window_attr_t attr = {
        .status = UCXPOOL_ERR_INVALID_PARAM,
        .reason = "the remote window is NULL",
    };

    if (base_missing(attr_p)) {
        return;
    }
    if (!base_missing(remote)) {
        core_lock(remote->channel->pool);
        describe_remote(remote, &attr);
        core_unlock(remote->channel->pool);
    }
    base_output(attr_p, attr_size, &attr, sizeof(attr));
}

ucxpool_places_t ucxpool_places(const ucxpool_place_t *places, size_t count)
{
    return (ucxpool_places_t){.places = places, .count = count};
}

ucxpool_places_t ucxpool_places_even(const uint64_t *offsets, size_t count,
                                     uint64_t length)
{
    return (ucxpool_places_t){
        .offsets = offsets, .count = count, .length = length};
}

ucxpool_status_t api_post_operation(ucxpool_remote_window_t        *remote,
                                    bool                            is_write,
                                    const ucxpool_places_t         *places,
                                    const ucxpool_data_t           *data,
                                    const ucxpool_request_params_t *params,
                                    ucxpool_request_t             **request_p)
{
    api_data_t       caller;
    ucxpool_status_t status;

    if (is_write && (data->kind == UCXPOOL_DATA_RANGES)) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "ranges cannot be written to a window: send them "
                          "in a message");
    }
    status = is_write ? api_data_read(data, &caller)
                      : api_data_read_target(data, &caller);
    return (status == UCXPOOL_OK)
               ? window_operate(remote, is_write, places, &caller.memory,
                                params, request_p)
               : status;
}

static ucxpool_status_t operate(ucxpool_remote_window_t *remote, bool is_write,
                                const ucxpool_places_t         *places,
                                const ucxpool_data_t           *data,
                                const ucxpool_request_params_t *params,
                                ucxpool_request_t             **request_p)
{
    ucxpool_status_t status;

    core_lock(remote->channel->pool);
    status =
        api_post_operation(remote, is_write, places, data, params, request_p);
    core_unlock_posted(remote->channel->pool);
    return status;
}

ucxpool_status_t ucxpool_remote_window_read(
    ucxpool_remote_window_t *remote, const ucxpool_places_t *places,
    const ucxpool_data_t *data, const ucxpool_request_params_t *params,
    ucxpool_request_t **request_p)
{
    if (base_missing(remote) || base_missing(places) || base_missing(data)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return operate(remote, false, places, data, params, request_p);
}

ucxpool_status_t ucxpool_remote_window_write(
    ucxpool_remote_window_t *remote, const ucxpool_places_t *places,
    const ucxpool_data_t *data, const ucxpool_request_params_t *params,
    ucxpool_request_t **request_p)
{
    if (base_missing(remote) || base_missing(places) || base_missing(data)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return operate(remote, true, places, data, params, request_p);
}
