/* The public functions of listeners. */
#include "base/error.h"
#include "core/channel.h"
#include "core/memory.h"
#include "wireup/wireup.h"

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
